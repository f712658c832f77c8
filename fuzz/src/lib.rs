//! Every decoder of bytes from outside, as a function that must return whatever the bytes are, and must give back the same bytes
//! if it accepts them: each value has one encoding only.
//!
//! `cargo fuzz` explores them where a nightly toolchain is at hand; `tests/mutations.rs` runs them on changed files in every test
//! run.

#![forbid(unsafe_code)]

use std::io::Cursor;
use std::sync::LazyLock;

use restante_client::{
    Account, Address, Contact, MessageRange,
    relay::{Outbox, SyncState},
};
use restante_clue::{Clue, ClueKey, ClueParameters};
use restante_dpf::{Bits, Bytes, DpfKey, Integers};
use restante_omr::{
    compact::{CompactContext, CompactDetectionKey, CompactDigest, CompactParameters, PertinencyVector},
    stream::{DetectionKey, StreamContext, StreamDigest, StreamParameters},
};
use restante_pir::fetch::{Answer, EpochInfo, Query, State};
use restante_pir::search::{self, FieldKind, Layout, Reading, SelectorHash, SelectorKind};
use restante_ring::Backend;
use restante_tables::{CsvRows, Format, JsonRows, Next, Rows, Schema, TableError, WholeInput};
use restante_wire::relay::{DigestList, Page, PostBatch, SignedHead};
use restante_wire::{Decode, Encode, Envelope};

/// The clue parameters that decoders use.
pub const CLUE: ClueParameters = ClueParameters::STANDARD;

/// The context of stream digests that decoders use.
pub static CONTEXT: LazyLock<StreamContext> = LazyLock::new(|| {
    let context =
        StreamParameters::new(CLUE).and_then(|parameters| StreamContext::new(parameters, Backend::best()));
    context.unwrap_or_else(|error| unreachable!("the preset is sound: {error}"))
});

