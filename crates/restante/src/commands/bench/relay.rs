//! `restante bench relay`: posts on loopback while digests are made.

mod recipient;

use std::{
    io::Write,
    net::SocketAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use restante_client::{Account, BoardId, Message, Period};
use restante_clue::ClueParameters;
use restante_server::{CompactConfig, Config, Limits, Relay, load::Connection, serve};
use restante_wire::relay::{Hex, PostBatch, PostMessage, PostResult, RelayInfo, media};

use crate::{
    arguments::{BenchRelayArguments, DigestKind},
    error::CliError,
    http::now,
    report::{Report, peak_rss_bytes},
    session::Session,
};

/// Different messages; each is posted many times, with another clue and under a new id every time.
const MESSAGES: usize = 256;

/// What happened to the posts.
#[derive(Debug, Default)]
struct Posts {
    milliseconds: Vec<f64>,
    busy: u64,
    failed: u64,
}

pub fn run(session: &Session, arguments: &BenchRelayArguments) -> Result<(), CliError> {
    let failed = |what: &'static str| {
        move |error: &dyn std::fmt::Display| CliError::Environment(format!("cannot {what}: {error}"))
    };
    let folder = arguments.data.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = tempfile::tempdir_in(&folder)
        .map_err(|error| CliError::system("create a directory in", &folder)(error))?;
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let limits = Limits { requests_per_address: 1_000_000, ..Limits::default() };
    let config = Config {
        data: scratch.path().join("relay"),
        listen: local,
        operations: local,
        threads: session.threads.unwrap_or(0).into(),
        backend: session.backend.to_string(),
        limits,
        compact: CompactConfig {
            enabled: arguments.digest == DigestKind::Compact,
            ..CompactConfig::default()
        },
        ..Config::default()
    };
    let clue = ClueParameters::STANDARD;
    let relay = Relay::open(config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| failed("start threads")(&error))?;
    let running = runtime.block_on(serve(relay))?;
    let address = running.address;

    let (board, today) = (board_of(address)?, Period::of(now()));
    let account = Account::random(clue, &mut session.rng()?);
    let sender = account.address().prepare();
    let mut rng = session.rng()?;
    let messages = (0..MESSAGES).map(|_| sender.write_message(&board, today, b"a message", &mut rng));

    let messages: Vec<Message> = messages.collect::<Result<_, _>>()?;
    fill(session, address, &messages, arguments.messages)?;
    let sync_milliseconds = sync_time(scratch.path())?;

    let (stop, digested) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let start = Instant::now();
    let outcomes = std::thread::scope(|scope| {
        let recipients: Vec<_> = (0..arguments.recipients)
            .map(|_| scope.spawn(|| recipient::run(session, address, arguments, &stop, &digested)))
            .collect();
        let posters: Vec<_> = (0..arguments.connections)
            .map(|place| {
                let messages = &messages;
                scope.spawn(move || post(session, address, messages, arguments, place))
            })
            .collect();
        let posts: Result<Vec<Posts>, CliError> = posters.into_iter().map(join).collect();
        let seconds = start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let asked: Result<Vec<()>, CliError> = recipients.into_iter().map(join).collect();
        asked.and(posts.map(|posts| (posts, seconds)))
    });
    let (outcomes, seconds) = outcomes?;
    runtime.block_on(running.stop());

    let mut milliseconds: Vec<f64> =
        outcomes.iter().flat_map(|posts| posts.milliseconds.iter().copied()).collect();
    milliseconds.sort_by(f64::total_cmp);
    let at = |share| quantile(&milliseconds, share);
    let p50 = at(0.5);
    let mut digested = digested.into_inner().unwrap_or_else(PoisonError::into_inner);
    digested.sort_by(f64::total_cmp);
    Report::new()
        .with("bench", "relay")
        .with("connections", arguments.connections)
        .with("recipients", arguments.recipients)
        .with("threads", session.runner.threads())
        .with("backend", session.backend.to_string())
        .with("messages_before", arguments.messages)
        .with("posts", milliseconds.len())
        .with("posts_per_second", milliseconds.len() as f64 / seconds)
        .with("p50_milliseconds", p50)
        .with("p99_milliseconds", at(0.99))
        .with("max_milliseconds", at(1.0))
        .with("sync_milliseconds", sync_milliseconds)
        .with("p50_over_sync", p50.map(|p50| p50 / sync_milliseconds))
        .with("busy_answers", outcomes.iter().map(|posts| posts.busy).sum::<u64>())
        .with("errors", outcomes.iter().map(|posts| posts.failed).sum::<u64>())
        .with("digest", arguments.digest.name())
        .with("digests", digested.len())
        .with("job_seconds", quantile(&digested, 0.5))
        .with("seconds", seconds)
        .with("peak_rss_bytes", peak_rss_bytes())
        .print(session)
}

