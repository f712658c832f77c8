//! `restante bench`: measurements as JSON lines, each beside a limit that is measured in the same run.

mod detect_compact;
mod detect_stream;
mod dpf;
mod fetch;
pub mod limits;
#[cfg(feature = "serve")]
mod relay;
mod search;

use restante_client::{BoardId, Period};
use restante_clue::BoundClue;
use restante_wire::binding::{MessageHashes, split_clue};

/// Where and when measured clues are made.
const BOARD: BoardId = BoardId([7; 16]);
const TODAY: Period = Period(20_000);

/// A clue of a message as a detector takes it.
fn bound<'a>(clue: &'a [u8], payload: &[u8]) -> BoundClue<'a> {
    let binding = MessageHashes::of(split_clue(clue).0, payload).binding(&BOARD);
    BoundClue { bytes: clue, binding }
}

pub use detect_compact::run as detect_compact;
pub use detect_stream::run as detect_stream;
pub use dpf::run as dpf;
pub use fetch::run as fetch;
#[cfg(feature = "serve")]
pub use relay::run as relay;
pub use search::run as search;