/// The context of compact digests that decoders use: the small ring, so that a file has megabytes and not hundreds.
pub static COMPACT: LazyLock<CompactContext> = LazyLock::new(|| {
    let context = CompactParameters::insecure(CLUE)
        .and_then(|parameters| CompactContext::new(parameters, Backend::best()));
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
pub const DECODERS: [(&str, Decoder); 33] = [
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
    ("compact detection key", |bytes| {
        check(bytes, CompactDetectionKey::from_file(&COMPACT, bytes).ok().map(|key| key.to_file()));
    }),
    ("pertinency vector", |bytes| {
        check(
            bytes,
            PertinencyVector::from_file(&COMPACT, bytes).ok().map(|vector| vector.to_file(&COMPACT)),
        );
    }),
    ("compact digest", |bytes| {
        check(bytes, CompactDigest::from_file(&COMPACT, bytes).ok().map(|digest| digest.to_file(&COMPACT)));
    }),
    ("DPF key to bits", |bytes| {
        check(bytes, DpfKey::<Bits>::open(bytes).ok().map(|key| key.seal().to_vec()))
    }),
    ("DPF key to bytes", |bytes| {
        check(bytes, DpfKey::<Bytes>::open(bytes).ok().map(|key| key.seal().to_vec()))
    }),
    ("signed head", |bytes| check(bytes, SignedHead::from_file(bytes).ok().map(|head| head.to_file()))),
    ("batch of messages", |bytes| {
        let batch = PostBatch::from_body(CLUE.id(), CLUE.clue_bytes(), bytes);
        check(bytes, batch.ok().map(|batch| batch.to_body(CLUE.id())));
    }),
    ("page", |bytes| {
        let page = Page::from_body(CLUE.id(), CLUE.clue_bytes(), bytes).ok();
        // Whatever it holds: an answer, and no panic.
        let _ = page.as_ref().map(Page::verify);
        check(bytes, page.map(|page| page.to_body()));
    }),
    ("list of digests", |bytes| {
        check(bytes, DigestList::from_body(CLUE.id(), bytes).ok().map(|list| list.to_body(CLUE.id())));
    }),
    ("fetch query", |bytes| check(bytes, Query::from_file(bytes).ok().map(|query| query.to_file()))),
    ("fetch answer", |bytes| check(bytes, Answer::from_file(bytes).ok().map(|answer| answer.to_file()))),
    ("fetch state", |bytes| check(bytes, State::from_file(bytes).ok().map(|state| state.to_file().to_vec()))),
    ("fetch epoch", |bytes| check(bytes, EpochInfo::from_file(bytes).ok().map(|info| info.to_file()))),
    ("selector hash", |bytes| {
        check(bytes, SelectorHash::from_bytes(&(), bytes).ok().map(|hash| hash.to_bytes()));
    }),
    ("search record", |bytes| {
        let mut encoded = Vec::new();
        let values = LAYOUT.decode(bytes).ok();
        let again = values.map(|values| LAYOUT.encode(&values, &mut encoded).map(|()| encoded));
        assert!(!matches!(again, Some(Err(_))), "what was read cannot be written");
        check(bytes, again.and_then(Result::ok));
    }),
    ("search bucket", |bytes| {
        let mut reading = Reading::new(&SELECTOR_HASH, &[SELECTOR]);
        for chunk in bytes.chunks(64) {
            let _ = reading.push(0, chunk);
        }
        drop(reading.finish());
    }),
    ("CSV table", |bytes| read_table(bytes, Format::Csv)),
    ("JSON lines", |bytes| read_table(bytes, Format::JsonLines)),
    ("contact", |bytes| check(bytes, Contact::from_file(bytes).ok().map(|contact| contact.to_file()))),
    ("outbox", |bytes| check(bytes, Outbox::from_file(bytes).ok().map(|outbox| outbox.to_file().to_vec()))),
    ("sync state", |bytes| {
        // The first version is read, and written as the present one.
        let version = Envelope::open(bytes).ok().map(|envelope| envelope.version);
        let again = SyncState::from_file(bytes).ok().map(|state| state.to_file().to_vec());
        check(bytes, again.filter(|_| version == Some(SyncState::VERSION)));
    }),
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

/// A field of each kind.
pub static LAYOUT: LazyLock<Layout> = LazyLock::new(|| SCHEMA.layout().clone());

/// The hash function of the search that buckets belong to, and the selector that is searched for.
pub static SELECTOR_HASH: LazyLock<SelectorHash> = LazyLock::new(|| {
    let hash = SelectorHash::new(SelectorKind::Bytes, 8, [7; 32]);
    hash.unwrap_or_else(|error| unreachable!("8 bits are allowed: {error}"))
});

/// The selector.
pub const SELECTOR: &[u8] = b"a";

/// What tables are read with.
pub static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let fields: String =
        FieldKind::ALL.map(|kind| format!("[[return]]\nfield = '{0}'\ntype = '{0}'\n", kind.name())).concat();
    let schema = Schema::parse(&format!("[selector]\nfield = 'text'\n{fields}"));
    schema.unwrap_or_else(|error| unreachable!("the schema is sound: {error}"))
});

/// Reads a table to its end, whatever its rows are.
fn read_table(bytes: &[u8], format: Format) {
    let source = Box::new(WholeInput(Cursor::new(bytes.to_vec())));
    let mut rows: Box<dyn Rows> = match format {
        Format::Csv => Box::new(CsvRows::new(&SCHEMA, "table", source)),
        _ => Box::new(JsonRows::new(&SCHEMA, "table", source)),
    };
    loop {
        match rows.next(None) {
            Ok(Next::Row(row)) => {
                let encoded = LAYOUT.encode(&row.values, &mut Vec::new());
                assert!(encoded.is_ok(), "a row that was read cannot be encoded");
            }
            Ok(Next::Pause) | Err(TableError::Row { .. }) => {}
            Ok(Next::End) | Err(_) => return,
        }
    }
}

fn check(bytes: &[u8], encoded: Option<Vec<u8>>) {
    if let Some(encoded) = encoded {
        assert!(encoded == bytes, "what was read is not what is written");
    }
}
