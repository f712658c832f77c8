//! Every decoder of bytes from outside, as a function that must return whatever the bytes are, and must give back the same bytes
//! if it accepts them: each value has one encoding only.
//!
//! `cargo fuzz` explores them where a nightly toolchain is at hand; `tests/mutations.rs` runs them on changed files in every test
//! run.

#![forbid(unsafe_code)]

use std::sync::LazyLock;

use restante_client::{Account, Address, MessageRange};
use restante_clue::{Clue, ClueKey, ClueParameters};
use restante_dpf::{Bits, Bytes, DpfKey, Integers};
use restante_omr::stream::{DetectionKey, StreamContext, StreamDigest, StreamParameters};
use restante_pir::{
    fetch::{Answer, EpochInfo, Query, State},
    search,
};
use restante_ring::Backend;
use restante_wire::{Decode, Encode, Envelope};

/// The clue parameters that decoders use.
pub const CLUE: ClueParameters = ClueParameters::STANDARD;

/// The context of stream digests that decoders use.
pub static CONTEXT: LazyLock<StreamContext> = LazyLock::new(|| {
    let context =
        StreamParameters::new(CLUE).and_then(|parameters| StreamContext::new(parameters, Backend::best()));
    context.unwrap_or_else(|error| unreachable!("the preset is sound: {error}"))
});

/// The rings of searches that decoders use.
pub static SEARCH: LazyLock<search::Scheme> = LazyLock::new(|| {
    let scheme = search::Scheme::new(search::Preset::insecure_for_tests(), Backend::best());
    scheme.unwrap_or_else(|error| unreachable!("the preset is sound: {error}"))
});

/// A decoder under test.
pub type Decoder = fn(&[u8]);

/// Every decoder, by name.
pub const DECODERS: [(&str, Decoder); 18] = [
    ("envelope", |bytes| check(bytes, Envelope::open(bytes).ok().map(|envelope| envelope.seal()))),
    ("clue", |bytes| check(bytes, Clue::from_bytes(&CLUE, bytes).ok().map(|clue| clue.to_bytes()))),
    ("clue key", |bytes| check(bytes, ClueKey::from_bytes(&CLUE, bytes).ok().map(|key| key.to_bytes()))),
    ("account", |bytes| {
        check(bytes, Account::from_file(bytes).ok().map(|account| account.to_file().to_vec()))
    }),
    ("address", |bytes| check(bytes, Address::from_file(bytes).ok().map(|address| address.to_file()))),
    ("messages", |bytes| {
        check(bytes, MessageRange::from_file(&CLUE, bytes).ok().map(|range| range.to_file(&CLUE)));
    }),
    ("detection key", |bytes| {
        check(bytes, DetectionKey::from_file(&CONTEXT, bytes).ok().map(|key| key.to_file()))
    }),
    ("stream digest", |bytes| {
        check(bytes, StreamDigest::from_file(&CONTEXT, bytes).ok().map(|digest| digest.to_file(&CONTEXT)));
    }),
    ("DPF key to bits", |bytes| {
        check(bytes, DpfKey::<Bits>::open(bytes).ok().map(|key| key.seal().to_vec()))
    }),
    ("DPF key to bytes", |bytes| {
        check(bytes, DpfKey::<Bytes>::open(bytes).ok().map(|key| key.seal().to_vec()))
    }),
    ("fetch query", |bytes| check(bytes, Query::from_file(bytes).ok().map(|query| query.to_file()))),
    ("fetch answer", |bytes| check(bytes, Answer::from_file(bytes).ok().map(|answer| answer.to_file()))),
    ("fetch state", |bytes| check(bytes, State::from_file(bytes).ok().map(|state| state.to_file().to_vec()))),
    ("fetch epoch", |bytes| check(bytes, EpochInfo::from_file(bytes).ok().map(|info| info.to_file()))),
    ("search query", |bytes| {
        check(bytes, search::Query::from_file(&SEARCH, bytes).ok().map(|query| query.to_file(&SEARCH)));
    }),
    ("search answer", |bytes| {
        check(
            bytes,
            search::SearchAnswer::from_file(&SEARCH, bytes).ok().map(|answer| answer.to_file(&SEARCH)),
        );
    }),
    ("search state", |bytes| {
        let state = search::QueryState::from_file(&SEARCH, bytes);
        check(bytes, state.ok().map(|state| state.to_file(&SEARCH).to_vec()));
    }),
    ("DPF key to integers", |bytes| {
        check(bytes, DpfKey::<Integers>::open(bytes).ok().map(|key| key.seal().to_vec()));
    }),
];

fn check(bytes: &[u8], encoded: Option<Vec<u8>>) {
    if let Some(encoded) = encoded {
        assert!(encoded == bytes, "what was read is not what is written");
    }
}
