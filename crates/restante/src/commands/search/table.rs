//! The table that a search is about.

use std::path::Path;

use restante_board::Board;
use restante_tables::{BoardRows, Format, Input, Rows, Schema, open};

use crate::{arguments::TableOptions, error::CliError};

/// Opens the table and lets `job` have its rows.
pub fn with_rows<T>(
    options: &TableOptions,
    schema: &Schema,
    job: impl FnOnce(&mut dyn Rows) -> Result<T, CliError>,
) -> Result<T, CliError> {
    if let Some(path) = &options.board {
        let board = Board::open(path)?;
        let mut rows = BoardRows::new(schema, &board, 0..board.len())?;
        return job(&mut rows);
    }
    let Some(path) = options.table.as_deref() else {
        return Err(CliError::Usage("expected --table or --board".into()));
    };
    let format = options.format.or_else(|| Format::of(path)).ok_or_else(|| {
        CliError::Usage(format!(
            "cannot tell how {} is written: give --format csv, jsonl or parquet",
            path.display()
        ))
    })?;
    let input = if path == Path::new("-") { Input::StandardInput } else { Input::File(path) };
    job(&mut *open(schema, input, format)?)
}
