//! What a pass says that it takes of memory is what it allocates at most, and not many times that.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![cfg(feature = "server")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_pir::fetch::{Catalog, Content, EpochBuilder, Query, answer_files, scan_bytes};
use restante_pir::search::{
    ChunkSource, Cut, Preset, Query as SearchQuery, Scheme, SelectorHash, SelectorKind, Shape, WindowBuilder,
    WindowLimits, prepare, respond,
};
use restante_ring::Backend;
use restante_scan::Runner;

/// Counts what is allocated, and the most that was at once.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: everything is handed on to the system's allocator as it is; beside that, numbers are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promises are the system's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The result of some work, and what it took beyond what there was.
fn measured<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    (result, (PEAK.load(Ordering::Relaxed) - before) as u64)
}

/// One test, since the counters are the process'.
#[test]
fn memory_is_what_was_said_beforehand() {
    a_pass_over_an_epoch();
    a_search();
}

fn a_pass_over_an_epoch() {
    let scratch = tempfile::tempdir().unwrap();
    for (place, (record_bytes, records)) in
        [(32, 200_000), (4200, 3000), (65_536, 130)].into_iter().enumerate()
    {
        let path = scratch.path().join(place.to_string());
        let mut builder = EpochBuilder::create(&path, record_bytes, Content::Raw).unwrap();
        for record in 0..records {
            builder.push(&vec![record as u8; record_bytes]).unwrap();
        }
        let epoch = builder.seal().unwrap();
        let catalog = Catalog::open(&path).unwrap();
        for fetches in [&[1][..], &[8], &[1; 20], &[15, 15, 15], &[300], &[1024], &[100, 1, 30, 2, 2, 40]] {
            let query = |fetches: &usize| {
                let file = catalog.query(&[0], *fetches, &mut ChaCha20Rng::from_seed([1; 32])).unwrap().1[0]
                    .to_file();
                assert_eq!(catalog.info().fetches_of(file.len()).unwrap(), *fetches);
                let (query, memory) = measured(|| Query::from_file(&file).unwrap());
                let said =
                    catalog.info().query_memory_bytes(*fetches).unwrap() as u64 + 2 * file.len() as u64;
                // The test harness has a thread that allocates, too.
                assert!(memory <= said + 4096, "a query of {fetches}: {memory}, said {said}");
                query
            };
            let queries: Vec<Query> = fetches.iter().map(query).collect();
            let queries: Vec<&Query> = queries.iter().collect();
            for threads in [1, 2, 5] {
                let runner = Runner::new(threads).unwrap();
                // Threads that have begun.
                runner.install(|| ());
                let (answers, found) =
                    measured(|| answer_files(&epoch, &queries, &runner, |_| true).unwrap().unwrap());
                let said = scan_bytes(epoch.info(), fetches, threads);
                let what = format!(
                    "{record_bytes} bytes, {fetches:?}, {threads} threads: {found} allocated, {said} said"
                );
                assert!(found <= said, "{what}");
                // No more than twice as much, and what threads work in.
                assert!(said <= 2 * found + (threads as u64 + 1) * (1 << 20) + (4 << 20), "{what}");
                drop(answers);
            }
        }
    }
}

fn a_search() {
    let scheme = Scheme::new(Preset::standard(), Backend::best()).unwrap();
    let shape = Shape::new(8, 1).unwrap();
    let chunk_bytes = shape.chunk_bytes(scheme.preset());
    let hash = SelectorHash::new(SelectorKind::Bytes, 8, [3; 32]).unwrap();
    let mut builder =
        WindowBuilder::new(&[Cut { hash: hash.clone(), chunk_bytes }], WindowLimits::default()).unwrap();
    for record in 0..2000u32 {
        builder.push(&record.to_le_bytes(), &[record as u8; 600]).unwrap();
    }
    let window = builder.seal().unwrap().pop().unwrap();
    // The largest first: buffers that are kept would hide what the others take.
    for (queries, threads) in [(3, 2), (1, 2), (1, 1)] {
        let runner = Runner::new(threads).unwrap();
        runner.install(|| ());
        let asked: Vec<SearchQuery> = (0..queries)
            .map(|seed| {
                let mut rng = ChaCha20Rng::from_seed([seed as u8; 32]);
                SearchQuery::new(&scheme, shape, &[5], b"", b"", &mut rng).unwrap().1
            })
            .collect();
        let (prepared, found) = measured(|| {
            asked.iter().map(|query| prepare(&scheme, query, true, &runner).unwrap()).collect::<Vec<_>>()
        });
        let said = queries * shape.prepared_bytes(scheme.preset(), 1, true)
            + shape.preparing_bytes(scheme.preset(), threads);
        let what = format!("{queries} queries, {threads} threads: {found} allocated, {said} said");
        println!("prepared: {what}");
        assert!(found <= said as u64, "{what}");
        let prepared: Vec<_> = prepared.iter().collect();
        let (answers, found) = measured(|| respond(&prepared, &window, 0, &[], &runner, |_| {}).unwrap());
        let columns = window.columns();
        let said = shape.working_bytes(scheme.preset(), queries, columns, threads);
        let what = format!(
            "{queries} queries, {threads} threads, {columns} columns: {found} allocated, {said} said"
        );
        println!("answered: {what}");
        assert!(found <= said as u64, "{what}");
        drop(answers);
    }
}
