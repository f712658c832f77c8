//! The stream digest's parameters.

use restante_bfv::{Context, DISTRIBUTIONS, Parameters, Security, ShortModuli};
use restante_clue::ClueParameters;
use restante_ring::{Backend, primes::ntt_primes};
use restante_wire::ParameterId;

use super::public::Kept;
use crate::{OmrError, diagonals::ENTRIES};

/// Messages in a block: one ciphertext for each coordinate. The last block of a range may be partly filled.
pub const BLOCK: usize = 4096;

/// Everything that clients and detectors must agree on.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamParameters {
    /// The clues.
    pub clue: ClueParameters,
    /// The homomorphic encryption.
    pub bfv: Parameters,
    /// Number of baby steps, and the distance of giant steps.
    pub baby_steps: usize,
    /// The digest's moduli.
    pub short: ShortModuli,
    /// Security of the homomorphic encryption: see `scripts/estimates.txt`.
    pub security_bits: u32,
    /// Bits of noise budget that are left at the end of the circuit, before the switch to the short moduli.
    pub noise_margin_bits: u32,
    /// The largest standard deviation of the decryption error that a valid block has. Decryption fails where a single
    /// error reaches 1/2.
    pub error_deviation: f64,
}

impl StreamParameters {
    /// The parameters for a kind of clues.
    ///
    /// * D = 4096, t = 786433, Q of two primes just below 2^30: log2 Q = 60. Products with plaintexts and their sum take
    ///   the noise of the baby steps, of standard deviation up to 2^7, to 2^35.2: 0.027 Q/t. Plaintexts are random,
    ///   whatever the board holds, since the detector multiplies each message by a random factor.
    /// * P of two primes of 19 bits: with digits of 30 bits the key-switching noise of a baby step is below that of
    ///   rounding. log2 QP = 97 leaves 2^141 operations to the best attack (`scripts/estimates.txt`).
    /// * The digest's moduli 2^23 and 2^28 leave a decryption error of standard deviation 0.059 in all. 1/2 is 8.5 times
    ///   that, so that one of a block's 2 x 4,096 coefficients fails with probability 2^-42.
    pub fn new(clue: ClueParameters) -> Result<Self, OmrError> {
        let degree = 4096;
        Ok(Self {
            bfv: Parameters {
                name: format!("stream-{}", clue.name()),
                degree,
                plaintext_modulus: clue.modulus().into(),
                ciphertext_moduli: ntt_primes(30, degree, 2)?,
                special_moduli: ntt_primes(19, degree, 2)?,
                security: Security::Classical128,
            },
            clue,
            baby_steps: 64,
            short: ShortModuli::new(23, 28)?,
            security_bits: 141,
            noise_margin_bits: 1,
            error_deviation: 0.08,
        })
    }

    /// Names the set in files.
    pub fn id(&self) -> ParameterId {
        let Parameters { degree, plaintext_modulus, ciphertext_moduli, special_moduli, .. } = &self.bfv;
        ParameterId::of(&format!(
            "restante/2/stream clue={} degree={degree} t={plaintext_modulus} q={ciphertext_moduli:?} \
             p={special_moduli:?} baby_steps={} short={}/{} {DISTRIBUTIONS}",
            self.clue.id(),
            self.baby_steps,
            self.short.c0_bits(),
            self.short.c1_bits(),
        ))
    }
}

/// Parameters with their precomputation. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct StreamContext {
    parameters: StreamParameters,
    id: ParameterId,
    bfv: Context<u32>,
    /// For each public seed, what its keys have in common.
    pub(super) halves: Kept,
}

impl StreamContext {
    /// Checks that the parameters fit each other, and precomputes for one back end.
    pub fn new(parameters: StreamParameters, backend: Backend) -> Result<Self, OmrError> {
        let (clue, bfv) = (&parameters.clue, &parameters.bfv);
        let demands = [
            (
                bfv.plaintext_modulus == u64::from(clue.modulus()),
                "the plaintext modulus must be that of the clues",
            ),
            (bfv.degree == BLOCK, "the ring degree must be the size of a block"),
            ((bfv.degree / 2).is_multiple_of(clue.degree()), "the clue degree must divide a row of slots"),
            (
                parameters.baby_steps.is_multiple_of(2) && ENTRIES * parameters.baby_steps <= clue.degree(),
                "the number of baby steps must be even, and giant steps must be enough for the tags",
            ),
            (
                parameters.baby_steps > 0 && clue.degree().is_multiple_of(parameters.baby_steps),
                "the number of baby steps must divide the clue degree",
            ),
        ];
        if let Some((_, demand)) = demands.into_iter().find(|(met, _)| !met) {
            return Err(OmrError::Inconsistent(demand));
        }
        let bfv = Context::new(parameters.bfv.clone(), backend)?;
        Ok(Self { id: parameters.id(), parameters, bfv, halves: Kept::default() })
    }

    /// The parameters.
    pub fn parameters(&self) -> &StreamParameters {
        &self.parameters
    }

    /// Their id.
    pub fn id(&self) -> ParameterId {
        self.id
    }

    /// The homomorphic encryption's context.
    pub fn bfv(&self) -> &Context<u32> {
        &self.bfv
    }
}
