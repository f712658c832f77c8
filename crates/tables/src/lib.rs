//! Tables and streams to search: what becomes of files, pipes and boards before a private search, and of records after it.
//!
//! * [`Schema`]: which field is the selector and which fields come back, from a TOML file.
//! * [`open`] and [`Rows`]: records out of CSV, JSON lines, Parquet and boards, each checked against the schema; a malformed one is an error that
//!   says where it is and what was expected.
//! * [`Windows`]: rows cut into windows by number or by time, sorted for the queries ([`restante_pir::search::Window`]).
//! * [`HitWriter`], [`write_json_lines`] and [`CsvOutput`]: records that came back, as text.
//!
//! Errors name files, lines and fields, never what a field or a selector holds.

#![forbid(unsafe_code)]

mod board;
mod csv;
mod error;
mod follow;
mod hits;
mod input;
mod json_lines;
mod lines;
mod output;
#[cfg(feature = "parquet")]
mod parquet;
mod rows;
mod schema;
mod value;
mod windows;

pub use board::BoardRows;
pub use csv::CsvRows;
pub use error::TableError;
pub use follow::Follow;
pub use hits::{HitFormat, HitWriter, hit_summary};
pub use input::{Format, Input, Measured, measure, open};
pub use json_lines::JsonRows;
pub use lines::{Fill, MAX_ROW_BYTES, Source, WholeInput};
pub use output::{CsvOutput, json_record, write_json_lines};
#[cfg(feature = "parquet")]
pub use parquet::ParquetRows;
pub use rows::{Next, Row, Rows};
pub use schema::{CsvOptions, Fold, Schema, Selector};
pub use windows::{Filled, WindowRule, Windows};
