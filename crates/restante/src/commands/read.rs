//! `restante read`: the recipient's work.

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek},
    path::{Path, PathBuf},
};

use restante_board::{Board, BoardId};
use restante_client::{Account, LetterError, MessageReader, Period, RECORD_OVERHEAD_BYTES};
use restante_omr::{
    compact::{self, CompactDigest, Retrieved},
    stream::{Decoder, StreamDigest},
};
use restante_wire::{Envelope, Kind, WireError};
use serde_json::json;

use super::keys::load_account;
use crate::{
    arguments::ReadArguments,
    error::CliError,
    files,
    letters::{Letters, Line},
    report::{note, print_line},
    session::Session,
};

/// Where payloads come from.
enum Source {
    Board(Board),
    Messages(PathBuf, MessageReader<Box<dyn ReadSeek>>),
}

/// A file, or what came through a pipe.
trait ReadSeek: Read + Seek {}
impl<T: Read + Seek> ReadSeek for T {}

impl Source {
    /// Messages in a file, which is checked first.
    fn messages(account: &Account, path: &Path) -> Result<Self, CliError> {
        let file = File::open(path).map_err(CliError::system("open", path))?;
        let is_file = file.metadata().map_err(CliError::system("inspect", path))?.is_file();
        let input: Box<dyn ReadSeek> = if is_file {
            Box::new(BufReader::with_capacity(1 << 16, file))
        } else {
            Box::new(Cursor::new(files::read(path)?))
        };
        let reader =
            MessageReader::open(input, account.parameters()).map_err(|error| unreadable(path, error))?;
        Ok(Self::Messages(path.into(), reader))
    }

    /// The board that the messages are of.
    fn board(&self) -> BoardId {
        match self {
            Self::Board(board) => board.config().id,
            Self::Messages(_, reader) => *reader.board(),
        }
    }

    /// Clue and payload of a message.
    fn message(&mut self, index: u64) -> Result<(Vec<u8>, Vec<u8>), CliError> {
        match self {
            Self::Board(board) => {
                let message = board.message(index)?;
                Ok((message.clue.to_vec(), message.payload.to_vec()))
            }
            Self::Messages(path, reader) => {
                let message =
                    reader.get(index).map_err(|error| unreadable(path, error))?.ok_or_else(|| {
                        let covered = reader.range();
                        let reason = "the messages file holds";
                        CliError::Refused(format!(
                            "message {index} is missing: {reason} {}..{}",
                            covered.start, covered.end
                        ))
                    })?;
                Ok((message.clue, message.payload))
            }
        }
    }
}

fn unreadable(path: &Path, error: io::Error) -> CliError {
    match error.get_ref() {
        Some(reason) if reason.is::<WireError>() => CliError::input(path)(&reason),
        _ => CliError::system("read", path)(error),
    }
}

pub fn run(session: &Session, arguments: &ReadArguments) -> Result<(), CliError> {
    let account = load_account(&arguments.secret)?;
    let file = files::read(&arguments.digest)?;
    let kind = Envelope::open(&file).map_err(|error| CliError::input(&arguments.digest)(&error))?.kind;
    let found = if kind == Kind::CompactDigest {
        Some(retrieved(session, &account, &arguments.digest, &file)?)
    } else {
        None
    };
    let source = match (&arguments.board, &arguments.messages) {
        (Some(path), _) => Some(Source::Board(Board::open(path)?)),
        (None, Some(path)) => Some(Source::messages(&account, path)?),
        (None, None) => None,
    };
    if let Some(found) = found.iter().find(|found| found.iter().any(|message| message.payload_bytes > 0)) {
        let Some(board) = source.as_ref().map(Source::board).or(arguments.board_id) else {
            let demand = "messages are sealed for their board: expected --board, --messages or --board-id";
            return Err(CliError::Usage(demand.into()));
        };
        let letters = Letters::new(session, arguments.out.as_ref())?;
        return print_records(session, &account, &board, found, &letters);
    }
    let indices = match found {
        Some(found) => found.into_iter().map(|message| message.index).collect(),
        None => pertinent(session, &account, &arguments.digest)?,
    };
    let Some(mut source) = source else {
        for index in indices {
            print_line(&if session.json {
                json!({ "index": index }).to_string()
            } else {
                index.to_string()
            })?;
        }
        return Ok(());
    };
    let letters = Letters::new(session, arguments.out.as_ref())?;
    for index in indices {
        let (clue, payload) = source.message(index)?;
        match account.open(&source.board(), &clue, &payload) {
            Ok(text) => {
                let day = Period::of_clue(&clue);
                letters.deliver(session, &Line { index, day, text: &text })?;
            }
            // A false positive of detection: somebody else's message.
            Err(LetterError::NotForUs) => {}
            // Anybody may post this. It must not keep the recipient from what comes after.
            Err(error) => note!("restante: message {index} cannot be opened: {error}"),
        }
    }
    Ok(())
}

/// The indices that a digest says are this account's.
fn pertinent(session: &Session, account: &Account, path: &Path) -> Result<Vec<u64>, CliError> {
    let context = session.stream_context(*account.parameters())?;
    let refused = |error: restante_omr::OmrError| CliError::input(path)(&error);
    let digest = StreamDigest::from_file(&context, &files::read(path)?).map_err(refused)?;
    Decoder::new(&account.recipient_secret(&context)?)?.pertinent(&digest).map_err(refused)
}

/// The messages of a compact digest.
fn retrieved(
    session: &Session,
    account: &Account,
    path: &Path,
    file: &[u8],
) -> Result<Vec<Retrieved>, CliError> {
    let context = session.compact_context(*account.parameters(), false)?;
    let refused = |error: restante_omr::OmrError| CliError::input(path)(&error);
    let digest = CompactDigest::from_file(&context, file).map_err(refused)?;
    compact::Decoder::new(&account.compact_secret(&context)?)?.decode(&digest).map_err(refused)
}

/// Opens the payloads that came in a compact digest.
fn print_records(
    session: &Session,
    account: &Account,
    board: &BoardId,
    found: &[Retrieved],
    letters: &Letters,
) -> Result<(), CliError> {
    for message in found {
        let index = message.index;
        if message.payload.len() < message.payload_bytes {
            let payload_bytes = message.payload_bytes - RECORD_OVERHEAD_BYTES.min(message.payload_bytes);
            print_line(&if session.json {
                json!({ "index": index, "payload_bytes": payload_bytes }).to_string()
            } else {
                format!("{index}\tlonger than the digest: {payload_bytes} bytes")
            })?;
            continue;
        }
        match account.open_record(board, &message.payload) {
            Ok(text) => letters.deliver(session, &Line { index, day: None, text: &text })?,
            Err(LetterError::NotForUs) => {}
            // Anybody may post this. It must not keep the recipient from what comes after.
            Err(error) => note!("restante: message {index} cannot be opened: {error}"),
        }
    }
    Ok(())
}
