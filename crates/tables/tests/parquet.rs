//! Parquet files that other programs wrote: `data/make.py` has what is in them.

#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};

use restante_pir::search::{Value, WindowLimits};
use restante_tables::{Format, Input, Next, Row, Schema, TableError, WindowRule, Windows, open};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format!("{name}.parquet"))
}

fn schema(selector: &str, fields: &[(&str, &str)]) -> Schema {
    let fields: String = fields
        .iter()
        .map(|(name, kind)| format!("[[return]]\nfield = '{name}'\ntype = '{kind}'\n"))
        .collect();
    Schema::parse(&format!("[selector]\n{selector}\n{fields}")).unwrap()
}

fn read(name: &str, fields: &[(&str, &str)]) -> Vec<Result<Vec<Value>, TableError>> {
    let schema = schema("field = 'id'", fields);
    let mut rows = open(&schema, Input::File(&file(name)), Format::Parquet).unwrap();
    let mut all = Vec::new();
    loop {
        match rows.next(None) {
            Ok(Next::Row(Row { values, .. })) => all.push(Ok(values)),
            Ok(_) => return all,
            Err(error) => all.push(Err(error)),
        }
    }
}

/// The values of one column.
fn column(name: &str, field: &str, kind: &str) -> Vec<Value> {
    read(name, &[(field, kind)]).into_iter().map(|row| row.unwrap().remove(0)).collect()
}

fn refused(name: &str, field: &str, kind: &str) -> String {
    let schema = schema("field = 'id'", &[(field, kind)]);
    open(&schema, Input::File(&file(name)), Format::Parquet).err().unwrap().to_string()
}

