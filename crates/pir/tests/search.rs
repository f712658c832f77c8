//! The encrypted half of a search against selection in the clear.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use restante_pir::PirError;
use restante_pir::search::{
    ChunkSource, Cut, Preset, Query, QueryState, Reading, Scheme, SearchAnswer, SearchScan, SelectorHash,
    SelectorKind, Shape, WindowBuilder, WindowLimits, prepare, respond,
};
use restante_ring::Backend;
use restante_scan::{Runner, Scan};
use restante_wire::WireError;

/// A window in memory.
struct Table {
    shape: Shape,
    chunk_bytes: usize,
    buckets: Vec<u32>,
    contents: BTreeMap<u32, Vec<u8>>,
}

impl Table {
    fn new(scheme: &Scheme, shape: Shape, contents: BTreeMap<u32, Vec<u8>>) -> Self {
        let buckets = contents.keys().copied().collect();
        Self { shape, chunk_bytes: shape.chunk_bytes(scheme.preset()), buckets, contents }
    }

    /// Buckets of up to `columns` chunks, the first of which is short and the last full.
    fn random(scheme: &Scheme, shape: Shape, buckets: usize, columns: usize, seed: u8) -> Self {
        let mut rng = ChaCha20Rng::from_seed([seed; 32]);
        let most = columns * shape.chunk_bytes(scheme.preset());
        let mut contents = BTreeMap::new();
        while contents.len() < buckets {
            let len = match contents.len() {
                0 => 5,
                len if len + 1 == buckets => most,
                _ => 1 + rng.next_u32() as usize % most,
            };
            let mut bytes = vec![0; len];
            rng.fill_bytes(&mut bytes);
            *bytes.last_mut().unwrap() |= 1;
            contents.insert(rng.next_u32() & ((1 << shape.hash_bits()) - 1), bytes);
        }
        Self::new(scheme, shape, contents)
    }

    /// What a search for a bucket must give.
    fn expected(&self, bucket: u32) -> Vec<u8> {
        let mut bytes = self.contents.get(&bucket).cloned().unwrap_or_default();
        bytes.resize(self.columns() as usize * self.chunk_bytes, 0);
        bytes
    }
}

impl ChunkSource for Table {
    fn hash_bits(&self) -> u32 {
        self.shape.hash_bits()
    }

    fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    fn columns(&self) -> u32 {
        (0..self.buckets.len()).map(|place| self.bucket_columns(place)).max().unwrap_or(0)
    }

    fn buckets(&self) -> &[u32] {
        &self.buckets
    }

    fn bucket_columns(&self, place: usize) -> u32 {
        let bytes = self.buckets.get(place).map_or(0, |bucket| self.contents[bucket].len());
        bytes.div_ceil(self.chunk_bytes) as u32
    }

    fn read_chunk(&self, place: usize, column: u32, chunk: &mut [u8]) -> Result<usize, PirError> {
        let bytes = &self.contents[&self.buckets[place]];
        let bytes = &bytes[bytes.len().min(column as usize * chunk.len())..];
        let len = bytes.len().min(chunk.len());
        chunk[..len].copy_from_slice(&bytes[..len]);
        chunk[len..].fill(0);
        Ok(len)
    }
}

fn toy(backend: Backend) -> Scheme {
    Scheme::new(Preset::insecure_for_tests(), backend).unwrap()
}

fn query(scheme: &Scheme, shape: Shape, buckets: &[u32], seed: u8) -> (QueryState, Query) {
    let mut rng = ChaCha20Rng::from_seed([seed; 32]);
    Query::new(scheme, shape, buckets, b"public", b"secret", &mut rng).unwrap()
}

