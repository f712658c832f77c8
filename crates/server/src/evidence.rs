//! The proof that a mirror keeps when its origin's board breaks the rule for clues.
//!
//! A file of JSON in the data directory. Each message comes as the origin's page with it, in hexadecimal: the signed head, the
//! message and the proof that it is on the board of that head, so that whoever has the origin's key can check it alone
//! (docs/protocol.md, `GET /v1/messages`).

use std::path::PathBuf;

use restante_board::{Board, Hash};
use restante_wire::binding::split_clue;
use restante_wire::relay::{Page, RelayKey, SignedHead};
use serde::Serialize;

use crate::ServerError;
use crate::board::page;
use crate::files::{DataDirectory, write_whole};

/// A message that breaks the rule, and the one that it repeats.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offence {
    pub(crate) first: u64,
    pub(crate) second: u64,
}

#[derive(Serialize)]
struct Evidence<'a> {
    origin: RelayKey,
    reason: &'a str,
    first: Proved,
    second: Proved,
}

#[derive(Serialize)]
struct Proved {
    index: u64,
    /// The body of a page that holds the message.
    page: String,
    /// Whose signature is on the head of that page.
    signed_by: RelayKey,
}

impl Proved {
    fn new(index: u64, page: &Page) -> Self {
        let page_hex = page.to_body().iter().fold(String::new(), |mut text, byte| {
            use std::fmt::Write;
            let _ = write!(text, "{byte:02x}");
            text
        });
        Self { index, page: page_hex, signed_by: page.head.relay }
    }
}

/// Finds the offence in a page: a message whose clue is on the board, or in the page, already.
pub(crate) fn find(board: &Board, taken: &Page, first: u64) -> Option<Offence> {
    let bound = |index: u64| -> Option<Hash> {
        match index.checked_sub(taken.first) {
            Some(place) => Some(taken.messages.get(place as usize)?.hashes().bound),
            None => {
                let message = board.message(index).ok()?;
                Some(Hash::of(split_clue(message.clue).0))
            }
        }
    };
    let wanted = bound(first)?;
    let places = taken.first.max(first + 1)..taken.end();
    let second = places.into_iter().find(|index| bound(*index) == Some(wanted))?;
    Some(Offence { first, second })
}

/// Writes the evidence and says where. `earlier` is a page with the first message, if `taken` does not hold it.
pub(crate) fn keep(
    data: &DataDirectory,
    offence: &Offence,
    taken: &Page,
    earlier: Option<&Page>,
    reason: &str,
) -> Result<PathBuf, ServerError> {
    let first = Proved::new(offence.first, earlier.unwrap_or(taken));
    let second = Proved::new(offence.second, taken);
    let evidence = Evidence { origin: taken.head.relay, reason, first, second };
    let bytes = serde_json::to_vec_pretty(&evidence)
        .map_err(|error| ServerError::Environment(format!("evidence cannot be written: {error}")))?;
    let path = data.root().join(format!("evidence-{}.json", offence.second));
    write_whole(&path, &bytes)?;
    Ok(path)
}

/// This mirror's own page with a message of its board, under its own head.
pub(crate) fn own_page(board: &Board, head: SignedHead, index: u64) -> Option<Page> {
    page(board, head, index, index + 1, 1, u64::MAX).ok()
}
