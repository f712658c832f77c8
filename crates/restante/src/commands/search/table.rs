//! The table that a search is about.

use std::{path::Path, time::Duration};

use restante_board::Board;
use restante_tables::{BoardRows, Format, Input, Rows, Schema, open};

use crate::{arguments::TableOptions, error::CliError};

/// How often a growing file is looked at.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// Opens the table and lets `job` have its rows.
pub fn with_rows<T>(
    options: &TableOptions,
    schema: &Schema,
    job: impl FnOnce(Box<dyn Rows + '_>) -> Result<T, CliError>,
) -> Result<T, CliError> {
    if let Some(path) = &options.board {
        let board = Board::open(path)?;
        let rows = BoardRows::new(schema, &board, 0..board.len())?;
        return job(Box::new(rows));
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
    let input = match (path == Path::new("-"), options.follow) {
        (true, _) => Input::StandardInput,
        (false, true) => Input::Growing(path, FOLLOW_INTERVAL),
        (false, false) => Input::File(path),
    };
    job(open(schema, input, format)?)
}