#[test]
fn every_type_of_pyarrow_is_read_or_refused_in_words() {
    use Value::{Boolean, Bytes, Integer, Null, Real};
    let text = |text: &str| Value::Text(text.into());
    let whole = |one, two| [Integer(one), Integer(two), Null];
    for (field, kind, expected) in [
        ("text", "text", [text("\u{e9}"), text(""), Null]),
        ("text", "bytes", [Bytes("\u{e9}".into()), Bytes(vec![]), Null]),
        ("dictionary", "text", [text("x"), text("y"), Null]),
        ("binary", "bytes", [Bytes(vec![0, 255]), Bytes(vec![]), Null]),
        ("fixed", "bytes", [Bytes(vec![0, 1, 2, 3]), Bytes(b"text".to_vec()), Null]),
        ("i8", "integer", whole(-3, -128)),
        ("i32", "integer", whole(-3, i32::MIN.into())),
        ("i64", "integer", whole(-3, i64::MIN)),
        ("u8", "integer", whole(3, 255)),
        ("u32", "integer", whole(3, u32::MAX.into())),
        ("u64", "integer", whole(3, i64::MAX)),
        ("half", "real", [Real(1.5), Real(-65_504.0), Null]),
        ("float", "real", [Real(0.5), Real(f64::NEG_INFINITY), Null]),
        ("double", "real", [Real(-1.25), Real(1e300), Null]),
        ("flag", "boolean", [Boolean(true), Boolean(false), Null]),
        ("date", "integer", whole(19_783, -1)),
        ("time", "integer", whole(45_296_789_123, 0)),
        ("milliseconds", "integer", whole(1_709_296_496_789, -86_400_000)),
        ("microseconds", "integer", [Integer(1_709_296_496_789_123), Null, Null]),
        ("nanoseconds", "integer", whole(1_709_296_496_789_123_456, -1)),
        ("price", "text", [text("12.50"), text("-0.05"), Null]),
        ("count", "text", [text("42"), text("-100000000000000000"), Null]),
        ("count", "integer", whole(42, -100_000_000_000_000_000)),
        ("long", "text", [text("0.0000000001"), text(&format!("-1{}.0000000000", "0".repeat(59))), Null]),
        ("nothing", "text", [Null, Null, Null]),
        ("nothing", "real", [Null, Null, Null]),
    ] {
        assert_eq!(column("pyarrow", field, kind), expected, "{field} as {kind}");
    }
    for (field, kind, expected) in [
        ("list", "integer", "column \"list\" has columns of its own (a list, a map or a struct)"),
        ("struct", "integer", "column \"struct\" has columns of its own"),
        ("price", "integer", "holds decimals of scale 2, which the schema wants as integer: expected text"),
        ("date", "text", "expected integer"),
        (
            "text",
            "integer",
            "column \"text\" holds text, which the schema wants as integer: expected text or bytes",
        ),
    ] {
        let error = refused("pyarrow", field, kind);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn pandas_and_duckdb_are_read() {
    use Value::{Bytes, Integer, Null, Text};
    let when = [Integer(1_709_296_496_789_123_456), Null, Integer(-86_400_000_000_000)];
    assert_eq!(column("pandas", "when", "integer"), when);
    assert_eq!(column("pandas", "category", "text"), [Text("x".into()), Text("y".into()), Null]);
    assert_eq!(column("pandas", "whole", "integer"), [Integer(7), Null, Integer(-7)]);
    assert_eq!(column("pandas", "none", "text"), [Null, Null, Null]);
    assert_eq!(column("duckdb", "price", "text"), [Text("12.50".into()), Text("-0.05".into())]);
    assert_eq!(column("duckdb", "huge", "text"), [Text("9".repeat(38)), Text("-1".into())]);
    assert_eq!(column("duckdb", "day", "integer"), [Integer(19_783), Integer(-1)]);
    assert_eq!(column("duckdb", "instant", "integer"), [Integer(1_709_296_496_789_123_456), Null]);
    let identifier = (0..16u8).map(|byte| byte * 0x11).collect();
    assert_eq!(column("duckdb", "identifier", "bytes"), [Bytes(identifier), Null]);
    assert_eq!(column("duckdb", "choice", "text"), [Text("x".into()), Text("y".into())]);
    assert_eq!(column("duckdb", "small", "integer"), [Integer(7), Integer(255)]);
    // A number of 38 digits is no integer of 64 bits: that row is malformed, and the next is read.
    let rows = read("duckdb", &[("huge", "integer")]);
    let error = rows[0].as_ref().unwrap_err().to_string();
    assert!(
        error.contains("row 0: field \"huge\": a number out of range") && !error.contains("999"),
        "{error}"
    );
    assert_eq!(rows[1].as_ref().unwrap(), &[Integer(-1)]);
}

#[test]
fn timestamps_of_96_bits_are_nanoseconds() {
    let expected =
        [Value::Integer(1_709_296_496_789_123_000), Value::Integer(-2_208_988_800_000_000_000), Value::Null];
    assert_eq!(column("int96", "instant", "integer"), expected);
}

#[test]
fn compressions_are_read_or_named() {
    for codec in ["snappy", "gzip", "zstd", "lz4"] {
        let expected = [Value::Integer(-3), Value::Integer(i64::MIN), Value::Null];
        assert_eq!(column(codec, "i64", "integer"), expected, "{codec}");
    }
    let error = refused("brotli", "i64", "integer");
    assert!(
        error.contains("compressed with Brotli, which is not supported; compress it with zstd"),
        "{error}"
    );
    assert!(!error.contains("damaged"), "{error}");
}

#[test]
fn a_bad_value_makes_its_own_row_malformed_and_no_other() {
    let rows = read("one-bad", &[("text", "text")]);
    assert_eq!(rows.len(), 10);
    for (number, row) in rows.iter().enumerate() {
        match (number, row) {
            (7, Err(error @ TableError::Row { place: 7, .. })) => {
                let text = format!("{error} {error:?}");
                assert!(text.contains("field \"text\": not UTF-8") && !text.contains("canary"), "{text}");
            }
            (_, Ok(values)) => assert_eq!(values, &[Value::Text(format!("value {number}"))]),
            (_, Err(error)) => panic!("row {number}: {error}"),
        }
    }
    // Skipped, it is counted with its bytes.
    let schema = schema("field = 'id'", &[("text", "text")]);
    let rows = open(&schema, Input::File(&file("one-bad")), Format::Parquet).unwrap();
    let rule = WindowRule { skip_malformed: true, ..WindowRule::default() };
    let mut windows = Windows::new(rows, &schema, &[], WindowLimits::default(), rule).unwrap();
    let window = windows.next_window().unwrap().unwrap();
    assert_eq!((window.records, window.malformed, window.malformed_bytes), (9, 1, 2 + 15));
}
