//! Private fetch from end to end, and what is refused.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;
use std::path::PathBuf;

use chacha20::ChaCha20Rng;
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use restante_board::{Board, BoardConfig, BoardId, BoardWriter};
use restante_pir::PirError;
use restante_pir::fetch::{
    Answer, Backend, Catalog, Content, Epoch, EpochBuilder, EpochInfo, Part, Query, State, answer,
    answer_all, answer_files, answer_with, decode,
};
use restante_scan::Runner;
use restante_wire::{ParameterId, WireError};
use tempfile::TempDir;

/// An epoch of random records, kept in the clear as well.
struct Place {
    directory: TempDir,
    records: Vec<Vec<u8>>,
    epoch: Epoch,
}

impl Place {
    fn new(record_bytes: usize, count: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut rng = rng(record_bytes as u64 ^ (count as u64) << 20);
        let records: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let mut record = vec![0; record_bytes];
                rng.fill_bytes(&mut record);
                record
            })
            .collect();
        let mut builder =
            EpochBuilder::create(directory.path().join("epoch"), record_bytes, Content::Raw).unwrap();
        records.iter().for_each(|record| builder.push(record).unwrap());
        let epoch = builder.seal().unwrap();
        Self { directory, records, epoch }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn catalog(&self) -> Catalog {
        Catalog::open(self.path("epoch")).unwrap()
    }

    /// Fetches by way of files, and checks what comes back against the records.
    fn check(&self, indices: &[u64], fetches: usize, runner: &Runner) {
        let catalog = self.catalog();
        let (state, queries) = catalog.query(indices, fetches, &mut rng(1)).unwrap();
        let state = State::from_file(&state.to_file()).unwrap();
        let answers = queries.map(|query| {
            let file = query.to_file();
            assert_eq!(file.len(), catalog.info().query_bytes(fetches).unwrap());
            let query = Query::from_file(&file).unwrap();
            let file = answer(&self.epoch, &query, runner).unwrap().to_file();
            assert_eq!(file.len(), catalog.info().answer_bytes(fetches).unwrap());
            Answer::from_file(&file).unwrap()
        });
        for (first, second) in [(0, 1), (1, 0)] {
            let fetched = decode(&state, &answers[first], &answers[second]).unwrap();
            assert_eq!(fetched.len(), indices.len());
            for (fetched, &index) in fetched.iter().zip(indices) {
                assert_eq!(fetched.index, index);
                assert!(*fetched.content == self.records[index as usize], "record {index}");
            }
        }
    }
}

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn runner() -> Runner {
    Runner::new(1).unwrap()
}

#[test]
fn every_index_of_small_epochs_is_fetched() {
    for record_bytes in [8, 16, 100] {
        for count in [1, 2, 3, 7, 8, 9, 26, 27, 28] {
            let place = Place::new(record_bytes, count);
            (0..count as u64).for_each(|index| place.check(&[index], 1, &runner()));
        }
    }
    for (record_bytes, count) in [(1024, 3), (65_536, 3), (9, 17), (32, 17), (2049, 17), (4100, 9)] {
        let place = Place::new(record_bytes, count);
        (0..count as u64).for_each(|index| place.check(&[index], 1, &runner()));
    }
}

#[test]
fn records_of_every_size_are_fetched_from_larger_epochs() {
    for record_bytes in [8, 16, 100, 1024, 65_536] {
        let counts: &[usize] = match record_bytes {
            65_536 => &[80, 82],
            1024 => &[1000, 1025],
            _ => &[1000, 2186, 2187, 2188, 70_000],
        };
        for &count in counts {
            let place = Place::new(record_bytes, count);
            let last = count as u64 - 1;
            place.check(&[0, last, last / 2, 7, last], 5, &runner());
        }
    }
}

#[test]
fn batches_of_any_size_are_padded() {
    let place = Place::new(100, 1000);
    for fetches in 1..=9 {
        for real in 0..=fetches {
            let indices: Vec<u64> = (0..real as u64).map(|fetch| fetch * 111).collect();
            place.check(&indices, fetches, &runner());
        }
    }
    // More than one group of keys, a batch that ends within one, and the largest.
    for fetches in [17, 1024] {
        place.check(&[999, 0], fetches, &runner());
    }
}

