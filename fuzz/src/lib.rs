//! Every decoder of bytes from outside, as a function that must return whatever the bytes are, and must give back the same bytes
//! if it accepts them: each value has one encoding only.
//!
//! `fuzz/run` explores them with libFuzzer, guided by coverage, on the stable toolchain; `RESULTS.md` has what it reached.
//! `tests/mutations.rs` runs them on changed files in every test run.

#![forbid(unsafe_code)]

mod files;
mod json;
pub mod seeds;

use std::io::Cursor;
use std::sync::LazyLock;

use restante_client::{
    Account, Address, Contact, MessageRange, directory,
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
use restante_wire::merkle::{ConsistencyProof, RangeProof};
use restante_wire::relay::{DigestList, Page, PostBatch, SignedHead};
use restante_wire::{Decode, Encode, Envelope, Kind};

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
pub const DECODERS: &[(&str, Decoder)] = &[
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
    ("consistency proof", |bytes| {
        let none = restante_wire::ParameterId::NONE;
        let body = Envelope::open_as(bytes, Kind::ConsistencyProof, 1, none).map(|envelope| envelope.body);
        let body = body.unwrap_or(bytes);
        let proof = ConsistencyProof::from_bytes(&(), body).ok();
        let hash = restante_wire::merkle::Hash::of(b"");
        let _ = proof.as_ref().map(|proof| proof.verify((3, &hash), (8, &hash)));
        check(body, proof.map(|proof| proof.to_bytes()));
        check(body, RangeProof::from_bytes(&(), body).ok().map(|proof| proof.to_bytes()));
    }),
    ("directory entry", |bytes| {
        check(bytes, directory::Entry::from_record(bytes).ok().and_then(|entry| entry.to_record().ok()));
    }),
    ("table schema", |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(schema) = Schema::parse(text) {
            let _ = (schema.id(), schema.selector_of(0, "a"), schema.selector_of(1, "-5"));
        }
    }),
    ("selectors", |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let hashed: Result<Vec<_>, _> =
            text.lines().enumerate().map(|(place, line)| SCHEMA.selector_of(place, line)).collect();
        let _ = hashed.map(|hashed| search::refuse_repeated(&hashed));
    }),
    ("CSV to measure", |bytes| measure_table(bytes, Format::Csv)),
    ("JSON lines to measure", |bytes| measure_table(bytes, Format::JsonLines)),
    ("Parquet table", files::parquet),
    ("board files", files::board),
    ("relay configuration", files::configuration),
    ("waiting mail", files::mail),
    ("credential order", |bytes| restante_server::fuzzing::order(bytes)),
    ("directory table", |bytes| restante_server::fuzzing::directory_table(bytes, CLUE.id())),
    ("JSON of requests", json::requests),
    ("JSON of answers", json::answers),
    ("texts", json::texts),
];

/// Which decoder a name means: its own, or that with `-` for spaces.
pub fn decoder(name: &str) -> Option<Decoder> {
    DECODERS.iter().find(|(own, _)| name == *own || name == own.replace(' ', "-")).map(|(_, decode)| *decode)
}

/// The longest inputs that are tried: a little more than the longest valid file.
pub fn input_bytes(name: &str) -> usize {
    match name {
        "compact detection key" => 24 << 20,
        "pertinency vector" | "compact digest" | "search query" | "search answer" => 4 << 20,
        "detection key" => 288 << 10,
        "stream digest" => 64 << 10,
        "messages" | "outbox" | "page" | "batch of messages" | "board files" | "directory table" => 16 << 10,
        _ => 8 << 10,
    }
}

/// The same file with the length and the checksum that its body asks for, if it looks like an envelope: a changed body would
/// never get past the checksum otherwise.
pub fn resealed(bytes: &[u8]) -> Option<Vec<u8>> {
    const LENGTH: std::ops::Range<usize> = 16..24;
    let body_bytes = bytes.len().checked_sub(Envelope::OVERHEAD_BYTES)?;
    let magic = Envelope { kind: Kind::Address, version: 1, parameters: CLUE.id(), body: &[] }.seal();
    if bytes[..4] != magic[..4] {
        return None;
    }
    let mut file = bytes[..LENGTH.end + body_bytes].to_vec();
    file[LENGTH].copy_from_slice(&(body_bytes as u64).to_le_bytes());
    let checksum = blake3::hash(&file);
    file.extend_from_slice(&checksum.as_bytes()[..bytes.len() - file.len()]);
    Some(file)
}

/// A field of each kind.
pub static LAYOUT: LazyLock<Layout> = LazyLock::new(|| SCHEMA.layout().clone());

/// The hash function of the search that buckets belong to, and the selector that is searched for.
pub static SELECTOR_HASH: LazyLock<SelectorHash> = LazyLock::new(|| {
    let hash = SelectorHash::new(SelectorKind::Bytes, 8, [7; 32]);
    hash.unwrap_or_else(|error| unreachable!("8 bits are allowed: {error}"))
});

/// The selector.
pub const SELECTOR: &[u8] = b"a";

/// The schema that tables are read with.
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

/// Measures a table, as `search plan` does.
fn measure_table(bytes: &[u8], format: Format) {
    let source = Box::new(WholeInput(Cursor::new(bytes.to_vec())));
    let mut rows: Box<dyn Rows> = match format {
        Format::Csv => Box::new(CsvRows::new(&SCHEMA, "table", source)),
        _ => Box::new(JsonRows::new(&SCHEMA, "table", source)),
    };
    let _ = restante_tables::measure(rows.as_mut(), &SCHEMA, true);
}

pub(crate) fn check(bytes: &[u8], encoded: Option<Vec<u8>>) {
    if let Some(encoded) = encoded {
        assert!(encoded == bytes, "what was read is not what is written");
    }
}
