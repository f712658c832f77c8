//! Opening tables by name and format, and measuring them.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use restante_pir::search::RecordSizes;

use crate::rows::{Next, Rows};
use crate::{CsvRows, Follow, JsonRows, Schema, Source, TableError, WholeInput};

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, or what the schema says they are separated by.
    Csv,
    /// A JSON object a line.
    JsonLines,
    /// Parquet. Files only, and only if the crate is built with it.
    Parquet,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Csv, Self::JsonLines, Self::Parquet];

    /// Its name, which is also the usual extension of its files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
            Self::Parquet => "parquet",
        }
    }

    /// The format that the extension of a file says.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        match extension {
            "ndjson" => Some(Self::JsonLines),
            _ => Self::ALL.into_iter().find(|format| format.name() == extension),
        }
    }
}

/// Where a table is.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A file with an end.
    File(&'a Path),
    /// A file that grows; once its end is reached, it is looked at again after each interval.
    Growing(&'a Path, Duration),
    /// Standard input, up to its end. It is read ahead by a thread, so that a window may end while nothing comes.
    StandardInput,
}

/// The rows of a table.
///
/// # Errors
///
/// [`TableError::Io`] if it cannot be opened; [`TableError::Table`] if it is not of that format, or that format cannot be read from
/// there.
pub fn open(schema: &Schema, input: Input<'_>, format: Format) -> Result<Box<dyn Rows>, TableError> {
    let name = match input {
        Input::File(path) | Input::Growing(path, _) => path.display().to_string(),
        Input::StandardInput => "standard input".into(),
    };
    if format == Format::Parquet {
        return match input {
            Input::File(path) => open_parquet(schema, path),
            _ => Err(TableError::Table {
                input: name,
                reason: "a Parquet table that is still being written, expected a file".into(),
            }),
        };
    }
    let source: Box<dyn Source> = match input {
        Input::File(path) => Box::new(WholeInput(File::open(path).map_err(TableError::io("open", &name))?)),
        Input::Growing(path, interval) => Box::new(Follow::file(path, interval)?),
        Input::StandardInput => Box::new(Follow::pipe(io::stdin())),
    };
    Ok(match format {
        Format::Csv => Box::new(CsvRows::new(schema, &name, source)),
        _ => Box::new(JsonRows::new(schema, &name, source)),
    })
}

#[cfg(feature = "parquet")]
fn open_parquet(schema: &Schema, path: &Path) -> Result<Box<dyn Rows>, TableError> {
    Ok(Box::new(crate::ParquetRows::open(schema, path)?))
}

#[cfg(not(feature = "parquet"))]
fn open_parquet(_: &Schema, path: &Path) -> Result<Box<dyn Rows>, TableError> {
    let reason = "a Parquet table, expected CSV or JSON lines: this program is built without Parquet".into();
    Err(TableError::Table { input: path.display().to_string(), reason })
}

/// The sizes of a table's records, in one pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The sizes that a plan is made from.
    pub sizes: RecordSizes,
    /// Rows that nothing finds because they have no selector.
    pub unselected: u64,
    /// Records whose selector is the empty text: often cells that were meant to be null.
    pub empty: u64,
    /// Rows that were left out because they are malformed.
    pub malformed: u64,
    /// The bytes of those rows.
    pub malformed_bytes: u64,
}

/// Measures all rows, or with `skip_malformed` all that are not malformed. Takes about 40 bytes of memory for each different
/// selector.
///
/// # Errors
///
/// The errors of a row or of the file.
pub fn measure(rows: &mut dyn Rows, schema: &Schema, skip_malformed: bool) -> Result<Measured, TableError> {
    let mut hits: HashMap<[u8; 16], u64> = HashMap::new();
    let (mut records, mut bytes, mut max_bytes, mut unselected) = (0u64, 0u64, 0u64, 0u64);
    let (mut empty, mut malformed, mut malformed_bytes) = (0, 0, 0);
    let mut record = Vec::new();
    loop {
        let row = match rows.next(None) {
            Ok(Next::Row(row)) => row,
            Ok(Next::Pause) => continue,
            Ok(Next::End) => break,
            Err(TableError::Row { bytes, .. }) if skip_malformed => {
                malformed += 1;
                malformed_bytes += bytes;
                continue;
            }
            Err(error) => return Err(error),
        };
        let Some(selector) = row.selector else {
            unselected += 1;
            continue;
        };
        empty += u64::from(selector.is_empty());
        record.clear();
        schema.layout().encode(&row.values, &mut record)?;
        records += 1;
        bytes += record.len() as u64;
        max_bytes = max_bytes.max(record.len() as u64);
        let mut name = [0; 16];
        name.copy_from_slice(&blake3::hash(&selector).as_bytes()[..16]);
        *hits.entry(name).or_insert(0) += 1;
    }
    let sizes = RecordSizes {
        records,
        mean_bytes: bytes as f64 / records.max(1) as f64,
        max_bytes,
        max_hits: hits.values().copied().max().unwrap_or(0),
        kind: schema.selector_kind(),
    };
    Ok(Measured { sizes, unselected, empty, malformed, malformed_bytes })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn tables_are_opened_by_their_extension_and_measured() {
        let folder = tempfile::tempdir().unwrap();
        let schema = "[selector]\nfield = 'k'\n[[return]]\nfield = 't'\ntype = 'text'\n";
        let schema = Schema::parse(schema).unwrap();
        for (name, text) in [
            ("a.csv", "k,t\na,1\nb,\na,123\n"),
            (
                "a.jsonl",
                "{\"k\":\"a\",\"t\":\"1\"}\n{\"k\":\"b\",\"t\":\"\"}\n{\"k\":\"a\",\"t\":\"123\"}\n{}\n",
            ),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let format = Format::of(&path).unwrap();
            let measured =
                measure(&mut *open(&schema, Input::File(&path), format).unwrap(), &schema, false).unwrap();
            assert_eq!(measured.unselected, u64::from(name == "a.jsonl"));
            assert_eq!((measured.empty, measured.malformed), (0, 0));
            let sizes = measured.sizes;
            // A byte of states, a byte of length, the text.
            assert_eq!((sizes.records, sizes.max_bytes, sizes.max_hits), (3, 5, 2));
            assert!((sizes.mean_bytes - 10.0 / 3.0).abs() < 1e-12);
            let growing = Input::Growing(&path, Duration::from_secs(1));
            assert!(open(&schema, growing, Format::Parquet).is_err());
        }
        let path = folder.path().join("blank.csv");
        std::fs::write(&path, "k,t\n,1\n,2\nx,3,4\ny,5\n").unwrap();
        let rows = || open(&schema, Input::File(&path), Format::Csv).unwrap();
        assert!(measure(&mut *rows(), &schema, false).unwrap_err().to_string().contains("line 4"));
        let measured = measure(&mut *rows(), &schema, true).unwrap();
        assert_eq!((measured.empty, measured.malformed, measured.malformed_bytes), (2, 1, 6));
        assert_eq!(Format::of(Path::new("x/y.ndjson")), Some(Format::JsonLines));
        assert_eq!(Format::of(Path::new("x/y.txt")), None);
        let missing = folder.path().join("no.csv");
        let error = open(&schema, Input::File(&missing), Format::Csv).err().unwrap().to_string();
        assert!(error.starts_with("cannot open") && error.contains("no.csv"), "{error}");
    }
}
