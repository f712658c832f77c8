//! Published vectors of what seeds are expanded with: BLAKE3's own, and RFC 8439's of ChaCha20. `testvectors/published` names the
//! documents.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use serde_json::Value;

const BLAKE3: &str = include_str!("../../../testvectors/published/blake3.json");
const CHACHA20: &str = include_str!("../../../testvectors/published/chacha20.json");

fn digits(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap().as_bytes();
    text.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn blake3_is_the_published_one() {
    let file: Value = serde_json::from_str(BLAKE3).unwrap();
    let key: [u8; 32] = file["key"].as_str().unwrap().as_bytes().try_into().unwrap();
    let context = file["context_string"].as_str().unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let input: Vec<u8> =
            (0..case["input_len"].as_u64().unwrap()).map(|index| (index % 251) as u8).collect();
        assert_eq!(blake3::hash(&input).as_bytes()[..], digits(&case["hash"]));
        assert_eq!(blake3::keyed_hash(&key, &input).as_bytes()[..], digits(&case["keyed_hash"]));
        assert_eq!(blake3::derive_key(context, &input)[..], digits(&case["derive_key"]));
        // In pieces, as seeds are hashed.
        let mut hasher = blake3::Hasher::new_keyed(&key);
        input.chunks(100).for_each(|piece| {
            hasher.update(piece);
        });
        assert_eq!(hasher.finalize().as_bytes()[..], digits(&case["keyed_hash"]));
    }
}

#[test]
fn the_key_stream_is_that_of_rfc_8439() {
    let file: Value = serde_json::from_str(CHACHA20).unwrap();
    for vector in file["vectors"].as_array().unwrap() {
        let key: [u8; 32] = digits(&vector["key"]).try_into().unwrap();
        let nonce = digits(&vector["nonce"]);
        let word = |place: usize| u64::from(u32::from_le_bytes(nonce[4 * place..][..4].try_into().unwrap()));
        let counter = vector["counter"].as_u64().unwrap() | word(0) << 32;
        let mut rng = ChaCha20Rng::from_seed(key);
        rng.set_stream(word(1) | word(2) << 32);
        rng.set_block_pos(counter);
        let mut block = [0; 64];
        rng.fill_bytes(&mut block);
        assert_eq!(block[..], digits(&vector["block"]), "section {}", vector["section"]);
    }
}
