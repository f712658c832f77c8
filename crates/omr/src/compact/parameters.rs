//! The compact digest's parameters, and the levels of its circuit.

use std::sync::Arc;

use restante_bfv::{Chain, Context, Parameters, Security, ShortModuli};
use restante_clue::ClueParameters;
use restante_ring::{Backend, primes::ntt_primes};
use restante_wire::ParameterId;

use crate::OmrError;

/// Number of coefficients that the leaves of the range check's polynomial have, and the number of powers of y made one by one.
pub(super) const LEAF: usize = 8;
/// Units of the pertinency vector's modulus.
const PERTINENCY_UNITS: u32 = 9;

/// Everything that clients and detectors must agree on.
///
/// Moduli are counted in units of a quarter of a long prime: Q has a prime of 2 units, one of 3, and long ones of 4, so
/// that a level can have any number of units from 4 on. A product of ciphertexts costs 3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactParameters {
    /// The clues.
    pub clue: ClueParameters,
    /// The homomorphic encryption of the circuit. Q's primes: 2 units, 3 units, then the long ones.
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
    /// N = 65536. A product of two ciphertexts, each with phases of 25.7 bits of standard deviation (25.5 of which are
    /// the rounding of the level change before), has 60; 36 bits less, and it is as it was: 3 units of 12 bits. Fixed
    /// points of this are 25.7 bits, which is stable, and 27.5, above which noise would grow from level to level.
    /// log2 QP = 1,701, and 1,739 bits are allowed at 128 bits of security.
    pub fn new(clue: ClueParameters) -> Result<Self, OmrError> {
        Self::build(clue, 65_536, 12, ShortModuli { c0_bits: 23, c1_bits: 29 }, Security::Classical128, 128)
    }

    /// Parameters of no security at all in a ring of degree 2,048, with the same circuit: for tests, in seconds.
    pub fn insecure(clue: ClueParameters) -> Result<Self, OmrError> {
        Self::build(clue, 2_048, 11, ShortModuli { c0_bits: 23, c1_bits: 27 }, Security::InsecureForTests, 0)
    }

    fn build(
        clue: ClueParameters,
        degree: usize,
        unit_bits: u32,
        short: ShortModuli,
        security: Security,
        security_bits: u32,
    ) -> Result<Self, OmrError> {
        let limit = 255;
        if clue.range() > limit {
            let (what, found) = ("range of the clues", clue.range().into());
            return Err(OmrError::Request { what, found, expected: format!("at most {limit}") });
        }
        let digits = 3;
        let top = Schedule::new(clue.range()).units[0];
        let long = ((top - 5) / 4) as usize;
        let mut ciphertext_moduli = ntt_primes(2 * unit_bits, degree, 1)?;
        ciphertext_moduli.extend(ntt_primes(3 * unit_bits, degree, 1)?);
        ciphertext_moduli.extend(ntt_primes(4 * unit_bits, degree, long)?);
        // P exceeds every digit by about five bits, so that key switching adds less than rounding does.
        let digit_bits = 4 * unit_bits * ciphertext_moduli.len().div_ceil(digits) as u32 + 5;
        let special = digit_bits.div_ceil(4 * unit_bits + 1) as usize;
        Ok(Self {
            bfv: Parameters {
                name: format!("compact-{}{}", clue.name(), if security_bits == 0 { "-insecure" } else { "" }),
                degree,
                plaintext_modulus: clue.modulus().into(),
                ciphertext_moduli,
                special_moduli: ntt_primes(4 * unit_bits + 1, degree, special)?,
                security,
            },
            clue,
            digest_degree: degree / 4,
            digits,
            baby_steps: 32,
            short,
            security_bits,
        })
    }

    /// Names the set in files.
    pub fn id(&self) -> ParameterId {
        let Parameters { degree, plaintext_modulus, ciphertext_moduli, special_moduli, .. } = &self.bfv;
        ParameterId::of(&format!(
            "restante/1/compact clue={} degree={degree} t={plaintext_modulus} q={ciphertext_moduli:?} \
             p={special_moduli:?} digits={} baby_steps={} digest_degree={} short={}/{}",
            self.clue.id(),
            self.digits,
            self.baby_steps,
            self.digest_degree,
            self.short.c0_bits,
            self.short.c1_bits,
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
    /// A leaf, a sum of eight terms with coefficients as large as t, is 20 bits noisier than a product: the level that
    /// follows it is a unit shorter than others. So is that after the join, which multiplies by a small non-residue, and that after
    /// the sums of products with diagonals.
    pub fn new(range: u32) -> Self {
        let coefficients = range as usize + 2;
        let doublings = coefficients.div_ceil(LEAF).next_power_of_two().ilog2().max(1);
        // From the bottom: 20 products for z^(t-1) with t - 1 = 3 2^18, the join, the range check, powers, y, x.
        let steps = [vec![3; 20], vec![4], vec![3; doublings as usize - 1], vec![4], vec![3; 4]];
        let mut units = vec![PERTINENCY_UNITS];
        for step in steps.concat() {
            units.push(units[units.len() - 1] + step);
        }
        // Fresh ciphertexts have every prime: 5 more than a multiple of 4 units.
        let top = units[units.len() - 1] + 3;
        units.push(top + (5 + 4 - top % 4) % 4);
        units.reverse();
        let powers = 5;
        let checks = powers + doublings as usize;
        Self { units, distances: 1, squares: 2, powers, checks, joined: checks + 1 }
    }

    /// The primes of a level, as places in Q: 2 units, 3 units, then 4 each.
    fn limbs(units: u32) -> Vec<usize> {
        let (short, long): (&[usize], u32) = match units % 4 {
            0 => (&[], units / 4),
            1 => (&[0, 1], (units - 5) / 4),
            2 => (&[0], (units - 2) / 4),
            _ => (&[1], (units - 3) / 4),
        };
        short.iter().copied().chain((0..long as usize).map(|index| 2 + index)).collect()
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
        let levels: Vec<_> = schedule.units.iter().map(|&units| Schedule::limbs(units)).collect();
        let bottom = Schedule::limbs(PERTINENCY_UNITS);
        Ok(Self(Arc::new(Inner {
            circuit: Chain::new(&circuit, &levels, parameters.digits)?,
            // 9 units, 6 and 4: all primes, then without the second, then the long one alone.
            pertinency: Chain::new(
                &part("pertinency", degree, &bottom, 3)?,
                &[vec![0, 1, 2], vec![0, 2], vec![2]],
                1,
            )?,
            packing: Chain::new(&part("packing", degree, &[2], 1)?, &[vec![0]], 1)?,
            digest: part("digest", parameters.digest_degree, &[2], 1)?,
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
            let size = |limbs: &[usize]| limbs.iter().map(|&limb| [2, 3, 4][limb.min(2)]).sum::<u32>();
            for &units in &schedule.units {
                assert_eq!(size(&Schedule::limbs(units)), units);
            }
            assert_eq!(schedule.units[0] % 4, 1);
            assert_eq!(schedule.units.len(), schedule.joined + 21);
            assert!(schedule.units.windows(2).all(|pair| pair[0] >= pair[1] + 3));
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
