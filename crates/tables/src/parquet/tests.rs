#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use restante_pir::search::Value;

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
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
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
    for (field, expected) in [
        (
            ("small", "text"),
            "column \"small\" holds whole numbers, dates or times, which the schema wants as text: expected integer",
        ),
        (("real", "integer"), "expected real"),
        (("bytes", "boolean"), "expected text or bytes"),
    ] {
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
