//! Compact digests as jobs, in a ring of no security, in which they take seconds.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::sync::{LazyLock, OnceLock};

use restante_client::Account;
use restante_omr::OmrError;
use restante_omr::compact::{
    CompactContext, CompactDetectionKey, CompactDigest, CompactParameters, CompactSecret, Decoder, Retrieved,
};
use restante_ring::Backend;
use restante_server::{CompactConfig, Config, Relay};
use restante_wire::merkle::Hash;
use restante_wire::relay::{
    DigestKind, Hex, JobRequest, JobStatus, KeyState, PostMessage, RegisterRequest, RelayInfo, media,
};

use super::support::{
    CLUE, Owner, Recipient, TestRelay, assert_refused, config, json, message, post, posted, random, rng,
};

fn context() -> &'static CompactContext {
    static CONTEXT: OnceLock<CompactContext> = OnceLock::new();
    CONTEXT.get_or_init(|| {
        CompactContext::new(CompactParameters::insecure(CLUE).unwrap(), Backend::best()).unwrap()
    })
}

struct CompactRecipient {
    account: Account,
    secret: CompactSecret,
    file: Vec<u8>,
}

static ALICE: LazyLock<CompactRecipient> = LazyLock::new(|| {
    let account = Account::random(CLUE, &mut rng(1));
    let secret = account.compact_secret(context()).unwrap();
    let file = secret.detection_key().unwrap().to_file();
    CompactRecipient { account, secret, file }
});

impl CompactRecipient {
    fn message(&self, text: &str, seed: u8) -> PostMessage {
        let sender = self.account.address().prepare();
        let message = sender.write_message(text.as_bytes(), &mut rng(seed)).unwrap();
        PostMessage { id: Hex(random()), clue: message.clue, payload: message.payload }
    }

    fn request(&self) -> RegisterRequest {
        RegisterRequest {
            kind: DigestKind::Compact,
            parameters: context().id().into(),
            bytes: self.file.len() as u64,
            hash: Hash::of(&self.file).into(),
        }
    }

    fn decode(&self, file: &[u8]) -> Result<Vec<Retrieved>, OmrError> {
        let digest = CompactDigest::from_file(context(), file).unwrap();
        Decoder::new(&self.secret).unwrap().decode(&digest)
    }
}

fn compact(data: &Path) -> Config {
    let compact = CompactConfig { enabled: true, insecure_for_tests: true, ..CompactConfig::default() };
    Config { compact, ..config(data) }
}

/// A job for messages `10..`.
fn job(capacity: Option<u32>, payload_bytes: Option<u32>) -> JobRequest {
    JobRequest { id: Hex(random()), kind: DigestKind::Compact, first: 10, end: None, capacity, payload_bytes }
}

/// Messages, and which of those from 10 on are Alice's.
fn messages() -> (Vec<PostMessage>, Vec<u64>) {
    let bob = Recipient::new(2);
    let mut all: Vec<PostMessage> = (0..60).map(message).collect();
    all.extend([ALICE.message("one", 3), bob.message("not hers", 4), ALICE.message("two", 5)]);
    all.extend([message(500), ALICE.message("three", 6)]);
    let pertinent = (10..).zip(&all[10..]);
    let pertinent =
        pertinent.filter(|(_, message)| ALICE.account.is_pertinent(&message.clue).unwrap()).map(|(i, _)| i);
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

    let owner = Owner::announce(&mut client, &ALICE.request());
    for (index, part) in ALICE.file.chunks(3 << 20).enumerate() {
        assert_eq!(owner.upload(&mut client, index * (3 << 20), part).status, 200);
    }
    assert_eq!(owner.status(&mut client).state, KeyState::Ready);

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
        found.iter().filter_map(|one| ALICE.account.open_record(&one.payload).ok()).collect();
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
    let response = owner.send(&mut client, "PUT", "/standing", Some(b"{}"));
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
