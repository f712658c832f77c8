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
        /// The thing that does not fit.
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
    /// More pertinent messages than a compact digest holds: see the advice at [`crate::compact`].
    #[error("overflow: more than {capacity} pertinent messages")]
    Overflow {
        /// k.
        capacity: usize,
    },
    /// A compact digest that no pertinent messages give.
    #[error("the digest is damaged: {0}")]
    DamagedDigest(&'static str),
    /// A compact digest was asked for with sizes that there are no parameters for.
    #[error("{what} {found}, expected {expected}")]
    Request {
        /// The name of the size.
        what: &'static str,
        /// The quantity that was asked for.
        found: u64,
        /// The values that are possible.
        expected: String,
    },
    /// Pertinency vectors of different passes, whose messages are in different slots.
    #[error("the pertinency vectors were not made in one pass: make their digests one by one")]
    OtherPass,
    /// Pertinency vectors with a gap between them, or an overlap.
    #[error(
        "pertinency vector {place} of a sequence begins at message {found}, expected {expected}, where the one before it ends"
    )]
    Sequence {
        /// Its place in the sequence, from 0.
        place: usize,
        /// Where it begins.
        found: u64,
        /// Where the one before it ends.
        expected: u64,
    },
    /// A range that a pertinency vector does not cover.
    #[error(
        "range {first}..{end} is not covered by the pertinency vector for {covered_first}..{covered_end}"
    )]
    NotCovered {
        /// First index asked for.
        first: u64,
        /// End of the range asked for.
        end: u64,
        /// First index covered.
        covered_first: u64,
        /// End of what is covered.
        covered_end: u64,
    },
    /// A detection key whose uniform halves are not those that a relay computes with.
    #[error("the detection key's uniform halves are for another relay or period: make a key for this one")]
    PublicSeed,
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
