use restante_wire::WireError;
use thiserror::Error;

/// Why a request to this crate was refused. No variant carries a point or a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DpfError {
    /// The domain is empty or too large.
    #[error("a domain of {found} points, expected 1 to {max}", max = crate::MAX_DOMAIN)]
    Domain {
        /// The number of points asked for.
        found: u64,
    },
    /// The secret point lies outside the domain. Its value is withheld.
    #[error("the point lies outside the domain of {domain} points")]
    PointOutside {
        /// The number of points of the domain.
        domain: u64,
    },
    /// The message is not as long as the parameters say.
    #[error("a message of {found} bytes, expected {expected}")]
    MessageLength {
        /// The length of the message given.
        found: usize,
        /// The length that the parameters state.
        expected: usize,
    },
    /// The points to evaluate are not all in the domain, or the range runs backwards.
    #[error("range {start}..{end} is not within the domain of {domain} points")]
    RangeOutside {
        /// The first point asked for.
        start: u64,
        /// One past the last point asked for.
        end: u64,
        /// The number of points of the domain.
        domain: u64,
    },
    /// A range of bit outcomes has to start at the first bit of an output byte.
    #[error("a range of bits starts at {start}, expected a multiple of 8")]
    RangeUnaligned {
        /// The first point asked for.
        start: u64,
    },
    /// The output slice does not have one element per outcome (one byte per eight bit outcomes).
    #[error("an output slice of {found} elements, expected {expected}")]
    OutputLength {
        /// The length of the slice given.
        found: usize,
        /// The length that the range takes.
        expected: u128,
    },
    /// A serialised key is malformed.
    #[error(transparent)]
    Wire(#[from] WireError),
}
