//! Jobs and standing orders of many keys: turns, keys that cannot be read, ids and orders that are used again.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::{Duration, Instant};

use crate::support::*;
use restante_load::Connection;
use restante_wire::merkle::Hash;
use restante_wire::relay::{DigestList, Hex, JobRequest, JobState, JobStatus, StandingRequest};

fn order(owner: &Owner, client: &mut Connection, first: u64) -> u16 {
    owner.send(client, "PUT", "/standing", Some(&json(&StandingRequest { first: Some(first) }))).status
}

fn jobs(owner: &Owner, client: &mut Connection) -> Vec<JobStatus> {
    owner.send(client, "GET", "/jobs", None).json::<restante_wire::relay::JobList>().unwrap().jobs
}

#[test]
fn who_asks_for_many_digests_does_not_keep_others_waiting() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.threads = 1;
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    fill(&mut client, 2048);
    let [alice, bob] = [1, 2].map(Recipient::new);
    let (many, one) = (Owner::register(&mut client, &alice), Owner::register(&mut client, &bob));
    // Each with a range of its own, so that none shares a pass.
    for first in 0..15 {
        many.submit(&mut client, first, Some(2048));
    }
    let job = one.submit(&mut client, 100, Some(2048));
    assert_eq!(one.wait(&mut client, job.id).state, JobState::Done);
    let before = jobs(&many, &mut client).iter().filter(|job| job.state == JobState::Done).count();
    assert!(before < 14, "{before} of 15 came before");
    many.send(&mut client, "DELETE", "", None);
}

#[test]
fn a_key_that_cannot_be_read_fails_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.limits.prepared_key_bytes = 0;
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    let [alice, bob, carol] = [1, 2, 3].map(Recipient::new);
    let place = posted(&post(&mut client, vec![message(1), carol.message("hello", 4)])).messages[1].index;
    let owners = [&alice, &bob, &carol].map(|one| Owner::register(&mut client, one));
    let spoilt = scratch.path().join("keys").join(Hex(Hash::of(&bob.file).0).to_string());
    std::fs::write(spoilt, b"no key").unwrap();
    for owner in &owners {
        assert_eq!(order(owner, &mut client, 0), 200);
    }
    let ids = [0, 1, 2].map(|place: usize| owners[place].submit(&mut client, 0, Some(2)).id);
    for (owner, id, expected) in [
        (&owners[0], ids[0], JobState::Done),
        (&owners[1], ids[1], JobState::Failed),
        (&owners[2], ids[2], JobState::Done),
    ] {
        assert_eq!(owner.wait(&mut client, id).state, expected);
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    for owner in [&owners[0], &owners[2]] {
        while owner.status(&mut client).standing.unwrap().complete_to < 2 {
            assert!(Instant::now() < deadline, "one key stops the others");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let digests = owners[2].send(&mut client, "GET", "/digests?first=0", None);
    let list = DigestList::from_body(context().id(), &digests.body).unwrap();
    assert_eq!(carol.pertinent(&list.0[0]), [place]);
    assert_eq!(owners[1].status(&mut client).standing.unwrap().complete_to, 0);
}

#[test]
fn an_id_that_is_used_again_while_its_job_runs_is_another_job() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.threads = 1;
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    fill(&mut client, 4000);
    let alice = Recipient::new(1);
    let place = posted(&post(&mut client, vec![alice.message("hello", 4)])).messages[0].index;
    let owner = Owner::register(&mut client, &alice);
    for round in 0..4 {
        let request = stream_job(round, Some(4000));
        let submit = |client: &mut Connection, request: &JobRequest| {
            owner.send(client, "POST", "/jobs", Some(&json(request))).status
        };
        assert_eq!(submit(&mut client, &request), 202);
        if round % 2 == 0 {
            let path = format!("/jobs/{}", request.id);
            let running = |client: &mut Connection| {
                owner.send(client, "GET", &path, None).json::<JobStatus>().unwrap().state
            };
            while running(&mut client) == JobState::Queued {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(owner.send(&mut client, "DELETE", &format!("/jobs/{}", request.id), None).status, 204);
        let again = JobRequest { first: 3000, end: Some(4001), ..request };
        assert_eq!(submit(&mut client, &again), 202);
        let status = owner.wait(&mut client, again.id);
        assert_eq!((status.state, status.first, status.complete_to), (JobState::Done, 3000, 4001));
        assert_eq!(alice.pertinent(&owner.result(&mut client, again.id)), [place]);
    }
}

#[test]
fn an_order_that_is_deleted_and_given_at_once_is_there_or_not_and_never_half() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = relay.connect();
    let alice = Recipient::new(1);
    fill(&mut client, 4096);
    let place = posted(&post(&mut client, vec![alice.message("hello", 4)])).messages[0].index;
    let owner = Owner::register(&mut client, &alice);
    std::thread::scope(|scope| {
        for (number, method) in ["PUT", "DELETE", "PUT", "DELETE"].into_iter().enumerate() {
            let (owner, mut client) = (&owner, relay.connect());
            scope.spawn(move || {
                for round in 0..12 {
                    let request = StandingRequest { first: Some(if round % 2 == 0 { 0 } else { 4096 }) };
                    let body = (method == "PUT").then(|| json(&request));
                    let status = owner.send(&mut client, method, "/standing", body.as_deref()).status;
                    assert!(matches!(status, 200 | 204 | 409), "{status}");
                    std::thread::sleep(Duration::from_millis(3 + 7 * number as u64));
                }
            });
        }
    });
    assert_eq!(owner.send(&mut client, "DELETE", "/standing", None).status, 204);
    let deadline = Instant::now() + Duration::from_secs(60);
    // A pass that was under way removes what it has made.
    while scratch.path().join("standing").read_dir().unwrap().any(|_| true) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(order(&owner, &mut client, 0), 200);
    let deadline = Instant::now() + Duration::from_secs(60);
    while owner.status(&mut client).standing.unwrap().complete_to < 4097 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(50));
    }
    let digests = owner.send(&mut client, "GET", "/digests?first=4096", None);
    let list = DigestList::from_body(context().id(), &digests.body).unwrap();
    assert_eq!(alice.pertinent(&list.0[0]), [place]);
}
