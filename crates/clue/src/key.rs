//! The recipient's secret key and the public key that its senders use.

use restante_ring::{Modulus, sample::Seed};
use restante_wire::{Decode, Encode, Reader, WireError, binding::Binding};
use zeroize::Zeroizing;

use crate::{
    BINDING, COORDINATES, Clue, ClueParameters,
    clue::{read_residues, write_residues},
    negacyclic::Rows,
    tags::Tags,
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
    /// Secret, error, T and the public seed of a come from streams of their own, under an id of the parameters. The seed
    /// of a is public and says nothing about the others.
    pub fn new(parameters: ClueParameters, seed: &Seed) -> Self {
        let place = [u64::from_le_bytes(parameters.key_id().0)];
        let modulus = *parameters.plan().modulus();
        let mut secret = Zeroizing::new(vec![0; parameters.degree()]);
        seed.stream("clue/secret", &place).ternary(&mut secret);
        let mut error = Zeroizing::new(vec![0; parameters.degree()]);
        seed.stream("clue/error", &place).gaussian(parameters.error(), &mut error);
        let mut tags = Tags([[0; BINDING]; COORDINATES]);
        seed.stream("clue/tags", &place).uniform(&modulus, tags.0.as_flattened_mut());
        let a_seed = *seed.derive("clue/uniform-seed", &place).as_bytes();
        let a = expand(&parameters, &a_seed);
        Self::from_parts(parameters, secret, &error, tags, a_seed, &a)
    }

    pub(crate) fn from_parts(
        parameters: ClueParameters,
        secret: Zeroizing<Vec<i64>>,
        error: &[i64],
        tags: Tags,
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
        let key = ClueKey { parameters, a_seed, b, tags };
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

    /// T: l rows of kappa residues modulo q. Every sender knows it, but a detector must not learn it: the detection key would
    /// name the address, and the detector could make pertinent messages.
    pub fn tags(&self) -> &[[u32; BINDING]; COORDINATES] {
        &self.key.tags.0
    }

    /// The public key, which senders need.
    pub fn clue_key(&self) -> &ClueKey {
        &self.key
    }

    /// x_c = b'_c - (a' s)_c - <T_c, h> for each coordinate, in (-q/2, q/2), h being the binding's vector.
    ///
    /// The clue must be for the same parameters; one for others is at no small distance, like any foreign clue.
    pub fn distances(&self, clue: &Clue, binding: &Binding) -> [i64; COORDINATES] {
        let a: Vec<i32> = clue.a().iter().map(|&value| value as i32).collect();
        let product = self.rows.product(&a);
        let tag = self.key.tags.of(&self.modulus, &self.parameters.binding_vector(binding));
        let difference = |c: usize| {
            let shifted = self.modulus.sub(clue.b()[c], product[c]);
            self.modulus.to_signed(self.modulus.sub(shifted, tag[c]))
        };
        std::array::from_fn(difference)
    }

    /// Whether the clue was made for this key and this message, but for the preset's rates of false positives and
    /// negatives.
    pub fn is_pertinent(&self, clue: &Clue, binding: &Binding) -> bool {
        let range = u64::from(self.parameters.range());
        // Every coordinate is looked at, whatever the first ones say.
        self.distances(clue, binding).iter().fold(true, |near, x| near & (x.unsigned_abs() <= range))
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
    tags: Tags,
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

    /// T: l rows of kappa residues modulo q.
    pub fn tags(&self) -> &[[u32; BINDING]; COORDINATES] {
        &self.tags.0
    }

    pub(crate) fn own_tags(&self) -> &Tags {
        &self.tags
    }
}

impl Encode for ClueKey {
    fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.parameters.clue_key_bytes());
        out.extend_from_slice(&self.a_seed);
        write_residues(&self.parameters, &self.b, out);
        write_residues(&self.parameters, self.tags.0.as_flattened(), out);
    }
}

impl Decode<ClueParameters> for ClueKey {
    const WHAT: &'static str = "clue key";

    fn decode(parameters: &ClueParameters, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let a_seed = reader.array()?;
        let mut b = vec![0; parameters.degree()];
        read_residues(parameters, reader, "coefficient of a clue key", &mut b)?;
        let mut tags = Tags([[0; BINDING]; COORDINATES]);
        read_residues(parameters, reader, "tag of a clue key", tags.0.as_flattened_mut())?;
        Ok(Self { parameters: *parameters, a_seed, b, tags })
    }
}

/// The uniform polynomial of a public seed.
fn expand(parameters: &ClueParameters, a_seed: &[u8; 32]) -> Vec<u32> {
    let mut a = vec![0; parameters.degree()];
    Seed::from(*a_seed).stream("clue/uniform", &[]).uniform(parameters.plan().modulus(), &mut a);
    a
}
