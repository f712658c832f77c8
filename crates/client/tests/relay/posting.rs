//! A message is posted once, and the receipt can be held against the relay.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_client::{
    Account, BoardId, MAX_TEXT_BYTES, Period, RelayError,
    relay::{
        AuditMachine, Cause, KnownRelay, Machine, Outbox, PostMachine, Receipt, Reply, Response, Retries,
        Step,
    },
};
use restante_clue::ClueParameters;
use restante_ring::sample::Seed;
use restante_wire::{Envelope, Kind, relay::PostResult};

use crate::{
    fake::{BOARD, FakeRelay, PARAMETERS, json, ok},
    world::{NOW, PEOPLE, board, rng},
};

fn relay() -> FakeRelay {
    let mut relay = FakeRelay::new(10, PEOPLE[0].detection.context(), NOW);
    relay.messages = board(5, &[]);
    relay
}

fn outbox(count: usize) -> Outbox {
    let mut outbox = Outbox::new(PARAMETERS);
    for number in 0..count {
        outbox
            .push(
                PEOPLE[0].account.address(),
                format!("text {number}").as_bytes(),
                &mut ChaCha20Rng::from_seed(seed()),
            )
            .unwrap();
    }
    outbox
}

/// Another one at each call: messages must not come from one stream twice.
fn seed() -> [u8; 32] {
    static CALLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let mut seed = [9; 32];
    let call = CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    seed[..8].copy_from_slice(&call.to_le_bytes());
    seed
}

/// Posts until it is done, fails, or is stopped after some answers. The outbox goes through its file after each.
fn post(
    outbox: &mut Outbox,
    known: &mut KnownRelay,
    relay: &mut FakeRelay,
    stop: usize,
) -> Result<usize, RelayError> {
    let copy = Outbox::from_file(&outbox.to_file()).unwrap();
    let mut machine = PostMachine::new(copy, *known, 3600, Retries::default());
    let mut waits = 0;
    let mut answers = 0;
    let mut rng = ChaCha20Rng::from_seed(seed());
    while answers < stop {
        match machine.step() {
            Step::Ask(request) => {
                let result = machine.respond(relay.ask(&request), relay.now, &mut rng);
                *outbox = Outbox::from_file(&machine.outbox().to_file()).unwrap();
                *known = *machine.known();
                result?;
                answers += 1;
            }
            Step::Wait(_) => waits += 1,
            Step::Done => break,
        }
    }
    Ok(waits)
}

fn audit(receipt: Receipt, known: KnownRelay, relay: &mut FakeRelay) -> Result<(), RelayError> {
    let mut machine = AuditMachine::new(PARAMETERS, receipt, known, 3600, Retries::default());
    loop {
        match machine.step() {
            Step::Ask(request) => machine.respond(relay.ask(&request), relay.now, &mut rng(9))?,
            Step::Wait(_) => {}
            Step::Done => return Ok(()),
        }
    }
}

#[test]
fn messages_are_posted_in_batches_and_can_be_opened() {
    let (mut relay, mut outbox, mut known) = (relay(), outbox(7), KnownRelay::default());
    post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap();
    assert_eq!((relay.count(), outbox.waiting()), (12, 0));
    let receipts = outbox.take_receipts();
    assert_eq!(
        receipts.iter().map(|receipt| receipt.index).collect::<Vec<_>>(),
        (5..12).collect::<Vec<u64>>()
    );
    for (number, message) in relay.messages[5..].iter().enumerate() {
        let text = PEOPLE[0].account.open(&BOARD, &message.clue, &message.payload).unwrap();
        assert_eq!(text, format!("text {number}").into_bytes());
    }
    assert_eq!(known.head.unwrap().count, 12);
    assert_eq!(outbox, Outbox::new(PARAMETERS));
}

#[test]
fn batches_keep_to_the_bytes_that_the_relay_takes() {
    let (mut relay, mut outbox, mut known) = (relay(), outbox(4), KnownRelay::default());
    let message = 16 + PARAMETERS.clue_bytes() as u64 + 4 + 1536;
    // The fake relay refuses a longer body.
    relay.limits.batch_bytes = 2 * message + 4 + Envelope::OVERHEAD_BYTES as u64;
    post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap();
    assert_eq!(relay.count(), 9);
}

