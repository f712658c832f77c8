//! The serialised form of keys: what is written reads back, and nothing else is accepted.

#![allow(clippy::unwrap_used)] // In the helpers of tests as in the tests.

use chacha20::ChaCha20Rng;
use proptest::prelude::*;
use rand_core::SeedableRng;
use restante_dpf::{Bits, Bytes, DpfError, DpfKey, Integers, Output, Parameters, Variant, generate};
use restante_wire::{Decode, Encode, WireError};

fn key<O: Output>(domain: u64, output: O, variant: Variant, message: &O::Message) -> DpfKey<O> {
    let mut rng = ChaCha20Rng::from_seed([2; 32]);
    let parameters = Parameters::new(domain, output, variant).unwrap();
    let [_, key] = generate(&parameters, domain / 2, message, &mut rng).unwrap();
    key
}

fn check_layout<O: Output>(domain: u64, output: O, variant: Variant, message: &O::Message) {
    let key = key(domain, output, variant, message);
    let bytes = key.to_bytes();
    assert_eq!(bytes.len(), key.parameters().key_bytes());
    let read = DpfKey::<O>::from_bytes(&(), &bytes).unwrap();
    assert_eq!(read.to_bytes(), bytes);
    assert_eq!(read.party(), 1);
    assert_eq!(read.parameters().domain(), domain);
    for len in 0..bytes.len() {
        assert!(
            matches!(DpfKey::<O>::from_bytes(&(), &bytes[..len]), Err(WireError::Truncated { .. })),
            "{len} of {} bytes",
            bytes.len()
        );
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(DpfKey::<O>::from_bytes(&(), &longer), Err(WireError::Trailing { left: 1, .. })));
}

#[test]
fn keys_read_back_and_every_other_length_is_refused() {
    for variant in [Variant::Plain, Variant::HalfTree] {
        for domain in [1, 2, 3, 9, 10, 1024, 1025, 100_000, restante_dpf::MAX_DOMAIN] {
            check_layout(domain, Bits, variant, &true);
            check_layout(domain, Integers, variant, &9);
            for len in [0, 1, 17, 128, 300] {
                check_layout(domain, Bytes(len), variant, &vec![1; len as usize]);
            }
        }
    }
}

#[test]
fn malformed_keys_are_refused() {
    let refuse = |bytes: &[u8], field: &str| {
        let error = DpfKey::<Bits>::from_bytes(&(), bytes).unwrap_err();
        assert!(error.to_string().contains(field), "{error}");
    };
    let bytes = key(200_000, Bits, Variant::Plain, &true).to_bytes();
    let changed = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        bytes
    };
    refuse(&changed(0, 0), "version");
    refuse(&changed(0, 2), "version");
    refuse(&changed(1, 2), "party");
    refuse(&changed(2, 2), "variant");
    refuse(&changed(3, 1), "outputs");
    refuse(&changed(3, 9), "outputs");
    refuse(&changed(4, 1), "message length");
    let mut zero = bytes.clone();
    zero[8..16].fill(0);
    refuse(&zero, "domain");
    zero[8..16].fill(0xff);
    refuse(&zero, "domain");
    // Five levels: three of the bits for the third children are unused.
    refuse(&changed(32 + 5 * 32, 0xff), "unused control bits");

    let mut tiny = key(3, Bits, Variant::HalfTree, &true).to_bytes();
    *tiny.last_mut().unwrap() |= 0x10;
    refuse(&tiny, "unused output bits");

    let mut integers = key(3, Integers, Variant::HalfTree, &1).to_bytes();
    integers[4] = 4;
    assert!(DpfKey::<Integers>::from_bytes(&(), &integers).is_err());
    // A message of 4 GiB that isn't there costs no memory.
    let mut long = key(3, Bytes(16), Variant::HalfTree, &[0; 16]).to_bytes();
    long[4..8].fill(0xff);
    assert!(matches!(DpfKey::<Bytes>::from_bytes(&(), &long), Err(WireError::Truncated { .. })));
}

#[test]
fn files_read_back_and_damage_is_found() {
    let key = key(200_000, Bytes(20), Variant::HalfTree, &[7; 20]);
    let file = key.seal();
    assert_eq!(DpfKey::<Bytes>::open(&file).unwrap().to_bytes(), key.to_bytes());
    assert!(matches!(DpfKey::<Bits>::open(&file), Err(DpfError::Wire(WireError::OutOfRange { .. }))));
    for at in 0..file.len() {
        let mut damaged = file.to_vec();
        damaged[at] ^= 4;
        assert!(DpfKey::<Bytes>::open(&damaged).is_err());
    }
}

#[test]
fn a_key_for_a_million_records_is_small() {
    for variant in [Variant::Plain, Variant::HalfTree] {
        let file = key(1 << 20, Bits, variant, &true).seal();
        assert!(file.len() <= 700, "{} bytes", file.len());
    }
}

#[test]
fn debug_shows_parameters_only() {
    let key = key(1000, Integers, Variant::Plain, &0x1234_5678);
    assert_eq!(
        format!("{key:?}"),
        "DpfKey { domain: 1000, variant: Plain, outputs: \"DPF key with integer outputs\", party: 1, .. }"
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), kind in 0u8..3) {
        let _ = DpfKey::<Bytes>::from_bytes(&(), &bytes);
        // Past the first checks.
        let header = [1, 0, 1, kind];
        let len = bytes.len().min(4);
        bytes[..len].copy_from_slice(&header[..len]);
        let domain = bytes.len().min(16);
        bytes[domain.min(12)..domain].fill(0);
        let _ = DpfKey::<Bits>::from_bytes(&(), &bytes);
        let _ = DpfKey::<Integers>::from_bytes(&(), &bytes);
        if let Ok(key) = DpfKey::<Bytes>::from_bytes(&(), &bytes) {
            prop_assert_eq!(key.to_bytes(), bytes);
        }
    }
}
