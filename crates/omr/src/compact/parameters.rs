//! The compact digest's parameters, and the levels of its circuit.

use std::sync::Arc;

use restante_bfv::{Chain, Context, DISTRIBUTIONS, Parameters, Security, ShortModuli};
use restante_clue::ClueParameters;
use restante_ring::{Backend, primes::ntt_primes};
use restante_wire::ParameterId;

use crate::OmrError;

/// Number of coefficients that the leaves of the range check's polynomial have, and the number of powers of y made one by one.
pub(super) const LEAF: usize = 8;
/// Units of the pertinency vector's modulus, and of a product of ciphertexts.
const PERTINENCY_UNITS: u32 = 11;
const LEVEL_UNITS: u32 = 4;

/// Everything that clients and detectors must agree on.
///
/// Moduli are counted in units of a fifth of a long prime: Q has two primes of 3 units, one of 4, and long ones of 5. A
/// product of ciphertexts costs 4, so that the primes of a level are a few short ones and as many long ones as there is room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactParameters {
    /// The clues.
    pub clue: ClueParameters,
    /// The homomorphic encryption of the circuit. Q's primes: 3, 3 and 4 units, then the long ones.
    pub bfv: Parameters,
    /// Degree of the ring that the digest is switched to.
    pub digest_degree: usize,
    /// Number of digits of the long key-switching keys.
    pub digits: usize,
    /// Number of baby steps, and the distance of giant steps.
    pub baby_steps: usize,
    /// The digest's moduli.
    pub short: ShortModuli,
    /// Security of the homomorphic encryption, in bits; zero for tests.
    pub security_bits: u32,
    /// Bits by which every stage's modulus exceeds twice its largest noise, at least: what the tests demand.
    pub noise_margin_bits: u32,
}

impl CompactParameters {
    /// The largest capacity of a digest.
    pub const MAX_CAPACITY: usize = 255;
    /// The most payload bytes of a message that a digest holds.
    pub const MAX_PAYLOAD_BYTES: usize = 4_096;
    /// The most messages of a digest: each needs a non-zero residue modulo t of its own.
    pub const MAX_MESSAGES: u64 = 786_432;

    /// The parameters for a kind of clues. Only the standard ones have a range that is short enough.
    ///
    /// N = 65536. Changing the level leaves a phase v of 2^25.5 = t sqrt(N/18) in standard deviation, a square has 2^60,
    /// and 38.4 bits less are at most what they were. More than the deviation counts, though: squaring acts on each value v(zeta) at a
    /// complex root of X^N + 1 by itself. In units of 2^38.4, |v(zeta)| goes from w to w^2 + c, where c is |s(zeta)| times
    /// the rounding's share; |s(zeta)| is 3.3 times its root mean square for the worst zeta, so that c = 0.11 for the whole
    /// chain of 20 squarings, and 0.66 once in 2^50 cases. From there w = 0.68 returns to 0.13; from 0.87 on it would grow. (With 36 bits, c
    /// is 0.58, which no w withstands: the chain diverges at one root, though all deviations look well.)
    ///
    /// log2 QP = 1,737, which leaves 2^128.8 operations to the best attack (`scripts/estimates.txt`).
    pub fn new(clue: ClueParameters) -> Result<Self, OmrError> {
        Self::build(clue, 65_536, 48, ShortModuli::new(23, 29)?, Security::Classical128, 128)
    }

    /// Parameters of no security at all in a ring of degree 2,048, with the same circuit: for tests, in seconds.
    pub fn insecure(clue: ClueParameters) -> Result<Self, OmrError> {
        Self::build(clue, 2_048, 44, ShortModuli::new(23, 27)?, Security::InsecureForTests, 0)
    }

