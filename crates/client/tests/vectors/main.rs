//! Vectors that the scripts in `testvectors` made from docs/format.md: accounts, addresses, payloads, detection keys and digests.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod compact;
mod detection;
mod payload;

use restante_client::Account;
use restante_clue::ClueParameters;
use restante_ring::sample::Seed;
use restante_wire::WireError;
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

/// The account that a file of vectors is about.
fn account(vectors: &Value) -> Account {
    Account::from_seed(ClueParameters::STANDARD, Seed::from(array(&vectors["account"][0], "seed")))
}

/// The name that the vectors have for an error.
fn wire_name(error: &WireError) -> &'static str {
    match error {
        WireError::Truncated { .. } => "truncated",
        WireError::Trailing { .. } => "trailing",
        WireError::OutOfRange { .. } => "out-of-range",
        WireError::WrongKind { .. } => "wrong-kind",
        WireError::UnsupportedVersion { .. } => "unsupported-version",
        WireError::WrongParameters { .. } => "wrong-parameters",
        other => panic!("{other} has no name in the vectors"),
    }
}
