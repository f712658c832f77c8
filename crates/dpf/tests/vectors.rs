//! Keys and shares made by an independent implementation, `testvectors/scripts/dpf.py`, and bytes that are no keys.

#![allow(clippy::unwrap_used)] // In the helpers of tests as in the tests.

use std::convert::Infallible;

use rand_core::{TryCryptoRng, TryRng};
use restante_dpf::{Bits, Bytes, DpfKey, Integers, Output, Parameters, Variant, generate};
use restante_wire::{Decode, Encode};
use serde_json::Value;

/// Randomness that is given, all of it at once.
struct Given(Vec<u8>);

impl TryRng for Given {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("the dealer draws bytes")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("the dealer draws bytes")
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        out.copy_from_slice(&self.0);
        Ok(())
    }
}

impl TryCryptoRng for Given {}

fn vectors(json: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(json).unwrap();
    assert_eq!(file["format_version"], 1);
    file["vectors"].as_array().unwrap().clone()
}

fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn check<O: Output>(
    vector: &Value,
    output: O,
    message: &O::Message,
    elements: usize,
    read: fn(&[u8]) -> Vec<O::Element>,
) where
    O::Element: PartialEq,
{
    let variant = match vector["variant"].as_str().unwrap() {
        "plain" => Variant::Plain,
        "half-tree" => Variant::HalfTree,
        other => panic!("variant {other}"),
    };
    let parameters = Parameters::new(vector["domain"].as_u64().unwrap(), output, variant).unwrap();
    assert_eq!(parameters.depth() as u64, vector["depth"].as_u64().unwrap());
    let point = vector["point"].as_u64().unwrap();
    let keys = generate(&parameters, point, message, &mut Given(bytes(&vector["randomness"]))).unwrap();
    for (party, key) in keys.iter().enumerate() {
        let expected = bytes(&vector[format!("key_{party}")]);
        assert_eq!(key.to_bytes(), expected, "{parameters:?}");
        let key = DpfKey::<O>::from_bytes(&(), &expected).unwrap();
        assert_eq!(key.to_bytes(), expected);
        let evaluator = key.evaluator();
        for share in vector["shares"].as_array().unwrap() {
            let mut found = vec![O::Element::default(); elements];
            evaluator.point(share["point"].as_u64().unwrap(), &mut found).unwrap();
            assert!(found == read(&bytes(&share[format!("share_{party}")])), "{parameters:?} {share}");
        }
    }
}

#[test]
fn keys_and_shares_are_those_of_the_independent_implementation() {
    let vectors = vectors(include_str!("../../../testvectors/1/dpf.json"));
    assert_eq!(vectors.len(), 32);
    for vector in &vectors {
        let message = bytes(&vector["message"]);
        match vector["outputs"].as_str().unwrap() {
            "bits" => check(vector, Bits, &(message == [1]), 1, <[u8]>::to_vec),
            "bytes" => check(vector, Bytes(message.len() as u32), &message, message.len(), <[u8]>::to_vec),
            "integers" => {
                let integer = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
                check(vector, Integers, &integer(&message), 1, |bytes| {
                    vec![u64::from_le_bytes(bytes.try_into().unwrap())]
                });
            }
            other => panic!("outputs {other}"),
        }
    }
}

#[test]
fn bad_keys_are_refused() {
    let vectors = vectors(include_str!("../../../testvectors/1/dpf_bad.json"));
    assert!(!vectors.is_empty());
    for vector in &vectors {
        let key = bytes(&vector["key"]);
        let refused = match vector["outputs"].as_str().unwrap() {
            "bits" => DpfKey::<Bits>::from_bytes(&(), &key).is_err(),
            "bytes" => DpfKey::<Bytes>::from_bytes(&(), &key).is_err(),
            _ => DpfKey::<Integers>::from_bytes(&(), &key).is_err(),
        };
        assert!(refused, "{}", vector["reason"]);
    }
}
