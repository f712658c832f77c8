use std::io;
use std::path::PathBuf;

use restante_wire::{ParameterId, WireError};
use thiserror::Error;

use crate::Hash;

/// Why a board could not be made, opened, read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BoardError {
    /// The operating system refused.
    #[error("cannot {action} {}: {reason}", .path.display())]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// The manifest, the head or a seal cannot be read.
    #[error("{}: {reason}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: WireError,
    },
    /// The directory holds no board.
    #[error("{} is not a board: there is no file \"manifest\" in it", .path.display())]
    NotABoard {
        /// The directory.
        path: PathBuf,
    },
    /// A board can be created in a new or an empty directory only.
    #[error("cannot create a board in {}: expected a new or an empty directory", .path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// Another writer has the board open.
    #[error("{} is locked: another writer has the board open", .path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// Neither slot of the head file holds a valid head.
    #[error("{} is corrupted: expected a valid head in one of its two slots", .path.display())]
    NoHead {
        /// The head file.
        path: PathBuf,
    },
    /// One of the two copies of the head is damaged; the other one still serves.
    #[error("{} is corrupted: copy {copy} of the head differs from the other copy", .path.display())]
    HeadCopy {
        /// The head file.
        path: PathBuf,
        /// The number of the copy, from 0.
        copy: usize,
    },
    /// A file has not the length that its committed contents have.
    #[error("{} has {found} bytes, expected {}{expected}", .path.display(), if *.or_more { "at least " } else { "" })]
    Length {
        /// The file.
        path: PathBuf,
        /// The bytes of the committed contents.
        expected: u64,
        /// Whether more would have been right too.
        or_more: bool,
        /// The bytes that the file has.
        found: u64,
    },
    /// A clue or a payload does not match its hash.
    #[error("{} is corrupted: {what} {index} does not match its hash in the segment's index", .path.display())]
    Corrupted {
        /// The file that holds it.
        path: PathBuf,
        /// "clue" or "payload".
        what: &'static str,
        /// The message's index on the board.
        index: u64,
    },
    /// A row of an index points outside the payload file.
    #[error("{} is corrupted: it places payload {index} at {start}..{end}, expected at most {payload_bytes_max} bytes within 0..{payload_bytes}", .path.display())]
    CorruptedIndex {
        /// The index file.
        path: PathBuf,
        /// The message's index on the board.
        index: u64,
        /// Where the payload starts, by the index.
        start: u64,
        /// Where it ends, by the index.
        end: u64,
        /// The committed bytes of the payload file.
        payload_bytes: u64,
        /// The payload bound of the board.
        payload_bytes_max: u32,
    },
    /// The messages do not hash to the root that was recorded.
    #[error("{} is corrupted: its root is {expected}, and the messages hash to {found}", .path.display())]
    Root {
        /// The head file or the seal that the root is from.
        path: PathBuf,
        /// The root in the file.
        expected: Hash,
        /// The root of the messages.
        found: Hash,
    },
    /// A seal says something else about its segment than its name and the board do.
    #[error("{} is the seal of {found}, expected that of {expected}", .path.display())]
    Seal {
        /// The seal.
        path: PathBuf,
        /// The root that it seals.
        found: String,
        /// The root that it should seal.
        expected: String,
    },
    /// A sealed segment lies behind the last committed message, so the head is not the one that belongs to it.
    #[error("{} seals a segment that the head does not reach, expected a head of more than {messages} messages", .path.display())]
    SealBeyondHead {
        /// The seal.
        path: PathBuf,
        /// The messages that the head counts.
        messages: u64,
    },
    /// The board has fewer messages than it had.
    #[error("{} went back: it counts {found} messages, expected at least {expected}", .path.display())]
    WentBack {
        /// The head file.
        path: PathBuf,
        /// The messages that were there before.
        expected: u64,
        /// The messages that are there now.
        found: u64,
    },
    /// The board is for other parameters.
    #[error("{} is for parameters {found}, expected {expected}", .path.display())]
    WrongParameters {
        /// The manifest.
        path: PathBuf,
        /// The parameters that the caller uses.
        expected: ParameterId,
        /// The parameters of the board.
        found: ParameterId,
    },
    /// The range is not part of the board.
    #[error("no messages {start}..{end}: the board has {messages} messages")]
    OutOfRange {
        /// The start of the range.
        start: u64,
        /// Its end.
        end: u64,
        /// The number of messages.
        messages: u64,
    },
    /// The messages were on the board, and it has forgotten them.
    #[error("no message {index}: the board has kept the messages from {retained_from} on")]
    Forgotten {
        /// The message.
        index: u64,
        /// The first message that is still there.
        retained_from: u64,
    },
    /// The clue has another size than the board's clues.
    #[error("clue has {found} bytes, expected {expected}")]
    ClueSize {
        /// The clue's size.
        found: usize,
        /// The board's clue size.
        expected: u32,
    },
    /// The board has a message with the same clue, but for the clue's tail: it takes each once.
    #[error("the board has a message with the same clue already: message {first}")]
    Duplicate {
        /// The index of that message.
        first: u64,
    },
    /// The clue is of a day that the board has closed.
    #[error(
        "the clue is of period {found} (days since 1970), which is closed: the board takes {least} and later (is the clock right?)"
    )]
    ClosedPeriod {
        /// The clue's period.
        found: u32,
        /// The oldest period that is open.
        least: u32,
    },
    /// The payload is longer than the board takes.
    #[error("payload has {found} bytes, expected at most {limit}")]
    PayloadSize {
        /// The payload's size.
        found: usize,
        /// The board's bound.
        limit: u32,
    },
    /// A board cannot be made with this size.
    #[error("{what} is {found}, expected {expected}")]
    Config {
        /// The name of the size.
        what: &'static str,
        /// Its value.
        found: u32,
        /// The values that are right.
        expected: String,
    },
    /// The writer failed in a way that leaves open what is on disk.
    #[error("this writer stopped after a failed write to {}: open the board again", .path.display())]
    Stopped {
        /// The board.
        path: PathBuf,
    },
}

impl BoardError {
    /// For `map_err`: names what was being done to which path.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |reason| Self::Io { action, path: path.into(), reason }
    }
}
