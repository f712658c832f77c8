//! Parquet files.
//!
//! Only the columns that the schema asks for are read, and only top-level ones that hold one value a row. Pages are decoded by
//! Apache's reader; what their values mean is decided here, value by value ([`value`]), so that one value that does not fit makes
//! its own row malformed and no other, and so that no error holds a value: the reader's own errors, and its panics on
//! damaged files, may do so, and none of their text is passed on.

mod value;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use parquet::basic::{Compression, Repetition};
use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::{SchemaDescriptor, TypePtr};

use crate::TableError;
use crate::rows::{Next, Origin, Rows};
use crate::schema::{Schema, Selector};
use value::{Meaning, Stored};

/// Rows decoded at a time: what a batch takes in memory is up to so many of the largest records.
const BATCH_ROWS: usize = 64;

/// The rows of a Parquet file.
pub struct ParquetRows {
    schema: Schema,
    origin: Origin,
    file: SerializedFileReader<File>,
    /// The columns that the schema asks for, each once.
    columns: Vec<Column>,
    /// For the selector, if it is a field, and for each field that comes back, the place of its column.
    places: Vec<usize>,
    /// The row group that comes next.
    group: usize,
    /// Rows of the present row group that have not been read.
    left: u64,
    row: u64,
    /// There was an error, after which the reader is not used again.
    damaged: bool,
}

/// A column that the schema asks for.
struct Column {
    name: String,
    /// Its place among the file's columns.
    leaf: usize,
    meaning: Meaning,
    /// Of the present row group.
    reader: Option<ColumnReader>,
    /// Values that were read and not used yet.
    values: VecDeque<Stored>,
}

