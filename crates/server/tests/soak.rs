//! Clients that hang up at every stage of every kind of request: the relay's memory stays within what was configured, and
//! others are answered.
//!
//! The relay is a process of its own, whose resident memory is looked at from outside.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![cfg(target_os = "linux")]

#[path = "support/http2.rs"]
mod frames;
#[path = "support/relay.rs"]
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use frames::{DATA, END_HEADERS, END_STREAM, Frames, HEADERS, RST_STREAM, frame};
use restante_client::directory::{preset, query_note};
use restante_load::{Connection, Response};
use restante_pir::fetch::Catalog;
use restante_pir::search::{Query as SearchQuery, Scheme, SelectorHash, SelectorKind, Shape};
use restante_ring::Backend;
use restante_server::{Config, DirectoryConfig, FetchConfig};
use restante_wire::relay::{DirectoryInfo, EpochList, EpochStatus, PostBatch, StandingRequest, media};
use support::*;

/// Tells the child where it may write, and which configuration it has.
const CHILD: &str = "RESTANTE_TEST_SOAK";
const MIB: u64 = 1 << 20;

/// Not tests by themselves: the relays.
#[test]
fn large_records_child() {
    run_child(large_records);
}

#[test]
fn short_patience_child() {
    run_child(short_patience);
}

#[test]
fn everything_child() {
    run_child(everything);
}

fn run_child(config: fn(&Path) -> Config) {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let folder = Path::new(&folder);
    let relay = TestRelay::start(config(folder));
    let addresses = format!("{} {}", relay.address, relay.operations);
    std::fs::write(folder.join("address.tmp"), addresses).unwrap();
    std::fs::rename(folder.join("address.tmp"), folder.join("address")).unwrap();
    loop {
        std::thread::park();
    }
}

fn fetch(record_bytes: u32, messages: u64) -> Option<FetchConfig> {
    Some(FetchConfig {
        record_bytes,
        part: "message".into(),
        messages,
        window: messages,
        seconds: 0,
        server: Some(0),
    })
}

/// Records so large that an answer to 1,024 fetches has 64 MiB.
fn large_records(folder: &Path) -> Config {
    let mut settings = config(&folder.join("relay"));
    settings.fetch = fetch(65_536, 1024);
    settings.limits.body_memory_bytes = 70 * MIB;
    settings.limits.requests_per_address = 100_000;
    settings.threads = 1;
    settings
}

/// The same, and an answer on its way has three seconds before it is given up for others who wait.
fn short_patience(folder: &Path) -> Config {
    let mut settings = large_records(folder);
    settings.limits.idle_seconds = 3;
    settings
}

fn everything(folder: &Path) -> Config {
    let mut settings = config(&folder.join("relay"));
    settings.fetch = fetch(4096, 128);
    settings.directory = Some(DirectoryConfig::new(folder.join("people")));
    settings.threads = 1;
    let limits = &mut settings.limits;
    limits.body_memory_bytes = 24 * MIB;
    limits.fetch_memory_bytes = 8 * MIB;
    limits.search_memory_bytes = 80 * MIB;
    limits.batch_bytes = 4 * MIB;
    limits.page_bytes = 2 * MIB;
    limits.keys_per_pass = 2;
    limits.prepared_key_bytes = 0;
    limits.uploads = 20;
    limits.keys = 200;
    limits.requests_per_address = 100_000;
    limits.requests_per_key = 100_000;
    settings
}

/// A relay in a process of its own.
struct Relay {
    child: Child,
    address: SocketAddr,
    operations: SocketAddr,
    peak: AtomicU64,
    _folder: tempfile::TempDir,
}

impl Relay {
    fn start(child: &str, prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([child, "--exact", "--nocapture"])
            .env(CHILD, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let text = loop {
            if let Ok(text) = std::fs::read_to_string(folder.path().join("address")) {
                break text;
            }
            assert!(child.try_wait().unwrap().is_none(), "the relay did not start");
            assert!(Instant::now() < deadline, "the relay did not start in time");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut addresses = text.split(' ').map(|address| address.parse().unwrap());
        let (address, operations) = (addresses.next().unwrap(), addresses.next().unwrap());
        Self { child, address, operations, peak: AtomicU64::new(0), _folder: folder }
    }

    fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap()
    }

    /// Bytes that are resident now. The largest number is remembered.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let bytes = line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024;
        self.peak.fetch_max(bytes, Ordering::Relaxed);
        bytes
    }

    fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    fn metric(&self, name: &str) -> u64 {
        let mut operators = Connection::open(self.operations).unwrap();
        let text = String::from_utf8(operators.send("GET", "/metrics", &[], None).unwrap().body).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse::<f64>().unwrap() as u64
    }

    fn epoch(&self) -> EpochStatus {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let list: EpochList =
                self.connect().send("GET", "/v1/epochs", &[], None).unwrap().json().unwrap();
            if let Some(epoch) = list.epochs.first() {
                return epoch.clone();
            }
            assert!(Instant::now() < deadline, "no epoch");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn catalog(&self, epoch: &EpochStatus) -> Catalog {
        let folder = tempfile::tempdir().unwrap();
        for (name, path) in [("epoch", ""), ("hashes", "/hashes")] {
            let path = format!("/v1/epochs/{}{path}", epoch.epoch);
            let response = self.connect().send("GET", &path, &[], None).unwrap();
            assert_eq!(response.status, 200);
            std::fs::write(folder.path().join(name), response.body).unwrap();
        }
        Catalog::open(folder.path()).unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until the relay does not say that it is busy.
fn patiently(
    relay: &Relay,
    what: &str,
    ask: impl Fn(&mut Connection) -> std::io::Result<Response>,
) -> Response {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = ask(&mut relay.connect());
        match answer {
            Ok(response) if !matches!(response.status, 429 | 503) => return response,
            answer => {
                assert!(Instant::now() < deadline, "{what}: {answer:?}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[test]
fn fetch_queries_of_clients_that_hang_up_take_no_memory_and_keep_nobody_waiting() {
    let relay = Relay::start("large_records_child", |_| ());
    fill(&mut relay.connect(), 1024);
    let epoch = relay.epoch();
    let catalog = relay.catalog(&epoch);
    let (_, queries) = catalog.query(&[5], 1024, &mut rng(1)).unwrap();
    let body = queries[0].to_file();
    let path = format!("/v1/epochs/{}/fetch", epoch.epoch);
    let honest = || {
        let began = Instant::now();
        let answer = patiently(&relay, "an honest query", |client| {
            client.send("POST", &path, &[("content-type", media::FETCH_QUERY)], Some(&body))
        });
        assert_eq!((answer.status, answer.body.len()), (200, catalog.info().answer_bytes(1024).unwrap()));
        began.elapsed()
    };
    let mut quiet: Vec<Duration> = (0..3).map(|_| honest()).collect();
    quiet.sort();
    let (answered, settled) = (relay.metric("restante_fetches_total"), relay.resident());

    let (over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut times = std::thread::scope(|scope| {
        let _end = SetAtEnd(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                relay.resident();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        scope.spawn(|| {
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
                media::FETCH_QUERY,
                body.len()
            );
            while !over.load(Ordering::Relaxed) {
                let round = rounds.fetch_add(1, Ordering::Relaxed) as usize;
                let mut stream = TcpStream::connect(relay.address).unwrap();
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
                // Long enough for the query to be read and queued, and for some to be begun with.
                std::thread::sleep(Duration::from_millis([60, 5, 20][round % 3]));
            }
        });
        // The attack goes on until others have been answered five times.
        (0..5).map(|_| honest()).collect::<Vec<Duration>>()
    });
    times.sort();
    println!(
        "quiet {:?}; under attack {:?} to {:?} of {} queries, {:?} in the median; {} MiB resident before, {} MiB at most",
        quiet[1],
        times[0],
        times.last().unwrap(),
        times.len(),
        times[times.len() / 2],
        settled / MIB,
        relay.peak() / MIB
    );
    assert!(relay.peak() < 200 * MIB, "{} MiB resident", relay.peak() / MIB);
    // What nobody waited for was not answered, but for some that were done before they were hung up on.
    let (answered, attacks) = (relay.metric("restante_fetches_total") - answered, rounds.into_inner());
    assert!(answered < times.len() as u64 + attacks / 2 + 2, "{answered} of {attacks} and 5");
}

#[test]
fn an_answer_that_is_taken_slowly_does_not_keep_its_memory_for_long() {
    let relay = Relay::start("short_patience_child", |_| ());
    fill(&mut relay.connect(), 1024);
    let epoch = relay.epoch();
    let catalog = relay.catalog(&epoch);
    let (_, queries) = catalog.query(&[5], 1024, &mut rng(1)).unwrap();
    let body = queries[0].to_file();
    let path = format!("/v1/epochs/{}/fetch", epoch.epoch);
    // There is memory for one answer. Somebody asks for it and takes a little now and then, so that bytes always move.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetAtEnd(&over);
        scope.spawn(|| {
            let mut slow = TcpStream::connect(relay.address).unwrap();
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
                media::FETCH_QUERY,
                body.len()
            );
            slow.write_all(head.as_bytes()).and_then(|()| slow.write_all(&body)).unwrap();
            let mut part = vec![0; 64 << 10];
            while !over.load(Ordering::Relaxed) && slow.read(&mut part).is_ok_and(|bytes| bytes > 0) {
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        std::thread::sleep(Duration::from_millis(700));
        let answer = patiently(&relay, "an honest query", |client| {
            client.send("POST", &path, &[("content-type", media::FETCH_QUERY)], Some(&body))
        });
        assert_eq!((answer.status, answer.body.len()), (200, catalog.info().answer_bytes(1024).unwrap()));
    });
}

/// A request that is hung up on.
struct Attack {
    method: &'static str,
    path: String,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Attack {
    fn new(method: &'static str, path: String, media_type: &'static str, body: Vec<u8>) -> Self {
        Self { method, path, fields: vec![("content-type", media_type.into())], body }
    }

    fn by(owner: &Owner, method: &'static str, path: &str, body: Vec<u8>) -> Self {
        let mut this = Self::new(method, format!("{}{path}", owner.path), media::JSON, body);
        this.fields.push(("authorization", owner.authorization.clone()));
        this
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.fields.retain(|(other, _)| *other != name);
        self.fields.push((name, value.into()));
        self
    }

    /// Over HTTP/1.1, hung up on at a stage.
    fn hang_up(&self, address: SocketAddr, stage: u32) {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: a\r\n", self.method, self.path);
        self.fields.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        if !self.body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let half = self.body.len() / 2;
        let (bytes, pause, read) = match stage {
            0 => (head.as_bytes()[..head.len() / 2].to_vec(), 0, 0),
            1 => (head.into_bytes(), 5, 0),
            2 => ([head.as_bytes(), &self.body[..half]].concat(), 5, 0),
            3 => ([head.as_bytes(), &self.body].concat(), 0, 0),
            4 => ([head.as_bytes(), &self.body].concat(), 10, 0),
            _ => ([head.as_bytes(), &self.body].concat(), 0, 100),
        };
        // The relay may have had enough before.
        let _ = stream.write_all(&bytes);
        std::thread::sleep(Duration::from_millis(pause));
        if read > 0 {
            let _ = stream.read(&mut vec![0; read]);
        }
    }

    /// The header in HPACK without a table: literal names and values.
    fn block(&self) -> Vec<u8> {
        let mut block = Vec::new();
        let mut field = |name: &str, value: &str| {
            block.push(0);
            for text in [name, value] {
                assert!(text.len() < 127);
                block.push(text.len() as u8);
                block.extend_from_slice(text.as_bytes());
            }
        };
        for (name, value) in
            [(":method", self.method), (":scheme", "http"), (":path", &self.path), (":authority", "a")]
        {
            field(name, value);
        }
        self.fields.iter().for_each(|(name, value)| field(name, value));
        if !self.body.is_empty() {
            field("content-length", &self.body.len().to_string());
        }
        block
    }

    /// Over HTTP/2, on a stream that is reset at a stage.
    fn reset(&self, connection: &mut Frames, stream: u32, stage: u32) -> std::io::Result<()> {
        let end = if self.body.is_empty() { END_STREAM } else { 0 };
        let mut bytes = frame(HEADERS, END_HEADERS | end, stream, &self.block());
        let body = match stage {
            0 | 1 => &[][..],
            2 => &self.body[..self.body.len() / 2],
            // No more than the windows that there are at first.
            _ => &self.body[..self.body.len().min(200 << 10)],
        };
        for part in body.chunks(16_000) {
            bytes.extend(frame(DATA, 0, stream, part));
        }
        if stage >= 3 && !self.body.is_empty() && body.len() == self.body.len() {
            bytes.extend(frame(DATA, END_STREAM, stream, &[]));
        }
        connection.0.write_all(&bytes)?;
        std::thread::sleep(Duration::from_millis([0, 3, 3, 0, 10, 30][stage as usize]));
        connection.0.write_all(&frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()))
    }
}

/// What to ask and how, from somebody who has an account.
fn attacks(relay: &Relay, owner: &Owner, job: &str) -> Vec<Attack> {
    let post = {
        let mut messages: Vec<_> = (0..40).map(message).collect();
        messages.iter_mut().for_each(|message| message.payload = vec![7; 20_000]);
        Attack::new("POST", "/v1/messages".into(), media::POST, PostBatch(messages).to_body(CLUE.id()))
    };
    let epoch = relay.epoch();
    let (_, queries) = relay.catalog(&epoch).query(&[5], 1000, &mut rng(2)).unwrap();
    let path = format!("/v1/epochs/{}/fetch", epoch.epoch);
    let fetch = Attack::new("POST", path, media::FETCH_QUERY, queries[0].to_file());
    let hashes = Attack::new("GET", format!("/v1/epochs/{}/hashes", epoch.epoch), media::JSON, Vec::new());
    let page = Attack::new("GET", "/v1/messages?first=0".into(), media::JSON, Vec::new());
    let (path, query) = search_query(relay);
    let search = Attack::new("POST", path, media::SEARCH_QUERY, query);
    let stranger = Recipient::new(9);
    let register = Attack::new("POST", "/v1/keys".into(), media::JSON, json(&stranger.request()));
    let mut uploader = patiently_announced(relay, &stranger);
    uploader.path.push_str("/content");
    let upload = Attack::by(&uploader, "PATCH", "", stranger.file[..100_000].to_vec())
        .with("content-type", media::KEY_PART)
        .with("upload-offset", "0");
    let submit = Attack::by(owner, "POST", "/jobs", json(&stream_job(0, Some(100))));
    let order = Attack::by(owner, "PUT", "/standing", json(&StandingRequest { first: Some(0) }));
    let get = |path: &str| Attack::by(owner, "GET", path, Vec::new());
    let events = get(&format!("/jobs/{job}/events"));
    let result = get(&format!("/jobs/{job}/result"));
    vec![
        post,
        fetch,
        hashes,
        page,
        search,
        register,
        upload,
        submit,
        order,
        get("/digests?first=0"),
        events,
        result,
    ]
}

fn patiently_announced(relay: &Relay, recipient: &Recipient) -> Owner {
    Owner::announce(&mut relay.connect(), &recipient.request())
}

fn search_query(relay: &Relay) -> (String, Vec<u8>) {
    let answer = patiently(relay, "the directory", |client| client.send("GET", "/v1/directory", &[], None));
    let info: DirectoryInfo = answer.json().unwrap();
    let scheme = Scheme::new(preset(), Backend::best()).unwrap();
    let hash = SelectorHash::new(SelectorKind::Bytes, info.hash_bits, info.hash_key.0).unwrap();
    let shape = Shape::new(info.hash_bits, 1).unwrap();
    let note = query_note(&hash).unwrap();
    let (_, query) = SearchQuery::new(&scheme, shape, &[3], &note, b"", &mut rng(3)).unwrap();
    (format!("/v1/search?version={}", info.version), query.to_file(&scheme))
}

#[test]
fn every_queue_outlives_clients_that_hang_up_at_every_stage() {
    let relay = Relay::start("everything_child", |folder| {
        let people = folder.join("people");
        std::fs::create_dir(&people).unwrap();
        let address = restante_client::Account::random(CLUE, &mut rng(5)).address().to_file();
        std::fs::write(people.join("alice.address"), address).unwrap();
    });
    let mut client = relay.connect();
    fill(&mut client, 256);
    let alice = Recipient::new(1);
    let owner = Owner::register(&mut client, &alice);
    let job = owner.submit(&mut client, 0, Some(128)).id;
    owner.wait(&mut client, job);
    let attacks = attacks(&relay, &owner, &job.to_string());
    // Everything once, so that what is kept between passes is there.
    let search = search_query(&relay);
    let once = |what: &str, attack: &Attack| {
        let answer = patiently(&relay, what, |client| {
            let fields: Vec<(&str, &str)> =
                attack.fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let body = (!attack.body.is_empty()).then_some(attack.body.as_slice());
            client.send(attack.method, &attack.path, &fields, body)
        });
        assert!(answer.status < 300, "{what}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
    };
    let honest = || {
        let messages = vec![message(1)];
        let body = PostBatch(messages).to_body(CLUE.id());
        let post = Attack::new("POST", "/v1/messages".into(), media::POST, body);
        once("a post", &post);
        once("a page", &attacks[3]);
        once("a fetch", &attacks[1]);
        once("a search", &Attack::new("POST", search.0.clone(), media::SEARCH_QUERY, search.1.clone()));
        once("a job", &Attack::by(&owner, "GET", &format!("/jobs/{job}/result"), Vec::new()));
        once("a status", &Attack::by(&owner, "GET", "", Vec::new()));
    };
    honest();
    let settled = relay.resident();
    let (over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _end = SetAtEnd(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                relay.resident();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let attackers: Vec<_> = (0..3u32)
            .map(|seed| {
                let (relay, attacks) = (&relay, &attacks);
                scope.spawn(move || {
                    for round in 0..5u32 {
                        for (place, attack) in attacks.iter().enumerate() {
                            for stage in 0..6 {
                                attack.hang_up(relay.address, (stage + seed) % 6);
                            }
                            let mut connection = Frames::open(relay.address, &[]);
                            for stage in 0..6 {
                                let stream = 1 + 2 * stage;
                                // A connection with many resets is ended: another one.
                                if attack
                                    .reset(&mut connection, stream, (stage + round + place as u32) % 6)
                                    .is_err()
                                {
                                    connection = Frames::open(relay.address, &[]);
                                }
                            }
                        }
                    }
                })
            })
            .collect();
        while attackers.iter().any(|attacker| !attacker.is_finished()) {
            honest();
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    });
    honest();
    let limits = everything(Path::new("")).limits;
    // And a pass of two keys: docs/operating.md, "Sizing".
    let bound = limits.body_memory_bytes + limits.fetch_memory_bytes + limits.search_memory_bytes + 60 * MIB;
    println!(
        "{} honest rounds meanwhile; {} MiB resident before, {} MiB at most, bound {} MiB and 100 MiB",
        rounds.load(Ordering::Relaxed),
        settled / MIB,
        relay.peak() / MIB,
        bound / MIB
    );
    assert!(rounds.load(Ordering::Relaxed) > 1);
    assert!(relay.peak() < bound + 100 * MIB, "{} MiB resident", relay.peak() / MIB);
    assert_eq!(relay.metric("restante_panics_total"), 0);
    // All memory has come back: the largest body that there may be is accepted.
    let mut messages: Vec<_> = (0..60).map(message).collect();
    messages.iter_mut().for_each(|message| message.payload = vec![7; 60_000]);
    let large = PostBatch(messages).to_body(CLUE.id());
    once("a large post", &Attack::new("POST", "/v1/messages".into(), media::POST, large));
}
