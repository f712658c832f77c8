//! The rule for clues at a relay, from outside: days by its clock, each clue once whatever the batches and restarts, repetitions before
//! both, and what a mirror does with an origin that does not keep to it.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::*;
use ed25519_dalek::SigningKey;
use restante_load::Connection;
use restante_server::{Config, Limits, MirrorConfig, Relay, TestClock, TimeSource};
use restante_wire::binding::{BoardId, Period};
use restante_wire::merkle::{ConsistencyProof, Frontier, Hash, RangeProof};
use restante_wire::relay::{Hex, MessageId, Page, PageMessage, PostMessage, RelayInfo, SignedHead};
use restante_wire::{Encode, Envelope, Kind};

const DAY: u64 = 24 * 3600;
const TODAY: u32 = 20_000;
const NOON: u64 = TODAY as u64 * DAY + DAY / 2;

fn with_clock(data: &Path, clock: &Arc<TestClock>) -> Config {
    Config { time: TimeSource::test(clock), ..config(data) }
}

/// A message of a day for nobody.
fn of_day(day: u32) -> PostMessage {
    PostMessage { id: MessageId(random()), clue: any_clue(Period(day)), payload: random::<40>().to_vec() }
}

/// The same clue but for its tail.
fn bent(message: &PostMessage) -> PostMessage {
    let mut clue = message.clue.clone();
    let tail = clue.len() - 5;
    clue[tail] ^= 1;
    PostMessage { id: MessageId(random()), clue, payload: message.payload.clone() }
}

fn renamed(message: &PostMessage) -> PostMessage {
    PostMessage { id: MessageId(random()), ..message.clone() }
}

fn places(client: &mut Connection, messages: Vec<PostMessage>) -> Vec<(u64, bool)> {
    posted(&post(client, messages)).messages.iter().map(|one| (one.index, one.replayed)).collect()
}

const SECOND: Option<&str> = Some("body:messages[1].clue");

#[test]
fn a_relay_takes_clues_of_yesterday_today_and_tomorrow() {
    let scratch = tempfile::tempdir().unwrap();
    let clock = TestClock::new(NOON);
    let relay = TestRelay::start(with_clock(scratch.path(), &clock));
    let mut client = relay.connect();
    let taken = [-1, 0, 1, -1].map(|day| of_day(TODAY.wrapping_add_signed(day)));
    assert_eq!(places(&mut client, taken.into()).len(), 4);
    for day in [0, TODAY - 2, TODAY + 2, u32::MAX] {
        let refused = post(&mut client, vec![of_day(TODAY), of_day(day)]);
        assert_refused(&refused, 422, "period", SECOND);
        let detail = problem(&refused).detail;
        let open = format!("{} to {}", TODAY - 1, TODAY + 1);
        assert!(detail.contains(&open) && detail.contains("check the clock"), "{detail}");
        // No word of what it held.
        assert!(day == 0 || !detail.contains(&day.to_string()), "{detail}");
    }
    assert_eq!(head(&mut client, &relay.key).count, 4, "a refused batch posts nothing");
    // At midnight the days move on.
    clock.advance(DAY / 2 + 1);
    assert_refused(&post(&mut client, vec![of_day(TODAY), of_day(TODAY - 1)]), 422, "period", SECOND);
    assert_eq!(places(&mut client, vec![of_day(TODAY), of_day(TODAY + 2)]).len(), 2);
}

#[test]
fn a_repeated_request_is_answered_whatever_its_day() {
    let scratch = tempfile::tempdir().unwrap();
    let clock = TestClock::new(NOON);
    let relay = TestRelay::start(with_clock(scratch.path(), &clock));
    let mut client = relay.connect();
    let batch: Vec<PostMessage> = (0..3).map(|_| of_day(TODAY)).collect();
    assert_eq!(places(&mut client, batch.clone()), [(0, false), (1, false), (2, false)]);
    clock.advance(2 * DAY);
    assert_eq!(places(&mut client, batch.clone()), [(0, true), (1, true), (2, true)]);
    // Under another id it is a message of a closed day.
    let other = vec![of_day(TODAY + 2), renamed(&batch[0])];
    assert_refused(&post(&mut client, other), 422, "period", SECOND);
}

