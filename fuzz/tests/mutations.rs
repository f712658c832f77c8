//! The fuzz targets on valid files and on many changed ones. Checksums are made right again, so that changes get past them.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chacha20::ChaCha20Rng;
use ed25519_dalek::SigningKey;
use rand_core::{Rng, SeedableRng};
use restante_client::{
    Account, Contact, MessageRange,
    relay::{KnownRelay, Outbox, SyncState},
};
use restante_dpf::{Bits, Bytes, Integers, Parameters, Variant, generate};
use restante_fuzz::{CLUE, COMPACT, CONTEXT, DECODERS, LAYOUT, SEARCH, SELECTOR, SELECTOR_HASH};
use restante_omr::{
    compact::{self, DigestRequest, Payload},
    stream::{Detector, PreparedKey},
};
use restante_pir::fetch::{Catalog, Content, Epoch, EpochBuilder, answer};
use restante_pir::search::{self, ChunkSource, Cut, Value, WindowBuilder, WindowLimits};
use restante_ring::sample::Seed;
use restante_scan::Runner;
use restante_clue::BoundClue;
use restante_wire::binding::{BoardId, MessageHashes, Period, split_clue};
use restante_wire::merkle::{Frontier, Hash, RangeProof};
use restante_wire::relay::{DigestList, Hex, Page, PageMessage, PostBatch, PostMessage, SignedHead};
use restante_wire::{Encode, Envelope};

/// Changed files tried for each valid one and decoder.
const ROUNDS: usize = 150;
/// The same for files of megabytes.
const LARGE_ROUNDS: usize = 20;
const LARGE_BYTES: usize = 1 << 20;

const BOARD: BoardId = BoardId([7; 16]);

fn valid_files() -> Vec<Vec<u8>> {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let account = Account::random(CLUE, &mut rng);
    let message = account.address().prepare().write_message(&BOARD, Period(20_000), b"text", &mut rng).unwrap();
    let key = account.recipient_secret(&CONTEXT).unwrap().detection_key().unwrap();
    let clue = message.clue.clone();
    let binding = MessageHashes::of(split_clue(&clue).0, &message.payload).binding(&BOARD);
    let clues = [BoundClue { bytes: &clue, binding }];
    let detector = Detector::new(&CONTEXT).unwrap();
    let digests = detector.detect(&[PreparedKey::new(&key)], 5, &clues, &Seed::from([2; 32])).unwrap();
    let mut files = vec![
        account.to_file().to_vec(),
        account.address().to_file(),
        account.address().clue_key().to_bytes(),
        message.clue.clone(),
        key.to_file(),
        digests[0].to_file(&CONTEXT),
        MessageRange::new(&CLUE, BOARD, 9, vec![message]).unwrap().to_file(&CLUE),
    ];
    let key = account.compact_secret(&COMPACT).unwrap().detection_key().unwrap();
    files.push(key.to_file());
    let key = compact::PreparedKey::new(key);
    let detector = compact::Detector::new(&COMPACT).unwrap();
    let vectors = detector.pertinency(&[&key], 5, &clues, &Seed::from([3; 32]), |_| ()).unwrap();
    let request = DigestRequest { range: 5..6, capacity: 1, payload_bytes: 4 };
    let digests = detector
        .digests(&[key.key()], &[&vectors[0]], &request, Payload::source(5, &[b"text"]), |_| ())
        .unwrap();
    files.extend([vectors[0].to_file(&COMPACT), digests[0].to_file(&COMPACT)]);
    let address = account.address();
    let mut outbox = Outbox::new(CLUE);
    outbox.push(address, b"text").unwrap();
    let relays = [KnownRelay::pinned(Hex([7; 32])), KnownRelay::default()];
    files.extend([
        Contact::new("Alice", "https://relay.example", None, address.clone()).unwrap().to_file(),
        outbox.to_file().to_vec(),
        SyncState::new(CLUE, 9, relays).to_file().to_vec(),
    ]);
    let post = |byte: u8| PostMessage {
        id: Hex([byte; 16]),
        clue: vec![byte; CLUE.clue_bytes()],
        payload: vec![byte; 9],
    };
    files.push(PostBatch((0..3).map(post).collect()).to_body(CLUE.id()));
    files.push(DigestList(vec![vec![1; 30], vec![]]).to_body(CLUE.id()));
    let leaves: Vec<Hash> = (0..5u8).map(|byte| Hash::of(&[byte])).collect();
    let root = |range: std::ops::Range<u64>| {
        let mut tree = Frontier::default();
        leaves[range.start as usize..range.end as usize].iter().for_each(|leaf| tree.push(0, *leaf));
        Ok::<_, std::convert::Infallible>(tree.root())
    };
    let (Ok(whole), Ok(proof)) = (root(0..5), RangeProof::build(&(1..2), 5, root));
    let head = SignedHead::sign(&SigningKey::from_bytes(&[7; 32]), (BOARD, CLUE.id()), 5, whole, 9);
    files.push(head.to_file());
    let on_page = PageMessage { clue: vec![3; CLUE.clue_bytes()], payload: vec![4; 7] };
    files.push(Page { head, first: 1, messages: vec![on_page], proof }.to_body());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("epoch");
    let mut builder = EpochBuilder::create(&path, 16, Content::Padded).unwrap();
    (0..9u8).for_each(|i| builder.push(&[i; 5]).unwrap());
    builder.seal().unwrap();
    let epoch = Epoch::open(&path).unwrap();
    let (state, [query, _]) = Catalog::open(&path).unwrap().query(&[3], 2, &mut rng).unwrap();
    let answer = answer(&epoch, &query, &Runner::new(1).unwrap()).unwrap();
    files.extend([epoch.info().to_file(), query.to_file(), answer.to_file(), state.to_file().to_vec()]);
    let shape = search::Shape::new(8, 2).unwrap();
    let (state, query) = search::Query::new(&SEARCH, shape, &[3, 9], b"note", b"own", &mut rng).unwrap();
    let cut = Cut {
        hash: search::SelectorHash::new(search::SelectorKind::Bytes, 8, [1; 32]).unwrap(),
        chunk_bytes: shape.chunk_bytes(SEARCH.preset()),
    };
    let mut builder = WindowBuilder::new(&[cut], WindowLimits::default()).unwrap();
    builder.push(b"selector", b"record").unwrap();
    let window = builder.seal().unwrap().remove(0);
    let runner = Runner::new(1).unwrap();
    let prepared = search::prepare(&SEARCH, &query, false, &runner).unwrap();
    let answers = search::respond(&[&prepared], &window, 7, b"note", &runner, |_| ()).unwrap();
    files.extend([query.to_file(&SEARCH), answers[0].to_file(&SEARCH), state.to_file(&SEARCH).to_vec()]);
    for variant in [Variant::Plain, Variant::HalfTree] {
        let bits = Parameters::new(1000, Bits, variant).unwrap();
        files.push(generate(&bits, 7, &true, &mut rng).unwrap()[0].seal().to_vec());
        let bytes = Parameters::new(30, Bytes(5), variant).unwrap();
        files.push(generate(&bytes, 7, &[1; 5], &mut rng).unwrap()[1].seal().to_vec());
        let integers = Parameters::new(3, Integers, variant).unwrap();
        files.push(generate(&integers, 2, &9, &mut rng).unwrap()[0].seal().to_vec());
    }
    files.extend(search_inputs());
    files
}

