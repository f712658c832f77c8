//! `restante bench fetch`: answers to private queries, beside a pass that only reads the records.

use std::time::{Duration, Instant};

use rand_core::Rng;
use restante_pir::fetch::{
    Answer, Backend, Catalog, Content, Epoch, EpochBuilder, Query, answer_with, decode,
};

use crate::{Bench, BenchError, Measurement, kernels, peak_rss_bytes};

/// The pass and its limit are taken in turn this many times; the best of each count.
const ROUNDS: usize = 5;

/// The work.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// The size of the records together, in MiB.
    pub mib: u64,
    /// The size of a record in bytes, at least 8.
    pub record_bytes: u32,
    /// Queries that one pass answers.
    pub queries: u16,
}

/// Answers queries.
///
/// # Errors
///
/// [`BenchError::Sizes`] for records that do not fit, [`BenchError::Wrong`] if a fetched record is wrong, and those of the system.
pub fn measure(bench: &Bench<'_>, sizes: &Sizes) -> Result<Measurement, BenchError> {
    let folder = std::env::temp_dir();
    let scratch = tempfile::tempdir().map_err(BenchError::system("make a directory in", &folder))?;
    let path = scratch.path().join("epoch");
    let size = sizes.record_bytes as usize;
    let records = (sizes.mib << 20) / size.max(1) as u64;
    if records == 0 {
        return Err(BenchError::Sizes(format!("{} MiB hold no record of {size} bytes", sizes.mib)));
    }
    let start = Instant::now();
    let epoch = build(bench, &path, size, records)?;
    let build_seconds = start.elapsed().as_secs_f64();

    // One fetch a query: what many clients send.
    let catalog = Catalog::open(&path)?;
    let mut rng = bench.rng()?;
    let mut clients = Vec::new();
    for _ in 0..sizes.queries {
        clients.push(catalog.query(&[rng.next_u64() % records], 1, &mut rng)?);
    }
    let backend = bench.backend;
    let [first, second] =
        [0, 1].map(|party| clients.iter().map(|(_, queries)| &queries[party]).collect::<Vec<_>>());
    // The second server's work, and the first touch of the mapping.
    let theirs = answer_with(&epoch, &second, bench.runner, backend, |_| ())?;
    let (ours, best, read) = answer(bench, &epoch, &first, backend)?;
    let peak = peak_rss_bytes();
    for ((state, _), (ours, theirs)) in clients.iter().zip(ours.iter().zip(&theirs)) {
        let fetched = decode(state, ours, theirs).map_err(|error| BenchError::Wrong(error.to_string()))?;
        if fetched.iter().any(|record| Some(record.content.as_slice()) != epoch.record(record.index)) {
            return Err(BenchError::Wrong("a fetched record is wrong".into()));
        }
    }

    let gib = epoch.bytes().len() as f64 / f64::from(1 << 30);
    let [seconds, read_seconds] = [best, read].map(|time| time.as_secs_f64());
    Ok(Measurement::new()
        .with("bench", "fetch")
        .with("mib", sizes.mib)
        .with("record_bytes", size)
        .with("records", records)
        .with("queries", sizes.queries)
        .with("threads", bench.runner.threads())
        .with("backend", backend.to_string())
        .with("dpf_backend", restante_dpf::Backend::best().to_string())
        .with("seconds", seconds)
        .with("limit_seconds", read_seconds)
        .with("limit_ratio", seconds / read_seconds)
        .with("gib_per_second", gib / seconds)
        .with("read_gib_per_second", gib / read_seconds)
        .with("share_of_read_bandwidth", read_seconds / seconds)
        .with("us_per_query", 1e6 * seconds / f64::from(sizes.queries))
        .with("query_bytes", first[0].to_file().len())
        .with("answer_bytes", ours[0].to_file().len())
        .with("build_seconds", build_seconds)
        .with("peak_rss_bytes", peak))
}

/// The answers, and the best times of an answer to all queries and of a pass that only reads, which take turns.
fn answer(
    bench: &Bench<'_>,
    epoch: &Epoch,
    queries: &[&Query],
    backend: Backend,
) -> Result<(Vec<Answer>, Duration, Duration), BenchError> {
    let (mut best, mut read) = (Duration::MAX, Duration::MAX);
    let mut answers = Vec::new();
    let bar = bench.progress("answering", ROUNDS as u64);
    for _ in 0..ROUNDS {
        read = read.min(kernels::read(epoch, bench.runner));
        let start = Instant::now();
        answers = answer_with(epoch, queries, bench.runner, backend, |_| ())?;
        best = best.min(start.elapsed());
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((answers, best, read))
}

/// Records that are all different. What they hold does not matter for the time.
fn build(
    bench: &Bench<'_>,
    path: &std::path::Path,
    record_bytes: usize,
    records: u64,
) -> Result<Epoch, BenchError> {
    let mut builder = EpochBuilder::create(path, record_bytes, Content::Raw)?;
    let mut record = vec![0; record_bytes];
    bench.rng()?.fill_bytes(&mut record);
    let bar = bench.progress("making records", records);
    for index in 0..records {
        record[..8].copy_from_slice(&index.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        builder.push(&record)?;
        if index % 4096 == 4095 {
            bar.inc(4096);
        }
    }
    bar.finish_and_clear();
    Ok(builder.seal()?)
}