/// CASES 3: what leaves the client is the same in number and size, whatever it wants.
#[test]
fn clients_with_no_one_and_many_fetches_look_alike() {
    let place = Place::new(64, 3000);
    let catalog = place.catalog();
    let seen: Vec<_> = [vec![], vec![5], (0..16).collect::<Vec<u64>>()]
        .iter()
        .map(|indices| {
            let (state, queries) = catalog.query(indices, 16, &mut rng(2)).unwrap();
            let sent: Vec<_> = queries.iter().map(|query| (query.to_file().len(), query.fetches())).collect();
            let answers: Vec<_> = queries
                .iter()
                .map(|query| answer(&place.epoch, query, &runner()).unwrap().to_file().len())
                .collect();
            (sent, answers, state.to_file().len())
        })
        .collect();
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
}

/// One server's answer is the XOR of a random half of the records, whatever the index.
#[test]
fn one_answer_looks_random_whatever_the_index() {
    let place = Place::new(8, 3000);
    let catalog = place.catalog();
    let mut rng = rng(3);
    let (mut ones, mut bits) = (0, 0);
    for index in [0, 0, 1, 1500, 2999] {
        for party in 0..2 {
            let (_, queries) = catalog.query(&[index; 8], 8, &mut rng).unwrap();
            let shares = answer(&place.epoch, &queries[party], &runner()).unwrap().to_file();
            let shares = &shares[24 + 57..shares.len() - 16];
            ones += shares.iter().map(|byte| byte.count_ones()).sum::<u32>();
            bits += 8 * shares.len() as u32;
        }
    }
    // 5,120 bits: five standard deviations of a fair coin are 179.
    assert!(ones.abs_diff(bits / 2) < 179, "{ones} of {bits}");
}

#[test]
fn all_threads_and_back_ends_give_the_same_answers() {
    for (record_bytes, count) in [(8, 200_000), (100, 20_000), (1024, 3000), (65_536, 41)] {
        let place = Place::new(record_bytes, count);
        let (_, queries) = place.catalog().query(&[3, 0], 9, &mut rng(4)).unwrap();
        let expected = answer(&place.epoch, &queries[0], &runner()).unwrap();
        for threads in [1, 2, 3] {
            let runner = Runner::new(threads).unwrap();
            for backend in Backend::available() {
                let done = std::sync::atomic::AtomicU64::new(0);
                let count_up = |records| {
                    done.fetch_add(records, std::sync::atomic::Ordering::Relaxed);
                };
                let found = answer_with(&place.epoch, &[&queries[0]], &runner, backend, count_up).unwrap();
                assert!(found[0] == expected, "{threads} threads, {backend}");
                assert_eq!(done.into_inner(), count as u64);
            }
        }
    }
}

#[test]
fn queries_of_many_clients_share_a_pass() {
    let place = Place::new(100, 5000);
    let catalog = place.catalog();
    let clients: Vec<_> = (1..=9)
        .map(|fetches| catalog.query(&[fetches as u64 * 500], fetches, &mut rng(fetches as u64)).unwrap())
        .collect();
    let answers = [0, 1].map(|party| {
        let queries: Vec<_> = clients.iter().map(|(_, queries)| &queries[party]).collect();
        answer_all(&place.epoch, &queries, &runner()).unwrap()
    });
    for (client, (state, queries)) in clients.iter().enumerate() {
        let fetched = decode(state, &answers[0][client], &answers[1][client]).unwrap();
        assert!(*fetched[0].content == place.records[(client + 1) * 500]);
        assert_eq!(answers[0][client], answer(&place.epoch, &queries[0], &runner()).unwrap());
    }
    assert!(answer_all(&place.epoch, &[], &runner()).unwrap().is_empty());
}

#[test]
fn answers_in_pieces_are_the_same_files_and_a_pass_can_be_stopped() {
    let place = Place::new(100, 5000);
    let catalog = place.catalog();
    let queries: Vec<_> =
        [1, 70, 3, 16, 31].map(|fetches| catalog.query(&[7], fetches, &mut rng(2)).unwrap().1).into();
    let queries: Vec<&Query> = queries.iter().map(|pair| &pair[1]).collect();
    let files: Vec<_> =
        answer_all(&place.epoch, &queries, &runner()).unwrap().iter().map(Answer::to_file).collect();
    for threads in [1, 3] {
        let runner = Runner::new(threads).unwrap();
        let made = answer_files(&place.epoch, &queries, &runner, |_| true).unwrap().unwrap();
        for (made, file) in made.into_iter().zip(&files) {
            assert_eq!(made.bytes(), file.len());
            let pieces = made.into_pieces();
            assert!(pieces.iter().flat_map(AsRef::as_ref).eq(file));
        }
        let told = std::sync::atomic::AtomicUsize::new(0);
        let stopped = answer_files(&place.epoch, &queries, &runner, |_| {
            told.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 2
        });
        assert!(stopped.unwrap().is_none());
    }
}