fn check(scheme: &Scheme, table: &Table, state: &QueryState, buckets: &[u32], answer: &SearchAnswer) {
    let opened = state.open(scheme, answer).unwrap();
    assert_eq!(opened.columns(), table.columns());
    for (selector, &bucket) in buckets.iter().enumerate() {
        let found: Vec<u8> = opened.chunks(selector).flatten().copied().collect();
        assert!(found == table.expected(bucket), "selector {selector}");
    }
    assert_eq!(opened.chunks(buckets.len()).count(), 0);
    assert!(opened.deviation() < 0.07, "{}", opened.deviation());
}

#[test]
fn searches_select_what_selection_in_the_clear_does() {
    let scheme = toy(Backend::best());
    let runner = Runner::new(2).unwrap();
    for (hash_bits, sharing, selectors, buckets, columns) in [
        (8, 1, 1, 100, 2),
        (9, 1, 3, 9, 11),
        (8, 4, 4, 256, 3),
        (13, 8, 11, 300, 1),
        (11, 16, 5, 40, 2),
        (8, 2, 2, 1, 1),
    ] {
        let shape = Shape::new(hash_bits, sharing).unwrap();
        let table = Table::random(&scheme, shape, buckets, columns, hash_bits as u8);
        // Buckets that are there, the first of which is asked for twice, and one that may not be.
        let mut wanted: Vec<u32> =
            (0..selectors).map(|index| table.buckets[index * 7 % table.buckets.len()]).collect();
        wanted[selectors - 1] ^= u32::from(selectors > 1);
        let (state, query) = query(&scheme, shape, &wanted, 1);
        assert_eq!(
            (query.selectors(), query.note(), state.note()),
            (selectors, &b"public"[..], &b"secret"[..])
        );

        let file = query.to_file(&scheme);
        assert_eq!(file.len(), shape.query_bytes(&scheme, selectors, 6));
        let query = Query::from_file(&scheme, &file).unwrap();
        assert_eq!(query.to_file(&scheme), file);
        let state = QueryState::from_file(&scheme, &state.to_file(&scheme)).unwrap();
        assert_eq!(state.to_file(&scheme).len(), Shape::state_bytes(6));

        let chunks = AtomicU64::new(0);
        let mut files = Vec::new();
        for keep_outer in [false, true] {
            let prepared = prepare(&scheme, &query, keep_outer, &runner).unwrap();
            assert_eq!(prepared.memory_bytes(), shape.prepared_bytes(scheme.preset(), selectors, keep_outer));
            let answers = respond(&[&prepared], &table, 3, b"note", &runner, |count| {
                chunks.fetch_add(count, Ordering::Relaxed);
            });
            files.push(answers.unwrap()[0].to_file(&scheme));
        }
        let all: u64 = (0..buckets).map(|place| u64::from(table.bucket_columns(place))).sum();
        assert_eq!(chunks.into_inner(), 2 * all);
        assert!(files[0] == files[1]);
        assert_eq!(files[0].len(), shape.answer_bytes(&scheme, selectors, table.columns(), 4));
        let answer = SearchAnswer::from_file(&scheme, &files[0]).unwrap();
        assert_eq!((answer.window(), answer.note()), (3, &b"note"[..]));
        assert_eq!(answer.file_bytes(&scheme), files[0].len());
        check(&scheme, &table, &state, &wanted, &answer);
    }
}

#[test]
fn answers_do_not_depend_on_threads_back_ends_or_company() {
    let shape = Shape::new(10, 2).unwrap();
    let scheme = toy(Backend::Scalar);
    let table = Table::random(&scheme, shape, 200, 3, 5);
    let wanted = [[1, 2, 3], [1023, 7, table.buckets[50]]];
    let queries = [0, 1].map(|index| query(&scheme, shape, &wanted[index], index as u8).1.to_file(&scheme));
    let mut expected = None;
    for backend in Backend::available() {
        let scheme = toy(backend);
        for threads in [1, 3] {
            let runner = Runner::new(threads).unwrap();
            let prepared = queries.each_ref().map(|file| {
                prepare(&scheme, &Query::from_file(&scheme, file).unwrap(), false, &runner).unwrap()
            });
            let together = respond(&[&prepared[0], &prepared[1]], &table, 0, b"", &runner, |_| ()).unwrap();
            let alone = prepared
                .each_ref()
                .map(|query| respond(&[query], &table, 0, b"", &runner, |_| ()).unwrap().remove(0));
            assert!(together == alone);
            let together: Vec<_> = together.iter().map(|answer| answer.to_file(&scheme)).collect();
            assert!(*expected.get_or_insert(together.clone()) == together, "{backend}, {threads} threads");
        }
    }
}

