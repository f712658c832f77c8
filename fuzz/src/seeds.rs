//! Files that every decoder's exploration starts from: one of each kind, valid.

#![allow(clippy::unwrap_used, reason = "what is made here is made of constants")]

use std::sync::Arc;

use chacha20::ChaCha20Rng;
use ed25519_dalek::SigningKey;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rand_core::SeedableRng;
use restante_board::{Board, BoardConfig, BoardWriter};
use restante_client::{
    Account, Address, Contact, MessageRange, directory,
    relay::{KnownRelay, Outbox, SyncState},
};
use restante_clue::BoundClue;
use restante_dpf::{Bits, Bytes, Integers, Parameters, Variant, generate};
use restante_omr::{
    compact::{self, DigestRequest, Payload},
    stream::{Detector, PreparedKey},
};
use restante_pir::fetch::{Catalog, Content, Epoch, EpochBuilder, answer};
use restante_pir::search::{self, ChunkSource, Cut, Value, WindowBuilder, WindowLimits};
use restante_ring::sample::Seed;
use restante_scan::Runner;
use restante_wire::Encode;
use restante_wire::binding::{BoardId, MessageHashes, Period, split_clue};
use restante_wire::merkle::{Frontier, Hash, RangeProof};
use restante_wire::relay::{
    DigestList, Hex, MessageId, Page, PageMessage, PostBatch, PostMessage, SignedHead,
};

use crate::{CLUE, COMPACT, CONTEXT, LAYOUT, SEARCH, SELECTOR, SELECTOR_HASH, files, json};

const BOARD: BoardId = BoardId([7; 16]);

/// The files.
pub fn valid_files() -> Vec<Vec<u8>> {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let account = Account::random(CLUE, &mut rng);
    let message =
        account.address().prepare().write_message(&BOARD, Period(20_000), b"text", &mut rng).unwrap();
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
    files.extend(compact_detection(&account, &clues));
    let address = account.address();
    let mut outbox = Outbox::new(CLUE);
    outbox.push(address, b"text", &mut rng).unwrap();
    files.extend([
        Contact::new("Alice", "https://relay.example", None, address.clone()).unwrap().to_file(),
        outbox.to_file().to_vec(),
        SyncState::new(CLUE, 9, KnownRelay::pinned(Hex([7; 32]))).to_file().to_vec(),
    ]);
    files.extend(relay_bodies());
    files.extend(fetches(&mut rng));
    files.extend(searches(&mut rng));
    files.extend(point_functions(&mut rng));
    files.extend(search_inputs());
    files.extend(tables(address));
    files.push(board());
    files.push(files::valid_mail());
    files.extend(json::seeds());
    files
}

/// An account's key for compact digests, the pertinency vector of its first message, and the digest.
fn compact_detection(account: &Account, clues: &[BoundClue<'_>]) -> Vec<Vec<u8>> {
    let key = account.compact_secret(&COMPACT).unwrap().detection_key().unwrap();
    let file = key.to_file();
    let key = compact::PreparedKey::new(key);
    let detector = compact::Detector::new(&COMPACT).unwrap();
    let vectors = detector.pertinency(&[&key], 5, clues, &Seed::from([3; 32]), |_| ()).unwrap();
    let request = DigestRequest { range: 5..6, capacity: 1, payload_bytes: 4 };
    let digests = detector
        .digests(&[key.key()], &[&vectors[0]], &request, Payload::source(5, &[b"text"]), |_| ())
        .unwrap();
    vec![file, vectors[0].to_file(&COMPACT), digests[0].to_file(&COMPACT)]
}

/// Batches, lists, a signed head and a page.
fn relay_bodies() -> Vec<Vec<u8>> {
    let post = |byte: u8| PostMessage {
        id: MessageId([byte; 16]),
        clue: vec![byte; CLUE.clue_bytes()],
        payload: vec![byte; 9],
    };
    let leaves: Vec<Hash> = (0..5u8).map(|byte| Hash::of(&[byte])).collect();
    let root = |range: std::ops::Range<u64>| {
        let mut tree = Frontier::default();
        leaves[range.start as usize..range.end as usize].iter().for_each(|leaf| tree.push(0, *leaf));
        Ok::<_, std::convert::Infallible>(tree.root())
    };
    let (Ok(whole), Ok(proof)) = (root(0..5), RangeProof::build(&(1..2), 5, root));
    let head = SignedHead::sign(&SigningKey::from_bytes(&[7; 32]), (BOARD, CLUE.id()), 5, whole, 9);
    let on_page = PageMessage { clue: vec![3; CLUE.clue_bytes()], payload: vec![4; 7] };
    vec![
        PostBatch((0..3).map(post).collect()).to_body(CLUE.id()),
        DigestList(vec![vec![1; 30], vec![]]).to_body(CLUE.id()),
        head.to_file(),
        Page { head, first: 1, messages: vec![on_page], proof }.to_body(),
    ]
}

/// An epoch, a query to it, its answer and the client's state.
fn fetches(rng: &mut ChaCha20Rng) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("epoch");
    let mut builder = EpochBuilder::create(&path, 16, Content::Padded).unwrap();
    (0..9u8).for_each(|i| builder.push(&[i; 5]).unwrap());
    builder.seal().unwrap();
    let epoch = Epoch::open(&path).unwrap();
    let (state, [query, _]) = Catalog::open(&path).unwrap().query(&[3], 2, rng).unwrap();
    let answer = answer(&epoch, &query, &Runner::new(1).unwrap()).unwrap();
    vec![epoch.info().to_file(), query.to_file(), answer.to_file(), state.to_file().to_vec()]
}