#[test]
fn which_part_of_the_table_is_read_does_not_depend_on_the_indices() {
    // Every hash is found wherever it is, and the state is equally good for all of them.
    let place = Place::new(16, 700);
    let catalog = place.catalog();
    for index in [0, 1, 255, 256, 257, 511, 512, 699] {
        place.check(&[index], 2, &runner());
        assert!(catalog.query(&[index + 700], 2, &mut rng(1)).is_err());
    }
}

#[test]
fn another_epoch_is_refused_on_both_sides() {
    // The same shape, other records; and one record more.
    let (place, same_shape, longer) = (Place::new(16, 100), Place::new(16, 100), Place::new(16, 101));
    let mut builder = EpochBuilder::create(same_shape.path("other"), 16, Content::Raw).unwrap();
    same_shape.records.iter().rev().for_each(|record| builder.push(record).unwrap());
    let other = builder.seal().unwrap();
    assert_eq!(place.epoch.id(), same_shape.epoch.id());
    let (state, queries) = place.catalog().query(&[5], 2, &mut rng(5)).unwrap();
    for wrong in [&other, &longer.epoch] {
        let refused = answer(wrong, &queries[0], &runner()).unwrap_err();
        assert!(matches!(refused, PirError::EpochMismatch { what: "the query", .. }), "{refused}");
    }
    let catalog = Catalog::open(other.path()).unwrap();
    let (_, other_queries) = catalog.query(&[5], 2, &mut rng(5)).unwrap();
    let ours = answer(&place.epoch, &queries[0], &runner()).unwrap();
    let theirs = answer(&other, &other_queries[1], &runner()).unwrap();
    for (first, second) in [(&ours, &theirs), (&theirs, &ours)] {
        let refused = decode(&state, first, second).unwrap_err();
        assert!(matches!(refused, PirError::EpochMismatch { what: "the answer", .. }), "{refused}");
    }
}

#[test]
fn answers_of_the_wrong_server_or_to_another_query_are_refused() {
    let place = Place::new(16, 100);
    let catalog = place.catalog();
    let (state, queries) = catalog.query(&[5], 2, &mut rng(6)).unwrap();
    let (_, others) = catalog.query(&[5], 2, &mut rng(7)).unwrap();
    let [first, second, other] =
        [&queries[0], &queries[1], &others[1]].map(|query| answer(&place.epoch, query, &runner()).unwrap());
    assert!(matches!(decode(&state, &first, &first), Err(PirError::SameParty { party: 0 })));
    assert!(matches!(decode(&state, &second, &second), Err(PirError::SameParty { party: 1 })));
    assert!(matches!(decode(&state, &first, &other), Err(PirError::OtherQuery { party: 1 })));
    assert!(decode(&state, &second, &first).is_ok());
}

#[test]
fn every_wrong_bit_of_a_share_is_noticed() {
    let place = Place::new(8, 50);
    let (state, queries) = place.catalog().query(&[5], 2, &mut rng(8)).unwrap();
    let [first, second] = queries.map(|query| answer(&place.epoch, &query, &runner()).unwrap());
    let file = first.to_file();
    let body = &file[24..file.len() - 16];
    let header = 57;
    for bit in header * 8..body.len() * 8 {
        // With a checksum that fits: a server that lies, not damage on the way.
        let mut changed = body.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        let envelope = restante_wire::Envelope {
            kind: restante_wire::Kind::FetchAnswer,
            version: 1,
            parameters: ParameterId::NONE,
            body: &changed,
        };
        let lie = Answer::from_file(&envelope.seal()).unwrap();
        // Dummies are checked, too.
        let fetch = (bit / 8 - header) / 8;
        let refused = decode(&state, &lie, &second).unwrap_err();
        assert!(matches!(refused, PirError::WrongRecord { fetch: found } if found == fetch), "bit {bit}");
    }
}

