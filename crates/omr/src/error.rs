use restante_bfv::BfvError;
use restante_ring::RingError;
use restante_wire::{ParameterId, WireError};
use thiserror::Error;

/// Why detection or decoding failed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum OmrError {
    /// A clue does not have the length that the parameters say.
    #[error("clue {index} has {found} bytes, expected {expected}")]
    ClueBytes {
        /// Place in the range.
        index: u64,
        /// Its length.
        found: usize,
        /// The right length.
        expected: usize,
    },
    /// A range that no digest can cover.
    #[error("a range of {count} messages from {first} on, expected at most {limit}, with indices below 2^64")]
    Range {
        /// Index of the first message.
        first: u64,
        /// How many.
        count: u64,
        /// The most that is possible.
        limit: u64,
    },
    /// Keys, clues or digests for other parameters.
    #[error("{what} is for parameters {found}, expected {expected}")]
    Parameters {
        /// What does not fit.
        what: &'static str,
        /// Its parameters.
        found: ParameterId,
        /// The right ones.
        expected: ParameterId,
    },
    /// Parameters that contradict each other.
    #[error("inconsistent parameters: {0}")]
    Inconsistent(&'static str),
    /// A block does not decrypt: it was damaged, made with another key, or not made by the circuit.
    #[error(
        "block {block} of the digest is not valid: its error has a deviation of {deviation:.3}, expected at most {limit}"
    )]
    InvalidBlock {
        /// The block, from 0.
        block: usize,
        /// The standard deviation of the decryption error.
        deviation: f64,
        /// The largest that a valid block can have.
        limit: f64,
    },
    /// A digest for somebody else, or for an older detection key.
    #[error("the digest was made for detection key {found}, this recipient's is {expected}")]
    ForeignDigest {
        /// The key id of the digest.
        found: String,
        /// The recipient's.
        expected: String,
    },
    /// The encryption scheme refused something.
    #[error(transparent)]
    Bfv(#[from] BfvError),
    /// The ring refused something.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Bytes from outside were refused.
    #[error(transparent)]
    Wire(#[from] WireError),
}
