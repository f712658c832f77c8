#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod address;
mod contact;
pub mod directory;
mod error;
mod payload;
mod record;

pub use address::{Address, Message, Sender, open_file};
pub use contact::{Contact, check_text};
pub use error::LetterError;
pub use payload::{ClueHash, MAX_TEXT_BYTES, OpeningKey, PAYLOAD_BYTES, PUBLIC_KEY_BYTES};
pub use record::{RECORD_OVERHEAD_BYTES, digest_payload, digest_record, digest_request, split_record};
