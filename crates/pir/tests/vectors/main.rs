//! Vectors that scripts in `testvectors` made from docs/format.md: private fetch and private search.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod fetch;
mod search;

use serde_json::Value;

fn text<'a>(vector: &'a Value, name: &str) -> &'a str {
    vector[name].as_str().unwrap_or_else(|| panic!("{name} in {vector}"))
}

fn digits(value: &Value) -> Vec<u8> {
    let pairs = value.as_str().unwrap().as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