#[test]
fn a_clue_is_taken_once_across_batches_segments_and_restarts() {
    let scratch = tempfile::tempdir().unwrap();
    let settings = || Config { segment_capacity: 4, ..config(scratch.path()) };
    let mut relay = TestRelay::start(settings());
    let mut client = relay.connect();
    let batch: Vec<PostMessage> = (0..6).map(|_| of_day(today().0)).collect();
    places(&mut client, batch.clone());
    for restart in 0..2 {
        for old in &batch {
            let other = PostMessage { payload: b"another".to_vec(), ..renamed(old) };
            for again in [bent(old), other] {
                let refused = post(&mut client, vec![of_day(today().0), again]);
                assert_refused(&refused, 409, "duplicate", SECOND);
            }
        }
        // The very same message under another id is a repetition.
        let again: Vec<_> = batch.iter().map(renamed).collect();
        assert_eq!(places(&mut client, again), (0..6).map(|index| (index, true)).collect::<Vec<_>>());
        assert_eq!(head(&mut client, &relay.key).count, 6, "restart {restart}");
        drop(client);
        relay.stop();
        relay = TestRelay::start(settings());
        client = relay.connect();
    }
    // Twice in one batch is once too often, also of the very same message.
    let new = of_day(today().0);
    for twin in [bent(&new), renamed(&new)] {
        assert_refused(&post(&mut client, vec![new.clone(), twin]), 409, "duplicate", SECOND);
    }
    assert_eq!(places(&mut client, vec![new]), [(6, false)]);
}

/// Many connections post one clue with many payloads at once, so that some of them share a commit: one is taken.
#[test]
fn of_clues_that_come_at_the_same_time_one_is_taken() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let clue = any_clue(today());
    let poster = |name: u8| {
        let mut client = relay.connect();
        let taken = |turn: u8| {
            let message =
                PostMessage { id: MessageId(random()), clue: clue.clone(), payload: vec![name, turn] };
            let answer = post(&mut client, vec![message]);
            if answer.status != 200 {
                assert_refused(&answer, 409, "duplicate", Some("body:messages[0].clue"));
            }
            usize::from(answer.status == 200)
        };
        (0..10).map(taken).sum::<usize>()
    };
    let taken: usize = std::thread::scope(|scope| {
        let posters: Vec<_> = (0..8).map(|name| scope.spawn(move || poster(name))).collect();
        posters.into_iter().map(|poster| poster.join().unwrap()).sum()
    });
    assert_eq!((taken, head(&mut relay.connect(), &relay.key).count), (1, 1));
}

#[test]
fn a_relay_says_its_board_and_keeps_it() {
    let (scratch, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let id = |data: &Path| {
        let relay = TestRelay::start(Config { board_id_for_tests: None, ..config(data) });
        let mut client = relay.connect();
        let info: RelayInfo = client.send("GET", "/v1/parameters", &[], None).unwrap().json().unwrap();
        assert_eq!((info.protocol, info.board.clue_bytes as usize), (2, CLUE.clue_bytes()));
        assert_eq!(head(&mut client, &relay.key).board.0, info.board.id.0);
        info.board.id
    };
    let first = id(scratch.path());
    assert_eq!(id(scratch.path()), first);
    assert_ne!(id(other.path()), first, "ids are drawn");
}

#[test]
fn ids_are_remembered_for_as_long_as_a_message_may_come() {
    let scratch = tempfile::tempdir().unwrap();
    let limits = Limits { id_seconds: 3 * DAY - 1, ..Limits::default() };
    let error = Relay::open(Config { limits, ..config(scratch.path()) }).err().unwrap().to_string();
    assert!(error.contains("limits.id_seconds is 259199, expected at least 259200"), "{error}");
}

/// A relay that signs what it likes.
struct Origin {
    board: BoardId,
    messages: Vec<PageMessage>,
    asked: AtomicUsize,
}

impl Origin {
    fn new(board: u8, change: impl FnOnce(&mut Vec<PageMessage>)) -> Arc<Self> {
        let message = |_| {
            let PostMessage { clue, payload, .. } = of_day(TODAY);
            PageMessage { clue, payload }
        };
        let mut messages: Vec<PageMessage> = (0..20).map(message).collect();
        change(&mut messages);
        Arc::new(Self { board: BoardId([board; 16]), messages, asked: AtomicUsize::new(0) })
    }

    fn key() -> SigningKey {
        SigningKey::from_bytes(&[9; 32])
    }

    fn root(&self, range: std::ops::Range<u64>) -> Hash {
        let mut tree = Frontier::default();
        let messages = &self.messages[range.start as usize..range.end as usize];
        messages.iter().for_each(|message| tree.push(0, message.leaf()));
        tree.root()
    }

    fn answer(&self, path: &str) -> Vec<u8> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let count = self.messages.len() as u64;
        let head = SignedHead::sign(&Self::key(), (self.board, CLUE.id()), count, self.root(0..count), NOON);
        if path == "/v1/head" {
            return head.to_file();
        }
        if let Some(query) = path.strip_prefix("/v1/consistency?from=") {
            let from: u64 = query.split_once('&').unwrap().0.parse().unwrap();
            let proof = ConsistencyProof::build(from, count, |range| Ok::<_, ()>(self.root(range))).unwrap();
            let (kind, body) = (Kind::ConsistencyProof, proof.to_bytes());
            return Envelope { kind, version: 1, parameters: CLUE.id(), body: &body }.seal();
        }
        let query = path.strip_prefix("/v1/messages?first=").unwrap();
        let first: u64 = query.split_once('&').unwrap().0.parse().unwrap();
        let proof = RangeProof::build(&(first..count), count, |range| Ok::<_, ()>(self.root(range))).unwrap();
        Page { head, first, messages: self.messages[first as usize..].to_vec(), proof }.to_body()
    }

    /// Serves on a port of its own for as long as the process lives.
    fn serve(self: &Arc<Self>) -> MirrorConfig {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let origin = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (origin, mut stream) = (origin.clone(), stream.unwrap());
                std::thread::spawn(move || {
                    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    while let Some(Ok(line)) = lines.next() {
                        let path = line.split(' ').nth(1).unwrap().to_owned();
                        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                        let body = origin.answer(&path);
                        let fields = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                        let _ = stream.write_all(fields.as_bytes()).and_then(|()| stream.write_all(&body));
                    }
                });
            }
        });
        let relay = Hex(Self::key().verifying_key().to_bytes());
        MirrorConfig { url, relay, seconds: 1, authority: None, proxy: None }
    }
}

