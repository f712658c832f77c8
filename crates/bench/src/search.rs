//! `restante bench search`: queries, their expansion, the pass over a window, finishing and opening.

use std::time::Instant;

use rand_core::Rng;
use restante_pir::{
    PirError,
    search::{ChunkSource, Preset, Query, QueryState, Scheme, SearchAnswer, SearchScan, Shape, prepare},
};

use crate::{Bench, BenchError, Measurement, kernels::SearchKernels, peak_rss_bytes, processor_seconds};

/// Random bytes that records are cut from.
const POOL_BYTES: usize = 1 << 20;

/// Records that are made when they are read: as many bytes as fill a bucket, all different.
struct Records {
    hash_bits: u32,
    chunk_bytes: usize,
    bucket_bytes: usize,
    buckets: Vec<u32>,
    pool: Vec<u8>,
}

impl ChunkSource for Records {
    fn hash_bits(&self) -> u32 {
        self.hash_bits
    }

    fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    fn columns(&self) -> u32 {
        self.bucket_bytes.div_ceil(self.chunk_bytes) as u32
    }

    fn buckets(&self) -> &[u32] {
        &self.buckets
    }

    fn bucket_columns(&self, place: usize) -> u32 {
        if place < self.buckets.len() { self.columns() } else { 0 }
    }

    fn read_chunk(&self, place: usize, column: u32, chunk: &mut [u8]) -> Result<usize, PirError> {
        let len = chunk.len().min(self.bucket_bytes - column as usize * self.chunk_bytes);
        let number = (place as u64) << 20 | u64::from(column);
        let start = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44) as usize % (POOL_BYTES - chunk.len());
        chunk[..len].copy_from_slice(&self.pool[start..start + len]);
        chunk[..8].copy_from_slice(&number.to_le_bytes());
        chunk[len..].fill(0);
        Ok(len)
    }
}

/// The work.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// The size of the records together, in MiB.
    pub mib: u64,
    /// The size of a record in bytes, at least 8.
    pub record_bytes: u32,
    /// Bits of a selector's hash: 2^B buckets.
    pub hash_bits: u32,
    /// Queries that one pass answers.
    pub queries: u16,
    /// Selectors of each query.
    pub selectors: u16,
    /// Selectors that share a ciphertext: a power of two.
    pub sharing: u16,
    /// Whether the outer table stays in memory.
    pub keep_outer: bool,
    /// Whether the records are spread over all buckets, as a small table's are, or fill consecutive ones, as in a part of a large table.
    pub scattered: bool,
}

impl Default for Sizes {
    /// 1 GiB of records of 1 MiB in 2^20 buckets, and one query.
    fn default() -> Self {
        Self {
            mib: 1024,
            record_bytes: 1 << 20,
            hash_bits: 20,
            queries: 1,
            selectors: 1,
            sharing: 1,
            keep_outer: false,
            scattered: false,
        }
    }
}

impl Records {
    /// As many as there are, and how many buckets they fill.
    fn new(sizes: &Sizes, chunk_bytes: usize, rng: &mut impl Rng) -> Result<(Self, u64), BenchError> {
        let record_bytes = u64::from(sizes.record_bytes).max(1);
        let records = (sizes.mib << 20) / record_bytes;
        if records == 0 {
            return Err(BenchError::Sizes(format!(
                "{} MiB hold no record of {record_bytes} bytes",
                sizes.mib
            )));
        }
        let all = 1u64 << sizes.hash_bits;
        let used = records.min(all);
        let step = if sizes.scattered { all / used } else { 1 };
        let mut source = Self {
            hash_bits: sizes.hash_bits,
            chunk_bytes,
            bucket_bytes: (record_bytes * (records / used)) as usize,
            buckets: (0..used).map(|index| (index * step) as u32).collect(),
            pool: vec![0; POOL_BYTES],
        };
        rng.fill_bytes(&mut source.pool);
        Ok((source, records))
    }
}

/// A querier's part of one query.
struct Asked {
    state: QueryState,
    file: Vec<u8>,
    /// The places of the buckets that it asks for.
    places: Vec<usize>,
}

fn ask(
    bench: &Bench<'_>,
    scheme: &Scheme,
    shape: Shape,
    sizes: &Sizes,
    source: &Records,
) -> Result<Vec<Asked>, BenchError> {
    let mut rng = bench.rng()?;
    let used = source.buckets.len() as u64;
    let mut asked = Vec::new();
    for _ in 0..sizes.queries {
        let places: Vec<usize> = (0..sizes.selectors).map(|_| (rng.next_u64() % used) as usize).collect();
        let buckets: Vec<u32> = places.iter().map(|&place| source.buckets[place]).collect();
        let (state, query) = Query::new(scheme, shape, &buckets, b"", b"", &mut rng)?;
        asked.push(Asked { state, file: query.to_file(scheme), places });
    }
    Ok(asked)
}

/// The querier's side of the answers.
struct Opened {
    seconds: f64,
    deviation: f64,
    answer_bytes: usize,
}

