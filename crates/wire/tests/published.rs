//! Published vectors of the signatures under heads: RFC 8032, section 7.1.

#![cfg(feature = "relay")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde_json::Value;

const VECTORS: &str = include_str!("../../../testvectors/published/ed25519.json");

fn digits(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap().as_bytes();
    text.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn signatures_are_those_of_rfc_8032() {
    let file: Value = serde_json::from_str(VECTORS).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 3);
    for vector in vectors {
        let [secret, public]: [[u8; 32]; 2] =
            ["secret", "public"].map(|name| digits(&vector[name]).try_into().unwrap());
        let message = digits(&vector["message"]);
        let signature: [u8; 64] = digits(&vector["signature"]).try_into().unwrap();
        let key = SigningKey::from_bytes(&secret);
        assert_eq!(key.verifying_key().to_bytes(), public);
        assert_eq!(key.sign(&message).to_bytes(), signature);
        let verifying = VerifyingKey::from_bytes(&public).unwrap();
        verifying.verify_strict(&message, &Signature::from_bytes(&signature)).unwrap();
        let mut wrong = signature;
        wrong[0] ^= 1;
        assert!(verifying.verify_strict(&message, &Signature::from_bytes(&wrong)).is_err());
    }
}
