//! `restante bench relay`: posts on loopback while digests are made, beside the disk's own time to sync.

mod recipient;

use std::{
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use restante_client::{Account, BoardId, Message, Period};
use restante_clue::ClueParameters;
use restante_load::{Connection, Response};
use restante_server::{CompactConfig, Config, Limits, Relay, serve};
use restante_wire::relay::{MessageId, PostBatch, PostMessage, PostResult, RelayInfo, media};

use crate::{Bench, BenchError, Measurement, peak_rss_bytes};

/// Different messages; each is posted many times, with another clue and under a new id every time.
const MESSAGES: usize = 256;

/// The results of the posts.
#[derive(Debug, Default)]
struct Posts {
    milliseconds: Vec<f64>,
    busy: u64,
    failed: u64,
}

/// A kind of digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    /// Bytes for every message.
    Stream,
    /// Of constant size. They are made one after the other, and the run lasts until each recipient has one.
    Compact {
        /// The most messages that a digest holds.
        capacity: u16,
        /// Bytes of each payload that a digest holds; 0 for indices only.
        payload_bytes: u16,
    },
}

/// The load.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// Posts a second, all connections together.
    pub posts: u32,
    /// Seconds.
    pub seconds: u32,
    /// Connections that post.
    pub connections: u32,
    /// Recipients that ask for digests all the time.
    pub recipients: u32,
    /// The digests that they ask for.
    pub digest: Digest,
    /// Messages that are on the board before.
    pub messages: u64,
    /// Where the relay's data directory is made; `None` for the directory for temporary files.
    pub data: Option<PathBuf>,
    /// The relay's threads; 0 for as many as the machine has.
    pub threads: usize,
}

