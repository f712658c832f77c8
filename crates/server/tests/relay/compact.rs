//! Compact digests as jobs, in a ring of no security, in which they take seconds.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::ops::Range;
use std::path::Path;
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use restante_client::Account;
use restante_clue::BoundClue;
use restante_load::Connection;
use restante_omr::OmrError;
use restante_omr::compact::{
    CompactContext, CompactDetectionKey, CompactDigest, CompactParameters, CompactSecret, Decoder, Detector,
    PertinencyVector, PreparedKey, Retrieved,
};
use restante_ring::{Backend, sample::Seed};
use restante_server::{CompactConfig, Config, Relay};
use restante_wire::relay::{
    DigestKind, Hex, JobId, JobRequest, JobStatus, KeyState, KeyStatus, PostMessage, RegisterRequest,
    RelayInfo, media,
};

use super::support::{
    BOARD, CLUE, Owner, Recipient, TestRelay, assert_refused, config, json, message, message_to, post,
    posted, random, registration, rng,
};

fn context() -> &'static CompactContext {
    static CONTEXT: OnceLock<CompactContext> = OnceLock::new();
    CONTEXT.get_or_init(|| {
        CompactContext::new(CompactParameters::insecure(CLUE).unwrap(), Backend::best()).unwrap()
    })
}

pub struct CompactRecipient {
    account: Account,
    secret: CompactSecret,
    file: Vec<u8>,
}

static ALICE: LazyLock<CompactRecipient> = LazyLock::new(|| CompactRecipient::new(1));

impl CompactRecipient {
    pub fn new(seed: u8) -> Self {
        let account = Account::random(CLUE, &mut rng(seed));
        let secret = account.compact_secret(context()).unwrap();
        let file = secret.detection_key().unwrap().to_file();
        Self { account, secret, file }
    }

    /// Registers and uploads the key.
    pub fn register(&self, client: &mut Connection) -> Owner {
        let owner = Owner::announce(client, &self.request());
        for (index, part) in self.file.chunks(3 << 20).enumerate() {
            assert_eq!(owner.upload(client, index * (3 << 20), part).status, 200);
        }
        assert_eq!(owner.status(client).state, KeyState::Ready);
        owner
    }

    /// The places of pertinent messages.
    pub fn places(&self, messages: &[PostMessage]) -> Vec<u64> {
        let pertinent = (0..)
            .zip(messages)
            .filter(|(_, one)| self.account.is_pertinent(&BOARD, &one.clue, &one.payload).unwrap());
        pertinent.map(|(index, _)| index).collect()
    }

    /// The places that a digest says.
    pub fn found(&self, digest: &[u8]) -> Vec<u64> {
        self.decode(digest).unwrap().iter().map(|one| one.index).collect()
    }

    /// The file of a vector that says of every message that it is not pertinent.
    fn vector_of_nothing(&self, range: Range<u64>) -> Vec<u8> {
        let key = PreparedKey::new(self.secret.detection_key().unwrap());
        let stranger = (0..)
            .map(message)
            .find(|one| !self.account.is_pertinent(&BOARD, &one.clue, &one.payload).unwrap())
            .unwrap();
        let bound = BoundClue { bytes: &stranger.clue, binding: stranger.hashes().binding(&BOARD) };
        let clues = vec![bound; (range.end - range.start) as usize];
        let detector = Detector::new(context()).unwrap();
        let made = detector.pertinency(&[&key], range.start, &clues, &Seed::from([7; 32]), |_| ()).unwrap();
        made[0].to_file(context())
    }

    pub fn message(&self, text: &str, seed: u8) -> PostMessage {
        message_to(&self.account, text, seed)
    }

    pub fn request(&self) -> RegisterRequest {
        registration(DigestKind::Compact, context().id(), &self.file)
    }

    fn decode(&self, file: &[u8]) -> Result<Vec<Retrieved>, OmrError> {
        let digest = CompactDigest::from_file(context(), file).unwrap();
        Decoder::new(&self.secret).unwrap().decode(&digest)
    }
}

