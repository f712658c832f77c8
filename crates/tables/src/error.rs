use std::io;
use std::path::PathBuf;

use restante_board::BoardError;
use restante_pir::PirError;
use thiserror::Error;

/// Why a table or a schema was refused. No variant carries what a field holds, and none passes on the text of an error that a library
/// made of it: what such errors say is said again in words of ours.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableError {
    /// The operating system refused.
    #[error("cannot {action} {input}: {reason}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file or the stream.
        input: String,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// A schema is malformed.
    #[error("{}: {reason}", .path.display())]
    Schema {
        /// The schema's file.
        path: PathBuf,
        /// The mistake, and what was expected.
        reason: String,
    },
    /// A table has not the columns that the schema needs, or is no table.
    #[error("{input}: {reason}")]
    Table {
        /// The file or the stream.
        input: String,
        /// The mistake, and what was expected.
        reason: String,
    },
    /// A row is malformed. The rows behind it can still be read.
    #[error("{input}, {unit} {place}: {reason}")]
    Row {
        /// The file or the stream.
        input: String,
        /// "line", counted from 1, or "row", counted from 0.
        unit: &'static str,
        /// Where the row starts.
        place: u64,
        /// How many bytes are left out with it: the lines that were not understood, as they are written; in a Parquet file, the
        /// value that was not.
        bytes: u64,
        /// The mistake, and what was expected.
        reason: String,
    },
    /// A selector that the querier gives does not fit the schema. It is withheld.
    #[error("selector {place} of the query: {reason}")]
    Selector {
        /// Its place in the query, counted from 0.
        place: usize,
        /// The mistake, and what was expected.
        reason: String,
    },
    /// The records cannot be sorted or encoded.
    #[error(transparent)]
    Pir(#[from] PirError),
    /// The board cannot be read.
    #[error(transparent)]
    Board(#[from] BoardError),
}

impl TableError {
    pub(crate) fn io(action: &'static str, input: &str) -> impl FnOnce(io::Error) -> Self + use<> {
        let input = input.to_owned();
        move |reason| Self::Io { action, input, reason }
    }
}
