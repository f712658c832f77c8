//! Many recipients in one pass over the messages: the memory is that of a group of them, whatever their number.
//!
//! RESTANTE_TEST_RECIPIENTS, RESTANTE_TEST_MESSAGES and RESTANTE_TEST_KEYS_PER_PASS make it as large as one likes.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![cfg(target_os = "linux")]

#[path = "support/relay.rs"]
mod support;

use std::time::{Duration, Instant};

use restante_omr::stream::PreparedKey;
use restante_wire::relay::{DigestList, StandingRequest};
use support::*;

fn kibibytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap()
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

#[test]
fn memory_does_not_grow_with_the_number_of_recipients() {
    let count = setting("RESTANTE_TEST_RECIPIENTS", 48);
    let messages = setting("RESTANTE_TEST_MESSAGES", 8192);
    let keys_per_pass = setting("RESTANTE_TEST_KEYS_PER_PASS", 8);
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.segment_capacity = 65_536;
    settings.limits.keys_per_pass = keys_per_pass as usize;
    settings.limits.prepared_key_bytes = 0;
    settings.limits.requests_per_address = 1_000_000;
    settings.limits.keys = 100_000;
    settings.limits.uploads = 100_000;
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    // Two recipients that look, and many registrations of their keys beside them: the work and memory are the same.
    let recipients = [Recipient::new(1), Recipient::new(2)];
    let owners: Vec<Owner> =
        (0..count).map(|number| Owner::register(&mut client, &recipients[number as usize % 2])).collect();
    fill(&mut client, messages - 1);
    let place = posted(&post(&mut client, vec![recipients[0].message("hello", 5)])).messages[0].index;
    let before = kibibytes("VmRSS:");
    let began = Instant::now();
    // Some begin later, and are joined by the others when those have come so far.
    let first = |number: usize| if number % 4 == 2 { 4096 } else { 0 };
    for (number, owner) in owners.iter().enumerate() {
        let order = json(&StandingRequest { first: Some(first(number)) });
        assert_eq!(owner.send(&mut client, "PUT", "/standing", Some(&order)).status, 200);
    }
    for owner in &owners {
        while owner.status(&mut client).standing.unwrap().complete_to < messages {
            assert!(began.elapsed() < Duration::from_secs(3600));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let peak = kibibytes("VmHWM:");
    let seconds = began.elapsed().as_secs_f64();
    let threads = std::thread::available_parallelism().unwrap().get() as u64;
    println!(
        "{count} recipients, {messages} messages: {seconds:.1} s with {threads} threads, {:.2} us a message, recipient and thread, {} MiB at most",
        seconds * 1e6 * threads as f64 / (count * messages) as f64,
        peak / 1024
    );
    // The prepared keys of a pass, and for each thread sums of half their size; its digests, 51 kB for each key and block; the
    // clues; for each thread the diagonals of a block; and buffers that are kept for the next pass, 256 MiB at most.
    let prepared = PreparedKey::memory_bytes(context()) as u64 / 1024;
    let own = keys_per_pass * (prepared + threads * prepared / 2 + 16 * 51);
    let limit =
        before.max(100 << 10) + own + own.min(256 << 10) + threads * (40 << 10) + messages * 2565 / 1024;
    assert!(peak < limit, "{before} KiB before, {peak} KiB at most, {limit} expected");
    for (number, owner) in owners.iter().enumerate().take(4) {
        let mut found = Vec::new();
        let mut next = first(number);
        while next < messages {
            let response = owner.send(&mut client, "GET", &format!("/digests?first={next}"), None);
            let list = DigestList::from_body(context().id(), &response.body).unwrap();
            list.0.iter().for_each(|digest| found.extend(recipients[number % 2].pertinent(digest)));
            next = response.header("restante-complete-to").unwrap().parse().unwrap();
        }
        assert_eq!(found, if number % 2 == 0 { vec![place] } else { vec![] });
    }
}
