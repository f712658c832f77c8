//! `restante bench search`.

use std::time::Instant;

use rand_core::Rng;
use restante_pir::{
    PirError,
    search::{ChunkSource, Preset, Query, Scheme, SearchAnswer, SearchScan, Shape, prepare},
};

use super::limits;
use crate::{
    arguments::BenchSearchArguments,
    error::CliError,
    report::{Report, peak_rss_bytes, processor_seconds},
    session::Session,
};

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

pub fn run(session: &Session, arguments: &BenchSearchArguments) -> Result<(), CliError> {
    let scheme = Scheme::new(Preset::standard(), session.backend)?;
    let shape = Shape::new(arguments.hash_bits, arguments.sharing.into())?;
    let (runner, chunk_bytes) = (&session.runner, shape.chunk_bytes(scheme.preset()));
    let record_bytes = u64::from(arguments.record_bytes);
    let records = (arguments.mib << 20) / record_bytes;
    if records == 0 {
        return Err(CliError::Usage(format!(
            "--mib {} holds no record of {record_bytes} bytes",
            arguments.mib
        )));
    }
    let all = 1u64 << arguments.hash_bits;
    let used = records.min(all);
    let step = if arguments.scattered { all / used } else { 1 };
    let mut rng = session.rng()?;
    let mut source = Records {
        hash_bits: arguments.hash_bits,
        chunk_bytes,
        bucket_bytes: (record_bytes * (records / used)) as usize,
        buckets: (0..used).map(|index| (index * step) as u32).collect(),
        pool: vec![0; POOL_BYTES],
    };
    rng.fill_bytes(&mut source.pool);

    let (mut states, mut files, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
    let start = Instant::now();
    for _ in 0..arguments.queries {
        let places: Vec<usize> = (0..arguments.selectors).map(|_| (rng.next_u64() % used) as usize).collect();
        let buckets: Vec<u32> = places.iter().map(|&place| source.buckets[place]).collect();
        let (state, query) = Query::new(&scheme, shape, &buckets, b"", b"", &mut rng)?;
        states.push(state);
        files.push(query.to_file(&scheme));
        wanted.push(places);
    }
    let query_seconds = start.elapsed().as_secs_f64() / f64::from(arguments.queries);

    let start = Instant::now();
    let mut prepared = Vec::new();
    for file in &files {
        let query = Query::from_file(&scheme, file)?;
        prepared.push(prepare(&scheme, &query, arguments.keep_outer, runner)?);
    }
    let setup_seconds = start.elapsed().as_secs_f64() / f64::from(arguments.queries);

    let queries: Vec<_> = prepared.iter().collect();
    let scan = SearchScan::new(&queries, &source)?;
    let shards = scan.shards(runner.threads());
    let chunks = u64::from(source.columns()) * used;
    let bar = session.progress("searching", chunks);
    let (start, before) = (Instant::now(), processor_seconds());
    let sums = runner.run(&scan, &shards, |shard| bar.inc(shard.chunks(&source)))?;
    let seconds = start.elapsed().as_secs_f64();
    let busy = before.and_then(|before| processor_seconds().map(|after| after - before));
    bar.finish_and_clear();
    let start = Instant::now();
    let answers = runner.install(|| scan.finish_answers(sums, 0, b""))?;
    let columns = f64::from(source.columns()) * f64::from(arguments.queries);
    let finish_seconds = start.elapsed().as_secs_f64() / columns;
    let peak = peak_rss_bytes();

    let (mut open_seconds, mut deviation, mut answer_bytes) = (f64::INFINITY, 0f64, 0);
    for ((state, places), answer) in states.iter().zip(&wanted).zip(&answers) {
        let file = answer.to_file(&scheme);
        answer_bytes = file.len();
        let start = Instant::now();
        let opened = state.open(&scheme, &SearchAnswer::from_file(&scheme, &file)?)?;
        open_seconds = open_seconds.min(start.elapsed().as_secs_f64());
        deviation = deviation.max(opened.deviation());
        let mut chunk = vec![0; chunk_bytes];
        for (selector, &place) in places.iter().enumerate() {
            for (column, found) in (0..).zip(opened.chunks(selector)) {
                source.read_chunk(place, column, &mut chunk)?;
                if found != chunk {
                    return Err(CliError::Job("a record that was searched for is wrong".into()));
                }
            }
        }
    }

    let groups = shape.groups(arguments.selectors.into()) * usize::from(arguments.queries);
    let kernels = limits::SearchKernels::measure(&scheme)?;
    let limit = chunks as f64 * kernels.chunk_seconds(groups) / runner.threads() as f64;
    let mib = (records * record_bytes) as f64 / f64::from(1 << 20);
    // What a table of that size would take at this rate: figures in BENCHMARKS.md are these, and no reckoning by hand.
    let hours_per_tib = f64::from(1 << 20) * seconds / mib / 3600.0;
    Report::new()
        .with("bench", "search")
        .with("mib", arguments.mib)
        .with("records", records)
        .with("record_bytes", record_bytes)
        .with("hash_bits", arguments.hash_bits)
        .with("scattered", arguments.scattered)
        .with("queries", arguments.queries)
        .with("selectors", arguments.selectors)
        .with("sharing", arguments.sharing)
        .with("keep_outer", arguments.keep_outer)
        .with("columns", source.columns())
        .with("chunks", chunks)
        .with("threads", runner.threads())
        .with("backend", session.backend.to_string())
        .with("seconds", seconds)
        .with("processor_seconds", busy)
        .with("mib_per_second", mib / seconds)
        .with("hours_per_tib", hours_per_tib)
        .with("core_hours_per_tib", hours_per_tib * runner.threads() as f64)
        .with("hours_per_tib_on_16_cores", hours_per_tib * runner.threads() as f64 / 16.0)
        .with("mib_per_second_times_queries", mib / seconds * f64::from(arguments.queries))
        .with("us_per_chunk", 1e6 * seconds / chunks as f64)
        .with("processor_us_per_chunk", busy.map(|busy| 1e6 * busy / chunks as f64))
        .with("limit_seconds", limit)
        .with("limit_ratio", seconds / limit)
        .with("transform_us", 1e6 * kernels.transform_seconds)
        .with("products_us", 1e6 * kernels.products_seconds)
        .with("query_bytes", files[0].len())
        .with("answer_bytes", answer_bytes)
        .with("query_seconds", query_seconds)
        .with("setup_seconds", setup_seconds)
        .with("finish_seconds_per_column", finish_seconds)
        .with("open_seconds", open_seconds)
        .with("rounded_deviation", deviation)
        .with("peak_rss_bytes", peak)
        .print(session)
}