#[test]
fn records_are_found_from_selectors_to_fields() {
    let scheme = toy(Backend::best());
    let runner = Runner::new(2).unwrap();
    let shape = Shape::new(10, 4).unwrap();
    let hash = SelectorHash::new(SelectorKind::Bytes, 10, [7; 32]).unwrap();
    let cut = Cut { hash: hash.clone(), chunk_bytes: shape.chunk_bytes(scheme.preset()) };
    let mut builder = WindowBuilder::new(&[cut], WindowLimits::default()).unwrap();
    for number in 0..500u32 {
        // Selectors 0 to 99 have five records each.
        let selector = format!("selector {}", number % 100);
        builder.push(selector.as_bytes(), format!("record {number}").repeat(9).as_bytes()).unwrap();
    }
    let window = builder.seal().unwrap().remove(0);
    let selectors = ["selector 5", "selector 99", "nobody", "selector 42", "selector 0"];
    let buckets = selectors.map(|selector| hash.locate(selector.as_bytes()).bucket);
    let (state, query) = query(&scheme, shape, &buckets, 1);
    let prepared = prepare(&scheme, &query, false, &runner).unwrap();
    let answer = respond(&[&prepared], &window, 0, b"", &runner, |_| ()).unwrap().remove(0);
    let opened = state.open(&scheme, &answer).unwrap();
    let mut reading = Reading::new(&hash, &selectors);
    for place in 0..selectors.len() {
        opened.chunks(place).for_each(|chunk| reading.push(place, chunk).unwrap());
    }
    for (selector, found) in selectors.iter().zip(reading.finish()) {
        let expected: Vec<Vec<u8>> = (0..500u32)
            .filter(|number| format!("selector {}", number % 100) == *selector)
            .map(|number| format!("record {number}").repeat(9).into_bytes())
            .collect();
        assert_eq!(found.unwrap().records, expected, "{selector}");
    }
}

#[test]
fn partial_sums_add_up_in_any_order() {
    let scheme = toy(Backend::best());
    let shape = Shape::new(9, 1).unwrap();
    let table = Table::random(&scheme, shape, 150, 4, 6);
    let runner = Runner::new(1).unwrap();
    let wanted = [table.buckets[77]];
    let (state, query) = query(&scheme, shape, &wanted, 1);
    let prepared = prepare(&scheme, &query, true, &runner).unwrap();
    let queries = [&prepared];
    let scan = SearchScan::new(&queries, &table).unwrap();
    let answers = [1, 2, 100].map(|threads| {
        let mut shards = scan.shards(threads);
        assert!(shards.len() > 4, "{} for {threads}", shards.len());
        shards.reverse();
        let mut sum = scan.empty();
        for shard in &shards {
            scan.merge(&mut sum, scan.scan(shard).unwrap());
        }
        scan.finish_answers(scan.finish(sum), 0, b"").unwrap().remove(0)
    });
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    check(&scheme, &table, &state, &wanted, &answers[0]);
}

#[test]
fn an_empty_window_has_an_answer() {
    let scheme = toy(Backend::best());
    let shape = Shape::new(8, 1).unwrap();
    let table = Table::new(&scheme, shape, BTreeMap::new());
    let runner = Runner::new(1).unwrap();
    let (state, query) = query(&scheme, shape, &[5], 1);
    let prepared = prepare(&scheme, &query, false, &runner).unwrap();
    let answers = respond(&[&prepared], &table, 9, b"", &runner, |_| ()).unwrap();
    assert_eq!(answers[0].columns(), 0);
    assert_eq!(state.open(&scheme, &answers[0]).unwrap().chunks(0).count(), 0);
}