    fn build(
        clue: ClueParameters,
        degree: usize,
        long_bits: u32,
        short: ShortModuli,
        security: Security,
        security_bits: u32,
    ) -> Result<Self, OmrError> {
        // With fewer doublings the noise of the leaves would not die down before the join.
        let allowed = 127..=254;
        if !allowed.contains(&clue.range()) {
            let (what, found) = ("range of the clues", clue.range().into());
            let expected = format!("{} to {}", allowed.start(), allowed.end());
            return Err(OmrError::Request { what, found, expected });
        }
        let digits = 3;
        let top = Schedule::new(clue.range()).units[0];
        let long = ((top - 10) / 5) as usize;
        let mut ciphertext_moduli = ntt_primes((3 * long_bits).div_ceil(5), degree, 2)?;
        ciphertext_moduli.extend(ntt_primes(4 * long_bits / 5, degree, 1)?);
        ciphertext_moduli.extend(ntt_primes(long_bits, degree, long)?);
        // P exceeds every digit by some bits, so that key switching adds less than rounding does. The first digit has the
        // short primes, and no more bits than the others.
        let digit_bits = long_bits * (ciphertext_moduli.len() / digits) as u32 + 5;
        let special = digit_bits.div_ceil(long_bits + 1) as usize;
        Ok(Self {
            bfv: Parameters {
                name: format!("compact-{}{}", clue.name(), if security_bits == 0 { "-insecure" } else { "" }),
                degree,
                plaintext_modulus: clue.modulus().into(),
                ciphertext_moduli,
                special_moduli: ntt_primes(long_bits + 1, degree, special)?,
                security,
            },
            clue,
            digest_degree: degree / 4,
            digits,
            baby_steps: 32,
            short,
            security_bits,
            noise_margin_bits: 6,
        })
    }

    /// The ring of digests: one prime of each kind. Every other ring of the circuit has degree N and a part of the primes of
    /// [`CompactParameters::bfv`].
    pub fn digest_ring(&self) -> Parameters {
        Parameters {
            name: format!("{}, digest", self.bfv.name),
            degree: self.digest_degree,
            ciphertext_moduli: vec![self.bfv.ciphertext_moduli[3]],
            special_moduli: vec![self.bfv.special_moduli[0]],
            ..self.bfv.clone()
        }
    }

    /// Names the set in files.
    pub fn id(&self) -> ParameterId {
        let Parameters { degree, plaintext_modulus, ciphertext_moduli, special_moduli, .. } = &self.bfv;
        ParameterId::of(&format!(
            "restante/2/compact clue={} degree={degree} t={plaintext_modulus} q={ciphertext_moduli:?} \
             p={special_moduli:?} digits={} baby_steps={} digest_degree={} short={}/{} {DISTRIBUTIONS}",
            self.clue.id(),
            self.digits,
            self.baby_steps,
            self.digest_degree,
            self.short.c0_bits(),
            self.short.c1_bits(),
        ))
    }
}

/// The levels of the circuit of phase 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Units of each level's modulus.
    pub units: Vec<u32>,
    /// The level where the distances x_c are.
    pub distances: usize,
    /// The level of y = x^2.
    pub squares: usize,
    /// The level where all powers up to y^8 are, and the leaves of the range check.
    pub powers: usize,
    /// The level of the range check's results.
    pub checks: usize,
    /// The level of the joined result.
    pub joined: usize,
}

impl Schedule {
    /// The schedule for a range r of pertinent distances.
    ///
    /// A leaf, a sum of eight terms with coefficients as large as t, is 20 bits noisier than a product. The surplus dies down
    /// on the way up the tree, whose other factors have no more noise than they must.
    pub fn new(range: u32) -> Self {
        let coefficients = range as usize + 2;
        let doublings = coefficients.div_ceil(LEAF).next_power_of_two().ilog2().max(1);
        // From the bottom: 20 products for z^(t-1) with t - 1 = 3 2^18, the join, the range check, 4 for y to y^8, the sums with diagonals.
        let steps = 20 + 1 + doublings + 4 + 1;
        let mut units: Vec<u32> = (0..steps).map(|step| PERTINENCY_UNITS + LEVEL_UNITS * step).collect();
        // Fresh ciphertexts have every prime: a multiple of 5 units.
        units.push((PERTINENCY_UNITS + LEVEL_UNITS * steps).next_multiple_of(5));
        units.reverse();
        let powers = 5;
        let checks = powers + doublings as usize;
        Self { units, distances: 1, squares: 2, powers, checks, joined: checks + 1 }
    }

    /// The primes of a level, as places in Q: 3, 3 and 4 units, then 5 each. The top alone has all three short ones.
    fn limbs(&self, level: usize) -> Vec<usize> {
        let units = self.units[level];
        let short: &[usize] = match units % 5 {
            0 if level == 0 => &[0, 1, 2],
            0 => &[],
            1 => &[0, 1],
            2 => &[0, 2],
            3 => &[0],
            _ => &[2],
        };
        let taken: u32 = short.iter().map(|&place| [3, 3, 4][place]).sum();
        short.iter().copied().chain((0..(units - taken) as usize / 5).map(|index| 3 + index)).collect()
    }
}