fn mirror_of(data: &Path, origin: &Arc<Origin>) -> TestRelay {
    TestRelay::start(Config { mirror: Some(origin.serve()), ..config(data) })
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_mirror_has_the_board_of_its_origin_and_stays_with_it() {
    let scratch = tempfile::tempdir().unwrap();
    let origin = Origin::new(0xaa, |_| {});
    let mirror = mirror_of(scratch.path(), &origin);
    until("the mirror follows", || head(&mut mirror.connect(), &mirror.key).count == 20);
    assert_eq!(head(&mut mirror.connect(), &mirror.key).board, origin.board);
    until("it is ready", || mirror.operate("GET", "/readyz").status == 204);
    mirror.stop();
    // The same relay's key and messages, and more of them, under another board's id.
    let mut messages = origin.messages.clone();
    messages.push(PageMessage { clue: any_clue(Period(TODAY)), payload: vec![1] });
    let other = Origin::new(0xbb, |all| *all = messages);
    let mirror = mirror_of(scratch.path(), &other);
    until("it has asked", || other.asked.load(Ordering::Relaxed) > 0);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(mirror.operate("GET", "/readyz").status, 503);
    let head = head(&mut mirror.connect(), &mirror.key);
    assert_eq!((head.board, head.count), (origin.board, 20));
}

#[test]
fn a_mirror_stops_for_good_at_an_origin_that_breaks_the_rule() {
    type Change = fn(&mut Vec<PageMessage>);
    let changes: [(Change, &str); 5] = [
        (|messages| messages[15] = messages[3].clone(), "message 3"),
        (
            |messages| {
                messages[15] = messages[3].clone();
                messages[15].clue[CLUE.clue_bytes() - 5] ^= 1;
            },
            "message 3",
        ),
        (|messages| messages[15].clue[..4].copy_from_slice(&(TODAY - 3).to_le_bytes()), "which is closed"),
        (|messages| messages[15].clue[..4].copy_from_slice(&(TODAY + 2).to_le_bytes()), "had not begun"),
        // Equal payloads are nobody's business.
        (|messages| messages[15].payload = messages[3].payload.clone(), ""),
    ];
    for (change, reason) in changes {
        let (scratch, origin) = (tempfile::tempdir().unwrap(), Origin::new(0xaa, change));
        let mirror = mirror_of(scratch.path(), &origin);
        if reason.is_empty() {
            until("the mirror follows", || head(&mut mirror.connect(), &mirror.key).count == 20);
            continue;
        }
        // A mirror that has not caught up is not ready either.
        let mut detail = String::new();
        until("the mirror gives up", || {
            let answer = mirror.operate("GET", "/readyz");
            detail = if answer.status == 503 { problem(&answer).detail } else { String::new() };
            detail.contains("breaks the rule for clues")
        });
        assert!(detail.contains(reason), "{detail}");
        assert_eq!(head(&mut mirror.connect(), &mirror.key).count, 0, "nothing of that page is taken");
        let asked = origin.asked.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(3));
        assert_eq!(origin.asked.load(Ordering::Relaxed), asked, "it asks no more");
    }
}

