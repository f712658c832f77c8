use restante_wire::WireError;
use thiserror::Error;

/// Why a clue, a key or parameters were refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClueError {
    /// No preset has that name.
    #[error("unknown clue parameters {0:?}, expected standard or short")]
    UnknownParameters(String),
    /// A vector has not one entry per coefficient.
    #[error("{found} coefficients, expected {expected}")]
    Length {
        /// Coefficients that were given.
        found: usize,
        /// The degree of the ring.
        expected: usize,
    },
    /// An encoded clue has another length than the parameters say.
    #[error("a clue of {found} bytes, expected {expected}")]
    ClueBytes {
        /// Its length.
        found: usize,
        /// The right length.
        expected: usize,
    },
    /// A coefficient is not a residue.
    #[error("coefficient {value} is not below the modulus {modulus}")]
    Coefficient {
        /// The coefficient.
        value: u32,
        /// q.
        modulus: u32,
    },
    /// The bytes are not an encoding.
    #[error(transparent)]
    Wire(#[from] WireError),
}
