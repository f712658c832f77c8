//! The recipient's secret key and the public key that its senders use.

use restante_ring::{Modulus, sample::Seed};
use restante_wire::{BitWriter, Decode, Encode, Reader, WireError};
use zeroize::Zeroizing;

use crate::{
    COORDINATES, Clue, ClueMaker, ClueParameters,
    clue::{read_coordinates, read_packed, write_coordinates},
    negacyclic::Rows,
};

/// The secret s and everything else that recognises a recipient's clues.
pub struct ClueSecretKey {
    parameters: ClueParameters,
    /// s.
    secret: Zeroizing<Vec<i64>>,
    /// The rows of s that give the coordinates of a' s.
    rows: Rows,
    modulus: Modulus<u32>,
    key: ClueKey,
}

impl ClueSecretKey {
    /// The key that follows from a secret seed.
    ///
    /// Secret, error, tag and the public seed of a come from streams of their own, under an id of the parameters. The seed
    /// of a is public and says nothing about the others.
    pub fn new(parameters: ClueParameters, seed: &Seed) -> Self {
        let place = [u64::from_le_bytes(parameters.key_id().0)];
        let modulus = *parameters.plan().modulus();
        let mut secret = Zeroizing::new(vec![0; parameters.degree()]);
        seed.stream("clue/secret", &place).ternary(&mut secret);
        let mut error = Zeroizing::new(vec![0; parameters.degree()]);
        seed.stream("clue/error", &place).gaussian(parameters.error(), &mut error);
        let mut tag = [0; COORDINATES];
        seed.stream("clue/tag", &place).uniform(&modulus, &mut tag);
        let a_seed = *seed.derive("clue/uniform-seed", &place).as_bytes();
        let a = expand(&parameters, &a_seed);
        Self::from_parts(parameters, secret, &error, tag, a_seed, &a)
    }

    pub(crate) fn from_parts(
        parameters: ClueParameters,
        secret: Zeroizing<Vec<i64>>,
        error: &[i64],
        tag: [u32; COORDINATES],
        a_seed: [u8; 32],
        a: &[u32],
    ) -> Self {
        let plan = parameters.plan();
        let modulus = *plan.modulus();
        let mut a = a.to_vec();
        plan.forward(&mut a);
        let mut s =
            Zeroizing::new(secret.iter().map(|&value| modulus.from_signed(value)).collect::<Vec<_>>());
        plan.forward(&mut s);
        let mut b: Vec<u32> = s.iter().zip(&a).map(|(&s, &a)| modulus.mul(s, a)).collect();
        plan.inverse(&mut b);
        for (value, &error) in b.iter_mut().zip(error) {
            *value = modulus.add(*value, modulus.from_signed(error));
        }
        let rows = Rows::new(&modulus, |i| secret[i] as i32, parameters.degree());
        let key = ClueKey { parameters, a_seed, b, tag };
        Self { parameters, secret, rows, modulus, key }
    }

    /// The parameters.
    pub fn parameters(&self) -> &ClueParameters {
        &self.parameters
    }

    /// The n coefficients of s, each -1, 0 or 1. Secret; detection keys are made from them.
    pub fn secret_coefficients(&self) -> &[i64] {
        &self.secret
    }

    /// u: l residues modulo q. Every sender knows it, but a detector must not learn it, or the detection key would name
    /// the address.
    pub fn tag(&self) -> &[u32; COORDINATES] {
        &self.key.tag
    }

    /// What senders need.
    pub fn clue_key(&self) -> &ClueKey {
        &self.key
    }

    /// x_c = b'_c - (a' s)_c - u_c for each coordinate, in (-q/2, q/2).
    ///
    /// The clue must be for the same parameters; one for others is at no small distance, like any foreign clue.
    pub fn distances(&self, clue: &Clue) -> [i64; COORDINATES] {
        let a: Vec<i32> = clue.a().iter().map(|&value| value as i32).collect();
        let product = self.rows.product(&a);
        let difference = |c: usize| {
            let shifted = self.modulus.sub(clue.b()[c], product[c]);
            self.modulus.to_signed(self.modulus.sub(shifted, self.key.tag[c]))
        };
        std::array::from_fn(difference)
    }

    /// Whether the clue was made for this key, but for the preset's rates of false positives and negatives.
    pub fn is_pertinent(&self, clue: &Clue) -> bool {
        let range = u64::from(self.parameters.range());
        // Every coordinate is looked at, whatever the first ones say.
        self.distances(clue).iter().fold(true, |near, x| near & (x.unsigned_abs() <= range))
    }
}

impl std::fmt::Debug for ClueSecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClueSecretKey").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

/// The public key that clues are made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClueKey {
    parameters: ClueParameters,
    a_seed: [u8; 32],
    b: Vec<u32>,
    tag: [u32; COORDINATES],
}

impl ClueKey {
    /// The parameters.
    pub fn parameters(&self) -> &ClueParameters {
        &self.parameters
    }

    /// The n coefficients of a, expanded from their seed.
    pub fn a(&self) -> Vec<u32> {
        expand(&self.parameters, &self.a_seed)
    }

    /// The n coefficients of b = a s + e.
    pub fn b(&self) -> &[u32] {
        &self.b
    }

    /// u: l residues modulo q.
    pub fn tag(&self) -> &[u32; COORDINATES] {
        &self.tag
    }

    /// Precomputes what every clue needs.
    pub fn prepare(&self) -> ClueMaker {
        ClueMaker::new(self)
    }
}

impl Encode for ClueKey {
    fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.parameters.clue_key_bytes());
        out.extend_from_slice(&self.a_seed);
        let mut bits = BitWriter::new(out);
        self.b.iter().for_each(|&value| bits.write(value.into(), self.parameters.residue_bits()));
        bits.finish();
        write_coordinates(&self.parameters, &self.tag, out);
    }
}

impl Decode<ClueParameters> for ClueKey {
    const WHAT: &'static str = "clue key";

    fn decode(parameters: &ClueParameters, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let a_seed = reader.array()?;
        let mut b = vec![0; parameters.degree()];
        let largest = parameters.modulus() - 1;
        read_packed(reader, "coefficient of a clue key", parameters.residue_bits(), largest, &mut b)?;
        let tag = read_coordinates(parameters, reader, "tag of a clue key")?;
        Ok(Self { parameters: *parameters, a_seed, b, tag })
    }
}

/// The uniform polynomial of a public seed.
fn expand(parameters: &ClueParameters, a_seed: &[u8; 32]) -> Vec<u32> {
    let mut a = vec![0; parameters.degree()];
    Seed::from(*a_seed).stream("clue/uniform", &[]).uniform(parameters.plan().modulus(), &mut a);
    a
}
