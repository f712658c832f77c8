use restante_ring::RingError;
use restante_wire::WireError;
use thiserror::Error;

/// Why a BFV object could not be built or read.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum BfvError {
    /// The parameters are below 128 bits of security.
    #[error(
        "parameters {name:?} are insecure: degree {degree} allows log2(QP) <= {allowed} at 128 bits, not {found:.1}"
    )]
    Insecure {
        /// The parameter set.
        name: String,
        /// Its ring degree.
        degree: usize,
        /// The limit of [`crate::max_modulus_bits`].
        allowed: u32,
        /// log2 of the product of all moduli.
        found: f64,
    },
    /// The plaintext modulus does not fit the other parameters.
    #[error(
        "plaintext modulus {found} must be smaller than every ciphertext modulus, the smallest is {smallest}"
    )]
    PlaintextModulus {
        /// The plaintext modulus.
        found: u64,
        /// The smallest ciphertext modulus.
        smallest: u64,
    },
    /// Digits of a key-switching key must cover the ciphertext moduli.
    #[error("{digits} digits for {limbs} ciphertext moduli, expected 1 to {limbs}")]
    Digits {
        /// How many were asked for.
        digits: usize,
        /// How many moduli there are.
        limbs: usize,
    },
    /// The digits of a fine key must be shorter than every prime.
    #[error(
        "{pieces} digits for each prime of up to {longest} bits, expected enough that each is shorter than {shortest} bits"
    )]
    Pieces {
        /// How many were asked for.
        pieces: u32,
        /// Bits of the longest ciphertext modulus.
        longest: u32,
        /// Bits of the shortest modulus of all.
        shortest: u32,
    },
    /// The lengths of a short ciphertext.
    #[error("short moduli of {c0_bits} and {c1_bits} bits, expected 1 <= first <= second <= 48")]
    ShortModuli {
        /// Of c0.
        c0_bits: u32,
        /// Of c1.
        c1_bits: u32,
    },
    /// A level must be a set of the ciphertext moduli.
    #[error("a level of moduli {limbs:?}, expected at least one of 0 to {}", available - 1)]
    Level {
        /// The places that were asked for.
        limbs: Vec<usize>,
        /// How many moduli there are.
        available: usize,
    },
    /// The ring refused the moduli or the degree.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Bytes from outside were refused.
    #[error(transparent)]
    Wire(#[from] WireError),
}
