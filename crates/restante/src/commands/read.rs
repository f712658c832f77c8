//! `restante read`: the recipient's work.

use std::path::Path;

use restante_board::Board;
use restante_client::{Account, ClientError, MessageRange};
use restante_omr::stream::{Decoder, StreamDigest};
use serde_json::json;

use super::keys::load_account;
use crate::{arguments::ReadArguments, error::CliError, files, report::print_line, session::Session};

/// Where payloads come from.
enum Source {
    Board(Board),
    Messages(MessageRange),
}

impl Source {
    /// Clue and payload of a message.
    fn message(&self, index: u64) -> Result<(&[u8], &[u8]), CliError> {
        match self {
            Self::Board(board) => {
                let message = board.message(index)?;
                Ok((message.clue, message.payload))
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
                Ok((&message.clue, &message.payload))
            }
        }
    }
}

pub fn run(session: &Session, arguments: &ReadArguments) -> Result<(), CliError> {
    let account = load_account(&arguments.secret)?;
    let indices = pertinent(session, &account, &arguments.digest)?;
    let source = match (&arguments.board, &arguments.messages) {
        (Some(path), _) => Some(Source::Board(Board::open(path)?)),
        (None, Some(path)) => {
            let range = MessageRange::from_file(account.parameters(), &files::read(path)?);
            Some(Source::Messages(range.map_err(|error| CliError::input(path)(&error))?))
        }
        (None, None) => None,
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
        let (clue, payload) = source.message(index)?;
        match account.open(clue, payload) {
            Ok(text) => {
                let text = String::from_utf8_lossy(&text);
                print_line(&if session.json {
                    json!({ "index": index, "text": text }).to_string()
                } else {
                    format!("{index}\t{}", text.escape_debug())
                })?;
            }
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
