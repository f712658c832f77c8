//! Clocks that are wrong, step back or jump.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::*;
use restante_load::Connection;
use restante_server::{Config, TestClock, TimeSource};
use restante_wire::binding::Period;
use restante_wire::relay::{HeadStatus, PostMessage, media};

const DAY: u64 = 24 * 3600;
const START: u64 = 20_000 * DAY;

fn with_clock(data: &Path, clock: &Arc<TestClock>) -> Config {
    let mut settings = config(data);
    settings.time = TimeSource::test(clock);
    // Messages are of the real day.
    settings.period_for_tests = Some(today());
    settings
}

fn retained_from(client: &mut Connection) -> u64 {
    let answer = client.send("GET", "/v1/head", &[("accept", media::JSON)], None).unwrap();
    answer.json::<HeadStatus>().unwrap().retained_from
}

/// Waits until the relay has forgotten messages up to `expected`, and sees to it that it does not go on.
fn assert_retained(client: &mut Connection, expected: u64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while retained_from(client) < expected {
        assert!(Instant::now() < deadline, "{} of {expected}", retained_from(client));
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(retained_from(client), expected);
}

#[test]
fn the_signed_time_never_goes_back_whatever_the_clock_does() {
    let scratch = tempfile::tempdir().unwrap();
    let clock = TestClock::new(START);
    let relay = TestRelay::start(with_clock(scratch.path(), &clock));
    let mut client = relay.connect();
    let mut newest = head(&mut client, &relay.key).time;
    assert_eq!(newest, START);
    // Hours back, while it runs.
    for step in 0..3 {
        clock.set(START - 7200 + step);
        fill(&mut client, 1);
        let time = head(&mut client, &relay.key).time;
        assert!(time >= newest, "{time} after {newest}");
        newest = time;
    }
    // Forward, written down, and back while it is down.
    clock.set(START);
    clock.advance(1000);
    fill(&mut client, 1);
    newest = head(&mut client, &relay.key).time;
    assert_eq!(newest, START + 1000);
    relay.stop();
    clock.set(START - 40 * DAY);
    let relay = TestRelay::start(with_clock(scratch.path(), &clock));
    let mut client = relay.connect();
    let time = head(&mut client, &relay.key).time;
    assert!((newest..=newest + 60).contains(&time), "{time} after {newest}");
    assert_eq!(metric(&relay, "restante_clock_trouble"), "1");
    // When it has caught up, it is followed again.
    clock.set(START + 2000);
    assert_eq!(head(&mut client, &relay.key).time, START + 2000);
}

fn metric(relay: &TestRelay, name: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let text = String::from_utf8(relay.operate("GET", "/metrics").body).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        if value != "0" || Instant::now() > deadline {
            return value;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_clock_that_jumps_by_days_does_not_delete_the_board() {
    let scratch = tempfile::tempdir().unwrap();
    let clock = TestClock::new(START);
    let mut settings = with_clock(scratch.path(), &clock);
    settings.retention.seconds = Some(2 * DAY);
    let relay = TestRelay::start(settings.clone());
    let mut client = relay.connect();
    // Ten full segments, and an order that is not used up.
    fill(&mut client, 645);
    let signed = head(&mut client, &relay.key).time;
    clock.set(START + 5 * DAY);
    fill(&mut client, 1);
    // What is signed does not follow, and nothing is deleted.
    assert!(head(&mut client, &relay.key).time < signed + 60);
    clock.advance(60);
    assert_retained(&mut client, 0);
    // It was wrong, and is right again.
    clock.set(START + 60);
    clock.advance(60);
    assert_retained(&mut client, 0);
    assert!(head(&mut client, &relay.key).time <= START + 120);

    // This time it stays: after a while it is believed, and what is too old goes, little by little.
    clock.set(START + 5 * DAY);
    fill(&mut client, 1);
    for _ in 0..19 {
        clock.advance(30);
        assert_eq!(retained_from(&mut client), 0);
    }
    clock.advance(31);
    for expected in [64, 3 * 64, 7 * 64, 640] {
        assert_retained(&mut client, expected);
        clock.advance(30);
    }
    assert_retained(&mut client, 640);
}

#[test]
fn a_relay_that_starts_with_a_clock_days_ahead_deletes_nothing_at_first() {
    let scratch = tempfile::tempdir().unwrap();
    let clock = TestClock::new(START);
    let mut settings = with_clock(scratch.path(), &clock);
    settings.retention.seconds = Some(2 * DAY);
    let relay = TestRelay::start(settings.clone());
    fill(&mut relay.connect(), 300);
    let alice = Recipient::new(1);
    let owner = Owner::register(&mut relay.connect(), &alice);
    relay.stop();
    clock.set(START + 6 * DAY);
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    clock.advance(60);
    assert_retained(&mut client, 0);
    assert_eq!(owner.send(&mut client, "GET", "", None).status, 200);
    clock.advance(600);
    assert_retained(&mut client, 64);
}

/// Posts a message of a day, and returns the status.
fn post_of(client: &mut Connection, day: u64, number: u64) -> u16 {
    let clue = any_clue(Period(day as u32));
    post(client, vec![PostMessage { clue, ..message(number) }]).status
}

#[test]
fn a_clock_that_is_years_ahead_at_a_start_closes_no_board() {
    let scratch = tempfile::tempdir().unwrap();
    let clock = TestClock::new(START);
    let mut settings = config(scratch.path());
    settings.time = TimeSource::test(&clock);
    let relay = TestRelay::start(settings.clone());
    assert_eq!(post_of(&mut relay.connect(), 20_000, 1), 200);
    relay.stop();
    // The machine does not know the time yet, or somebody has set it.
    clock.set(START + 3650 * DAY);
    let relay = TestRelay::start(settings.clone());
    let mut client = relay.connect();
    for _ in 0..30 {
        clock.advance(60);
        assert_eq!(post_of(&mut client, 20_000 + 3650, 2), 422);
    }
    // An honest sender's message is taken, and operators are told.
    assert_eq!(post_of(&mut client, 20_000, 3), 200);
    assert_eq!(relay.operate("GET", "/readyz").status, 503);
    assert!(head(&mut client, &relay.key).time < START + DAY);
    relay.stop();
    clock.set(START + 4000);
    let relay = TestRelay::start(settings);
    assert_eq!(post_of(&mut relay.connect(), 20_000, 4), 200);
    assert_eq!(relay.operate("GET", "/readyz").status, 204);
}