pub fn compact(data: &Path) -> Config {
    let compact = CompactConfig { enabled: true, insecure_for_tests: true, ..CompactConfig::default() };
    Config { compact, ..config(data) }
}

/// A job for messages `10..`.
fn job(capacity: Option<u32>, payload_bytes: Option<u32>) -> JobRequest {
    JobRequest {
        id: JobId(random()),
        kind: DigestKind::Compact,
        first: 10,
        end: None,
        capacity,
        payload_bytes,
    }
}

/// Messages, and which of those from 10 on are Alice's.
fn messages() -> (Vec<PostMessage>, Vec<u64>) {
    let bob = Recipient::new(2);
    let mut all: Vec<PostMessage> = (0..60).map(message).collect();
    all.extend([ALICE.message("one", 3), bob.message("not hers", 4), ALICE.message("two", 5)]);
    all.extend([message(500), ALICE.message("three", 6)]);
    let pertinent = (10..).zip(&all[10..]);
    let pertinent = pertinent
        .filter(|(_, message)| ALICE.account.is_pertinent(&BOARD, &message.clue, &message.payload).unwrap())
        .map(|(i, _)| i);
    let pertinent = pertinent.collect();
    (all, pertinent)
}

#[test]
fn a_compact_job_finds_what_is_there_also_after_a_restart() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(compact(scratch.path()));
    let mut client = relay.connect();
    let (all, pertinent) = messages();
    posted(&post(&mut client, all));
    assert!(pertinent.ends_with(&[60, 62, 64]) && pertinent.len() < 16, "{pertinent:?}");

    let info: RelayInfo = client.send("GET", "/v1/parameters", &[], None).unwrap().json().unwrap();
    let [stream, offered] = info.digests.as_slice() else { panic!("{:?}", info.digests) };
    assert_eq!((stream.kind, stream.capacity_max), (DigestKind::Stream, None));
    assert_eq!((offered.kind, offered.parameters), (DigestKind::Compact, context().id().into()));
    assert_eq!(offered.key_bytes, CompactDetectionKey::file_bytes(context()) as u64);
    assert_eq!((offered.capacity_max, offered.payload_bytes_max), (Some(255), Some(4064)));
    assert_eq!(offered.messages_max, 786_432);

    let owner = ALICE.register(&mut client);

    // Whole payloads.
    let request = job(Some(16), Some(1536));
    let response = owner.send(&mut client, "POST", "/jobs", Some(&json(&request)));
    assert_eq!(response.status, 202, "{}", String::from_utf8_lossy(&response.body));
    let status: JobStatus = response.json().unwrap();
    assert_eq!((status.capacity, status.payload_bytes, status.complete_to), (Some(16), Some(1536), 65));
    assert_eq!(owner.send(&mut client, "POST", "/jobs", Some(&json(&request))).status, 200);
    let other = JobRequest { capacity: Some(17), ..request.clone() };
    let response = owner.send(&mut client, "POST", "/jobs", Some(&json(&other)));
    assert_refused(&response, 409, "conflict", Some("body:id"));
    let digest = owner.result(&mut client, request.id);
    assert_eq!(owner.wait(&mut client, request.id).done, 55);
    let result = owner.send(&mut client, "GET", &format!("/jobs/{}/result", request.id), None);
    assert_eq!(result.header("content-type"), Some(media::COMPACT_DIGEST));
    assert_eq!(result.header("restante-complete-to"), Some("65"));
    let found = ALICE.decode(&digest).unwrap();
    assert_eq!(found.iter().map(|one| one.index).collect::<Vec<_>>(), pertinent);
    let texts: Vec<Vec<u8>> =
        found.iter().filter_map(|one| ALICE.account.open_record(&BOARD, &one.payload).ok()).collect();
    assert_eq!(texts, [&b"one"[..], b"two", b"three"]);

    // Indices only, and room for too few.
    let small = job(Some(2), None);
    assert_eq!(owner.send(&mut client, "POST", "/jobs", Some(&json(&small))).status, 202);
    let digest = owner.result(&mut client, small.id);
    assert_eq!(ALICE.decode(&digest), Err(OmrError::Overflow { capacity: 2 }));

    // A job that is under way when the relay stops is done by the next.
    let last = job(Some(255), Some(0));
    assert_eq!(owner.send(&mut client, "POST", "/jobs", Some(&json(&last))).status, 202);
    relay.stop();
    let relay = TestRelay::start(compact(scratch.path()));
    let mut client = relay.connect();
    let found = ALICE.decode(&owner.result(&mut client, last.id)).unwrap();
    assert_eq!(found.iter().map(|one| one.index).collect::<Vec<_>>(), pertinent);
    relay.stop();

    // An operator who turns them off: the key is still there, but no job.
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = relay.connect();
    let response = owner.send(&mut client, "POST", "/jobs", Some(&json(&job(Some(5), None))));
    assert_refused(&response, 422, "invalid", Some("body:kind"));
    assert_eq!(owner.send(&mut client, "DELETE", "", None).status, 204);
}

