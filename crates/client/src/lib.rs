#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod account;
mod messages;
pub mod relay;

pub use account::Account;
pub use messages::{MessageRange, MessageReader, MessageWriter};
pub use relay::{AnyDetection, CompactDetection, Detection, KeyFile, RelayError};
pub use restante_clue::ClueParameters;
pub use restante_letter::{
    Address, Contact, LetterError, MAX_TEXT_BYTES, Message, PAYLOAD_BYTES, RECORD_OVERHEAD_BYTES, Sender,
    digest_payload, digest_record, digest_request, directory,
};
pub use restante_omr::compact::{CompactContext, CompactParameters};
pub use restante_ring::{Backend, sample::Seed};
pub use restante_wire::binding::{BoardId, Period};
pub use restante_wire::relay::{Credential, DigestKind, RelayKey, Token};
