//! The board: the append-only log of messages that senders write to and detectors read.
//!
//! A message is a *clue* (as many bytes as the board's parameters say) and a *payload* (up to 64 KiB). Three parties use
//! a board at once, and the layout serves the three:
//!
//! * A detector reads all clues of an index range in order, on many threads, at memory bandwidth: the clues of a
//!   segment lie in a file of their own, as fixed-size rows without header or gap. Clue i of the segment is the
//!   bytes `i * clue_bytes ..` of a memory map, and a whole segment is one slice ([`Clues::runs`]). With clues and
//!   payloads in one file, every pass would drag the payloads through memory too.
//! * A recipient reads single payloads: an index of fixed-size rows gives the place and the hash of payload i without
//!   a search, and nothing is returned that does not match its hash ([`Board::payload`]).
//! * The one writer appends, and calls a message accepted only once it will survive a power cut
//!   ([`BoardWriter::commit`]).
//!
//! ```
//! use restante_board::{Board, BoardConfig, BoardError, BoardId, BoardWriter};
//! use restante_wire::ParameterId;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let path = scratch.path().join("board");
//! // A real program draws the id at random.
//! let id = BoardId([1; 16]);
//! let mut board = Board::create(&path, &BoardConfig::new(id, ParameterId::of("example"), 13))?;
//! let mut writer = BoardWriter::open(&path)?;
//! let clue = b"\x07\x50\0\0clue tail";
//! writer.append(clue, b"payload")?;
//! assert!(matches!(writer.append(clue, b"payload"), Err(BoardError::Duplicate { first: 0 })));
//! writer.commit()?;
//!
//! board.refresh()?;
//! assert_eq!(board.clues(0..1)?.get(0), Some(&clue[..]));
//! assert_eq!(board.payload(0)?, b"payload");
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! * **Durability.** [`BoardWriter::commit`] makes the staged messages durable first and publishes their number
//!   second. After a crash at any moment, the board holds the messages of every commit that returned, and either all
//!   or none of one that had not. What lies behind the last commit is cut when the next writer opens the board.
//! * **Integrity.** Every clue and every payload has its BLAKE3 hash in the index; the hashes are the leaves of one
//!   Merkle tree (RFC 6962, with BLAKE3), whose root stands in the head. Opening checks the messages that
//!   are not in a sealed segment yet, reading a payload checks it, [`Board::verify`] checks everything. This finds
//!   damage; a forger with write access is found by whoever kept an earlier head.
//! * **Each clue once.** A clue is a period, what else is bound to the message, and a tail ([`restante_wire::binding`]). A board takes
//!   each bound part once ([`BoardError::Duplicate`]), and no message of a period that is two days behind the latest one
//!   ([`BoardError::ClosedPeriod`]). Whoever keeps a board with a clock checks the period by it too: [`Period::is_near`].
//! * **Isolation.** Any number of readers may have the board open while one writer appends. A [`Board`] is a
//!   snapshot that changes only in [`Board::refresh`].
//!
//! A segment holds a power of two of messages, so that it is a complete subtree: the root of a sealed segment is a
//! node of the tree, and the head of a board of any size is computed from the seals and the last segment alone. The
//! same root lets a mirror verify a segment that it copied.
//!
//! `docs/format.md` has every byte, and the argument for the commit protocol.

#![deny(unsafe_code)]

mod board;
mod clues;
mod config;
mod copy;
mod error;
mod files;
mod head;
mod map;
mod retention;
mod rule;
mod segment;
mod tree;
mod verify;
mod writer;

pub use board::{Board, Message, Stats};
pub use clues::{ClueIter, Clues};
pub use config::{
    BoardConfig, CLUE_BYTES_LIMIT, DEFAULT_SEGMENT_CAPACITY, PAYLOAD_BYTES_LIMIT, SEGMENT_CAPACITY_LIMIT,
};
pub use error::BoardError;
pub use head::Head;
pub use restante_wire::binding::{Binding, BoardId, Period};
pub use restante_wire::merkle::{Frontier, Hash};
pub use writer::BoardWriter;