/// Opens the answers; a record that is not the one that was asked for is an error.
fn open(
    scheme: &Scheme,
    source: &Records,
    asked: &[Asked],
    answers: &[SearchAnswer],
) -> Result<Opened, BenchError> {
    let mut all = Opened { seconds: f64::INFINITY, deviation: 0.0, answer_bytes: 0 };
    let mut chunk = vec![0; source.chunk_bytes];
    for (Asked { state, places, .. }, answer) in asked.iter().zip(answers) {
        let file = answer.to_file(scheme);
        all.answer_bytes = file.len();
        let start = Instant::now();
        let opened = state.open(scheme, &SearchAnswer::from_file(scheme, &file)?)?;
        all.seconds = all.seconds.min(start.elapsed().as_secs_f64());
        all.deviation = all.deviation.max(opened.deviation());
        for (selector, &place) in places.iter().enumerate() {
            for (column, found) in (0..).zip(opened.chunks(selector)) {
                source.read_chunk(place, column, &mut chunk)?;
                if found != chunk {
                    return Err(BenchError::Wrong("a record that was searched for is wrong".into()));
                }
            }
        }
    }
    Ok(all)
}

/// Answers queries over records that are made while they are read.
///
/// # Errors
///
/// [`BenchError::Sizes`] for records that do not fit, [`BenchError::Pir`] for shapes that there are not, [`BenchError::Wrong`] if a record
/// is wrong.
pub fn measure(bench: &Bench<'_>, sizes: &Sizes) -> Result<Measurement, BenchError> {
    let scheme = Scheme::new(Preset::standard(), bench.backend)?;
    let shape = Shape::new(sizes.hash_bits, sizes.sharing.into())?;
    let runner = bench.runner;
    let (source, records) = Records::new(sizes, shape.chunk_bytes(scheme.preset()), &mut bench.rng()?)?;

    let start = Instant::now();
    let asked = ask(bench, &scheme, shape, sizes, &source)?;
    let query_seconds = start.elapsed().as_secs_f64() / f64::from(sizes.queries);
    let start = Instant::now();
    let prepare =
        |asked: &Asked| prepare(&scheme, &Query::from_file(&scheme, &asked.file)?, sizes.keep_outer, runner);
    let prepared = asked.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
    let setup_seconds = start.elapsed().as_secs_f64() / f64::from(sizes.queries);

    let queries: Vec<_> = prepared.iter().collect();
    let scan = SearchScan::new(&queries, &source)?;
    let shards = scan.shards(runner.threads());
    let chunks = u64::from(source.columns()) * source.buckets.len() as u64;
    let bar = bench.progress("searching", chunks);
    let (start, before) = (Instant::now(), processor_seconds());
    let sums = runner.run(&scan, &shards, |shard| bar.inc(shard.chunks(&source)))?;
    let seconds = start.elapsed().as_secs_f64();
    let busy = before.and_then(|before| processor_seconds().map(|after| after - before));
    bar.finish_and_clear();
    let start = Instant::now();
    let answers = runner.install(|| scan.finish_answers(sums, 0, b""))?;
    let columns = f64::from(source.columns()) * f64::from(sizes.queries);
    let finish_seconds = start.elapsed().as_secs_f64() / columns;
    let peak = peak_rss_bytes();
    let opened = open(&scheme, &source, &asked, &answers)?;

    let groups = shape.groups(sizes.selectors.into()) * usize::from(sizes.queries);
    let kernels = SearchKernels::measure(&scheme)?;
    let limit = chunks as f64 * kernels.chunk_seconds(groups) / runner.threads() as f64;
    let mib = (records * u64::from(sizes.record_bytes)) as f64 / f64::from(1 << 20);
    Ok(described(sizes, records, &source)
        .with("chunks", chunks)
        .with("threads", runner.threads())
        .with("backend", bench.backend.to_string())
        .with("seconds", seconds)
        .with("processor_seconds", busy)
        .rates(mib, seconds, runner.threads())
        .with("mib_per_second_times_queries", mib / seconds * f64::from(sizes.queries))
        .with("us_per_chunk", 1e6 * seconds / chunks as f64)
        .with("processor_us_per_chunk", busy.map(|busy| 1e6 * busy / chunks as f64))
        .with("limit_seconds", limit)
        .with("limit_ratio", seconds / limit)
        .with("transform_us", 1e6 * kernels.transform_seconds)
        .with("products_us", 1e6 * kernels.products_seconds)
        .with("query_bytes", asked[0].file.len())
        .with("answer_bytes", opened.answer_bytes)
        .with("query_seconds", query_seconds)
        .with("setup_seconds", setup_seconds)
        .with("finish_seconds_per_column", finish_seconds)
        .with("open_seconds", opened.seconds)
        .with("rounded_deviation", opened.deviation)
        .with("peak_rss_bytes", peak))
}

/// The work, as a measurement's first fields.
fn described(sizes: &Sizes, records: u64, source: &Records) -> Measurement {
    Measurement::new()
        .with("bench", "search")
        .with("mib", sizes.mib)
        .with("records", records)
        .with("record_bytes", sizes.record_bytes)
        .with("hash_bits", sizes.hash_bits)
        .with("scattered", sizes.scattered)
        .with("queries", sizes.queries)
        .with("selectors", sizes.selectors)
        .with("sharing", sizes.sharing)
        .with("keep_outer", sizes.keep_outer)
        .with("columns", source.columns())
}

impl Measurement {
    /// The rate, and what a table of 1 TiB would take at it: figures in BENCHMARKS.md are these, and no reckoning by hand.
    fn rates(self, mib: f64, seconds: f64, threads: usize) -> Self {
        let hours_per_tib = f64::from(1 << 20) * seconds / mib / 3600.0;
        self.with("mib_per_second", mib / seconds)
            .with("hours_per_tib", hours_per_tib)
            .with("core_hours_per_tib", hours_per_tib * threads as f64)
            .with("hours_per_tib_on_16_cores", hours_per_tib * threads as f64 / 16.0)
    }
}