/// Parameters with their precomputation. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct CompactContext(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    parameters: CompactParameters,
    id: ParameterId,
    schedule: Schedule,
    circuit: Chain<u64>,
    pertinency: Chain<u64>,
    packing: Chain<u64>,
    digest: Context<u64>,
}

impl CompactContext {
    /// Precomputes for one back end.
    pub fn new(parameters: CompactParameters, backend: Backend) -> Result<Self, OmrError> {
        let schedule = Schedule::new(parameters.clue.range());
        let (q, p) = (&parameters.bfv.ciphertext_moduli, &parameters.bfv.special_moduli);
        let part = |name: &str, degree, limbs: &[usize], special: usize| {
            let parameters = Parameters {
                name: format!("{}, {name}", parameters.bfv.name),
                degree,
                ciphertext_moduli: limbs.iter().map(|&limb| q[limb]).collect(),
                special_moduli: p[..special].to_vec(),
                ..parameters.bfv.clone()
            };
            Context::<u64>::new(parameters, backend)
        };
        let degree = parameters.bfv.degree;
        let circuit = Context::new(parameters.bfv.clone(), backend)?;
        let levels: Vec<_> = (0..schedule.units.len()).map(|level| schedule.limbs(level)).collect();
        let bottom = schedule.limbs(schedule.units.len() - 1);
        Ok(Self(Arc::new(Inner {
            circuit: Chain::new(&circuit, &levels, parameters.digits)?,
            // 11 units, 8 and 5: all primes, then without the second, then the long one alone.
            pertinency: Chain::new(
                &part("pertinency", degree, &bottom, 3)?,
                &[vec![0, 1, 2], vec![0, 2], vec![2]],
                1,
            )?,
            packing: Chain::new(&part("packing", degree, &[3], 1)?, &[vec![0]], 1)?,
            digest: Context::new(parameters.digest_ring(), backend)?,
            id: parameters.id(),
            schedule,
            parameters,
        })))
    }

    /// The parameters.
    pub fn parameters(&self) -> &CompactParameters {
        &self.0.parameters
    }

    /// Their id.
    pub fn id(&self) -> ParameterId {
        self.0.id
    }

    /// The levels of phase 1.
    pub fn schedule(&self) -> &Schedule {
        &self.0.schedule
    }

    /// N, the number of messages in a block.
    pub fn degree(&self) -> usize {
        self.0.parameters.bfv.degree
    }

    /// The levels of phase 1's circuit.
    pub fn circuit(&self) -> &Chain<u64> {
        &self.0.circuit
    }

    /// The levels of pertinency vectors and of their products with payloads.
    pub(super) fn pertinency(&self) -> &Chain<u64> {
        &self.0.pertinency
    }

    /// The level where products are packed.
    pub(super) fn packing(&self) -> &Chain<u64> {
        &self.0.packing
    }

    /// The ring of digests.
    pub(super) fn digest(&self) -> &Context<u64> {
        &self.0.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_the_units_that_the_schedule_says() {
        for range in [1, 6, 7, 50, 126, 127, 131, 255] {
            let schedule = Schedule::new(range);
            let size = |limbs: &[usize]| limbs.iter().map(|&limb| [3, 3, 4, 5][limb.min(3)]).sum::<u32>();
            for (level, &units) in schedule.units.iter().enumerate() {
                assert_eq!(size(&schedule.limbs(level)), units);
            }
            assert_eq!(schedule.units.len(), schedule.joined + 21);
            assert!(schedule.units.windows(2).all(|pair| pair[0] >= pair[1] + LEVEL_UNITS));
        }
    }

    /// Case 25 of the field: one prime outside the fast range slows the whole chain down.
    #[test]
    fn real_parameters_are_secure_and_all_primes_are_fast() {
        let parameters = CompactParameters::new(ClueParameters::STANDARD).unwrap();
        let bits = parameters.bfv.key_modulus_bits();
        assert!(bits <= f64::from(restante_bfv::max_modulus_bits(65_536)), "{bits}");
        let moduli = parameters.bfv.ciphertext_moduli.iter().chain(&parameters.bfv.special_moduli);
        assert!(moduli.clone().all(|&q| q < 1 << 50));
        assert!(CompactParameters::new(ClueParameters::SHORT).is_err());
        assert_ne!(parameters.id(), CompactParameters::insecure(ClueParameters::STANDARD).unwrap().id());
    }
}
