//! What a wallet links: accounts, addresses and sealed messages.
//!
//! No storage, no threads, no clock, and no randomness of its own: every function that needs some takes a generator.
//!
//! * [`Account`]: a recipient's secrets, all of them recovered from one 32-byte seed.
//! * [`Address`]: what a recipient gives to its senders, as a file; [`Address::fingerprint`] is for comparing two by
//!   eye.
//! * [`Sender`]: an address prepared for writing to it. [`Sender::write_message`] makes the two parts of a message,
//!   its clue and its payload.
//! * [`Account::open`]: the text in a payload.
//! * [`Account::recipient_secret`]: what makes the detection key and opens digests.
//! * [`MessageRange`]: consecutive messages of a board, as a file, which [`MessageReader`] and [`MessageWriter`] go through message by
//!   message.
//! * [`Contact`]: an entry of an address book.
//! * [`directory`]: what a directory holds of a name, and how a name is searched for.
//! * [`relay`]: posting to relays, registering with one, and reading mail from them on a fixed schedule, looking up addresses. docs/client.md.
//!
//! ```
//! use chacha20::ChaCha20Rng;
//! use rand_core::SeedableRng;
//! use restante_client::{Account, Address};
//! use restante_clue::ClueParameters;
//! use restante_wire::binding::{BoardId, Period};
//!
//! // A real program seeds its generator from the operating system.
//! let mut rng = ChaCha20Rng::from_seed([1; 32]);
//! let account = Account::random(ClueParameters::STANDARD, &mut rng);
//! let file = account.address().to_file();
//!
//! let sender = Address::from_file(&file)?.prepare();
//! // A message is made for one board, whose relay says its id, and for one day.
//! let (board, today) = (BoardId([7; 16]), Period::of(1_800_000_000));
//! let message = sender.write_message(&board, today, b"meet at noon", &mut rng)?;
//!
//! assert!(account.is_pertinent(&board, &message.clue, &message.payload)?);
//! assert_eq!(account.open(&board, &message.clue, &message.payload)?, b"meet at noon");
//! // A copy on another board is for nobody.
//! assert!(!account.is_pertinent(&BoardId([8; 16]), &message.clue, &message.payload)?);
//! # Ok::<(), restante_client::LetterError>(())
//! ```

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod account;
mod detection;
mod messages;
pub mod relay;

pub use account::Account;
pub use detection::{AnyDetection, CompactDetection, Detection, KeyFile};
pub use messages::{MessageRange, MessageReader, MessageWriter};
pub use relay::RelayError;
pub use restante_letter::{
    Address, Contact, LetterError, MAX_TEXT_BYTES, Message, PAYLOAD_BYTES, RECORD_OVERHEAD_BYTES, Sender,
    digest_payload, digest_record, digest_request, directory,
};
pub use restante_wire::binding::{BoardId, Period};
