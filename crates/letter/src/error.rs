use restante_clue::ClueError;
use restante_wire::{Kind, ParameterId, WireError};
use thiserror::Error;

use crate::{MAX_TEXT_BYTES, PAYLOAD_BYTES};

/// Why an address, a message or a file of an account was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LetterError {
    /// The bytes are not a file of the expected kind.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The bytes are not a clue.
    #[error(transparent)]
    Clue(#[from] ClueError),
    /// A file for clue parameters that this program does not know.
    #[error("{kind} is for parameters {found}, which are no clue parameters of this program")]
    UnknownParameters {
        /// The kind of file.
        kind: Kind,
        /// The parameters it names.
        found: ParameterId,
    },
    /// The public key in an address is not one of the key encapsulation.
    #[error("the address holds an invalid encryption key")]
    InvalidPublicKey,
    /// The text does not fit the largest payload.
    #[error("the message has {found} bytes, {limit} is the most", limit = MAX_TEXT_BYTES)]
    MessageTooLong {
        /// Bytes of the text.
        found: usize,
    },
    /// No payload has that size.
    #[error("the payload has {found} bytes, expected one of {sizes:?}", sizes = PAYLOAD_BYTES)]
    PayloadSize {
        /// Bytes of the payload.
        found: usize,
    },
    /// The payload was sealed for another account or with another clue, or it was changed since.
    #[error("the payload is not for this account and clue, or it was changed")]
    NotForUs,
    /// The payload is authentic, but its sender did not format it as this version does.
    #[error("the payload's contents are malformed: its sender uses another format")]
    MalformedContents,
    /// A text that cannot be shown or kept.
    #[error("the {what} is empty, longer than 255 bytes, or holds control characters")]
    Text {
        /// The text in question.
        what: &'static str,
    },
    /// A record that is no entry of a directory.
    #[error("the directory's entry cannot be read: {reason}")]
    Entry {
        /// The fault in it.
        reason: String,
    },
    /// The encryption of a payload failed.
    #[error("the payload cannot be encrypted to this address")]
    Encryption,
}