#[test]
fn a_server_with_a_damaged_record_is_noticed() {
    let place = Place::new(100, 30);
    fs::create_dir(place.path("damaged")).unwrap();
    for name in ["epoch", "hashes"] {
        fs::copy(place.path("epoch").join(name), place.path("damaged").join(name)).unwrap();
    }
    let mut records = place.records.concat();
    records[17 * 100 + 3] ^= 1;
    fs::write(place.path("damaged/records"), &records).unwrap();
    let damaged = Epoch::open(place.path("damaged")).unwrap();
    assert!(matches!(damaged.verify(), Err(PirError::Record { index: 17, .. })));
    assert!(place.epoch.verify().is_ok());
    let wrong = (0..32)
        .filter(|&seed| {
            let (state, queries) = place.catalog().query(&[4], 1, &mut rng(seed)).unwrap();
            let first = answer(&damaged, &queries[0], &runner()).unwrap();
            let second = answer(&place.epoch, &queries[1], &runner()).unwrap();
            decode(&state, &first, &second).is_err()
        })
        .count();
    // Each key selects the record with probability one half.
    assert!((4..29).contains(&wrong), "{wrong}");
}

#[test]
fn damaged_and_foreign_files_are_refused() {
    let place = Place::new(8, 50);
    let (state, queries) = place.catalog().query(&[5], 2, &mut rng(9)).unwrap();
    let answered = answer(&place.epoch, &queries[0], &runner()).unwrap();
    let info = fs::read(place.path("epoch/epoch")).unwrap();
    assert_eq!(EpochInfo::from_file(&info).unwrap(), *place.epoch.info());
    type Read = fn(&[u8]) -> bool;
    let readers: [Read; 4] = [
        |bytes| Query::from_file(bytes).is_ok(),
        |bytes| Answer::from_file(bytes).is_ok(),
        |bytes| State::from_file(bytes).is_ok(),
        |bytes| EpochInfo::from_file(bytes).is_ok(),
    ];
    let files = [queries[0].to_file(), answered.to_file(), state.to_file().to_vec(), info];
    for (kind, file) in files.iter().enumerate() {
        for (reader, read) in readers.iter().enumerate() {
            assert_eq!(read(file), reader == kind, "{kind} as {reader}");
        }
        (0..file.len()).for_each(|len| assert!(!readers[kind](&file[..len]), "{kind} cut to {len}"));
        for bit in 0..file.len() * 8 {
            let mut changed = file.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!readers[kind](&changed), "{kind}, bit {bit}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Bodies with changed bytes and a checksum that fits: an error or something that is written back the same, never a panic.
    #[test]
    fn changed_bodies_are_refused_or_read_back(
        kind in 0usize..4,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        head: bool,
    ) {
        let place = Place::new(8, 9);
        let (state, queries) = place.catalog().query(&[5], 2, &mut rng(9)).unwrap();
        let answered = answer(&place.epoch, &queries[0], &runner()).unwrap();
        let files = [
            queries[0].to_file(),
            answered.to_file(),
            state.to_file().to_vec(),
            place.epoch.info().to_file(),
        ];
        let envelope = restante_wire::Envelope::open(&files[kind]).unwrap();
        let mut body = envelope.body.to_vec();
        let reach = if head { body.len().min(60) } else { body.len() };
        for (place, value) in changes {
            body[place.index(reach)] = value;
        }
        if let Some(cut) = cut {
            body.truncate(cut.index(body.len()));
        }
        let file = restante_wire::Envelope { body: &body, ..envelope }.seal();
        let again = match kind {
            0 => Query::from_file(&file).map(|query| {
                // The server refuses it or answers; it does not fall over.
                let _ = answer(&place.epoch, &query, &runner());
                query.to_file()
            }),
            1 => Answer::from_file(&file).map(|answer| {
                let _ = decode(&state, &answer, &answered);
                answer.to_file()
            }),
            2 => State::from_file(&file).map(|state| {
                let _ = decode(&state, &answered, &answered);
                state.to_file().to_vec()
            }),
            _ => EpochInfo::from_file(&file).map(|info| info.to_file()),
        };
        if let Ok(again) = again {
            prop_assert!(again == file);
        }
    }
}

#[test]
fn keys_for_another_number_of_records_are_refused() {
    let (small, large) = (Place::new(8, 50), Place::new(8, 5000));
    let (_, queries) = small.catalog().query(&[5], 2, &mut rng(10)).unwrap();
    let file = queries[0].to_file();
    let mut body = file[24..file.len() - 16].to_vec();
    body[..32].copy_from_slice(&large.epoch.id().0);
    let file = restante_wire::Envelope {
        kind: restante_wire::Kind::FetchQuery,
        version: 1,
        parameters: ParameterId::NONE,
        body: &body,
    };
    let query = Query::from_file(&file.seal()).unwrap();
    let refused = answer(&large.epoch, &query, &runner()).unwrap_err();
    assert!(matches!(refused, PirError::Wire(WireError::OutOfRange { found: 50, .. })), "{refused}");
}

#[test]
fn sizes_outside_the_limits_are_refused() {
    let place = Place::new(8, 50);
    let catalog = place.catalog();
    let mut rng = rng(11);
    for fetches in [0, 1025] {
        assert!(matches!(catalog.query(&[], fetches, &mut rng), Err(PirError::Size { .. })));
        assert!(catalog.info().query_bytes(fetches).is_err());
    }
    assert!(matches!(catalog.query(&[1, 2], 1, &mut rng), Err(PirError::Size { .. })));
    let refused = catalog.query(&[50], 1, &mut rng).unwrap_err();
    assert!(matches!(refused, PirError::IndexOutside { records: 50 }));
    for record_bytes in [0, 7, 65_537] {
        let refused = EpochBuilder::create(place.path("no"), record_bytes, Content::Raw).unwrap_err();
        assert!(refused.to_string().contains("expected 8 to 65536"), "{refused}");
    }
    let empty = EpochBuilder::create(place.path("no"), 8, Content::Raw).unwrap();
    assert!(matches!(empty.seal(), Err(PirError::Size { found: 0, .. })));
    assert!(!place.path("no").exists());
}

#[test]
fn misfitting_records_are_named() {
    let place = Place::new(8, 2);
    let mut builder = EpochBuilder::create(place.path("raw"), 8, Content::Raw).unwrap();
    builder.push(&[1; 8]).unwrap();
    let refused = builder.push(&[1; 9]).unwrap_err();
    assert_eq!(refused.to_string(), "record 1: 9 bytes, expected 8");
    fs::write(place.path("file"), [7; 20]).unwrap();
    let refused = builder.push_file(place.path("file")).unwrap_err().to_string();
    assert!(
        refused.starts_with("record 3: ") && refused.contains("after 4 bytes of it, expected 8"),
        "{refused}"
    );

    let mut builder = EpochBuilder::create(place.path("padded"), 8, Content::Padded).unwrap();
    builder.push(&[1; 4]).unwrap();
    let refused = builder.push(&[1; 5]).unwrap_err();
    assert_eq!(refused.to_string(), "record 1: a payload of 5 bytes, expected at most 4");
    assert!(builder.push_file(place.path("file")).is_err());
}

#[test]
fn an_epoch_appears_whole_or_not_at_all() {
    let place = Place::new(8, 20);
    let mut builder = EpochBuilder::create(place.path("new"), 8, Content::Raw).unwrap();
    builder.push(&[1; 8]).unwrap();
    assert!(!place.path("new").exists());
    drop(builder);
    let names: Vec<_> =
        fs::read_dir(place.directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["epoch"]);
    let refused = EpochBuilder::create(place.path("epoch"), 8, Content::Raw).unwrap_err();
    assert!(matches!(refused, PirError::Exists { .. }));

    // Damage that is noticed on opening.
    let records = place.path("epoch/records");
    let bytes = fs::read(&records).unwrap();
    for wrong in [&bytes[..159], &[&bytes[..], &[0]].concat()] {
        fs::remove_file(&records).unwrap();
        fs::write(&records, wrong).unwrap();
        assert!(matches!(Epoch::open(place.path("epoch")), Err(PirError::Length { expected: 160, .. })));
    }
    let table = place.path("epoch/hashes");
    let mut hashes = fs::read(&table).unwrap();
    hashes[77] ^= 1;
    fs::remove_file(&table).unwrap();
    fs::write(&table, &hashes).unwrap();
    assert!(matches!(Catalog::open(place.path("epoch")), Err(PirError::Root { .. })));
    fs::write(&table, &hashes[1..]).unwrap();
    assert!(matches!(Catalog::open(place.path("epoch")), Err(PirError::Length { .. })));
    fs::remove_file(place.path("epoch/epoch")).unwrap();
    assert!(matches!(Epoch::open(place.path("epoch")), Err(PirError::NotAnEpoch { .. })));
    assert!(matches!(Epoch::open(place.path("nothing")), Err(PirError::Io { .. })));
}

/// CASES 14: the same epoch as from the beginning.
#[test]
fn appending_gives_the_epoch_that_building_gives() {
    let place = Place::new(100, 1000);
    let mut whole = EpochBuilder::create(place.path("whole"), 100, Content::Raw).unwrap();
    let mut longer = EpochBuilder::extend(place.path("longer"), &place.epoch).unwrap();
    assert_eq!(longer.len(), 1000);
    place.records.iter().for_each(|record| whole.push(record).unwrap());
    for extra in 0..10 {
        whole.push(&[extra; 100]).unwrap();
        longer.push(&[extra; 100]).unwrap();
    }
    let (whole, longer) = (whole.seal().unwrap(), longer.seal().unwrap());
    assert_eq!(whole.id(), longer.id());
    assert_ne!(whole.id(), place.epoch.id());
    longer.verify().unwrap();
    for name in ["epoch", "hashes", "records"] {
        let [first, second] = [&whole, &longer].map(|epoch| fs::read(epoch.path().join(name)).unwrap());
        assert!(first == second, "{name}");
    }
    // The old one still answers.
    place.check(&[999], 1, &runner());
}

#[test]
fn a_boards_messages_are_padded_and_read_back() {
    let place = Place::new(8, 1);
    let board = place.path("board");
    Board::create(
        &board,
        &BoardConfig { tail_bytes: 0, ..BoardConfig::new(BoardId([1; 16]), ParameterId::of("test"), 4) },
    )
    .unwrap();
    let mut writer = BoardWriter::open(&board).unwrap();
    for length in 0..40u8 {
        writer.append(&[length; 4], &vec![length; length.into()]).unwrap();
    }
    writer.commit().unwrap();
    let board = Board::open(&board).unwrap();
    for (part, expected) in [
        (Part::Clue, [vec![0; 4], vec![39; 4]]),
        (Part::Payload, [vec![], vec![39; 39]]),
        (Part::Message, [vec![0; 4], vec![39; 43]]),
    ] {
        let path = place.path(&format!("{part:?}"));
        let mut builder = EpochBuilder::create(&path, 47, Content::Padded).unwrap();
        builder.push_board(&board, part, 0..40).unwrap();
        assert!(builder.push_board(&board, part, 40..41).is_err());
        let epoch = builder.seal().unwrap();
        let (state, queries) = Catalog::open(&path).unwrap().query(&[0, 39], 3, &mut rng(12)).unwrap();
        let [first, second] = queries.map(|query| answer(&epoch, &query, &runner()).unwrap());
        let fetched = decode(&state, &first, &second).unwrap();
        assert_eq!([fetched[0].content.to_vec(), fetched[1].content.to_vec()], expected);
    }
}

#[test]
fn nothing_secret_is_in_debug_output() {
    let place = Place::new(8, 5000);
    let (state, queries) = place.catalog().query(&[4321], 2, &mut rng(13)).unwrap();
    let text = format!("{state:?} {queries:?}");
    assert!(!text.contains("4321") && !text.contains("real") && text.contains("fetches: 2"), "{text}");
}

#[test]
fn a_catalog_from_bytes_is_that_of_the_files() {
    let place = Place::new(16, 13);
    let info = EpochInfo::from_file(&fs::read(place.path("epoch/epoch")).unwrap()).unwrap();
    let table = fs::read(place.path("epoch/hashes")).unwrap();
    assert_eq!(table.len() as u64, info.table_bytes());
    let catalog = Catalog::new(info.clone(), table.clone()).unwrap();
    assert_eq!(catalog.id(), place.epoch.id());
    let (_, ours) = catalog.query(&[5], 2, &mut rng(3)).unwrap();
    let (_, theirs) = place.catalog().query(&[5], 2, &mut rng(3)).unwrap();
    assert_eq!(ours.map(|query| query.to_file()), theirs.map(|query| query.to_file()));
    let mut changed = table.clone();
    changed[40] ^= 1;
    let longer = [table.as_slice(), &[0]].concat();
    for wrong in [changed, longer, table[32..].to_vec(), vec![]] {
        assert!(matches!(Catalog::new(info.clone(), wrong), Err(PirError::ForeignTable { .. })));
    }
}
