//! The protocol from a client's side: docs/protocol.md, route by route.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::{Duration, Instant};

use crate::support::*;
use restante_wire::relay::{
    DigestList, HeadStatus, JobList, JobRequest, KeyState, PageMessage, RelayInfo, StandingRequest,
};

#[test]
fn the_openapi_document_is_the_one_that_is_checked_in() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let expected = std::fs::read_to_string(path).unwrap();
    assert!(
        expected == restante_server::openapi_json(),
        "restante serve --openapi > crates/server/openapi.json"
    );
}

#[test]
fn messages_are_posted_once_and_read_back_with_proofs() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = relay.connect();
    let info: RelayInfo = client.send("GET", "/v1/parameters", &[], None).unwrap().json().unwrap();
    assert_eq!((info.relay, info.board.parameters), (relay.key, CLUE.id().into()));

    let empty = head(&mut client, &relay.key);
    assert_eq!(empty.count, 0);
    let batch: Vec<_> = (0..5).map(message).collect();
    let first = posted(&post(&mut client, batch.clone()));
    assert_eq!(
        first.messages.iter().map(|one| (one.index, one.replayed)).collect::<Vec<_>>(),
        [(0, false), (1, false), (2, false), (3, false), (4, false)]
    );
    assert!(first.head.signed().is_signed_by(&relay.key));
    assert_eq!(first.head.count, 5);
    // The same again, and mixed with new ones.
    let another = message(100);
    let again = posted(&post(&mut client, vec![batch[3].clone(), another.clone(), batch[0].clone()]));
    assert_eq!(
        again.messages.iter().map(|one| (one.index, one.replayed)).collect::<Vec<_>>(),
        [(3, true), (5, false), (0, true)]
    );
    // An id with other contents: nothing of the batch is posted.
    let mut other = message(200);
    other.id = batch[1].id;
    assert_refused(
        &post(&mut client, vec![message(201), other]),
        409,
        "conflict",
        Some("body:messages[1].id"),
    );
    assert_eq!(head(&mut client, &relay.key).count, 6);

    let all = page(&mut client, 0, 6);
    assert!(all.head.is_signed_by(&relay.key));
    let expected: Vec<PageMessage> = batch
        .iter()
        .chain([&another])
        .map(|one| PageMessage { clue: one.clue.clone(), payload: one.payload.clone() })
        .collect();
    assert_eq!(all.messages, expected);
    assert_eq!(page(&mut client, 6, 6).messages, []);

    // Over several segments, and after a restart.
    fill(&mut client, 150);
    let before = head(&mut client, &relay.key);
    relay.stop();
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = relay.connect();
    fill(&mut client, 30);
    let after = head(&mut client, &relay.key);
    assert_eq!((before.count, after.count), (156, 186));
    for older in [empty, first.head.signed(), before] {
        after.verify_continues(&older, &consistency(&mut client, older.count, after.count)).unwrap();
    }
    let json: HeadStatus =
        client.send("GET", "/v1/head", &[("accept", "application/json")], None).unwrap().json().unwrap();
    assert!(json.signed().is_signed_by(&relay.key) && json.root == after.root.into());
    let replayed = posted(&post(&mut client, batch));
    assert!(replayed.messages.iter().all(|one| one.replayed));
    for (first, end) in [(60, 70), (0, 186), (127, 129), (185, 186)] {
        assert_eq!(page(&mut client, first, end).first, first);
    }
}

