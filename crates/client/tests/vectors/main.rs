//! What the scripts in `testvectors` made from docs/format.md: accounts, addresses, payloads, detection keys and stream digests.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod detection;
mod payload;

use serde_json::Value;

fn text<'a>(vector: &'a Value, name: &str) -> &'a str {
    vector[name].as_str().unwrap_or_else(|| panic!("{name} in {vector}"))
}

fn digits(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn bytes(vector: &Value, name: &str) -> Vec<u8> {
    digits(text(vector, name))
}

fn array<const LEN: usize>(vector: &Value, name: &str) -> [u8; LEN] {
    bytes(vector, name).try_into().unwrap()
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_string()
}
