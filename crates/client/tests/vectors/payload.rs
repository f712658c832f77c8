//! `testvectors/1/payload.json`, made by `testvectors/scripts/payload.py`.

use std::convert::Infallible;

use rand_core::{TryCryptoRng, TryRng};
use restante_client::{Address, BoardId, LetterError};
use serde_json::Value;

use crate::{account, array, bytes, text};

const VECTORS: &str = include_str!("../../../../testvectors/1/payload.json");

fn vectors() -> Value {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    assert_eq!(vectors["format_version"], 1);
    vectors
}

fn board(vector: &Value) -> BoardId {
    BoardId(array(vector, "board"))
}

/// Randomness that is given, drawn in one piece or several.
struct Given(Vec<u8>);

impl TryRng for Given {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("encapsulation draws bytes")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("encapsulation draws bytes")
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        out.copy_from_slice(&self.0[..out.len()]);
        self.0.drain(..out.len());
        Ok(())
    }
}

impl TryCryptoRng for Given {}

#[test]
fn the_address_follows_from_the_seed() {
    let vectors = vectors();
    let (account, expected) = (account(&vectors), &vectors["account"][0]);
    assert_eq!(account.address().to_file(), bytes(expected, "address_file"));
    assert_eq!(account.address().fingerprint(), text(expected, "fingerprint"));
    assert_eq!(Address::from_file(&bytes(expected, "address_file")).as_ref(), Ok(account.address()));
}

#[test]
fn payloads_are_sealed_to_the_same_bytes_and_opened() {
    let vectors = vectors();
    let account = account(&vectors);
    let sender = account.address().prepare();
    for vector in vectors["good"].as_array().unwrap() {
        let (clue, payload) = (bytes(vector, "clue"), bytes(vector, "payload"));
        assert_eq!(account.open(&board(vector), &clue, &payload).unwrap(), bytes(vector, "text"));
        let mut given = Given(bytes(vector, "randomness"));
        assert_eq!(sender.seal(&board(vector), &clue, &bytes(vector, "text"), &mut given).unwrap(), payload);
        assert!(given.0.is_empty());
    }
}

#[test]
fn other_payloads_are_not_opened() {
    let vectors = vectors();
    let account = account(&vectors);
    for vector in vectors["bad"].as_array().unwrap() {
        let error =
            account.open(&board(vector), &bytes(vector, "clue"), &bytes(vector, "payload")).unwrap_err();
        let name = match error {
            LetterError::PayloadSize { .. } => "size",
            LetterError::NotForUs => "not-for-us",
            LetterError::MalformedContents => "contents",
            other => panic!("{other} has no name in the vectors"),
        };
        assert_eq!(name, text(vector, "error"), "{}", text(vector, "reason"));
    }
}