#[test]
fn whatever_breaks_a_message_is_posted_once() {
    for stop in 0..6 {
        for lost in [false, true] {
            let (mut relay, mut outbox, mut known) = (relay(), outbox(5), KnownRelay::default());
            if lost {
                // The relay takes every second request, and the answer does not come back.
                let mut asked = 0;
                relay.tamper = Some(Box::new(move |_, response| {
                    asked += 1;
                    if asked % 2 == 0 { Reply::Broken(Default::default()) } else { Reply::Answer(response) }
                }));
            }
            post(&mut outbox, &mut known, &mut relay, stop).unwrap();
            let waits = post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap();
            assert!(waits > 0 || !lost || stop > 3);
            assert_eq!((relay.count(), outbox.waiting()), (10, 0), "{stop} {lost}");
            let indices: Vec<u64> = outbox.receipts().map(|receipt| receipt.index).collect();
            assert_eq!(indices, [5, 6, 7, 8, 9]);
        }
    }
}

#[test]
fn a_receipt_that_covers_less_is_refused_and_nothing_counts_as_posted() {
    let changes: [fn(&mut PostResult); 3] = [
        |result| result.messages.truncate(1),
        |result| result.messages[0].index = 1_000_000,
        |result| result.head.signature.0[3] ^= 1,
    ];
    for change in changes {
        let (mut relay, mut outbox, mut known) = (relay(), outbox(2), KnownRelay::default());
        relay.tamper = Some(Box::new(move |request, response| {
            if request.path != "/v1/messages" {
                return Reply::Answer(response);
            }
            let mut result: PostResult = serde_json::from_slice(&response.body).unwrap();
            change(&mut result);
            Reply::Answer(ok(json(&result)))
        }));
        let error = post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap_err();
        assert!(error.is_misbehaviour(), "{error}");
        assert_eq!(outbox.waiting(), 2);
        relay.tamper = None;
        post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap();
        assert_eq!(relay.count(), 7);
    }
}

/// A sender whose clock is two hours off learns that before anything is posted, and is told what may be wrong.
#[test]
fn a_wrong_clock_stops_a_sender_before_it_posts() {
    for off in [-7200i64, 7200] {
        let (mut relay, mut machine) =
            (relay(), PostMachine::new(outbox(2), KnownRelay::default(), 3600, Retries::default()));
        let error = loop {
            let Step::Ask(request) = machine.step() else { panic!("it is not done") };
            let now = relay.now.checked_add_signed(off).unwrap();
            if let Err(error) = machine.respond(relay.ask(&request), now, &mut rng(9)) {
                break error;
            }
        };
        assert!(matches!(error, RelayError::Stale { .. }) && error.to_string().contains("clock"), "{error}");
        assert_eq!((relay.count(), machine.outbox().waiting()), (5, 2));
    }
}

/// Where the clock jumps in between, the receipts are kept: nothing is posted again.
#[test]
fn a_receipt_counts_though_its_head_is_of_another_time() {
    let (mut relay, mut machine) =
        (relay(), PostMachine::new(outbox(4), KnownRelay::default(), 3600, Retries::default()));
    while let Step::Ask(request) = machine.step() {
        let now = if request.path == "/v1/messages" { relay.now + 7200 } else { relay.now };
        machine.respond(relay.ask(&request), now, &mut rng(9)).unwrap();
    }
    assert_eq!((relay.count(), machine.outbox().waiting()), (9, 0));
    assert_eq!(machine.outbox().receipts().count(), 4);
    assert_eq!(machine.known().head.unwrap().count, 5, "such a head is not remembered");
}

