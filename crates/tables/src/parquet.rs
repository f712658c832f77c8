//! Parquet files.
//!
//! Only the columns that the schema asks for are read, and only top-level ones that hold one value a row. A text column becomes text or
//! bytes, a binary one bytes, or text if it is UTF-8; whole numbers, dates (days since 1970), times and timestamps (milliseconds
//! or microseconds, as the file has them) become integers; floating-point numbers become reals.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parquet::basic::Repetition;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::{ReaderIter, TreeBuilder};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr};
use restante_pir::search::{FieldKind, Value};

use crate::TableError;
use crate::rows::{Next, Origin, Rows};
use crate::schema::{Schema, Selector};

/// Rows decoded at a time: what a batch takes in memory is up to so many of the largest records.
const BATCH_ROWS: usize = 64;

/// The rows of a Parquet file.
pub struct ParquetRows {
    schema: Schema,
    origin: Origin,
    file: SerializedFileReader<File>,
    columns: SchemaDescPtr,
    group: usize,
    rows: Option<ReaderIter>,
    row: u64,
    /// There was an error, after which the reader is not used again.
    damaged: bool,
}

impl ParquetRows {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`]; [`TableError::Table`] if it is no Parquet file, or a column that the schema asks for is not there, holds
    /// groups or lists, or is there twice.
    pub fn open(schema: &Schema, path: &Path) -> Result<Self, TableError> {
        let input = path.display().to_string();
        let file = File::open(path).map_err(TableError::io("open", &input))?;
        let refused = |reason: String| TableError::Table { input: input.clone(), reason };
        let file = guard(|| SerializedFileReader::new(file))
            .map_err(|error| refused(format!("{error}, expected a Parquet file")))?;
        let root = file.metadata().file_metadata().schema();
        let columns = project(schema, root).map_err(refused)?;
        let origin = Origin::new(&input, "row");
        Ok(Self {
            schema: schema.clone(),
            origin,
            file,
            columns,
            group: 0,
            rows: None,
            row: 0,
            damaged: false,
        })
    }

    fn next_row(&mut self) -> Result<Option<parquet::record::Row>, ParquetError> {
        loop {
            if let Some(row) = self.rows.as_mut().and_then(Iterator::next) {
                return row.map(Some);
            }
            if self.group == self.file.num_row_groups() {
                return Ok(None);
            }
            let group = self.file.get_row_group(self.group)?;
            let tree = TreeBuilder::new().with_batch_size(BATCH_ROWS);
            self.rows = Some(tree.as_iter(Arc::clone(&self.columns), &*group)?);
            self.group += 1;
        }
    }
}

impl Rows for ParquetRows {
    fn next(&mut self, _: Option<Instant>) -> Result<Next, TableError> {
        if self.damaged {
            return Ok(Next::End);
        }
        let row = guard(|| self.next_row()).map_err(|error| {
            self.damaged = true;
            let reason = format!("the file is damaged at row {}: {error}", self.row);
            TableError::Table { input: self.origin.input.clone(), reason }
        })?;
        let Some(row) = row else { return Ok(Next::End) };
        let place = self.row;
        self.row += 1;
        let row = self.origin.row(&self.schema, place, |_, name, kind| {
            let field = row.get_column_iter().find(|(found, _)| *found == name).map(|(_, field)| field);
            field.map_or(Ok(Value::Missing), |field| convert(field, kind))
        })?;
        Ok(Next::Row(row))
    }
}

/// Runs a part of the reader below, which indexes past the ends of buffers on some damaged files: its panics become errors. They
/// are still reported where the program reports panics.
fn guard<T>(job: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    // What a panic may have left half done is not used again.
    let outcome = catch_unwind(AssertUnwindSafe(job));
    outcome.unwrap_or_else(|_| Err(ParquetError::General("it cannot be decoded".into())))
}

/// The columns that the schema asks for, each once, in the file's order.
fn project(schema: &Schema, root: &Type) -> Result<SchemaDescPtr, String> {
    let selector = match schema.selector() {
        Selector::Number => None,
        Selector::Field { name, .. } => Some(name),
    };
    let wanted: Vec<&String> =
        selector.into_iter().chain(schema.layout().fields().iter().map(|(name, _)| name)).collect();
    for name in &wanted {
        let found: Vec<&TypePtr> = root.get_fields().iter().filter(|column| column.name() == *name).collect();
        match found.as_slice() {
            [column] if !column.is_primitive() => {
                return Err(format!("column {name:?} has columns of its own, expected values"));
            }
            [column] if column.get_basic_info().repetition() == Repetition::REPEATED => {
                return Err(format!("column {name:?} has lists, expected one value a row"));
            }
            [_] => {}
            [] => return Err(format!("no column {name:?}, expected one of that name")),
            _ => return Err(format!("two columns {name:?}, expected one")),
        }
    }
    let columns = root.get_fields().iter().filter(|column| wanted.iter().any(|name| *name == column.name()));
    let projection = Type::group_type_builder(root.name()).with_fields(columns.cloned().collect()).build();
    let projection = projection.map_err(|error| error.to_string())?;
    Ok(Arc::new(SchemaDescriptor::new(Arc::new(projection))))
}

fn convert(field: &Field, kind: FieldKind) -> Result<Value, String> {
    let integer = match field {
        Field::Byte(number) => Some((*number).into()),
        Field::Short(number) => Some((*number).into()),
        Field::Int(number) | Field::Date(number) | Field::TimeMillis(number) => Some((*number).into()),
        Field::Long(number)
        | Field::TimeMicros(number)
        | Field::TimestampMillis(number)
        | Field::TimestampMicros(number) => Some(*number),
        Field::UByte(number) => Some((*number).into()),
        Field::UShort(number) => Some((*number).into()),
        Field::UInt(number) => Some((*number).into()),
        Field::ULong(number) => i64::try_from(*number).ok(),
        _ => None,
    };
    let value = match (kind, field) {
        (_, Field::Null) => Some(Value::Null),
        (FieldKind::Text, Field::Str(text)) => Some(Value::Text(text.clone())),
        (FieldKind::Text, Field::Bytes(bytes)) => {
            std::str::from_utf8(bytes.data()).ok().map(|text| Value::Text(text.into()))
        }
        (FieldKind::Bytes, Field::Bytes(bytes)) => Some(Value::Bytes(bytes.data().to_vec())),
        (FieldKind::Bytes, Field::Str(text)) => Some(Value::Bytes(text.clone().into_bytes())),
        (FieldKind::Integer, _) => integer.map(Value::Integer),
        (FieldKind::Real, Field::Float16(number)) => Some(Value::Real(number.to_f64())),
        (FieldKind::Real, Field::Float(number)) => Some(Value::Real((*number).into())),
        (FieldKind::Real, Field::Double(number)) => Some(Value::Real(*number)),
        (FieldKind::Boolean, Field::Bool(value)) => Some(Value::Boolean(*value)),
        _ => None,
    };
    value.ok_or_else(|| format!("a value of another type, or outside its range, expected {}", kind.name()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;
    use crate::Row;

    const MESSAGE: &str = "message table {
        optional binary key (UTF8);
        required int64 skipped;
        required binary bytes;
        optional int32 small;
        required double real;
        required boolean flag;
        repeated int32 list;
    }";

    /// Two row groups of two rows each.
    fn write(path: &Path) {
        let message = Arc::new(parse_message_type(MESSAGE).unwrap());
        let properties =
            WriterProperties::builder().set_compression(parquet::basic::Compression::SNAPPY).build();
        let mut writer =
            SerializedFileWriter::new(File::create(path).unwrap(), message, Arc::new(properties)).unwrap();
        for group in 0..2u8 {
            let mut rows = writer.next_row_group().unwrap();
            let text = |text: &str| ByteArray::from(text.as_bytes().to_vec());
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&[text("\u{e9}")], Some(&[1, 0]), None).unwrap();
            column.close().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(&[7, 8], None, None).unwrap();
            column.close().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            let bytes = [ByteArray::from(vec![group, 255]), text("")];
            column.typed::<ByteArrayType>().write_batch(&bytes, None, None).unwrap();
            column.close().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<Int32Type>().write_batch(&[-3], Some(&[0, 1]), None).unwrap();
            column.close().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<DoubleType>().write_batch(&[0.5, -1.0], None, None).unwrap();
            column.close().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<BoolType>().write_batch(&[true, false], None, None).unwrap();
            column.close().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<Int32Type>().write_batch(&[1, 2, 3], Some(&[1, 1, 1]), Some(&[0, 1, 0])).unwrap();
            column.close().unwrap();
            rows.close().unwrap();
        }
        writer.close().unwrap();
    }

    fn schema(fields: &[(&str, &str)]) -> Schema {
        let fields: String = fields
            .iter()
            .map(|(name, kind)| format!("[[return]]\nfield = '{name}'\ntype = '{kind}'\n"))
            .collect();
        Schema::parse(&format!("[selector]\nfield = 'key'\n{fields}")).unwrap()
    }

    #[test]
    fn rows_of_all_groups_come_with_their_types() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        write(&path);
        let schema = schema(&[
            ("real", "real"),
            ("bytes", "bytes"),
            ("small", "integer"),
            ("flag", "boolean"),
            ("key", "text"),
        ]);
        let mut rows = ParquetRows::open(&schema, &path).unwrap();
        use Value::{Boolean, Bytes, Integer, Null, Real, Text};
        for group in 0..2 {
            let values = vec![Real(0.5), Bytes(vec![group, 255]), Null, Boolean(true), Text("\u{e9}".into())];
            let first = Row { selector: Some("\u{e9}".as_bytes().to_vec()), values };
            assert_eq!(rows.next(None).unwrap(), Next::Row(first));
            let values = vec![Real(-1.0), Bytes(vec![]), Integer(-3), Boolean(false), Null];
            assert_eq!(rows.next(None).unwrap(), Next::Row(Row { selector: None, values }));
        }
        assert_eq!(rows.next(None).unwrap(), Next::End);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        write(&path);
        for (field, expected) in
            [(("no", "text"), "no column \"no\""), (("list", "integer"), "column \"list\" has lists")]
        {
            let error = ParquetRows::open(&schema(&[field]), &path).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let mut rows = ParquetRows::open(&schema(&[("bytes", "text")]), &path).unwrap();
        let error = rows.next(None).unwrap_err().to_string();
        assert!(error.contains("row 0: field \"bytes\""), "{error}");
        assert!(matches!(rows.next(None), Ok(Next::Row(_))));
        std::fs::write(&path, b"key,bytes\n").unwrap();
        let error = ParquetRows::open(&schema(&[("bytes", "text")]), &path).err().unwrap().to_string();
        assert!(error.contains("expected a Parquet file"), "{error}");
    }

    /// The reader below may panic on a damaged file; that must not come through.
    #[test]
    fn damaged_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        write(&path);
        let good = std::fs::read(&path).unwrap();
        let schema = schema(&[("bytes", "bytes"), ("small", "integer"), ("real", "real")]);
        let mut refused = 0;
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 1 << (place % 8);
            std::fs::write(&path, &bad).unwrap();
            let mut rows = match ParquetRows::open(&schema, &path) {
                Ok(rows) => rows,
                Err(_) => {
                    refused += 1;
                    continue;
                }
            };
            for _ in 0..100 {
                match rows.next(None) {
                    Ok(Next::End) => break,
                    Ok(_) | Err(TableError::Row { .. }) => {}
                    Err(_) => {
                        refused += 1;
                        break;
                    }
                }
            }
        }
        assert!(refused > good.len() / 4, "{refused} of {}", good.len());
    }
}