/// What a mirror says and keeps of an origin that has a clue twice: both messages, each proved to be on a board that the origin signed.
fn check_evidence(data: &Path, mirror: &TestRelay, (first, second): (u64, u64)) {
    until("the mirror gives up", || {
        let answer = mirror.operate("GET", "/readyz");
        answer.status == 503 && problem(&answer).detail.contains("breaks the rule for clues")
    });
    let path = data.join(format!("evidence-{second}.json"));
    let detail = problem(&mirror.operate("GET", "/readyz")).detail;
    assert!(detail.contains(&path.display().to_string()), "{detail}");
    let evidence: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let proved = |name: &str, expected: u64| {
        let one = &evidence[name];
        assert_eq!(one["index"], expected);
        let digits = one["page"].as_str().unwrap();
        let body: Vec<u8> = (0..digits.len() / 2)
            .map(|place| u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).unwrap())
            .collect();
        let page = Page::from_body(CLUE.id(), CLUE.clue_bytes(), &body).unwrap();
        page.verify().unwrap();
        assert!(page.head.is_signed_by(&Hex(Origin::key().verifying_key().to_bytes())));
        page.messages[(expected - page.first) as usize].hashes().bound
    };
    assert_eq!(proved("first", first), proved("second", second));
}

#[test]
fn a_mirror_keeps_the_proof_against_an_origin_that_has_a_clue_twice() {
    let scratch = tempfile::tempdir().unwrap();
    let bend = |messages: &mut Vec<PageMessage>| {
        let mut twin = messages[3].clone();
        twin.clue[CLUE.clue_bytes() - 5] ^= 1;
        messages[15] = twin;
    };
    let origin = Origin::new(0xaa, bend);
    let mirror = mirror_of(scratch.path(), &origin);
    check_evidence(scratch.path(), &mirror, (3, 15));

    // The mirror has the first message long before the second comes.
    let scratch = tempfile::tempdir().unwrap();
    let origin = Origin::new(0xaa, |_| {});
    let mirror = mirror_of(scratch.path(), &origin);
    until("the mirror follows", || head(&mut mirror.connect(), &mirror.key).count == 20);
    mirror.stop();
    let mut messages = origin.messages.clone();
    messages.push(PageMessage { payload: vec![1], ..messages[7].clone() });
    let later = Origin::new(0xaa, |all| *all = messages);
    let mirror = mirror_of(scratch.path(), &later);
    check_evidence(scratch.path(), &mirror, (7, 20));
    assert_eq!(head(&mut mirror.connect(), &mirror.key).count, 20);
}

#[test]
fn a_clue_has_one_encoding() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = relay.connect();
    let mut clue = any_clue(today());
    // Coefficients have 20 bits, and q has them too: what is less than 2^20 - q can be written in two ways. One below 2^16 is.
    let starts = [4, CLUE.clue_bytes() - 5];
    for start in starts {
        clue[start + 2] &= 0xf0;
    }
    for start in starts {
        let mut other = clue.clone();
        let value = u32::from_le_bytes([other[start], other[start + 1], other[start + 2], 0]);
        let low = (value & 0xfffff) % CLUE.modulus();
        assert!(low + CLUE.modulus() < 1 << 20);
        let changed = (value & !0xfffff) | (low + CLUE.modulus());
        other[start..start + 3].copy_from_slice(&changed.to_le_bytes()[..3]);
        assert_ne!(other, clue);
        let bent = PostMessage { id: MessageId(random()), clue: other, payload: vec![1] };
        let refused = post(&mut client, vec![of_day(today().0), bent]);
        assert_refused(&refused, 422, "invalid", SECOND);
        assert!(problem(&refused).detail.contains("one encoding"));
    }
    assert_eq!(head(&mut client, &relay.key).count, 0);
    let message = PostMessage { id: MessageId(random()), clue, payload: vec![1] };
    assert_eq!(places(&mut client, vec![message]), [(0, false)]);
}