#[test]
fn refusals_are_final_and_say_why() {
    let (mut relay, mut outbox, mut known) = (relay(), outbox(1), KnownRelay::default());
    relay.tamper = Some(Box::new(|request, response| {
        let problem = r#"{"type":"urn:restante:problem:conflict","title":"t","status":409,
            "detail":"used\u001b[31m for another message","field":"body:messages[0].id"}"#;
        Reply::Answer(match request.path.as_str() {
            "/v1/messages" => Response { status: 409, headers: vec![], body: problem.into() },
            _ => response,
        })
    }));
    let error = post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap_err();
    assert!(!error.is_retryable() && !error.to_string().contains('\u{1b}'), "{error}");
    let RelayError::Refused { status: 409, code, field, .. } = error else { panic!("{error}") };
    assert_eq!((code.as_str(), field.as_deref()), ("conflict", Some("body:messages[0].id")));
}

#[test]
fn payloads_that_the_relay_does_not_take_are_not_sent() {
    let (mut relay, mut known) = (relay(), KnownRelay::default());
    let mut outbox = Outbox::new(PARAMETERS);
    outbox.push(PEOPLE[0].account.address(), &[1; 5000], &mut ChaCha20Rng::from_seed(seed())).unwrap();
    let error = post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap_err();
    assert!(matches!(error, RelayError::PayloadBytes { found: 8192, limit: 4096 }), "{error}");
    assert_eq!(relay.count(), 5);
    let short = Account::from_seed(ClueParameters::SHORT, Seed::from([1; 32]));
    assert!(outbox.push(short.address(), b"", &mut ChaCha20Rng::from_seed(seed())).is_err());
    assert!(
        outbox
            .push(PEOPLE[0].account.address(), &[1; MAX_TEXT_BYTES + 1], &mut ChaCha20Rng::from_seed(seed()))
            .is_err()
    );
}

#[test]
fn an_audit_finds_the_message_or_that_it_is_gone() {
    let (mut relay, mut outbox, mut known) = (relay(), outbox(2), KnownRelay::default());
    post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap();
    let receipt = *outbox.receipts().nth(1).unwrap();
    audit(receipt, known, &mut relay).unwrap();
    relay.messages.extend(board(9, &[]));
    relay.now += 100;
    audit(receipt, known, &mut relay).unwrap();
    // A client that has lost everything but the receipt.
    let pinned = KnownRelay::pinned(relay.relay_key());
    audit(receipt, pinned, &mut relay).unwrap();
    for known in [known, pinned] {
        let mut dropped = relay_with(&relay, |messages| drop(messages.remove(6)));
        let error = audit(receipt, known, &mut dropped).unwrap_err();
        assert!(matches!(error, RelayError::Inconsistent { .. }), "{error}");
    }
    let wrong = Receipt { index: 5, ..receipt };
    let error = audit(wrong, known, &mut relay).unwrap_err();
    assert!(matches!(error, RelayError::Missing { index: 5 }), "{error}");
}

fn relay_with(
    relay: &FakeRelay,
    change: impl FnOnce(&mut Vec<restante_wire::relay::PageMessage>),
) -> FakeRelay {
    let mut copy = FakeRelay::new(10, PEOPLE[0].detection.context(), relay.now);
    copy.messages = relay.messages.clone();
    change(&mut copy.messages);
    copy
}

#[test]
fn outbox_files_with_any_cut_are_refused() {
    let (mut relay, mut outbox, mut known) = (relay(), outbox(4), KnownRelay::default());
    post(&mut outbox, &mut known, &mut relay, 4).unwrap();
    assert_eq!(outbox.waiting(), 1);
    // One of each state.
    outbox.push(PEOPLE[0].account.address(), b"not made yet", &mut ChaCha20Rng::from_seed(seed())).unwrap();
    let file = outbox.to_file();
    assert_eq!(Outbox::from_file(&file).unwrap(), outbox);
    let body = Envelope::open(&file).unwrap().body;
    for length in (0..body.len()).step_by(97).chain(body.len() - 300..body.len()) {
        let cut = Envelope {
            kind: Kind::Outbox,
            version: Outbox::VERSION,
            parameters: PARAMETERS.id(),
            body: &body[..length],
        };
        assert!(Outbox::from_file(&cut.seal()).is_err(), "{length}");
    }
}

const DAY: u64 = 24 * 3600;

