//! What can be asked of private search.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use restante_pir::search::{MAX_CHUNK_BYTES, MIN_CHUNK_BYTES};
use restante_tables::Format;

#[derive(Debug, Subcommand)]
pub enum SearchCommand {
    /// Measure a table and say how many hash bits a query on it wants.
    #[command(
        after_help = "Example: restante search plan --schema characters.toml --table characters.csv\n\n\
        The number of columns is what an answer grows with."
    )]
    Plan(SearchPlanArguments),
}

/// A table and what of it is searched.
#[derive(Debug, Args)]
pub struct TableOptions {
    /// The schema: which field is the selector, which fields come back (see docs/tables.md).
    #[arg(long, value_name = "FILE")]
    pub schema: PathBuf,
    /// The table; - for standard input.
    #[arg(long, value_name = "FILE", required_unless_present = "board", conflicts_with = "board")]
    pub table: Option<PathBuf>,
    /// A board, whose messages are the table.
    #[arg(long, value_name = "DIRECTORY")]
    pub board: Option<PathBuf>,
    /// How the table is written: csv, jsonl or parquet [default: what its extension says]
    #[arg(long, value_name = "NAME", value_parser = parse_format)]
    pub format: Option<Format>,
}

#[derive(Debug, Args)]
pub struct SearchPlanArguments {
    #[command(flatten)]
    pub table: TableOptions,
    /// The most records that come back for a selector.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub hits: Option<u32>,
    /// Size of a chunk: 32768 for one selector in a ciphertext, half of that for two, and so on.
    #[arg(long, value_name = "N", default_value_t = 32 << 10,
        value_parser = clap::value_parser!(u32).range(MIN_CHUNK_BYTES as i64..=MAX_CHUNK_BYTES as i64))]
    pub chunk_bytes: u32,
    /// Predict for this number of hash bits [default: recommend one]
    #[arg(long, value_name = "B")]
    pub hash_bits: Option<u32>,
}

fn parse_format(name: &str) -> Result<Format, String> {
    let known = Format::ALL.into_iter().find(|format| format.name() == name);
    known.ok_or_else(|| format!("{name:?} is none of csv, jsonl and parquet"))
}