/// What the searching side reads: a hash function, a record, a bucket, and the record as tables have it.
fn search_inputs() -> Vec<Vec<u8>> {
    let values = [
        Value::Text("\u{e9}".into()),
        Value::Integer(-5),
        Value::Real(0.5),
        Value::Boolean(true),
        Value::Bytes(vec![1; 40]),
    ];
    let mut record = Vec::new();
    LAYOUT.encode(&values, &mut record).unwrap();
    let cut = Cut { hash: SELECTOR_HASH.clone(), chunk_bytes: 256 };
    let limits = WindowLimits { hits: Some(1), ..WindowLimits::default() };
    let mut builder = WindowBuilder::new(&[cut], limits).unwrap();
    (0..2).for_each(|_| builder.push(SELECTOR, &record).unwrap());
    let mut bucket = vec![0; 256];
    builder.seal().unwrap()[0].read_chunk(0, 0, &mut bucket).unwrap();
    let hexadecimal = "01".repeat(40);
    let csv = format!(
        "text,integer,real,boolean,bytes\n\"a,\"\"\n\",-5,0.5,true,{hexadecimal}\r\n,,,,\n\"x\",9,1e3,false,\n"
    );
    let json = format!(
        "{{\"text\":\"a\",\"integer\":-5,\"real\":0.5,\"boolean\":true,\"bytes\":\"{hexadecimal}\"}}\n{{\"text\":null}}\n"
    );
    vec![SELECTOR_HASH.to_bytes(), record, bucket, csv.into_bytes(), json.into_bytes()]
}

/// One random change: bits, runs, cuts, insertions, extreme integers.
fn change(bytes: &mut Vec<u8>, rng: &mut ChaCha20Rng) {
    let mut below = |limit: usize| rng.next_u64() as usize % limit.max(1);
    let place = below(bytes.len());
    // Headers matter more than their share.
    let place = if below(2) == 0 { place } else { place % 64 };
    match below(6) {
        0 => bytes[place] ^= 1 << below(8),
        1 => bytes[place] = 0xff,
        2 => bytes.truncate(place.max(1)),
        3 => bytes.extend(vec![0; 1 + below(100)]),
        4 => {
            let end = bytes.len().min(place + 8);
            bytes[place..end].fill(if below(2) == 0 { 0xff } else { 0 });
        }
        _ => {
            let end = bytes.len().min(place + 1 + below(4));
            bytes.drain(place..end);
        }
    }
    if bytes.is_empty() {
        bytes.push(0);
    }
}

#[test]
fn decoders_return_whatever_the_bytes_are() {
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    for file in valid_files() {
        // Every decoder sees every kind of file.
        DECODERS.iter().for_each(|(_, decode)| decode(&file));
        for _ in 0..if file.len() < LARGE_BYTES { ROUNDS } else { LARGE_ROUNDS } {
            let mut raw = file.clone();
            change(&mut raw, &mut rng);
            let sealed = Envelope::open(&file).ok().map(|envelope| {
                let mut body = envelope.body.to_vec();
                if !body.is_empty() {
                    change(&mut body, &mut rng);
                }
                Envelope { body: &body, ..envelope }.seal()
            });
            for bytes in [Some(raw), sealed].into_iter().flatten() {
                DECODERS.iter().for_each(|(_, decode)| decode(&bytes));
            }
        }
    }
    for length in [0, 1, 23, 24, 39, 40, 41, 100, 5000] {
        for byte in [0, 0xff] {
            DECODERS.iter().for_each(|(_, decode)| decode(&vec![byte; length]));
        }
    }
}