#[test]
fn the_standard_parameters_work() {
    let scheme = Scheme::new(Preset::standard(), Backend::best()).unwrap();
    let runner = Runner::new(2).unwrap();
    for (hash_bits, sharing, wanted) in [(8, 1, vec![]), (8, 8, vec![3, 9, 200])] {
        let shape = Shape::new(hash_bits, sharing).unwrap();
        let table = Table::random(&scheme, shape, 20, 2, 8);
        let wanted = if wanted.is_empty() { vec![table.buckets[3]] } else { wanted };
        let (state, query) = query(&scheme, shape, &wanted, 1);
        let file = query.to_file(&scheme);
        assert_eq!(file.len(), shape.query_bytes(&scheme, wanted.len(), 6));
        let prepared = prepare(&scheme, &Query::from_file(&scheme, &file).unwrap(), false, &runner).unwrap();
        let answer = respond(&[&prepared], &table, 0, b"", &runner, |_| ()).unwrap().remove(0);
        let file = answer.to_file(&scheme);
        assert_eq!(file.len(), shape.answer_bytes(&scheme, wanted.len(), 2, 0));
        check(&scheme, &table, &state, &wanted, &SearchAnswer::from_file(&scheme, &file).unwrap());
    }
}

#[test]
fn sizes_are_within_their_targets() {
    let scheme = Scheme::new(Preset::standard(), Backend::best()).unwrap();
    let shape = Shape::new(20, 1).unwrap();
    assert_eq!(shape.chunk_bytes(scheme.preset()), 32 << 10);
    assert!(shape.query_bytes(&scheme, 1, 0) < 9 << 19, "{}", shape.query_bytes(&scheme, 1, 0));
    assert!(shape.answer_bytes(&scheme, 1, 32, 0) < 5 << 19);
    let memory =
        shape.prepared_bytes(scheme.preset(), 1, false) + shape.working_bytes(scheme.preset(), 1, 1, 1);
    assert!(memory < 1 << 29, "{memory}");
}

