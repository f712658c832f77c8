use thiserror::Error;

use crate::Backend;

/// Why a ring object could not be built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RingError {
    /// The degree is not a power of two in the supported range.
    #[error("ring degree {0} is not a power of two from {min} to {max}", min = crate::NttPlan::<u32>::MIN_DEGREE, max = crate::NttPlan::<u32>::MAX_DEGREE)]
    Degree(usize),
    /// The modulus is not prime, or too long for the word.
    #[error("modulus {value} is not an odd prime of at most {max_bits} bits")]
    Modulus {
        /// The modulus.
        value: u64,
        /// The longest prime that the word serves.
        max_bits: u32,
    },
    /// The modulus has no root of unity of the order that the degree needs.
    #[error("modulus {modulus} is not 1 modulo {order}, which degree {} needs", order / 2)]
    NoRootOfUnity {
        /// The modulus.
        modulus: u64,
        /// The order of the missing root: twice the degree.
        order: u64,
    },
    /// There are fewer primes of this length than were asked for.
    #[error("fewer than {count} primes of {bits} bits are 1 modulo {order}")]
    TooFewPrimes {
        /// Length of the primes.
        bits: u32,
        /// The number that they should be 1 modulo.
        order: u64,
        /// How many were asked for.
        count: usize,
    },
    /// A basis without moduli, or with one modulus twice.
    #[error("an RNS basis needs one or more distinct moduli")]
    Basis,
    /// A Galois element must be odd and below twice the degree.
    #[error("Galois element {element} is not odd and below {order}")]
    GaloisElement {
        /// The element.
        element: u64,
        /// Twice the degree.
        order: u64,
    },
    /// An automorphism that was expected to keep evaluations within short chunks.
    #[error("Galois element {element} does not keep evaluations within {chunk} consecutive places")]
    Chunks {
        /// The element.
        element: u64,
        /// The length of a chunk.
        chunk: usize,
    },
    /// This processor lacks the instructions of a back end that was asked for by name.
    #[error("back end {0} needs instructions that this processor does not have")]
    Unavailable(Backend),
    /// No back end has that name.
    #[error("unknown back end {0:?}, expected scalar, avx2 or avx512")]
    UnknownBackend(String),
}
