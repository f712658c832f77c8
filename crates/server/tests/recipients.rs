//! Many recipients in one pass over the messages: the memory is that of a group of them, whatever their number.
//!
//! RESTANTE_TEST_RECIPIENTS and RESTANTE_TEST_MESSAGES make it as large as one likes.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![cfg(target_os = "linux")]

#[path = "support/relay.rs"]
mod support;

use std::time::{Duration, Instant};

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
    let messages = setting("RESTANTE_TEST_MESSAGES", 4096);
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.segment_capacity = 65_536;
    settings.limits.keys_per_pass = 8;
    settings.limits.prepared_key_bytes = 0;
    settings.limits.requests_per_address = 1_000_000;
    settings.limits.keys = 100_000;
    settings.limits.uploads = 100_000;
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    // Two recipients that look, and many registrations of their keys beside them: the work and memory are the same.
    let recipients = [Recipient::new(1), Recipient::new(2)];
    let mut owners = Vec::new();
    for number in 0..count {
        let owner = Owner::register(&mut client, &recipients[number as usize % 2]);
        let order = json(&StandingRequest { first: Some(0) });
        assert_eq!(owner.send(&mut client, "PUT", "/standing", Some(&order)).status, 200);
        owners.push(owner);
    }
    fill(&mut client, messages - 1);
    // Nothing has a full block yet, though a partly filled one may have been looked at.
    let before = kibibytes("VmRSS:");
    let began = Instant::now();
    let place = posted(&post(&mut client, vec![recipients[0].message("hello", 5)])).messages[0].index;
    for owner in &owners {
        while owner.status(&mut client).standing.unwrap().complete_to < messages {
            assert!(began.elapsed() < Duration::from_secs(3600));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let peak = kibibytes("VmHWM:");
    let seconds = began.elapsed().as_secs_f64();
    println!("{count} recipients, {messages} messages: {seconds:.1} s, {} MiB at most", peak / 1024);
    // Eight prepared keys of 4.1 MiB, their digests, the clues of a block, and one thread's work for each processor.
    assert!(peak < before.max(100 << 10) + (250 << 10), "{before} KiB before, {peak} KiB at most");
    for (number, owner) in owners.iter().enumerate().take(4) {
        let mut found = Vec::new();
        let mut next = 0;
        while next < messages {
            let response = owner.send(&mut client, "GET", &format!("/digests?first={next}"), None);
            let list = DigestList::from_body(context().id(), &response.body).unwrap();
            list.0.iter().for_each(|digest| found.extend(recipients[number % 2].pertinent(digest)));
            next = response.header("restante-complete-to").unwrap().parse().unwrap();
        }
        assert_eq!(found, if number % 2 == 0 { vec![place] } else { vec![] });
    }
}
