#![doc = include_str!("../README.md")]
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
