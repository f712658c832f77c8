//! Killed at any moment: every acknowledged message is there once, every job finishes, the index agrees with the segments.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![cfg(unix)]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::compact::{CompactRecipient, compact, vectors, wait};
use crate::support::*;
use restante_load::Connection;
use restante_server::Config;
use restante_wire::relay::{
    DigestKind, Hex, JobId, JobRequest, JobState, JobStatus, PostBatch, PostMessage, PostResult, media,
};

/// Tells the child where its data directory is.
const CHILD: &str = "RESTANTE_TEST_RELAY";
const KILLS: u32 = 50;
const COMPACT_KILLS: u32 = 15;
const POSTERS: usize = 4;

/// Not a test by itself: the relay that is killed.
#[test]
fn child() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    run_child(&folder, config);
}

fn run_child(folder: &str, config: fn(&Path) -> Config) {
    let folder = Path::new(folder);
    let relay = TestRelay::start(config(&folder.join("relay")));
    std::fs::write(folder.join("address.tmp"), relay.address.to_string()).unwrap();
    std::fs::rename(folder.join("address.tmp"), folder.join("address")).unwrap();
    loop {
        std::thread::park();
    }
}

/// Not a test by itself, either: a relay with compact digests, in a ring of no security.
#[test]
fn compact_child() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    run_child(&folder, compact);
}

/// Nor this: a relay that registers holders of credentials only.
#[test]
fn closed_child() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    run_child(&folder, closed);
}

fn closed(data: &Path) -> Config {
    let mut settings = config(data);
    settings.registration.policy = restante_server::Registration::Credential;
    settings
}