/// Posts, and asks for digests, for a while.
///
/// # Errors
///
/// [`BenchError::Wrong`] if a message is missing in a digest, and those of the system.
pub fn measure(bench: &Bench<'_>, sizes: &Sizes) -> Result<Measurement, BenchError> {
    let folder = sizes.data.clone().unwrap_or_else(std::env::temp_dir);
    let scratch =
        tempfile::tempdir_in(&folder).map_err(BenchError::system("create a directory in", &folder))?;
    let relay = Relay::open(config(bench, sizes, scratch.path()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| BenchError::Environment(format!("cannot start threads: {error}")))?;
    let running = runtime.block_on(serve(relay))?;
    let address = running.address;
    let messages = messages(bench, address)?;
    fill(bench, address, &messages, sizes.messages)?;
    let sync_milliseconds = sync_time(scratch.path())?;
    let load = run(bench, address, sizes, &messages)?;
    runtime.block_on(running.stop());

    let at = |share| quantile(&load.milliseconds, share);
    let p50 = at(0.5);
    Ok(Measurement::new()
        .with("bench", "relay")
        .with("connections", sizes.connections)
        .with("recipients", sizes.recipients)
        .with("threads", bench.runner.threads())
        .with("backend", bench.backend.to_string())
        .with("messages_before", sizes.messages)
        .with("posts", load.milliseconds.len())
        .with("posts_per_second", load.milliseconds.len() as f64 / load.seconds)
        .with("p50_milliseconds", p50)
        .with("p99_milliseconds", at(0.99))
        .with("max_milliseconds", at(1.0))
        .with("sync_milliseconds", sync_milliseconds)
        .with("p50_over_sync", p50.map(|p50| p50 / sync_milliseconds))
        .with("busy_answers", load.busy)
        .with("errors", load.failed)
        .with("digest", if sizes.digest == Digest::Stream { "stream" } else { "compact" })
        .with("digests", load.digested.len())
        .with("job_seconds", quantile(&load.digested, 0.5))
        .with("seconds", load.seconds)
        .with("peak_rss_bytes", peak_rss_bytes()))
}

fn config(bench: &Bench<'_>, sizes: &Sizes, folder: &Path) -> Config {
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    Config {
        data: folder.join("relay"),
        listen: local,
        operations: local,
        threads: sizes.threads,
        backend: bench.backend.to_string(),
        limits: Limits { requests_per_address: 1_000_000, ..Limits::default() },
        compact: CompactConfig { enabled: sizes.digest != Digest::Stream, ..CompactConfig::default() },
        ..Config::default()
    }
}

/// The messages that are posted, for nobody who asks.
fn messages(bench: &Bench<'_>, address: SocketAddr) -> Result<Vec<Message>, BenchError> {
    let (board, today) = (board_of(address)?, Period::of(now()));
    let account = Account::random(ClueParameters::STANDARD, &mut bench.rng()?);
    let sender = account.address().prepare();
    let mut rng = bench.rng()?;
    let messages = (0..MESSAGES).map(|_| sender.write_message(&board, today, b"a message", &mut rng));
    Ok(messages.collect::<Result<_, _>>()?)
}

/// The result of the load; times are sorted.
struct Load {
    milliseconds: Vec<f64>,
    busy: u64,
    failed: u64,
    digested: Vec<f64>,
    seconds: f64,
}

fn run(
    bench: &Bench<'_>,
    address: SocketAddr,
    sizes: &Sizes,
    messages: &[Message],
) -> Result<Load, BenchError> {
    let (stop, digested) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let start = Instant::now();
    let outcomes = std::thread::scope(|scope| {
        let recipients: Vec<_> = (0..sizes.recipients)
            .map(|_| scope.spawn(|| recipient::run(bench, address, sizes, &stop, &digested)))
            .collect();
        let posters: Vec<_> = (0..sizes.connections)
            .map(|place| scope.spawn(move || post(bench, address, messages, sizes, place)))
            .collect();
        let posts: Result<Vec<Posts>, BenchError> = posters.into_iter().map(join).collect();
        let seconds = start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let asked: Result<Vec<()>, BenchError> = recipients.into_iter().map(join).collect();
        asked.and(posts.map(|posts| (posts, seconds)))
    });
    let (posts, seconds) = outcomes?;
    let mut milliseconds: Vec<f64> =
        posts.iter().flat_map(|posts| posts.milliseconds.iter().copied()).collect();
    milliseconds.sort_by(f64::total_cmp);
    let mut digested = digested.into_inner().unwrap_or_else(PoisonError::into_inner);
    digested.sort_by(f64::total_cmp);
    Ok(Load {
        milliseconds,
        busy: posts.iter().map(|posts| posts.busy).sum(),
        failed: posts.iter().map(|posts| posts.failed).sum(),
        digested,
        seconds,
    })
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The value of sorted ones that a share of them is below.
fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let place = (values.len() as f64 * share) as usize;
    values.get(place.min(values.len().saturating_sub(1))).copied()
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T, BenchError>>) -> Result<T, BenchError> {
    thread.join().unwrap_or_else(|_| Err(BenchError::Environment("a thread panicked".into())))
}

fn random<const LEN: usize>(bench: &Bench<'_>) -> Result<[u8; LEN], BenchError> {
    use rand_core::Rng;
    let mut bytes = [0; LEN];
    bench.rng()?.fill_bytes(&mut bytes);
    Ok(bytes)
}

fn broken(error: std::io::Error) -> BenchError {
    BenchError::Environment(format!("a connection on loopback failed: {error}"))
}

/// The board's id.
fn board_of(address: SocketAddr) -> Result<BoardId, BenchError> {
    let mut connection = Connection::open(address).map_err(broken)?;
    let answer = connection.send("GET", "/v1/parameters", &[], None).map_err(broken)?;
    Ok(BoardId(answer.json::<RelayInfo>().map_err(broken)?.board.id.0))
}

/// Makes another clue of one, for nobody: a board takes each once, and making one takes longer than posting it.
fn vary(bench: &Bench<'_>, clue: &mut [u8]) -> Result<(), BenchError> {
    let random: [u8; 16] = random(bench)?;
    // Two coefficients of 20 bits in five bytes. With zeros for the upper bits of the first they are residues.
    for (five, random) in clue[Period::BYTES..].chunks_mut(5).zip(random.chunks(2)) {
        five[..2].copy_from_slice(random);
        five[2] &= 0xf0;
    }
    Ok(())
}

/// Posts messages in batches, and says where the last batch is.
fn fill(
    bench: &Bench<'_>,
    address: SocketAddr,
    messages: &[Message],
    count: u64,
) -> Result<Vec<u64>, BenchError> {
    let mut connection = Connection::open(address).map_err(broken)?;
    let (mut posted, mut places) = (0, Vec::new());
    while posted < count {
        let batch = (0..256.min(count - posted))
            .map(|place| {
                let message = &messages[place as usize % messages.len()];
                let (mut clue, payload) = (message.clue.clone(), message.payload.clone());
                if posted + place >= messages.len() as u64 {
                    vary(bench, &mut clue)?;
                }
                Ok(PostMessage { id: MessageId(random(bench)?), clue, payload })
            })
            .collect::<Result<Vec<_>, BenchError>>()?;
        posted += batch.len() as u64;
        let body = PostBatch(batch).to_body(ClueParameters::STANDARD.id());
        let headers = [("content-type", media::POST)];
        let answer = connection.send("POST", "/v1/messages", &headers, Some(&body)).map_err(broken)?;
        if answer.status != 200 {
            return Err(refused(&answer));
        }
        let result: PostResult = answer.json().map_err(broken)?;
        places = result.messages.iter().map(|message| message.index).collect();
    }
    Ok(places)
}

fn refused(answer: &Response) -> BenchError {
    BenchError::Environment(format!("status {}: {}", answer.status, String::from_utf8_lossy(&answer.body)))
}

/// The median time of the disk to make 4 KiB durable.
fn sync_time(folder: &Path) -> Result<f64, BenchError> {
    let path = folder.join("sync");
    let failed = |error| BenchError::system("write", folder.join("sync"))(error);
    let mut file = std::fs::File::create(&path).map_err(failed)?;
    let mut times = Vec::new();
    for _ in 0..51 {
        let start = Instant::now();
        file.write_all(&[7; 4096]).and_then(|()| file.sync_data()).map_err(failed)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// One connection's share of the posts, each at its time whether or not the one before it was quick.
fn post(
    bench: &Bench<'_>,
    address: SocketAddr,
    messages: &[Message],
    sizes: &Sizes,
    place: u32,
) -> Result<Posts, BenchError> {
    let each = Duration::from_secs_f64(f64::from(sizes.connections) / f64::from(sizes.posts));
    let count = u64::from(sizes.posts) * u64::from(sizes.seconds) / u64::from(sizes.connections);
    let offset = each.mul_f64(f64::from(place) / f64::from(sizes.connections));
    let mut connection = Connection::open(address).map_err(broken)?;
    let (start, mut posts) = (Instant::now() + offset, Posts::default());
    for turn in 0..count {
        let message = &messages[(turn as usize * 7 + place as usize) % messages.len()];
        let (mut clue, payload) = (message.clue.clone(), message.payload.clone());
        vary(bench, &mut clue)?;
        let batch = PostBatch(vec![PostMessage { id: MessageId(random(bench)?), clue, payload }]);
        let body = batch.to_body(ClueParameters::STANDARD.id());
        let due = start + each * turn as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // From when it was due: a slow answer does not hide the wait of those behind it.
        let answer = connection.send("POST", "/v1/messages", &[("content-type", media::POST)], Some(&body));
        match answer {
            Ok(answer) if answer.status == 200 => posts.milliseconds.push(due.elapsed().as_secs_f64() * 1e3),
            Ok(answer) if answer.status == 503 => posts.busy += 1,
            _ => {
                posts.failed += 1;
                connection = Connection::open(address).map_err(broken)?;
            }
        }
    }
    Ok(posts)
}

fn json(value: &impl serde::Serialize) -> Result<Vec<u8>, BenchError> {
    serde_json::to_vec(value).map_err(|error| BenchError::Environment(error.to_string()))
}
