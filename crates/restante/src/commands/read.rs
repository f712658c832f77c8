//! `restante read`: the recipient's work.

use std::path::Path;

use restante_board::{Board, BoardId};
use restante_client::{Account, ClientError, MessageRange, RECORD_OVERHEAD_BYTES};
use restante_omr::{
    compact::{self, CompactDigest, Retrieved},
    stream::{Decoder, StreamDigest},
};
use restante_wire::{Envelope, Kind};
use serde_json::json;

use super::keys::load_account;
use crate::{arguments::ReadArguments, error::CliError, files, report::print_line, session::Session};

/// Where payloads come from.
enum Source {
    Board(Board),
    Messages(MessageRange),
}

impl Source {
    /// Board, clue and payload of a message.
    fn message(&self, index: u64) -> Result<(&BoardId, &[u8], &[u8]), CliError> {
        match self {
            Self::Board(board) => {
                let message = board.message(index)?;
                Ok((&board.config().id, message.clue, message.payload))
            }
            Self::Messages(range) => {
                let message = range.get(index).ok_or_else(|| {
                    let covered = range.range();
                    let reason = "the messages file holds";
                    CliError::Refused(format!(
                        "message {index} is missing: {reason} {}..{}",
                        covered.start, covered.end
                    ))
                })?;
                Ok((range.board(), &message.clue, &message.payload))
            }
        }
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
        (None, Some(path)) => {
            let range = MessageRange::from_file(account.parameters(), &files::read(path)?);
            Some(Source::Messages(range.map_err(|error| CliError::input(path)(&error))?))
        }
        (None, None) => None,
    };
    if let Some(found) = found.iter().find(|found| found.iter().any(|message| message.payload_bytes > 0)) {
        let board = match (&source, arguments.board_id) {
            (Some(Source::Board(board)), _) => board.config().id,
            (Some(Source::Messages(range)), _) => *range.board(),
            (None, Some(id)) => id,
            (None, None) => {
                let demand = "messages are sealed for their board: expected --board, --messages or --board-id";
                return Err(CliError::Usage(demand.into()));
            }
        };
        return print_records(session, &account, &board, found);
    }
    let indices = match found {
        Some(found) => found.into_iter().map(|message| message.index).collect(),
        None => pertinent(session, &account, &arguments.digest)?,
    };
    let Some(source) = source else {
        for index in indices {
            print_line(&if session.json {
                json!({ "index": index }).to_string()
            } else {
                index.to_string()
            })?;
        }
        return Ok(());
    };
    for index in indices {
        let (board, clue, payload) = source.message(index)?;
        match account.open(board, clue, payload) {
            Ok(text) => print_text(session, index, &text)?,
            // A false positive of detection: somebody else's message.
            Err(ClientError::NotForUs) => {}
            // Anybody may post this. It must not keep the recipient from what comes after.
            Err(error) => eprintln!("restante: message {index} cannot be opened: {error}"),
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
            Ok(text) => print_text(session, index, &text)?,
            Err(ClientError::NotForUs) => {}
            // Anybody may post this. It must not keep the recipient from what comes after.
            Err(error) => eprintln!("restante: message {index} cannot be opened: {error}"),
        }
    }
    Ok(())
}

fn print_text(session: &Session, index: u64, text: &[u8]) -> Result<(), CliError> {
    let text = String::from_utf8_lossy(text);
    print_line(&if session.json {
        json!({ "index": index, "text": text }).to_string()
    } else {
        format!("{index}\t{}", text.escape_debug())
    })
}