#[test]
fn a_key_is_uploaded_in_parts_and_its_owner_gets_digests() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = relay.connect();
    let (alice, bob) = (Recipient::new(1), Recipient::new(2));
    fill(&mut client, 70);
    posted(&post(&mut client, vec![message(500), alice.message("for alice", 3), bob.message("for bob", 4)]));
    fill(&mut client, 10);

    let owner = Owner::announce(&mut client, &alice.request());
    assert_eq!(owner.status(&mut client).state, KeyState::Uploading);
    let response = owner.send(&mut client, "POST", "/jobs", Some(&json(&stream_job(0, None))));
    assert_refused(&response, 409, "conflict", None);
    let (first, rest) = alice.file.split_at(100_000);
    assert_eq!(owner.upload(&mut client, 0, first).status, 200);
    let wrong = owner.upload(&mut client, 5, rest);
    assert_refused(&wrong, 409, "offset", Some("header:upload-offset"));
    assert_eq!(wrong.header("upload-offset"), Some("100000"));
    // A connection that breaks: what came is kept.
    let mut broken = relay.connect();
    {
        use std::io::Write;
        let request = format!(
            "PATCH {}/content HTTP/1.1\r\nhost: relay\r\nauthorization: {}\r\ncontent-type: application/vnd.restante.key-part.v1\r\nupload-offset: 100000\r\ncontent-length: {}\r\n\r\n",
            owner.path,
            owner.authorization,
            rest.len()
        );
        broken.stream().write_all(request.as_bytes()).unwrap();
        broken.stream().write_all(&rest[..50_000]).unwrap();
        broken.stream().flush().unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    while owner.status(&mut client).uploaded < 150_000 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    // Its upload is claimed until the relay has noticed.
    drop(broken);
    let done = loop {
        let response = owner.upload(&mut client, 150_000, &rest[50_000..]);
        if response.status == 200 {
            break response;
        }
        assert_refused(&response, 409, "conflict", None);
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(String::from_utf8_lossy(&done.body).contains("ready"));
    let offset = owner.send(&mut client, "HEAD", "/content", None);
    assert_eq!(offset.header("upload-offset"), Some(alice.file.len().to_string().as_str()));

    // A job, its events, its result.
    let job = owner.submit(&mut client, 10, None);
    assert_eq!((job.first, job.complete_to), (10, 83));
    let events = owner.send(&mut relay.connect(), "GET", &format!("/jobs/{}/events", job.id), None);
    let events = String::from_utf8(events.body).unwrap();
    assert!(events.contains("event: done\ndata: {") && events.trim_end().ends_with('}'), "{events}");
    let digest = owner.result(&mut client, job.id);
    assert_eq!(alice.pertinent(&digest), [71]);
    let again = JobRequest { id: job.id, ..stream_job(10, None) };
    assert_eq!(owner.send(&mut client, "POST", "/jobs", Some(&json(&again))).status, 200);
    let other = JobRequest { first: 11, ..again };
    assert_refused(
        &owner.send(&mut client, "POST", "/jobs", Some(&json(&other))),
        409,
        "conflict",
        Some("body:id"),
    );
    let jobs: JobList = owner.send(&mut client, "GET", "/jobs", None).json().unwrap();
    assert_eq!(jobs.jobs.len(), 1);

    // A restart forgets nothing.
    relay.stop();
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = relay.connect();
    assert_eq!(owner.result(&mut client, job.id), digest);
    assert_eq!(owner.send(&mut client, "DELETE", &format!("/jobs/{}", job.id), None).status, 204);
    assert_refused(
        &owner.send(&mut client, "GET", &format!("/jobs/{}", job.id), None),
        404,
        "not-found",
        Some("path:job"),
    );

    // Deleting the key deletes everything.
    assert_eq!(owner.send(&mut client, "DELETE", "", None).status, 204);
    assert_refused(
        &owner.send(&mut client, "GET", "", None),
        401,
        "unauthorized",
        Some("header:authorization"),
    );
    for folder in ["keys", "uploads", "results", "standing"] {
        assert_eq!(std::fs::read_dir(scratch.path().join(folder)).unwrap().count(), 0, "{folder}");
    }
}

#[test]
fn standing_orders_follow_the_board() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.segment_capacity = 4096;
    settings.limits.keys_per_pass = 2;
    let relay = TestRelay::start(settings.clone());
    let mut client = relay.connect();
    let recipients: Vec<Recipient> = (1..=3).map(Recipient::new).collect();
    let owners: Vec<Owner> = recipients.iter().map(|one| Owner::register(&mut client, one)).collect();
    for owner in &owners {
        let order = json(&StandingRequest { first: Some(0) });
        assert_eq!(owner.send(&mut client, "PUT", "/standing", Some(&order)).status, 200);
    }
    let late =
        owners[0].send(&mut client, "PUT", "/standing", Some(&json(&StandingRequest { first: Some(1) })));
    assert_refused(&late, 416, "range", Some("body:first"));
    let mut expected = vec![Vec::new(); 3];
    for (place, count) in [(0, 100), (1, 3990), (2, 500), (0, 20)] {
        fill(&mut client, count);
        // Another message each time.
        let message = recipients[place].message("a message", (count % 250) as u8);
        expected[place].push(posted(&post(&mut client, vec![message])).messages[0].index);
    }
    let count = head(&mut client, &relay.key).count;
    // The last block is partly filled, and done too.
    wait_for(&owners, &mut client, count);
    let check = |client: &mut restante_load::Connection, from: u64| {
        for (place, owner) in owners.iter().enumerate() {
            let (mut next, mut found) = (from, Vec::new());
            while next < count {
                let response = owner.send(client, "GET", &format!("/digests?first={next}"), None);
                assert_eq!(response.status, 200);
                let list = DigestList::from_body(context().id(), &response.body).unwrap();
                list.0.iter().for_each(|digest| found.extend(recipients[place].pertinent(digest)));
                let complete: u64 = response.header("restante-complete-to").unwrap().parse().unwrap();
                assert!(complete > next && !list.0.is_empty());
                next = complete;
            }
            assert!(found.is_sorted(), "{found:?}");
            found.retain(|index| *index >= from);
            let wanted: Vec<u64> = expected[place].iter().copied().filter(|index| *index >= from).collect();
            assert_eq!(found, wanted);
        }
    };
    check(&mut client, 0);
    check(&mut client, 4101);
    relay.stop();
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    wait_for(&owners, &mut client, count);
    check(&mut client, 0);
    assert_eq!(owners[0].send(&mut client, "DELETE", "/standing", None).status, 204);
    assert_refused(&owners[0].send(&mut client, "GET", "/digests?first=0", None), 404, "not-found", None);
    assert!(owners[1].status(&mut client).standing.is_some());
}