fn start(folder: &Path, child: &str) -> (Child, SocketAddr) {
    let address = folder.join("address");
    let _ = std::fs::remove_file(&address);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([child, "--exact", "--nocapture"])
        .env(CHILD, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Ok(text) = std::fs::read_to_string(&address) {
            return (child, text.parse().unwrap());
        }
        assert!(child.try_wait().unwrap().is_none(), "the relay did not start");
        assert!(Instant::now() < deadline, "the relay did not start in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a poster knows: where its acknowledged messages are, and what it has to send again.
#[derive(Default)]
struct Poster {
    acknowledged: HashMap<u64, PostMessage>,
    unanswered: Option<Vec<PostMessage>>,
}

impl Poster {
    /// Posts until the connection breaks. What was not answered is sent again the next time.
    fn run(&mut self, address: SocketAddr, stop: &AtomicBool) {
        let Ok(mut connection) = Connection::open(address) else { return };
        while !stop.load(Ordering::Relaxed) {
            let batch = self.unanswered.take().unwrap_or_else(|| {
                let number = u64::from_le_bytes(random());
                (0..1 + number % 5).map(|place| message(number.wrapping_add(place))).collect()
            });
            let body = PostBatch(batch.clone()).to_body(CLUE.id());
            let headers = [("content-type", media::POST)];
            match connection.send("POST", "/v1/messages", &headers, Some(&body)) {
                Ok(answer) if answer.status == 200 => {
                    let result: PostResult = answer.json().unwrap();
                    for (posted, message) in result.messages.iter().zip(batch) {
                        assert!(posted.index < result.head.count);
                        let before = self.acknowledged.insert(posted.index, message);
                        assert!(before.is_none(), "two messages at {}", posted.index);
                    }
                }
                Ok(answer) => {
                    assert_eq!(answer.status, 503);
                    self.unanswered = Some(batch);
                }
                Err(_) => {
                    self.unanswered = Some(batch);
                    return;
                }
            }
        }
    }
}

#[test]
fn fifty_kills_lose_nothing_that_was_acknowledged() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut child, mut address) = start(scratch.path(), "kill::child");
    let alice = Recipient::new(1);
    let mut client = Connection::open(address).unwrap();
    fill(&mut client, 200);
    let mine = alice.message("for alice", 2);
    let place = posted(&post(&mut client, vec![mine])).messages[0].index;
    let owner = Owner::register(&mut client, &alice);
    let mut posters: Vec<Mutex<Poster>> = (0..POSTERS).map(|_| Mutex::default()).collect();
    let mut jobs: Vec<JobId> = Vec::new();
    let mut last_head: Option<restante_wire::relay::SignedHead> = None;
    for kill in 0..KILLS {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = SetAtEnd(&stop);
            for poster in &posters {
                scope.spawn(|| poster.lock().unwrap().run(address, &stop));
            }
            // A few digests under way, too.
            if jobs.len() as u32 <= kill / 4
                && let Ok(mut client) = Connection::open(address)
            {
                let id = JobId(random());
                let request = JobRequest { id, ..stream_job(0, None) };
                let answer = owner.send(&mut client, "POST", "/jobs", Some(&json(&request)));
                assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
                jobs.push(id);
            }
            let [first, second] = random::<2>();
            std::thread::sleep(Duration::from_millis(u64::from(u16::from_le_bytes([first, second])) % 120));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        (child, address) = start(scratch.path(), "kill::child");
        let mut client = Connection::open(address).unwrap();
        // What was told about the board before stays true.
        let answer = client.send("GET", "/v1/head", &[], None).unwrap();
        let head = restante_wire::relay::SignedHead::from_file(&answer.body).unwrap();
        if let Some(last) = last_head {
            let proof = consistency(&mut client, last.count, head.count);
            head.verify_continues(&last, &proof).unwrap();
        }
        last_head = Some(head);
    }

    let mut client = Connection::open(address).unwrap();
    // What was not answered is sent a last time.
    let mut acknowledged: HashMap<u64, PostMessage> = HashMap::new();
    for poster in &mut posters {
        let poster = poster.get_mut().unwrap();
        if let Some(batch) = poster.unanswered.take() {
            let result = posted(&post(&mut client, batch.clone()));
            for (posted, message) in result.messages.iter().zip(batch) {
                assert!(poster.acknowledged.insert(posted.index, message).is_none());
            }
        }
        for (index, message) in poster.acknowledged.drain() {
            assert!(acknowledged.insert(index, message).is_none(), "two messages at {index}");
        }
    }
    let head = last_head.unwrap();
    let mut next = 0;
    let count = {
        let answer = client.send("GET", "/v1/messages?first=0&end=0", &[], None).unwrap();
        let page = restante_wire::relay::Page::from_body(CLUE.id(), CLUE.clue_bytes(), &answer.body).unwrap();
        page.head.count
    };
    assert!(count >= head.count);
    // Every message on the board is one that was acknowledged, and the other way round: none is lost, none is there twice.
    assert_eq!(count, acknowledged.len() as u64 + 201);
    while next < count {
        let page = page(&mut client, next, count);
        for (place, message) in page.messages.iter().enumerate() {
            if let Some(expected) = acknowledged.remove(&(page.first + place as u64)) {
                assert!((&expected.clue, &expected.payload) == (&message.clue, &message.payload));
            }
        }
        next = page.end();
    }
    assert!(acknowledged.is_empty(), "{} messages lost", acknowledged.len());
    for id in jobs {
        let status = owner.wait(&mut client, id);
        assert_eq!(status.state, JobState::Done, "{status:?}");
        assert_eq!(alice.pertinent(&owner.result(&mut client, id)), [place]);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    restante_board::Board::open(scratch.path().join("relay/board")).unwrap().verify().unwrap();
}

/// One key with a standing order, one without; both have jobs.
#[test]
fn fifteen_kills_during_compact_work_lose_no_job_and_leave_no_file() {
    const BLOCK: u64 = 2048;
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("relay");
    let (mut child, mut address) = start(scratch.path(), "kill::compact_child");
    let recipients = [11, 12].map(CompactRecipient::new);
    let mut client = Connection::open(address).unwrap();
    let mut all: Vec<PostMessage> = (0..BLOCK + 300).map(message).collect();
    for (place, index) in [(0, 3), (1, 40), (0, 2047), (1, 2048), (0, 2049)] {
        all[index] = recipients[place].message("at the start", index as u8);
    }
    for batch in all.chunks(256) {
        posted(&post(&mut client, batch.to_vec()));
    }
    let owners = recipients.each_ref().map(|one| one.register(&mut client));
    let ordered = owners[0].send(&mut client, "PUT", "/standing", Some(br#"{"first":0}"#));
    assert_eq!(ordered.status, 200);
    let mut jobs = Vec::new();
    for kill in 0..COMPACT_KILLS {
        // More messages: a block is full now and then.
        let mut batch: Vec<PostMessage> =
            (0..250).map(|place| message(u64::from(kill) * 250 + place)).collect();
        batch[usize::from(kill as u8)] = recipients[kill as usize % 2].message("on the way", kill as u8);
        posted(&post(&mut client, batch.clone()));
        all.extend(batch);
        if kill % 3 == 0 {
            for (place, owner) in owners.iter().enumerate() {
                let (id, end) = (JobId(random()), all.len() as u64);
                let first = u64::from(kill) * 7;
                let request = JobRequest {
                    id,
                    kind: DigestKind::Compact,
                    first,
                    end: Some(end),
                    capacity: Some(40),
                    payload_bytes: Some(0),
                };
                let answer = owner.send(&mut client, "POST", "/jobs", Some(&json(&request)));
                assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
                jobs.push((place, id, first..end));
            }
        }
        let [first, second] = random::<2>();
        std::thread::sleep(Duration::from_millis(u64::from(u16::from_le_bytes([first, second])) % 3000));
        child.kill().unwrap();
        child.wait().unwrap();
        (child, address) = start(scratch.path(), "kill::compact_child");
        client = Connection::open(address).unwrap();
    }
    let places = recipients.each_ref().map(|one| one.places(&all));
    for (place, id, range) in &jobs {
        // Those that wait took their turn before.
        wait(|| {
            let answer = owners[*place].send(&mut client, "GET", &format!("/jobs/{id}"), None);
            answer.json::<JobStatus>().unwrap().state.is_final()
        });
        let digest = owners[*place].result(&mut client, *id);
        let expected: Vec<u64> =
            places[*place].iter().copied().filter(|index| range.contains(index)).collect();
        assert!(!expected.is_empty());
        assert_eq!(recipients[*place].found(&digest), expected, "{range:?}");
    }
    let full = all.len() as u64 / BLOCK * BLOCK;
    wait(|| owners[0].status(&mut client).standing.unwrap().complete_to == full);
    child.kill().unwrap();
    child.wait().unwrap();
    // The next start removes what was left.
    (child, _) = start(scratch.path(), "kill::compact_child");
    child.kill().unwrap();
    child.wait().unwrap();
    let blocks = (0..full / BLOCK).map(|block| format!("{}-{}", block * BLOCK, (block + 1) * BLOCK));
    assert_eq!(vectors(&data), blocks.collect::<Vec<_>>());
    let names = |folder: &str| std::fs::read_dir(data.join(folder)).unwrap().count();
    assert_eq!((names("results"), names("keys"), names("uploads")), (jobs.len(), 2, 0));
}

#[test]
fn a_credential_is_spent_once_however_often_the_relay_is_killed() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("relay");
    let expires = u64::MAX;
    let terms = restante_server::CredentialTerms { stream: 2, compact: 0, expires };
    let issued = restante_server::issue_credentials(&data, 100, &terms).unwrap();
    let request = json(&Recipient::new(1).request());
    let (stop, no_more_relays) = (AtomicBool::new(false), AtomicBool::new(false));
    let address = Mutex::new(None::<SocketAddr>);
    let registered = AtomicUsize::new(0);
    let (mut kills, mut tokens) = (0, Vec::new());
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let _end = SetAtEnd(&stop);
            let mut tokens = Vec::new();
            for (_, credential) in &issued {
                // At first the relay lives for 32 ms at most, so that it is killed three times before this is over.
                std::thread::sleep(Duration::from_millis(1));
                let authorization = format!("Bearer {}", credential.reveal());
                let id = Hex([7; 16]).to_string();
                let fields = [
                    ("content-type", media::JSON),
                    ("authorization", authorization.as_str()),
                    (restante_wire::relay::headers::REQUEST_ID, id.as_str()),
                ];
                loop {
                    assert!(!no_more_relays.load(Ordering::Relaxed));
                    // The same request, until somebody answers it.
                    let address = *address.lock().unwrap();
                    let answer = address
                        .and_then(|address| Connection::open(address).ok())
                        .and_then(|mut relay| relay.send("POST", "/v1/keys", &fields, Some(&request)).ok());
                    match answer {
                        Some(answer) if answer.status == 201 => {
                            registered.fetch_add(1, Ordering::Relaxed);
                            tokens.push(answer.json::<restante_wire::relay::Registered>().unwrap());
                            break;
                        }
                        Some(answer) => assert!(answer.status >= 500, "{answer:?}"),
                        None => std::thread::sleep(Duration::from_millis(2)),
                    }
                }
            }
            tokens
        });
        // A slow disk takes longer for one registration than the first relays live: later ones live longer, until one is made.
        let _end = SetAtEnd(&no_more_relays);
        let mut life = 32;
        while !stop.load(Ordering::Relaxed) {
            let (mut child, at) = start(scratch.path(), "kill::closed_child");
            *address.lock().unwrap() = Some(at);
            let before = registered.load(Ordering::Relaxed);
            // Now and then in the middle of a registration.
            std::thread::sleep(Duration::from_millis(u64::from(random::<1>()[0]) * life / 256));
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
            let made = registered.load(Ordering::Relaxed) - before;
            life = if made == 0 { (2 * life).min(60_000) } else { (life / 2).max(32) };
        }
        tokens = asking.join().unwrap();
    });
    assert!(kills > 1 && tokens.len() == issued.len());
    let relay = TestRelay::start(closed(&data));
    for registered in &tokens {
        let path = format!("/v1/keys/{}", registered.key.key);
        let owner = Owner { path, authorization: format!("Bearer {}", registered.token.reveal()) };
        assert_eq!(owner.send(&mut relay.connect(), "GET", "", None).status, 200);
    }
    let mut operator = Connection::open(relay.operations).unwrap();
    let all: serde_json::Value = operator.send("GET", "/credentials", &[], None).unwrap().json().unwrap();
    let all = all["credentials"].as_array().unwrap();
    assert!(all.len() == issued.len() && all.iter().all(|one| one["stream"][0] == 1), "{all:?}");
}