impl ParquetRows {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`]; [`TableError::Table`] if it is no Parquet file, or a column that the schema asks for is not there, holds
    /// groups or lists, is there twice, holds what can never be the schema's type, or is compressed in a way that is not supported.
    pub fn open(schema: &Schema, path: &Path) -> Result<Self, TableError> {
        let input = path.display().to_string();
        let mut file = File::open(path).map_err(TableError::io("open", &input))?;
        let refused = |reason: String| TableError::Table { input: input.clone(), reason };
        let encrypted = is_encrypted(&mut file).map_err(TableError::io("read", &input))?;
        if encrypted {
            return Err(refused("an encrypted Parquet file, expected one that is not".into()));
        }
        let file = guard(|| SerializedFileReader::new(file)).map_err(|error| match error {
            Failure::System(reason) => TableError::io("read", &input)(reason),
            Failure::Damaged => refused("its footer cannot be decoded, expected a Parquet file".into()),
        })?;
        let (columns, places) =
            find_columns(schema, file.metadata().file_metadata().schema_descr()).map_err(refused)?;
        for (group, data) in file.metadata().row_groups().iter().enumerate() {
            for column in &columns {
                let chunk = data.columns().get(column.leaf);
                let chunk = chunk.ok_or_else(|| refused(format!("row group {group} has not all columns")))?;
                supported(chunk.compression())
                    .map_err(|how| refused(format!("column {:?} is compressed with {how}", column.name)))?;
            }
        }
        let origin = Origin::new(&input, "row");
        let (schema, group) = (schema.clone(), 0);
        Ok(Self { schema, origin, file, columns, places, group, left: 0, row: 0, damaged: false })
    }

    /// Makes every column have a value for the next row; false at the end of the table.
    fn advance(&mut self) -> Result<bool, TableError> {
        while self.left == 0 {
            for place in 0..self.columns.len() {
                self.end_column(place)?;
            }
            if self.group == self.file.num_row_groups() {
                return Ok(false);
            }
            let rows = self.file.metadata().row_group(self.group).num_rows();
            self.left =
                u64::try_from(rows).map_err(|_| self.wrong("a row group of fewer than no rows".into()))?;
            let group = self.group;
            self.group += 1;
            for place in 0..self.columns.len() {
                let (file, leaf) = (&self.file, self.columns[place].leaf);
                let reader = guard(|| file.get_row_group(group)?.get_column_reader(leaf));
                let reader = reader.map_err(|failure| self.failed(place, failure))?;
                self.columns[place].reader = Some(reader);
            }
        }
        for place in 0..self.columns.len() {
            if !self.columns[place].values.is_empty() {
                continue;
            }
            let wanted = self.left.min(BATCH_ROWS as u64) as usize;
            let column = &mut self.columns[place];
            let read = match &mut column.reader {
                Some(reader) => guard(|| value::read(reader, wanted, &mut column.values)),
                None => Err(Failure::Damaged),
            };
            let read = read.map_err(|failure| self.failed(place, failure))?;
            if read != wanted {
                return Err(self.failed(place, Failure::Damaged));
            }
        }
        self.left -= 1;
        Ok(true)
    }

    /// A column must end with its row group: what is behind it would be left out without a word.
    fn end_column(&mut self, place: usize) -> Result<(), TableError> {
        let Some(mut reader) = self.columns[place].reader.take() else { return Ok(()) };
        let mut more = VecDeque::new();
        match guard(|| value::read(&mut reader, 1, &mut more)) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.wrong(format!(
                "damaged: column {:?} has more values than its row group has rows",
                self.columns[place].name
            ))),
            Err(failure) => Err(self.failed(place, failure)),
        }
    }

    fn failed(&self, place: usize, failure: Failure) -> TableError {
        match failure {
            Failure::System(reason) => TableError::io("read", &self.origin.input)(reason),
            Failure::Damaged => self.wrong(format!(
                "damaged: column {:?} cannot be decoded from row {} on",
                self.columns[place].name, self.row
            )),
        }
    }

    fn wrong(&self, reason: String) -> TableError {
        TableError::Table { input: self.origin.input.clone(), reason }
    }
}

impl Rows for ParquetRows {
    fn next(&mut self, _: Option<Instant>) -> Result<Next, TableError> {
        if self.damaged {
            return Ok(Next::End);
        }
        match self.advance() {
            Ok(true) => {}
            Ok(false) => return Ok(Next::End),
            Err(error) => {
                self.damaged = true;
                return Err(error);
            }
        }
        let place = self.row;
        self.row += 1;
        let values: Vec<Stored> =
            self.columns.iter_mut().map(|column| column.values.pop_front().unwrap_or(Stored::Null)).collect();
        let bytes = values.iter().map(Stored::bytes).sum();
        let first = usize::from(*self.schema.selector() == Selector::Number);
        let (columns, places) = (&self.columns, &self.places);
        let row = self.origin.row(&self.schema, place, bytes, |field, _, kind| {
            let column = places[field - first];
            columns[column].meaning.value(&values[column], kind)
        })?;
        Ok(Next::Row(row))
    }
}

/// Why a part of the reader below did not do its work. Its own text is left out, as it may quote values.
enum Failure {
    /// The operating system refused.
    System(std::io::Error),
    /// Anything else.
    Damaged,
}

impl From<ParquetError> for Failure {
    fn from(error: ParquetError) -> Self {
        let system = match error {
            ParquetError::External(error) => error.downcast::<std::io::Error>().ok(),
            _ => None,
        };
        match system.and_then(|error| error.raw_os_error()) {
            Some(code) => Self::System(std::io::Error::from_raw_os_error(code)),
            None => Self::Damaged,
        }
    }
}

/// Runs a part of the reader below, which indexes past the ends of buffers on some damaged files: its panics become errors, and what
/// they would print is not printed, as it may quote values.
fn guard<T>(job: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, Failure> {
    silence::install();
    let was = silence::set(true);
    // What a panic may have left half done is not used again.
    let outcome = catch_unwind(AssertUnwindSafe(job));
    silence::set(was);
    outcome.unwrap_or(Err(ParquetError::EOF(String::new()))).map_err(Failure::from)
}

/// Panics of this thread that are caught and must not be printed.
mod silence {
    use std::cell::Cell;
    use std::sync::Once;

    thread_local! {
        static SILENT: Cell<bool> = const { Cell::new(false) };
    }

    /// Puts a hook in front of the program's own, once.
    pub(super) fn install() {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |information| {
                if !SILENT.get() {
                    before(information);
                }
            }));
        });
    }

    /// Whether panics of this thread are silent from now on; returns whether they were.
    pub(super) fn set(silent: bool) -> bool {
        SILENT.replace(silent)
    }
}

/// Whether the footer is encrypted, by the file's last four bytes.
fn is_encrypted(file: &mut File) -> std::io::Result<bool> {
    let mut magic = [0; 4];
    let length = file.seek(SeekFrom::End(0))?;
    if length >= 4 {
        file.seek(SeekFrom::End(-4))?;
        file.read_exact(&mut magic)?;
    }
    file.rewind()?;
    Ok(&magic == b"PARE")
}

/// Whether pages of this kind can be read.
fn supported(compression: Compression) -> Result<(), String> {
    let name = match compression {
        Compression::UNCOMPRESSED
        | Compression::SNAPPY
        | Compression::GZIP(_)
        | Compression::ZSTD(_)
        | Compression::LZ4
        | Compression::LZ4_RAW => return Ok(()),
        Compression::BROTLI(_) => "Brotli",
        Compression::LZO => "LZO",
    };
    Err(format!("{name}, which is not supported; compress it with zstd, snappy, gzip or lz4"))
}

/// The columns that the schema asks for, each once, and for each field the place of its column.
fn find_columns(schema: &Schema, file: &SchemaDescriptor) -> Result<(Vec<Column>, Vec<usize>), String> {
    let selector = match schema.selector() {
        Selector::Number => None,
        Selector::Field { name, kind, .. } => Some((name, *kind)),
    };
    let fields = schema.layout().fields().iter().map(|(name, kind)| (name, *kind));
    let (mut columns, mut places): (Vec<Column>, Vec<usize>) = (Vec::new(), Vec::new());
    for (name, kind) in selector.into_iter().chain(fields) {
        let place = match columns.iter().position(|column| column.name == *name) {
            Some(place) => place,
            None => {
                columns.push(find_column(file, name)?);
                columns.len() - 1
            }
        };
        let meaning = &columns[place].meaning;
        if !meaning.fits(kind) {
            return Err(format!(
                "column {name:?} holds {}, which the schema wants as {}: expected {}",
                meaning.describe(),
                kind.name(),
                meaning.kinds()
            ));
        }
        places.push(place);
    }
    Ok((columns, places))
}

fn find_column(file: &SchemaDescriptor, name: &str) -> Result<Column, String> {
    let root = file.root_schema();
    let found: Vec<&TypePtr> = root.get_fields().iter().filter(|column| column.name() == name).collect();
    match found.as_slice() {
        [column] if !column.is_primitive() => Err(format!(
            "column {name:?} has columns of its own (a list, a map or a struct), expected values"
        )),
        [column] if column.get_basic_info().repetition() == Repetition::REPEATED => {
            Err(format!("column {name:?} has lists, expected one value a row"))
        }
        [_] => {
            let leaf = file.columns().iter().position(|leaf| leaf.path().parts() == [name]);
            let leaf = leaf.ok_or_else(|| format!("no values of column {name:?}, expected some"))?;
            let meaning = Meaning::of(&file.column(leaf)).map_err(|found| {
                format!(
                    "column {name:?} holds {found}, expected text, bytes, numbers, booleans, dates or times"
                )
            })?;
            Ok(Column { name: name.into(), leaf, meaning, reader: None, values: VecDeque::new() })
        }
        [] => Err(format!("no column {name:?}, expected one of that name")),
        _ => Err(format!("two columns {name:?}, expected one")),
    }
}

#[cfg(test)]
mod tests;