fn wait_for(owners: &[Owner], client: &mut restante_load::Connection, count: u64) {
    let deadline = Instant::now() + Duration::from_secs(120);
    for owner in owners {
        while owner.status(client).standing.unwrap().complete_to < count {
            assert!(Instant::now() < deadline, "{:?}", owner.status(client));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn nobody_has_what_is_not_theirs() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = relay.connect();
    fill(&mut client, 3);
    let (alice, bob) = (Recipient::new(1), Recipient::new(2));
    let owner = Owner::register(&mut client, &alice);
    let job = owner.submit(&mut client, 0, None);
    owner.wait(&mut client, job.id);
    let stranger = Owner::register(&mut client, &bob);
    // Another registration of the very same key: somebody who has stolen its file.
    let thief = Owner::register(&mut client, &alice);
    let unknown = "0".repeat(32);
    let one = json(&stream_job(0, None));
    let mut answers = Vec::new();
    for (path, authorization) in [
        (owner.path.clone(), stranger.authorization.clone()),
        (owner.path.clone(), format!("Bearer rst1_{}", "0".repeat(64))),
        (owner.path.clone(), "Bearer nothing".into()),
        (owner.path.clone(), owner.authorization.replace("Bearer", "Basic")),
        (format!("/v1/keys/{unknown}"), owner.authorization.clone()),
    ] {
        let wrong = Owner { path, authorization };
        for (method, suffix, body) in [
            ("GET", String::new(), None),
            ("DELETE", String::new(), None),
            ("HEAD", "/content".into(), None),
            ("PUT", "/standing".into(), Some(b"{}".to_vec())),
            ("DELETE", "/standing".into(), None),
            ("GET", "/digests?first=0".into(), None),
            ("POST", "/jobs".into(), Some(one.clone())),
            ("GET", "/jobs".into(), None),
            ("GET", format!("/jobs/{}", job.id), None),
            ("GET", format!("/jobs/{}/events", job.id), None),
            ("GET", format!("/jobs/{}/result", job.id), None),
            ("DELETE", format!("/jobs/{}", job.id), None),
        ] {
            let response = wrong.send(&mut client, method, &suffix, body.as_deref());
            assert_eq!(response.status, 401, "{method} {suffix}");
            if method != "HEAD" {
                answers.push(response.body);
            }
        }
        assert_eq!(wrong.upload(&mut client, 0, b"x").status, 401);
    }
    // One answer for all, so that nothing is learnt from it.
    answers.dedup();
    assert_eq!(answers.len(), 1);
    // The thief has a registration of its own and nothing of the owner's.
    let jobs: JobList = thief.send(&mut client, "GET", "/jobs", None).json().unwrap();
    assert!(jobs.jobs.is_empty());
    assert_eq!(thief.send(&mut client, "GET", &format!("/jobs/{}/result", job.id), None).status, 404);
    assert_eq!(thief.send(&mut client, "DELETE", "", None).status, 204);
    assert_eq!(owner.status(&mut client).state, KeyState::Ready);
    let after = owner.submit(&mut client, 0, None);
    owner.result(&mut client, after.id);
    owner.result(&mut client, job.id);
}

#[test]
fn operators_see_numbers_and_no_names() {
    let scratch = tempfile::tempdir().unwrap();
    let backups = tempfile::tempdir().unwrap();
    let mut settings = config(&scratch.path().join("relay"));
    settings.backup = Some(backups.path().into());
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    fill(&mut client, 100);
    let alice = Recipient::new(1);
    let owner = Owner::register(&mut client, &alice);
    let job = owner.submit(&mut client, 0, None);
    let digest_before = owner.result(&mut client, job.id);
    let mut operator = restante_load::Connection::open(relay.operations).unwrap();
    let metrics = operator.send("GET", "/metrics", &[], None).unwrap();
    let text = String::from_utf8(metrics.body).unwrap();
    assert!(
        text.contains("restante_posted_total 100") && text.contains("route=\"/v1/keys/{key}/jobs\""),
        "{text}"
    );
    let id = owner.path.rsplit('/').next().unwrap();
    assert!(!text.contains(id) && !text.contains(&job.id.to_string()) && !text.contains("127.0.0.1"));
    assert_eq!(operator.send("GET", "/readyz", &[], None).unwrap().status, 204);
    assert_eq!(client.send("GET", "/metrics", &[], None).unwrap().status, 404);
    assert_eq!(client.send("POST", "/backup", &[], Some(b"")).unwrap().status, 404);

    // A backup of the running relay is a relay.
    let before = head(&mut client, &relay.key);
    assert_eq!(operator.send("POST", "/backup", &[], Some(b"")).unwrap().status, 200);
    fill(&mut client, 50);
    let key = relay.key;
    drop(relay);
    let copy = std::fs::read_dir(backups.path()).unwrap().next().unwrap().unwrap().path();
    let relay = TestRelay::start(config(&copy));
    let mut client = relay.connect();
    let after = head(&mut client, &key);
    assert_eq!((after.count, after.root), (before.count, before.root));
    assert_eq!(owner.result(&mut client, job.id).len(), digest_before.len());
    fill(&mut client, 1);
}

/// The relay stops before it has looked at messages, and forgets some of a block of them when it starts again.
#[test]
fn standing_orders_go_on_behind_forgotten_messages() {
    const MESSAGES: u64 = 9000;
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.segment_capacity = 1024;
    settings.standing_seconds = 1;
    let alice = Recipient::new(1);
    let relay = TestRelay::start(settings.clone());
    let mut client = relay.connect();
    let owner = Owner::register(&mut client, &alice);
    fill(&mut client, MESSAGES - 1);
    let place = posted(&post(&mut client, vec![alice.message("hello", 5)])).messages[0].index;
    let order = json(&StandingRequest { first: Some(0) });
    assert_eq!(owner.send(&mut client, "PUT", "/standing", Some(&order)).status, 200);
    drop((client, relay));

    // Less than half of the board stays, and what goes is no multiple of a block.
    settings.retention = restante_server::RetentionConfig { seconds: None, bytes: Some(12_000_000) };
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    let began = Instant::now();
    while owner.status(&mut client).standing.unwrap().complete_to < MESSAGES {
        assert!(began.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(50));
    }
    let response = client.send("GET", "/v1/head", &[("accept", "application/json")], None).unwrap();
    let retained = response.json::<HeadStatus>().unwrap().retained_from;
    assert!(retained > 4096 && retained % 4096 != 0, "{retained}");
    assert_refused(
        &owner.send(&mut client, "GET", "/digests?first=0", None),
        410,
        "gone",
        Some("query:first"),
    );
    let (mut found, mut next) = (Vec::new(), retained);
    while next < MESSAGES {
        let response = owner.send(&mut client, "GET", &format!("/digests?first={next}"), None);
        let list = DigestList::from_body(context().id(), &response.body).unwrap();
        list.0.iter().for_each(|digest| found.extend(alice.pertinent(digest)));
        next = response.header("restante-complete-to").unwrap().parse().unwrap();
    }
    assert_eq!(found, [place]);
}
