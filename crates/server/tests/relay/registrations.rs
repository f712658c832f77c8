//! Registrations end when nobody uses them, nobody can keep others out with them, and operators see and remove them.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::{Duration, Instant};

use crate::support::*;
use restante_load::{Connection, Response};
use restante_server::{Registration, RegistrationStatus, TestClock, TimeSource};
use restante_wire::relay::media;
use serde::Deserialize;

const DAY: u64 = 24 * 3600;
const START: u64 = 20_000 * DAY;

#[derive(Deserialize)]
struct Listed {
    registrations: Vec<RegistrationStatus>,
}

fn list(relay: &TestRelay) -> Vec<RegistrationStatus> {
    relay.operate("GET", "/registrations").json::<Listed>().unwrap().registrations
}

fn wait_for(relay: &TestRelay, registrations: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while list(relay).len() != registrations {
        assert!(Instant::now() < deadline, "{} of {registrations}", list(relay).len());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn register(client: &mut Connection, recipient: &Recipient) -> Response {
    let headers = [("content-type", media::JSON)];
    client.send("POST", "/v1/keys", &headers, Some(&json(&recipient.request()))).unwrap()
}

#[test]
fn registrations_that_are_not_used_expire_and_others_do_not() {
    let scratch = tempfile::tempdir().unwrap();
    let clock = TestClock::new(START);
    let mut settings = config(scratch.path());
    settings.time = TimeSource::test(&clock);
    let relay = TestRelay::start(settings.clone());
    let mut client = relay.connect();
    let [alice, bob] = [1, 2].map(Recipient::new);
    let used = Owner::register(&mut client, &alice);
    let unused = Owner::register(&mut client, &bob);
    for _ in 0..28 {
        clock.advance(DAY);
        assert_eq!(used.status(&mut client).bytes, alice.file.len() as u64);
    }
    assert_eq!(list(&relay).len(), 2);
    // What is known of the use is the day, and it is there after a restart.
    std::thread::sleep(Duration::from_millis(600));
    relay.stop();
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    let days: Vec<u64> = list(&relay).iter().map(|one| one.used_day).collect();
    assert_eq!(days, [START, START + 28 * DAY]);
    clock.advance(4 * DAY);
    wait_for(&relay, 1);
    assert_eq!(unused.send(&mut client, "GET", "", None).status, 401);
    assert_eq!(used.send(&mut client, "GET", "", None).status, 200);
    let keys = std::fs::read_dir(scratch.path().join("keys")).unwrap().count();
    assert_eq!(keys, 1);
}

#[test]
fn one_network_does_not_keep_others_from_registering() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.limits.uploads = 10;
    settings.limits.uploads_per_network = 8;
    let relay = TestRelay::start(settings);
    let alice = Recipient::new(1);
    let mut flood = relay.connect_from([127, 0, 7, 1]);
    for _ in 0..8 {
        assert_eq!(register(&mut flood, &alice).status, 201);
    }
    assert_refused(&register(&mut flood, &alice), 503, "busy", None);
    // Neighbours are the same network.
    assert_refused(&register(&mut relay.connect_from([127, 0, 7, 200]), &alice), 503, "busy", None);
    let mut second = relay.connect_from([127, 0, 8, 1]);
    assert_eq!(register(&mut second, &alice).status, 201);
    assert_eq!(register(&mut second, &alice).status, 201);
    // All places are taken: whoever has the most gives one up, its oldest.
    let mut client = relay.connect_from([127, 0, 9, 1]);
    let owner = Owner::register(&mut client, &alice);
    assert_eq!(owner.status(&mut client).uploaded, alice.file.len() as u64);
    assert_eq!(list(&relay).len(), 10);
    assert_eq!(list(&relay).iter().filter(|one| one.ready).count(), 1);
}

#[test]
fn keys_that_are_used_are_not_locked_out_and_unused_ones_make_room() {
    let scratch = tempfile::tempdir().unwrap();
    let clock = TestClock::new(START);
    let mut settings = config(scratch.path());
    settings.time = TimeSource::test(&clock);
    settings.limits.keys = 3;
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    let alice = Recipient::new(1);
    let owners: Vec<Owner> = (0..3).map(|_| Owner::register(&mut client, &alice)).collect();
    assert_refused(&register(&mut client, &alice), 503, "busy", None);
    for _ in 0..7 {
        clock.advance(DAY);
        assert_eq!(owners[0].send(&mut client, "GET", "", None).status, 200);
        assert_eq!(owners[2].send(&mut client, "GET", "", None).status, 200);
    }
    let new = Owner::register(&mut client, &alice);
    assert_eq!(owners[1].send(&mut client, "GET", "", None).status, 401);
    for owner in [&owners[0], &owners[2], &new] {
        assert_eq!(owner.send(&mut client, "GET", "", None).status, 200);
    }
    assert_refused(&register(&mut client, &alice), 503, "busy", None);
}

#[test]
fn operators_list_and_remove_registrations() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = relay.connect();
    fill(&mut client, 2);
    let [alice, bob] = [1, 2].map(Recipient::new);
    let owner = Owner::register(&mut client, &alice);
    let other = Owner::register(&mut client, &bob);
    let job = owner.submit(&mut client, 0, None);
    owner.wait(&mut client, job.id);
    let all = list(&relay);
    let with_job: Vec<_> = all.iter().filter(|one| one.jobs == 1).collect();
    assert_eq!((all.len(), with_job.len()), (2, 1));
    assert!(with_job[0].ready && !with_job[0].standing && with_job[0].used_day % DAY == 0);
    // An id is neither the key's nor a part of the token.
    let text = String::from_utf8(relay.operate("GET", "/registrations").body).unwrap();
    assert!(!text.contains(owner.path.rsplit('/').next().unwrap()));
    let path = format!("/registrations/{}", with_job[0].id);
    assert_eq!(relay.operate("DELETE", &path).status, 204);
    assert_refused(&relay.operate("DELETE", &path), 404, "not-found", Some("path:registration"));
    assert_eq!(relay.operate("DELETE", "/registrations/x").status, 400);
    assert_eq!(owner.send(&mut client, "GET", "", None).status, 401);
    assert_eq!(other.send(&mut client, "GET", "", None).status, 200);
    assert_eq!(std::fs::read_dir(scratch.path().join("results")).unwrap().count(), 0);
    // Clients have no such route.
    assert_eq!(client.send("GET", "/registrations", &[], None).unwrap().status, 404);
}

#[test]
fn a_relay_that_others_reach_wants_credentials_unless_its_operator_says_otherwise() {
    let config = restante_server::Config::default();
    let open = restante_server::Config { listen: "0.0.0.0:7300".parse().unwrap(), ..config.clone() };
    assert!(!config.needs_credential() && open.needs_credential());
    let mut said = open;
    said.registration.policy = Registration::Open;
    assert!(!said.needs_credential());
}

#[test]
fn a_backup_without_a_place_for_it_names_the_setting() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let refused = relay.operate("POST", "/backup");
    assert_refused(&refused, 409, "conflict", Some("configuration:backup"));
}
