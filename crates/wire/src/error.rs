use thiserror::Error;

use crate::{Kind, ParameterId};

/// Why bytes from outside were refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The input ended early.
    #[error("truncated {what}: {needed} more bytes expected, {left} left")]
    Truncated {
        /// The thing that was being read.
        what: &'static str,
        /// Bytes that the next field takes.
        needed: usize,
        /// Bytes that were left.
        left: usize,
    },
    /// The value was read whole and bytes were left over.
    #[error("{left} unexpected bytes after the end of {what}")]
    Trailing {
        /// The thing that was being read.
        what: &'static str,
        /// How many bytes were left.
        left: usize,
    },
    /// A field holds a value outside its range.
    #[error("{what} is {found}, expected {expected}")]
    OutOfRange {
        /// The field.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The values that are right.
        expected: String,
    },
    /// The input is not one of this project's files.
    #[error("not a restante file: it does not start with \"RSTN\"")]
    ForeignFile,
    /// It is one of this project's files, but of another kind.
    #[error("found {found}, expected {expected}")]
    WrongKind {
        /// The kind that the caller asked for.
        expected: Kind,
        /// The kind that the file says it is.
        found: Kind,
    },
    /// The kind byte is not assigned.
    #[error("unknown kind of file: {0}")]
    UnknownKind(u8),
    /// The format version is not one that this program reads.
    #[error(
        "{kind} has format version {found}, this program reads version {supported}: {}",
        if found < supported { kind.remedy() } else { "a later version of the program made it" }
    )]
    UnsupportedVersion {
        /// The kind of the file.
        kind: Kind,
        /// Its version.
        found: u16,
        /// The version that can be read.
        supported: u16,
    },
    /// Made for other parameters.
    #[error("{kind} is for parameters {found}, expected {expected}")]
    WrongParameters {
        /// The kind of the file.
        kind: Kind,
        /// The parameters that the caller uses.
        expected: ParameterId,
        /// The parameters of the file.
        found: ParameterId,
    },
    /// The checksum at the end does not match the contents.
    #[error("{kind} is corrupted: its checksum does not match its contents")]
    Corrupted {
        /// The kind of the file.
        kind: Kind,
    },
}