#[test]
fn refusals_name_the_field() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let announce = |relay: &TestRelay, request: &RegisterRequest| {
        let headers = [("content-type", media::JSON)];
        relay.connect().send("POST", "/v1/keys", &headers, Some(&json(request))).unwrap()
    };
    assert_refused(&announce(&relay, &ALICE.request()), 422, "invalid", Some("body:kind"));
    relay.stop();

    let mut limited = compact(scratch.path());
    (limited.compact.keys, limited.compact.job_messages) = (1, 50);
    // As much memory as the smallest job takes, and a little.
    limited.compact.memory_bytes = 1;
    let error = Relay::open(limited.clone()).unwrap_err().to_string();
    let (text, least) = error.rsplit_once(' ').unwrap();
    assert!(text.contains("compact.memory_bytes is 1, expected at least"), "{error}");
    limited.compact.memory_bytes = least.parse::<u64>().unwrap() + (1 << 20);
    let relay = TestRelay::start(limited);
    let mut client = relay.connect();
    posted(&post(&mut client, messages().0));

    let request = ALICE.request();
    let wrong = RegisterRequest { parameters: Hex([7; 8]), ..request.clone() };
    assert_refused(&announce(&relay, &wrong), 422, "invalid", Some("body:parameters"));
    let wrong = RegisterRequest { bytes: request.bytes + 1, ..request.clone() };
    assert_refused(&announce(&relay, &wrong), 422, "invalid", Some("body:bytes"));

    // Another file than was announced; the upload starts again, and another key has no room.
    let owner = Owner::announce(&mut client, &request);
    assert_refused(&announce(&relay, &request), 503, "busy", None);
    let mut damaged = ALICE.file.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_refused(&owner.upload(&mut client, 0, &damaged), 422, "invalid", Some("body:hash"));
    // All bytes are there, but the check did not come to an end: an empty part asks for it again.
    let (first, rest) = ALICE.file.split_at(1 << 20);
    assert_eq!(owner.upload(&mut client, 0, first).status, 200);
    let upload = std::fs::read_dir(scratch.path().join("uploads")).unwrap().next().unwrap().unwrap().path();
    let mut upload = std::fs::File::options().append(true).open(upload).unwrap();
    std::io::Write::write_all(&mut upload, rest).unwrap();
    assert_eq!(owner.upload(&mut client, ALICE.file.len(), &[]).status, 200);
    assert_eq!(owner.status(&mut client).state, KeyState::Ready);

    let submit = |client: &mut _, request: &JobRequest| {
        owner.send(client, "POST", "/jobs", Some(&json(&JobRequest { end: Some(60), ..request.clone() })))
    };
    for capacity in [None, Some(0), Some(256)] {
        let response = submit(&mut client, &job(capacity, Some(0)));
        assert_refused(&response, 422, "invalid", Some("body:capacity"));
    }
    let response = submit(&mut client, &job(Some(5), Some(4065)));
    assert_refused(&response, 422, "invalid", Some("body:payload_bytes"));
    let response = submit(&mut client, &job(Some(255), None));
    assert_refused(&response, 413, "too-large", Some("body:capacity"));
    let response = submit(&mut client, &job(Some(5), Some(4064)));
    assert_refused(&response, 413, "too-large", Some("body:payload_bytes"));
    let response = submit(&mut client, &JobRequest { first: 9, ..job(Some(5), None) });
    assert_refused(&response, 413, "too-large", Some("body:end"));
    let response = submit(&mut client, &JobRequest { kind: DigestKind::Stream, ..job(None, None) });
    assert_refused(&response, 422, "invalid", Some("body:kind"));
    let response = owner.send(&mut client, "GET", "/digests?first=0", None);
    assert_refused(&response, 422, "invalid", Some("path:key"));

    let streaming = Owner::register(&mut client, &Recipient::new(2));
    for (request, field) in
        [(job(Some(5), None), "body:capacity"), (job(None, Some(0)), "body:payload_bytes")]
    {
        let request = JobRequest { kind: DigestKind::Stream, ..request };
        let response = streaming.send(&mut client, "POST", "/jobs", Some(&json(&request)));
        assert_refused(&response, 422, "invalid", Some(field));
    }
}