/// The periods and texts of what came behind the first five messages.
fn posted(relay: &FakeRelay) -> Vec<(Period, String)> {
    let one = |message: &restante_wire::relay::PageMessage| {
        let text = PEOPLE[0].account.open(&BOARD, &message.clue, &message.payload).unwrap();
        assert!(PEOPLE[0].account.is_pertinent(&BOARD, &message.clue, &message.payload).unwrap());
        (Period::of_clue(&message.clue).unwrap(), String::from_utf8(text).unwrap())
    };
    relay.messages[5..].iter().map(one).collect()
}

#[test]
fn a_message_that_waited_until_its_day_was_closed_is_made_anew() {
    let (mut relay, mut outbox, mut known) = (relay(), outbox(3), KnownRelay::default());
    // Made, and not posted.
    post(&mut outbox, &mut known, &mut relay, 2).unwrap();
    let made = outbox.clone();
    // The next day they are posted as they are.
    relay.now += DAY;
    let today = Period::of(NOW);
    post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap();
    let texts = |day: Period| (0..3).map(|number| (day, format!("text {number}"))).collect::<Vec<_>>();
    assert_eq!(posted(&relay), texts(today));
    // Of two days later, another outbox that was put by.
    let mut other = FakeRelay::new(10, PEOPLE[0].detection.context(), NOW + 2 * DAY);
    other.messages = board(5, &[]);
    let (mut outbox, mut known) = (made, KnownRelay::default());
    post(&mut outbox, &mut known, &mut other, usize::MAX).unwrap();
    assert_eq!(posted(&other), texts(Period(today.0 + 2)));
    assert_eq!(outbox.waiting(), 0);
    // Neither texts nor addresses are kept.
    let file = outbox.to_file();
    assert!(!file.windows(5).any(|bytes| bytes == b"text "));
    assert!(file.len() < 3 * 300 + 100, "{}", file.len());
}

#[test]
fn a_posted_message_whose_answer_was_lost_is_not_made_anew_when_its_day_is_closed() {
    let (mut relay, mut outbox, mut known) = (relay(), outbox(2), KnownRelay::default());
    relay.tamper = Some(Box::new(|request, response| match request.path.as_str() {
        "/v1/messages" => Reply::Broken(Cause::default()),
        _ => Reply::Answer(response),
    }));
    assert!(post(&mut outbox, &mut known, &mut relay, usize::MAX).is_err());
    assert_eq!((relay.count(), outbox.waiting()), (7, 2));
    relay.tamper = None;
    relay.now += 5 * DAY;
    post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap();
    assert_eq!((relay.count(), outbox.waiting()), (7, 0));
}

#[test]
fn a_clock_that_is_days_off_is_named_and_nothing_is_made_again_and_again() {
    let (mut relay, mut outbox, mut known) = (relay(), outbox(1), KnownRelay::default());
    let mut asked = 0;
    let copy = Outbox::from_file(&outbox.to_file()).unwrap();
    let mut machine = PostMachine::new(copy, known, u64::MAX, Retries::default());
    let error = loop {
        let Step::Ask(request) = machine.step() else { panic!("it was not posted") };
        asked += 1;
        // The client's clock is three days behind.
        if let Err(error) = machine.respond(relay.ask(&request), NOW - 3 * DAY, &mut rng(1)) {
            break error;
        }
    };
    assert!(matches!(error, RelayError::Stale { .. }) && asked <= 2, "{error}");
    assert!(error.to_string().contains("this machine's clock or the relay's is wrong"), "{error}");
    // With the right time it goes on with the same outbox.
    outbox = machine.outbox().clone();
    post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap();
    assert_eq!(posted(&relay), [(Period::of(NOW), "text 0".into())]);
}

#[test]
fn messages_go_to_the_board_that_they_were_made_for() {
    let (mut relay, mut outbox, mut known) = (relay(), outbox(1), KnownRelay::default());
    post(&mut outbox, &mut known, &mut relay, 2).unwrap();
    let mut other = FakeRelay::new(11, PEOPLE[0].detection.context(), NOW);
    other.board = BoardId([1; 16]);
    let error = post(&mut outbox, &mut KnownRelay::default(), &mut other, usize::MAX).unwrap_err();
    assert!(
        matches!(error, RelayError::OtherBoard { found, expected, .. } if (found, expected) == (other.board, BOARD))
    );
    // The relay itself may not change its board either.
    relay.board = BoardId([2; 16]);
    let error = post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap_err();
    assert!(matches!(error, RelayError::OtherBoard { .. }) && error.is_misbehaviour(), "{error}");
    assert_eq!((other.count(), relay.count(), outbox.waiting()), (0, 5, 1));
}

