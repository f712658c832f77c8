//! What `testvectors/scripts/protocol.py` made from docs/protocol.md: `testvectors/1/protocol.json`, which must be read and written alike, and
//! `protocol_bad.json`, which must be refused for the reason given.

#![cfg(feature = "relay")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod binary;
mod json;
mod proofs;

use restante_wire::{ParameterId, WireError};
use serde_json::Value;

const GOOD: &str = include_str!("../../../../testvectors/1/protocol.json");
const BAD: &str = include_str!("../../../../testvectors/1/protocol_bad.json");

/// The vectors of a section, which has some.
fn section(file: &str, name: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(file).unwrap();
    assert_eq!(file["format_version"], 1);
    let vectors = file[name].as_array().unwrap().clone();
    assert!(!vectors.is_empty(), "{name}");
    vectors
}

fn text<'a>(vector: &'a Value, name: &str) -> &'a str {
    vector[name].as_str().unwrap_or_else(|| panic!("{name} in {vector}"))
}

fn number(vector: &Value, name: &str) -> u64 {
    vector[name].as_u64().unwrap_or_else(|| panic!("{name} in {vector}"))
}

fn bytes(vector: &Value, name: &str) -> Vec<u8> {
    let digits = text(vector, name).as_bytes();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn array<const LEN: usize>(vector: &Value, name: &str) -> [u8; LEN] {
    bytes(vector, name).try_into().unwrap()
}

/// The parameter id that the bodies are for, unless a vector says another.
fn parameters() -> ParameterId {
    ParameterId([1, 2, 3, 4, 5, 6, 7, 8])
}

/// The name that the vectors have for an error.
fn name(error: &WireError) -> &'static str {
    match error {
        WireError::Truncated { .. } => "truncated",
        WireError::Trailing { .. } => "trailing",
        WireError::OutOfRange { .. } => "out-of-range",
        WireError::ForeignFile => "foreign-file",
        WireError::WrongKind { .. } => "wrong-kind",
        WireError::UnknownKind(_) => "unknown-kind",
        WireError::UnsupportedVersion { .. } => "unsupported-version",
        WireError::WrongParameters { .. } => "wrong-parameters",
        WireError::Corrupted { .. } => "corrupted",
        other => panic!("{other} has no name in the vectors"),
    }
}

/// Checks that all of a section is refused, each for its reason.
fn assert_refused<T: std::fmt::Debug>(section_name: &str, read: impl Fn(&[u8]) -> Result<T, WireError>) {
    for vector in section(BAD, section_name) {
        let error = read(&bytes(&vector, "file")).expect_err(text(&vector, "reason"));
        assert_eq!(
            name(&error),
            text(&vector, "error"),
            "{section_name}, {}: {error}",
            text(&vector, "reason")
        );
    }
}