/// The value of sorted ones that a share of them is below.
fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let place = (values.len() as f64 * share) as usize;
    values.get(place.min(values.len().saturating_sub(1))).copied()
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T, CliError>>) -> Result<T, CliError> {
    thread.join().unwrap_or_else(|_| Err(CliError::Environment("a thread panicked".into())))
}

fn random<const LEN: usize>(session: &Session) -> Result<[u8; LEN], CliError> {
    use rand_core::Rng;
    let mut bytes = [0; LEN];
    session.rng()?.fill_bytes(&mut bytes);
    Ok(bytes)
}

fn broken(error: std::io::Error) -> CliError {
    CliError::Environment(format!("a connection on loopback failed: {error}"))
}

/// The board's id.
fn board_of(address: SocketAddr) -> Result<BoardId, CliError> {
    let mut connection = Connection::open(address).map_err(broken)?;
    let answer = connection.send("GET", "/v1/parameters", &[], None).map_err(broken)?;
    Ok(BoardId(answer.json::<RelayInfo>().map_err(broken)?.board.id.0))
}

/// Makes another clue of one, for nobody: a board takes each once, and making one takes longer than posting it.
fn vary(session: &Session, clue: &mut [u8]) -> Result<(), CliError> {
    let random: [u8; 16] = random(session)?;
    // Two coefficients of 20 bits in five bytes. With zeros for the upper bits of the first they are residues.
    for (five, random) in clue[Period::BYTES..].chunks_mut(5).zip(random.chunks(2)) {
        five[..2].copy_from_slice(random);
        five[2] &= 0xf0;
    }
    Ok(())
}

/// Posts messages in batches, and says where the last batch is.
fn fill(
    session: &Session,
    address: SocketAddr,
    messages: &[Message],
    count: u64,
) -> Result<Vec<u64>, CliError> {
    let mut connection = Connection::open(address).map_err(broken)?;
    let (mut posted, mut places) = (0, Vec::new());
    while posted < count {
        let batch = (0..256.min(count - posted))
            .map(|place| {
                let message = &messages[place as usize % messages.len()];
                let (mut clue, payload) = (message.clue.clone(), message.payload.clone());
                if posted + place >= messages.len() as u64 {
                    vary(session, &mut clue)?;
                }
                Ok(PostMessage { id: Hex(random(session)?), clue, payload })
            })
            .collect::<Result<Vec<_>, CliError>>()?;
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

fn refused(answer: &restante_server::load::Response) -> CliError {
    CliError::Environment(format!("status {}: {}", answer.status, String::from_utf8_lossy(&answer.body)))
}

/// The median time of the disk to make 4 KiB durable.
fn sync_time(folder: &std::path::Path) -> Result<f64, CliError> {
    let path = folder.join("sync");
    let failed = |error| CliError::system("write", &folder.join("sync"))(error);
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
    session: &Session,
    address: SocketAddr,
    messages: &[Message],
    arguments: &BenchRelayArguments,
    place: u32,
) -> Result<Posts, CliError> {
    let each = Duration::from_secs_f64(f64::from(arguments.connections) / f64::from(arguments.posts));
    let count = u64::from(arguments.posts) * u64::from(arguments.seconds) / u64::from(arguments.connections);
    let offset = each.mul_f64(f64::from(place) / f64::from(arguments.connections));
    let mut connection = Connection::open(address).map_err(broken)?;
    let (start, mut posts) = (Instant::now() + offset, Posts::default());
    for turn in 0..count {
        let message = &messages[(turn as usize * 7 + place as usize) % messages.len()];
        let (mut clue, payload) = (message.clue.clone(), message.payload.clone());
        vary(session, &mut clue)?;
        let batch = PostBatch(vec![PostMessage { id: Hex(random(session)?), clue, payload }]);
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

fn json(value: &impl serde::Serialize) -> Result<Vec<u8>, CliError> {
    serde_json::to_vec(value).map_err(|error| CliError::Environment(error.to_string()))
}