/// A search's query, its answer and the querier's state.
fn searches(rng: &mut ChaCha20Rng) -> Vec<Vec<u8>> {
    let shape = search::Shape::new(8, 2).unwrap();
    let (state, query) = search::Query::new(&SEARCH, shape, &[3, 9], b"note", b"own", rng).unwrap();
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
    vec![query.to_file(&SEARCH), answers[0].to_file(&SEARCH), state.to_file(&SEARCH).to_vec()]
}

/// A key of each kind.
fn point_functions(rng: &mut ChaCha20Rng) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for variant in [Variant::Plain, Variant::HalfTree] {
        let bits = Parameters::new(1000, Bits, variant).unwrap();
        files.push(generate(&bits, 7, &true, rng).unwrap()[0].seal().to_vec());
        let bytes = Parameters::new(30, Bytes(5), variant).unwrap();
        files.push(generate(&bytes, 7, &[1; 5], rng).unwrap()[1].seal().to_vec());
        let integers = Parameters::new(3, Integers, variant).unwrap();
        files.push(generate(&integers, 2, &9, rng).unwrap()[0].seal().to_vec());
    }
    files
}

/// Texts of operators and searchers, and a directory's record.
fn tables(address: &Address) -> Vec<Vec<u8>> {
    let schema = "[selector]\nfield = 'text'\nfold = 'ascii-case'\n[csv]\ndelimiter = ';'\nnull = ''\n\
        [[return]]\nfield = 'integer'\ntype = 'integer'\nmax_bytes = 9\n";
    let config = "name = 'r'\ndata = 'd'\nlisten = '127.0.0.1:1'\nclue = 'standard'\n[limits]\nkeys = 5\n\
        [fetch]\npart = 'clue'\nmessages = 4\nwindow = 8\n[retention]\nbytes = 9\n\0RESTANTE_LIMITS__JOBS=3\0";
    let hexadecimal: String = address.to_file().iter().map(|byte| format!("{byte:02x}")).collect();
    let order = format!(
        "{{\"issue\":[[\"{}\",{{\"stream\":1,\"compact\":0,\"expires\":9}}]],\"revoke\":[\"{}\"]}}",
        "ab".repeat(32),
        "cd".repeat(16)
    );
    let entry = directory::Entry::new("alice", address.clone()).unwrap();
    let texts = [schema, config, &format!("alice = '{hexadecimal}'\n"), &order, "a\n\u{e9} b\r\n\n-5\n"];
    let mut files: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    files.extend([entry.to_record().unwrap(), parquet()]);
    files
}

/// A Parquet table with the columns of [`LAYOUT`].
fn parquet() -> Vec<u8> {
    let message = "message t { optional binary text (UTF8); optional int64 integer; optional double real; \
                   optional boolean boolean; optional binary bytes; }";
    let message = Arc::new(parse_message_type(message).unwrap());
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, message, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let (levels, text) = (Some(&[1i16, 0, 1][..]), [ByteArray::from("a"), ByteArray::from("b")]);
    let mut place = 0;
    while let Some(mut column) = group.next_column().unwrap() {
        match place {
            0 | 4 => column.typed::<ByteArrayType>().write_batch(&text, levels, None).unwrap(),
            1 => column.typed::<Int64Type>().write_batch(&[1, -2], levels, None).unwrap(),
            2 => column.typed::<DoubleType>().write_batch(&[0.5, 1e9], levels, None).unwrap(),
            _ => column.typed::<BoolType>().write_batch(&[true, false], levels, None).unwrap(),
        };
        column.close().unwrap();
        place += 1;
    }
    group.close().unwrap();
    writer.close().unwrap();
    file
}

/// A board with one full segment and one that is not.
fn board() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board");
    let config =
        BoardConfig { payload_bytes_max: 9, segment_capacity: 4, ..BoardConfig::new(BOARD, CLUE.id(), 12) };
    drop(Board::create(&path, &config).unwrap());
    let mut writer = BoardWriter::open(&path).unwrap();
    (0..6u8).for_each(|i| {
        // A period, and what makes each clue another one.
        writer.append(&[9, 0, 0, 0, i, i, i, i, i, i, i, i], &vec![i; usize::from(i)]).unwrap();
    });
    writer.commit().unwrap();
    drop(writer);
    files::pack_board(&path)
}

/// Inputs of the searching side: a hash function, a record, a bucket, and the record as tables have it.
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