/// Messages of a block in the ring for tests.
const BLOCK: u64 = 2048;

/// So many messages, with some for Alice at the borders of blocks and elsewhere.
fn board(count: u64) -> Vec<PostMessage> {
    let is_hers = |index: u64| matches!(index % BLOCK, 0 | 77 | 2047) || index == count - 1;
    let hers = |index: u64| ALICE.message(&format!("message {index}"), (index % 251) as u8);
    (0..count).map(|index| if is_hers(index) { hers(index) } else { message(index) }).collect()
}

fn post_all(client: &mut Connection, messages: &[PostMessage]) {
    messages.chunks(256).for_each(|batch| drop(posted(&post(client, batch.to_vec()))));
}

/// A job for all messages of a range, done. With a connection of its own: others may have been idle for too long.
fn digest(owner: &Owner, relay: &TestRelay, range: Range<u64>) -> Vec<u8> {
    let client = &mut relay.connect();
    let request = JobRequest { first: range.start, end: Some(range.end), ..job(Some(30), None) };
    let response = owner.send(client, "POST", "/jobs", Some(&json(&request)));
    assert_eq!(response.status, 202, "{}", String::from_utf8_lossy(&response.body));
    owner.result(client, request.id)
}

pub fn wait(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !is_so() {
        assert!(Instant::now() < deadline, "it did not come to that");
        // Fewer than a key's requests a second.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The names of the files of pertinency vectors, without the registration's; in order of the first message.
pub fn vectors(data: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(data.join("pertinency")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.map(|name| name.split_once('-').unwrap().1.to_owned()).collect();
    names.sort_by_key(|name| name.rsplit('-').nth(1).unwrap().parse::<u64>().unwrap());
    names
}

fn in_range(places: &[u64], range: Range<u64>) -> Vec<u64> {
    places.iter().copied().filter(|place| range.contains(place)).collect()
}

#[test]
fn standing_orders_do_phase_1_as_messages_come() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path();
    let relay = TestRelay::start(compact(path));
    let mut client = relay.connect();
    let all = board(3 * BLOCK + 100);
    let places = ALICE.places(&all);
    let (first, rest) = all.split_at(2 * BLOCK as usize + 50);
    post_all(&mut client, first);
    let mut rest = rest.to_vec();
    let owner = ALICE.register(&mut client);
    let order = |relay: &TestRelay, first: u64| {
        owner.send(
            &mut relay.connect(),
            "PUT",
            "/standing",
            Some(format!("{{\"first\":{first}}}").as_bytes()),
        )
    };
    let refused = order(&relay, 2 * BLOCK + 51);
    assert_refused(&refused, 416, "range", Some("body:first"));
    let status: KeyStatus = order(&relay, 5).json().unwrap();
    assert_eq!(status.standing.unwrap().first, 0);
    assert_eq!(order(&relay, 0).status, 200);
    assert_refused(&order(&relay, BLOCK), 409, "conflict", Some("body:first"));
    let refused = owner.send(&mut relay.connect(), "GET", "/digests?first=0", None);
    assert_refused(&refused, 422, "invalid", Some("path:key"));

    let complete_to = |relay: &TestRelay| owner.status(&mut relay.connect()).standing.unwrap().complete_to;
    wait(|| complete_to(&relay) == 2 * BLOCK);
    assert_eq!(vectors(path), ["0-2048", "2048-4096"]);
    let count = 2 * BLOCK + 50;
    assert_eq!(ALICE.found(&digest(&owner, &relay, 1..count)), in_range(&places, 1..count));

    // Two keys that wait for the same block share a pass.
    let bob = CompactRecipient::new(31);
    let other = bob.register(&mut relay.connect());
    let from = format!("{{\"first\":{}}}", 2 * BLOCK);
    let ordered = other.send(&mut relay.connect(), "PUT", "/standing", Some(from.as_bytes()));
    assert_eq!(ordered.status, 200);
    rest[60] = bob.message("for bob", 9);
    let bobs: Vec<u64> = bob.places(&rest).iter().map(|place| 2 * BLOCK + 50 + place).collect();
    assert!(bobs.contains(&(2 * BLOCK + 110)));
    post_all(&mut relay.connect(), &rest);
    wait(|| complete_to(&relay) == 3 * BLOCK && vectors(path).len() == 4);
    assert_eq!(vectors(path), ["0-2048", "2048-4096", "4096-6144", "4096-6144"]);
    let files = std::fs::read_dir(path.join("pertinency")).unwrap().map(|entry| entry.unwrap().path());
    let last: Vec<PertinencyVector> = files
        .filter(|path| path.to_str().unwrap().ends_with("-4096-6144"))
        .map(|path| PertinencyVector::from_file(context(), &std::fs::read(path).unwrap()).unwrap())
        .collect();
    assert!(last[0].key() != last[1].key() && last[0].shares_pass(&last[1]));
    assert_eq!(
        bob.found(&digest(&other, &relay, 2 * BLOCK + 60..3 * BLOCK)),
        in_range(&bobs, 2 * BLOCK + 60..3 * BLOCK)
    );
    assert_eq!(other.send(&mut relay.connect(), "DELETE", "", None).status, 204);
    assert_eq!(vectors(path), ["0-2048", "2048-4096", "4096-6144"]);
    let metric = |line: &str| {
        let answer = Connection::open(relay.operations).unwrap().send("GET", "/metrics", &[], None).unwrap();
        String::from_utf8(answer.body).unwrap().contains(line)
    };
    wait(|| metric("restante_compact_standing_behind 0"));
    assert!(metric("restante_pertinency_blocks_total 4"));

    // Phase 1 is not done again, by a job or after a restart: what stands in the vector is what the digest has.
    let file = std::fs::read_dir(path.join("pertinency")).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.to_str().unwrap().ends_with("-0-2048")).unwrap();
    let (good, nothing) = (std::fs::read(&file).unwrap(), ALICE.vector_of_nothing(0..BLOCK));
    assert_eq!(good.len(), nothing.len());
    std::fs::write(&file, &nothing).unwrap();
    let range = 50..3 * BLOCK + 90;
    let digested = ALICE.found(&digest(&owner, &relay, range.clone()));
    assert_eq!(digested, in_range(&places, BLOCK..range.end));
    relay.stop();
    let relay = TestRelay::start(compact(path));
    assert_eq!(complete_to(&relay), 3 * BLOCK);
    let digested = ALICE.found(&digest(&owner, &relay, range.clone()));
    assert_eq!(digested, in_range(&places, BLOCK..range.end));
    // A vector of another range, and one that is damaged, are made again.
    for bad in [ALICE.vector_of_nothing(1..BLOCK + 1), good[..1000].to_vec()] {
        std::fs::write(&file, &bad).unwrap();
        let digested = ALICE.found(&digest(&owner, &relay, range.clone()));
        assert_eq!(digested, in_range(&places, range.clone()));
        let again = std::fs::read(&file).unwrap();
        // With other slots.
        assert!(again.len() == good.len() && again != good);
    }
    assert_eq!(owner.send(&mut relay.connect(), "DELETE", "/standing", None).status, 204);
    assert_eq!(vectors(path), [""; 0]);
    assert_eq!(ALICE.found(&digest(&owner, &relay, 0..BLOCK + 1)), in_range(&places, 0..BLOCK + 1));
    assert_eq!(vectors(path), [""; 0]);
    relay.stop();

    // The last block only; then none.
    let mut limited = compact(path);
    limited.compact.standing_blocks = 1;
    let relay = TestRelay::start(limited.clone());
    assert_eq!(order(&relay, 0).status, 200);
    wait(|| complete_to(&relay) == 3 * BLOCK);
    assert_eq!(vectors(path), ["4096-6144"]);
    assert_eq!(ALICE.found(&digest(&owner, &relay, range.clone())), in_range(&places, range.clone()));
    assert_eq!(vectors(path), ["4096-6144"]);
    assert_eq!(owner.send(&mut relay.connect(), "DELETE", "", None).status, 204);
    assert_eq!(vectors(path), [""; 0]);
    relay.stop();
    limited.compact.standing_blocks = 0;
    let relay = TestRelay::start(limited);
    let mut client = relay.connect();
    let owner = ALICE.register(&mut client);
    let refused = owner.send(&mut client, "PUT", "/standing", Some(b"{}"));
    assert_refused(&refused, 422, "invalid", Some("path:key"));
}

#[test]
fn a_job_that_was_interrupted_goes_on_behind_the_last_block_that_was_done() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path();
    let relay = TestRelay::start(compact(path));
    let mut client = relay.connect();
    let all = board(3 * BLOCK);
    let places = ALICE.places(&all);
    post_all(&mut client, &all);
    let owner = ALICE.register(&mut client);
    let range = 10..3 * BLOCK;
    let request = JobRequest { first: 10, end: Some(range.end), ..job(Some(30), None) };
    let submitted = owner.send(&mut client, "POST", "/jobs", Some(&json(&request)));
    assert_eq!(submitted.status, 202);
    let part = || std::fs::read_dir(path.join("pertinency")).unwrap().next();
    wait(|| part().is_some());
    relay.stop();
    let parts = vectors(path);
    assert_eq!(parts[0], format!("{}-10-2058", request.id));
    assert!(parts.len() < 3, "the job was done before it could be interrupted");
    // What stands in the part is what the digest has.
    let name = std::fs::read_dir(path.join("pertinency")).unwrap().map(|entry| entry.unwrap().path());
    let name = name.into_iter().find(|path| path.to_str().unwrap().ends_with("-10-2058")).unwrap();
    std::fs::write(name, ALICE.vector_of_nothing(10..BLOCK + 10)).unwrap();
    let relay = TestRelay::start(compact(path));
    let mut client = relay.connect();
    let digested = ALICE.found(&owner.result(&mut client, request.id));
    assert_eq!(digested, in_range(&places, BLOCK + 10..range.end));
    wait(|| vectors(path).is_empty());

    // A job that is deleted leaves nothing.
    let request = JobRequest { first: 10, end: Some(range.end), ..job(Some(30), None) };
    // The connection may have been idle for too long.
    assert_eq!(owner.send(&mut relay.connect(), "POST", "/jobs", Some(&json(&request))).status, 202);
    wait(|| !vectors(path).is_empty());
    assert_eq!(
        owner.send(&mut relay.connect(), "DELETE", &format!("/jobs/{}", request.id), None).status,
        204
    );
    relay.stop();
    assert_eq!(vectors(path), [""; 0]);
}