/// The day is that of the relay's signed head, so that a board does not tell whose clock is before midnight and whose behind.
#[test]
fn a_message_says_nothing_of_its_senders_clock() {
    let midnight = NOW.next_multiple_of(DAY);
    for (own, relays) in [(midnight - 600, midnight + 600), (midnight + 600, midnight - 600)] {
        let mut relay = relay();
        relay.now = relays;
        let mut machine = PostMachine::new(outbox(1), KnownRelay::default(), 3600, Retries::default());
        while let Step::Ask(request) = machine.step() {
            machine.respond(relay.ask(&request), own, &mut rng(9)).unwrap();
        }
        assert_eq!(posted(&relay)[0].0, Period::of(relays));
    }
}

/// A relay that says now that it does not take messages of the day that it has just signed.
#[test]
fn a_relay_that_does_not_take_its_own_day_is_named_and_not_asked_again() {
    let (mut relay, mut outbox, mut known) = (relay(), outbox(2), KnownRelay::default());
    let asked = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = asked.clone();
    relay.tamper = Some(Box::new(move |request, response| match request.path.as_str() {
        "/v1/messages" => {
            count.set(count.get() + 1);
            refused("body:messages[0].clue", "period")
        }
        _ => Reply::Answer(response),
    }));
    let error = post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap_err();
    assert!(matches!(error, RelayError::Clock { .. }) && asked.get() == 1, "{error}");
}

fn refused(field: &str, code: &str) -> Reply {
    let problem = format!(
        r#"{{"type":"urn:restante:problem:{code}","title":"t","status":409,"detail":"d","field":"{field}"}}"#
    );
    Reply::Answer(Response { status: 409, headers: vec![], body: problem.into() })
}

/// A message that the relay will never take keeps back none of the others, before it or behind it.
#[test]
fn what_is_wrong_with_one_message_keeps_back_no_other() {
    let push = |outbox: &mut Outbox, text: &[u8]| {
        outbox.push(PEOPLE[0].account.address(), text, &mut ChaCha20Rng::from_seed(seed())).unwrap()
    };
    // Too long for the relay.
    let (mut relay, mut known) = (relay(), KnownRelay::default());
    let mut outbox = Outbox::new(PARAMETERS);
    let texts = ["one", "two", "three", "four", "five"];
    for (place, text) in texts.iter().enumerate() {
        push(&mut outbox, text.as_bytes());
        if place % 2 == 0 {
            push(&mut outbox, &[7; 5000]);
        }
    }
    for waiting in [3, 3] {
        let error = post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap_err();
        assert!(matches!(error, RelayError::PayloadBytes { found: 8192, limit: 4096 }), "{error}");
        assert_eq!(outbox.waiting(), waiting);
    }
    assert_eq!(posted(&relay).into_iter().map(|(_, text)| text).collect::<Vec<_>>(), texts);
    assert_eq!(outbox.receipts().map(|receipt| receipt.index).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    // Refused for what only the relay knows: the second of each batch of three.
    let (mut relay, mut outbox, mut known) = (self::relay(), self::outbox(6), KnownRelay::default());
    let mut asked = 0;
    relay.tamper = Some(Box::new(move |request, response| match request.path.as_str() {
        "/v1/messages" => {
            asked += 1;
            match asked {
                1 => refused("body:messages[1].id", "conflict"),
                _ => Reply::Answer(response),
            }
        }
        _ => Reply::Answer(response),
    }));
    let error = post(&mut outbox, &mut known, &mut relay, usize::MAX).unwrap_err();
    assert!(matches!(error, RelayError::Refused { status: 409, .. }), "{error}");
    assert_eq!((outbox.waiting(), outbox.receipts().count()), (1, 5));
}
