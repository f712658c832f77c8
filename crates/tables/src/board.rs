//! The messages of a board as a table.

use std::ops::Range;
use std::time::Instant;

use restante_board::Board;
use restante_pir::search::{FieldKind, Value};

use crate::TableError;
use crate::rows::{Next, Origin, Rows};
use crate::schema::{Schema, Selector};

/// The messages of a board. Their fields: `index`, an integer; `clue` and `payload`, bytes; `clue-hash` and `payload-hash`, bytes:
/// the BLAKE3 hashes.
#[derive(Debug)]
pub struct BoardRows<'a> {
    schema: Schema,
    origin: Origin,
    board: &'a Board,
    range: Range<u64>,
}

impl<'a> BoardRows<'a> {
    /// The messages in `range`. Record numbers count from its start.
    ///
    /// # Errors
    ///
    /// [`TableError::Table`] if the schema asks for a field that messages do not have, or for another type of it, or if the range
    /// does not lie on the board.
    pub fn new(schema: &Schema, board: &'a Board, range: Range<u64>) -> Result<Self, TableError> {
        let input = board.path().display().to_string();
        let refused = |reason| Err(TableError::Table { input: input.clone(), reason });
        if range.start > range.end || range.end > board.len() {
            return refused(format!(
                "messages {} to {}, expected a range within 0 to {}",
                range.start,
                range.end,
                board.len()
            ));
        }
        let selector = match schema.selector() {
            Selector::Number => None,
            Selector::Field { name, kind, .. } => Some((name.as_str(), *kind)),
        };
        let fields = schema.layout().fields().iter().map(|(name, kind)| (name.as_str(), *kind));
        for (name, kind) in selector.into_iter().chain(fields) {
            let expected = match name {
                "index" => FieldKind::Integer,
                "clue" | "payload" | "clue-hash" | "payload-hash" => FieldKind::Bytes,
                _ => {
                    return refused(format!(
                        "no field {name:?}, expected index, clue, payload, clue-hash or payload-hash"
                    ));
                }
            };
            if kind != expected {
                return refused(format!("field {name:?} as {}, expected {}", kind.name(), expected.name()));
            }
        }
        Ok(Self { schema: schema.clone(), origin: Origin::new(&input, "message"), board, range })
    }
}

impl Rows for BoardRows<'_> {
    fn next(&mut self, _: Option<Instant>) -> Result<Next, TableError> {
        let Some(index) = self.range.next() else { return Ok(Next::End) };
        let message = self.board.message(index)?;
        let hash = |bytes: &[u8]| blake3::hash(bytes).as_bytes().to_vec();
        let bytes = (message.clue.len() + message.payload.len()) as u64;
        let row = self.origin.row(&self.schema, index, bytes, |_, name, _| {
            Ok(match name {
                "index" => Value::Integer(index as i64),
                "clue" => Value::Bytes(message.clue.to_vec()),
                "payload" => Value::Bytes(message.payload.to_vec()),
                "clue-hash" => Value::Bytes(hash(message.clue)),
                "payload-hash" => Value::Bytes(hash(message.payload)),
                _ => Value::Missing,
            })
        })?;
        Ok(Next::Row(row))
    }
}