#[test]
fn damaged_and_foreign_files_are_refused() {
    let scheme = toy(Backend::best());
    let shape = Shape::new(8, 1).unwrap();
    let runner = Runner::new(1).unwrap();
    let table = Table::random(&scheme, shape, 5, 1, 3);
    let (state, query) = query(&scheme, shape, &[table.buckets[1]], 1);
    let (_, other) = self::query(&scheme, shape, &[table.buckets[1]], 2);
    let [prepared, strange] = [&query, &other].map(|query| prepare(&scheme, query, false, &runner).unwrap());
    let mut answers = respond(&[&prepared, &strange], &table, 0, b"x", &runner, |_| ()).unwrap();
    assert!(matches!(state.open(&scheme, &answers[1]), Err(PirError::OtherSearch)));
    let answer = answers.swap_remove(0);

    let files: [(Vec<u8>, &dyn Fn(&[u8]) -> Result<(), PirError>); 3] = [
        (query.to_file(&scheme), &|bytes| Query::from_file(&scheme, bytes).map(drop)),
        (answer.to_file(&scheme), &|bytes| SearchAnswer::from_file(&scheme, bytes).map(drop)),
        (state.to_file(&scheme).to_vec(), &|bytes| QueryState::from_file(&scheme, bytes).map(drop)),
    ];
    for (index, (file, read)) in files.iter().enumerate() {
        read(file).unwrap();
        for cut in [0, 1, 23, 24, 30, 60, 79, file.len() - 17, file.len() - 1] {
            assert!(read(&file[..cut]).is_err());
        }
        for (other, (foreign, _)) in files.iter().enumerate() {
            assert_eq!(read(foreign).is_ok(), index == other);
        }
        // With the checksum made right: every byte of the fixed fields, and a sample of the others, set to other values.
        let envelope = restante_wire::Envelope::open(file).unwrap();
        for place in (0..80.min(envelope.body.len())).chain((80..envelope.body.len()).step_by(9973)) {
            for change in [0x01, 0x80, 0xff] {
                let mut body = envelope.body.to_vec();
                body[place] ^= change;
                // Any result will do, but not a panic.
                let _ = read(&restante_wire::Envelope { body: &body, ..envelope }.seal());
            }
        }
        let mut longer = envelope.body.to_vec();
        longer.push(0);
        assert!(matches!(
            read(&restante_wire::Envelope { body: &longer, ..envelope }.seal()),
            Err(PirError::Wire(WireError::Trailing { .. }))
        ));
    }

    // An answer of noise says so, to the querier.
    let mut noise = answer.to_file(&scheme);
    let len = noise.len();
    ChaCha20Rng::from_seed([7; 32]).fill_bytes(&mut noise[200..len - 16]);
    let mut body = noise[24..len - 16].to_vec();
    body.truncate(noise.len() - 40);
    let envelope = restante_wire::Envelope::open(&files[1].0).unwrap();
    let noise = SearchAnswer::from_file(&scheme, &restante_wire::Envelope { body: &body, ..envelope }.seal());
    assert!(matches!(state.open(&scheme, &noise.unwrap()), Err(PirError::Noise { column: 0 })));
}

#[test]
fn what_does_not_fit_is_refused() {
    let scheme = toy(Backend::best());
    let runner = Runner::new(1).unwrap();
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let shape = Shape::new(8, 1).unwrap();
    let size = |result: Result<_, PirError>| assert!(matches!(result, Err(PirError::Size { .. })));
    size(Query::new(&scheme, shape, &[], b"", b"", &mut rng).map(drop));
    size(Query::new(&scheme, shape, &[256], b"", b"", &mut rng).map(drop));
    size(Query::new(&scheme, shape, &[0; 5000], b"", b"", &mut rng).map(drop));
    size(Query::new(&scheme, shape, &[0], &[0; 70_000], b"", &mut rng).map(drop));
    let prepared = prepare(&scheme, &query(&scheme, shape, &[1], 1).1, false, &runner).unwrap();
    for wrong in [Shape::new(9, 1).unwrap(), Shape::new(8, 2).unwrap()] {
        let table = Table::random(&scheme, wrong, 5, 1, 3);
        size(respond(&[&prepared], &table, 0, b"", &runner, |_| ()).map(drop));
        let other = prepare(&scheme, &query(&scheme, wrong, &[1], 1).1, false, &runner).unwrap();
        size(respond(&[&prepared, &other], &table, 0, b"", &runner, |_| ()).map(drop));
    }
    let table = Table::random(&scheme, shape, 5, 1, 3);
    let mut unsorted = Table::random(&scheme, shape, 5, 1, 3);
    unsorted.buckets.swap(1, 2);
    size(respond(&[&prepared], &unsorted, 0, b"", &runner, |_| ()).map(drop));
    let standard = Scheme::new(Preset::standard(), Backend::best()).unwrap();
    let (state, query) = query(&scheme, shape, &[1], 1);
    assert!(matches!(prepare(&standard, &query, false, &runner), Err(PirError::Wire(_))));
    let answer = respond(&[&prepared], &table, 0, b"", &runner, |_| ()).unwrap().remove(0);
    assert!(matches!(state.open(&standard, &answer), Err(PirError::Wire(_))));
    size(respond(&[], &table, 0, b"", &runner, |_| ()).map(drop));
    size(respond(&[&prepared], &table, 0, &[0; 70_000], &runner, |_| ()).map(drop));
}
