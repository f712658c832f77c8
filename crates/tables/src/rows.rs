//! Rows: the form that all kinds of tables come down to.

use std::time::Instant;

use restante_pir::search::{FieldKind, Value, number_selector};

use crate::TableError;
use crate::schema::{Schema, Selector, fold_text, integer_selector};
use crate::value::check_length;

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The selector as it is hashed; none if the row has no such field, or null in it: nothing finds such a row.
    pub selector: Option<Vec<u8>>,
    /// The fields that come back, in the order of the schema's layout.
    pub values: Vec<Value>,
}

/// A table's next row, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// A row.
    Row(Row),
    /// The deadline passed first.
    Pause,
    /// The table has ended.
    End,
}

/// Rows, one after the other.
pub trait Rows {
    /// The next row. Only streams look at the deadline.
    ///
    /// # Errors
    ///
    /// [`TableError::Row`] for a malformed row, after which the next row can be read; anything else ends the table. Every byte of
    /// the input belongs to a row that was returned, to one that was refused (which says how many), or to a line that is empty.
    fn next(&mut self, deadline: Option<Instant>) -> Result<Next, TableError>;
}

/// Where rows come from, for errors, and the number of the next one.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) input: String,
    pub(crate) unit: &'static str,
    number: u64,
}

impl Origin {
    pub(crate) fn new(input: &str, unit: &'static str) -> Self {
        Self { input: input.into(), unit, number: 0 }
    }

    fn malformed(&self, place: u64, bytes: u64, reason: String) -> TableError {
        TableError::Row { input: self.input.clone(), unit: self.unit, place, bytes, reason }
    }

    /// Counts a row of so many bytes that could not be taken apart.
    pub(crate) fn skip(&mut self, place: u64, bytes: u64, reason: String) -> TableError {
        self.number += 1;
        self.malformed(place, bytes, reason)
    }

    /// Checks a row of so many bytes and gives it its number. A malformed row has a number, too.
    ///
    /// `field` gets a name and a type and returns the field's value or what is wrong with it; it is asked for the selector first,
    /// then for the fields that come back, in order.
    pub(crate) fn row(
        &mut self,
        schema: &Schema,
        place: u64,
        bytes: u64,
        mut field: impl FnMut(usize, &str, FieldKind) -> Result<Value, String>,
    ) -> Result<Row, TableError> {
        let number = self.number;
        self.number += 1;
        let named =
            |name: &str, reason: String| self.malformed(place, bytes, format!("field {name:?}: {reason}"));
        let selector = match schema.selector() {
            Selector::Number => Some(number_selector(number).to_vec()),
            Selector::Field { name, kind, fold } => {
                let value = field(0, name, *kind).map_err(|reason| named(name, reason))?;
                match value {
                    Value::Text(text) => Some(fold_text(text, *fold)),
                    Value::Integer(number) => Some(integer_selector(number)),
                    Value::Bytes(bytes) => Some(bytes),
                    _ => None,
                }
            }
        };
        let mut values = Vec::with_capacity(schema.layout().fields().len());
        for (place, (name, kind)) in schema.layout().fields().iter().enumerate() {
            let value = field(place + 1, name, *kind).map_err(|reason| named(name, reason))?;
            check_length(&value, schema.max_bytes(place)).map_err(|reason| named(name, reason))?;
            values.push(value);
        }
        Ok(Row { selector, values })
    }
}
