//! Mail by compact digests from one relay, and that what is asked for does not depend on what is in them.

#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some of them with one")]

use std::{cell::RefCell, ops::Range, rc::Rc, time::Duration};

use restante_client::{
    Account, RelayError,
    relay::{
        Again, Compact, Delivery, Machine, Method, RegisterMachine, Registration, Reply, Request, Response,
        Retries, Side, Step, SyncConfig, SyncMachine, SyncState, Work,
    },
};
use restante_omr::{
    OmrError,
    compact::{CompactDigest, CompactParameters},
};
use restante_wire::{
    Envelope, Kind,
    relay::{DigestKind, Hex, JobRequest, JobState, JobStatus, PageMessage},
};

use crate::{
    fake::{BOARD, COMPACT, FakeRelay, PARAMETERS, json, ok},
    world::{
        End, NOW, PEOPLE, Person, Round, Seen, board, fill_in, fresh, pair, private, register, register_key,
        rng, round, round_until, today, whole,
    },
};

/// Digests of 16 messages of the board with room for 4, a second look at 32 with room for 12.
const SETTINGS: fn() -> Compact = || Compact {
    messages: 16,
    again: Some(Again { messages: 32, capacity: 12 }),
    polls: 5,
    ..Compact::new(4, 1536)
};

fn config(compact: Compact) -> SyncConfig {
    SyncConfig::new(Delivery::Compact(compact))
}

fn range(range: Range<u64>) -> SyncConfig {
    SyncConfig::new(Delivery::Range { first: range.start, end: range.end })
}

fn mine<'a>(person: &'a Person, indices: &[u64]) -> Vec<(u64, &'a Account)> {
    indices.iter().map(|index| (*index, &person.account)).collect()
}

/// A relay with compact digests, and a state whose key is registered there.
fn registered(person: &Person, messages: &[PageMessage]) -> ([FakeRelay; 2], SyncState) {
    let mut relays = pair(messages);
    relays[0].compact = Some(1000);
    relays[0].limits.upload_part_bytes = 1 << 20;
    let mut state = fresh();
    register_key(person, DigestKind::Compact, &mut relays[0], &mut state, 1);
    (relays, state)
}

/// What the round asked for: the bodies of its orders.
fn orders(relay: &mut FakeRelay) -> Rc<RefCell<Vec<JobRequest>>> {
    let seen: Rc<RefCell<Vec<JobRequest>>> = Rc::default();
    let keep = Rc::clone(&seen);
    relay.tamper = Some(Box::new(move |request, response| {
        if request.path.ends_with("/jobs") {
            keep.borrow_mut().push(serde_json::from_slice(&request.body).unwrap());
        }
        Reply::Answer(response)
    }));
    seen
}

#[test]
fn mail_comes_in_the_digests_and_once() {
    let person = &PEOPLE[0];
    let mut messages = board(40, &mine(person, &[3, 20, 39]));
    // One that is too long for the digest, and one that is somebody else's payload with a clue for us.
    let long =
        person.account.address().prepare().write_message(&BOARD, today(), &[1; 1000], &mut rng(7)).unwrap();
    messages[21] = PageMessage { clue: long.clue, payload: long.payload };
    let sender = person.account.address().prepare();
    messages[22].clue = sender.make_clue(&BOARD, today(), &messages[22].payload, &mut rng(8));
    let (mut relays, mut state) = registered(person, &messages);
    let asked = orders(&mut relays[0]);
    let first = round(person, config(SETTINGS()), &mut state, &mut relays, 2);
    assert!(first.error.is_none(), "{:?}", first.error);
    assert_eq!((first.indices(), state.complete_to(), first.outcome.behind), (vec![3, 20, 39], 40, 0));
    assert_eq!((first.outcome.too_long, first.outcome.unopened), (vec![21], 1));
    assert!(first.outcome.lost.is_empty());
    assert!(state.lost().eq(std::iter::once(21..22)));
    // Ranges of 16 up to the head, then the window that is complete.
    let ranges: Vec<_> =
        asked.borrow().iter().map(|job| (job.first, job.end.unwrap(), job.capacity.unwrap())).collect();
    assert_eq!(ranges, [(0, 16, 4), (16, 32, 4), (32, 40, 4), (0, 32, 12)]);
    assert!(relays[0].jobs().is_empty(), "what is read is deleted");
    // Nothing new: no job at all.
    let again = round(person, config(SETTINGS()), &mut state, &mut relays, 3);
    assert!(again.error.is_none() && again.received.is_empty());
    assert_eq!((again.requests(), asked.borrow().len()), (2, 4));
    // Reading the range whole finds the long one.
    relays[0].tamper = None;
    let mut texts = Vec::new();
    let read = crate::world::texts(person, range(21..22), &mut state, &mut relays, &mut texts);
    assert!(read.is_none() && texts == [(21, vec![1; 1000])]);
    assert_eq!(state.complete_to(), 40);
}

/// Wherever the program is killed, it asks for the same digest again, and every message comes once.
#[test]
fn whatever_interrupts_it_every_message_comes_once() {
    let person = &PEOPLE[0];
    let messages = board(40, &mine(person, &[3, 20, 39]));
    for stop in 0..18 {
        let (mut relays, mut state) = registered(person, &messages);
        relays[0].polls = 1;
        let asked = orders(&mut relays[0]);
        let before = round_until(person, config(SETTINGS()), &mut state, &mut relays, 2, End::Killed(stop));
        let mut indices = before.indices();
        let after = round(person, config(SETTINGS()), &mut state, &mut relays, 3);
        assert!(after.error.is_none(), "{stop}: {:?}", after.error);
        indices.extend(after.indices());
        assert_eq!(indices, [3, 20, 39], "{stop}");
        // An id is for one range, whether it was asked for once or twice.
        let mut jobs = asked.borrow().clone();
        jobs.sort_by_key(|job| job.id);
        jobs.dedup();
        assert_eq!(jobs.len(), 4, "{stop}");
    }
}

fn all_alike(clients: &[Vec<Round>]) {
    for (number, rounds) in clients.iter().enumerate() {
        for (round, reference) in rounds.iter().zip(&clients[0]) {
            assert!(round.error.is_none(), "{number}: {:?}", round.error);
            assert_eq!(round.seen, reference.seen, "{number}");
        }
    }
}

/// No message, one, and more than digests have room for: the same requests in the same order and at the same pace.
#[test]
fn no_one_and_too_many_messages_look_the_same() {
    let [none, one, many] = &*PEOPLE;
    let sizes = [10, 40, 40, 70, 100];
    let mut owners: Vec<(u64, &Account)> = (0..100).step_by(3).map(|index| (index, &many.account)).collect();
    owners.push((70, &one.account));
    let all = board(100, &owners);
    let mut lost = Vec::new();
    let clients: Vec<Vec<Round>> = [none, one, many]
        .into_iter()
        .map(|person| {
            let (mut relays, mut state) = registered(person, &all[..10]);
            relays[0].polls = 1;
            let rounds = sizes.iter().enumerate().map(|(number, size)| {
                relays[0].messages = all[..*size as usize].to_vec();
                relays[0].now += 60;
                let round = round(person, config(SETTINGS()), &mut state, &mut relays, number as u8);
                lost.push(state.lost().collect::<Vec<_>>());
                round
            });
            rounds.collect()
        })
        .collect();
    all_alike(&clients);
    let found = |client: &[Round]| -> Vec<u64> { client.iter().flat_map(Round::indices).collect() };
    assert_eq!(found(&clients[0]), [0; 0]);
    assert_eq!(found(&clients[1]), [70]);
    // The first range had four; the next ones had more, and came with the second look at 0..32, 32..64 and 64..96.
    let mut all = found(&clients[2]);
    assert_eq!(all[..4], [0, 3, 6, 9]);
    all.sort_unstable();
    all.retain(|index| *index < 96);
    assert_eq!(all, (0..96).step_by(3).collect::<Vec<_>>());
    assert_eq!(clients[2][1].outcome.overflowed, [10..26, 26..40]);
    assert_eq!(lost[11], [32..40], "the first second look was at 0..32");
    assert!(clients[2].iter().all(|round| round.outcome.lost.is_empty()));
    // Digests were waited for in a fixed rhythm, and none was read before the last request.
    let waits: Vec<_> = clients[2][1].seen.iter().filter(|seen| matches!(seen, Seen::Wait(_))).collect();
    assert!(waits.len() == 3 && waits.iter().all(|wait| **wait == Seen::Wait(Duration::from_secs(10))));
    for seen in clients.iter().flatten().flat_map(|round| &round.seen) {
        if let Seen::Request { pace, work, .. } = seen {
            assert_eq!((*pace, *work), (Duration::from_millis(50), Work::default()));
        }
    }
}

/// Changes digests, and the hashes that announce them, as only the relay can.
fn change_digests(relay: &mut FakeRelay, change: impl Fn(&CompactDigest, Vec<u8>) -> Vec<u8> + 'static) {
    let changed: RefCell<std::collections::HashMap<Hex<32>, Vec<u8>>> = RefCell::default();
    let honest: RefCell<std::collections::HashMap<String, Hex<32>>> = RefCell::default();
    let change = Rc::new(change);
    let file_of = move |file: &[u8]| {
        let digest = CompactDigest::from_file(&COMPACT, file).unwrap();
        let envelope = Envelope::open(file).unwrap();
        let body = change(&digest, envelope.body.to_vec());
        Envelope { body: &body, ..envelope }.seal()
    };
    let made = crate::fake::made_digests;
    relay.tamper = Some(Box::new(move |request, mut response| {
        if request.path.ends_with("/result") {
            let hash = Hex(*blake3::hash(&response.body).as_bytes());
            response.body =
                changed.borrow_mut().entry(hash).or_insert_with(|| file_of(&response.body)).clone();
        } else if let Ok(mut status) = serde_json::from_slice::<JobStatus>(&response.body)
            && let Some(hash) = status.result_hash
        {
            honest.borrow_mut().insert(request.path.clone(), hash);
            let file = made(&hash).expect("the relay has made it");
            status.result_hash = Some(Hex(*blake3::hash(&file_of(&file)).as_bytes()));
            response.body = json(&status);
        }
        Reply::Answer(response)
    }));
}

/// A relay that makes digests up learns nothing from what the client does next: it does the same.
#[test]
fn what_does_not_decode_changes_no_request() {
    let person = &PEOPLE[0];
    let all = board(72, &mine(person, &[3, 20, 50]));
    let run = |change: Option<fn(&CompactDigest, Vec<u8>) -> Vec<u8>>| {
        let (mut relays, mut state) = registered(person, &all[..40]);
        if let Some(change) = change {
            change_digests(&mut relays[0], change);
        }
        let first = round(person, config(SETTINGS()), &mut state, &mut relays, 2);
        relays[0].messages = all.clone();
        let second = round(person, config(SETTINGS()), &mut state, &mut relays, 3);
        (vec![first, second], state)
    };
    let (honest, state) = run(None);
    assert_eq!((honest[0].indices(), honest[1].indices()), (vec![3, 20], vec![50]));
    assert!(state.lost().next().is_none());
    const HEADER: usize = 44;
    let changes: [fn(&CompactDigest, Vec<u8>) -> Vec<u8>; 4] = [
        // Noise.
        |_, mut body| {
            body[HEADER..].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(167).wrapping_add(91));
            body
        },
        // Half of it.
        |_, mut body| {
            let end = body.len();
            body[end / 2..].fill(0x55);
            body
        },
        // Another factor: every count is another, which may be an overflow or no messages at all.
        |_, mut body| {
            body[24] ^= 1;
            body
        },
        // The digests of the first look only.
        |digest, mut body| {
            if digest.request().capacity == 4 {
                body[HEADER..].fill(0);
            }
            body
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (rounds, state) = run(Some(change));
        for (round, reference) in rounds.iter().zip(&honest) {
            assert!(round.error.is_none(), "{number}: {:?}", round.error);
            assert_eq!(round.seen, reference.seen, "{number}");
        }
        assert_eq!(state.complete_to(), 72);
        if number < 2 {
            let [first, second] = &rounds[..] else { panic!("there are two rounds") };
            assert!(first.received.is_empty() && second.received.is_empty());
            assert_eq!(state.lost().collect::<Vec<_>>(), [0..72]);
            assert_eq!(first.outcome.unreadable, [0..16, 16..32, 32..40, 0..32]);
            assert_eq!((&first.outcome.lost[..], &second.outcome.lost[..]), (&[0..32][..], &[32..64][..]));
        }
    }
    // What is lost can be read whole, if somebody wants to.
    let (_, mut state) = run(Some(changes[0]));
    let (mut relays, _) = registered(person, &all);
    let read = round(person, range(0..40), &mut state, &mut relays, 4);
    assert!(read.error.is_none(), "{:?}", read.error);
    assert_eq!((read.indices(), state.lost().collect::<Vec<_>>()), (vec![3, 20], vec![40..72]));
    assert_eq!(state.complete_to(), 72);
}

#[test]
fn overflowing_ranges_without_a_second_look_are_lost_and_named() {
    let person = &PEOPLE[0];
    let indices: Vec<u64> = (0..24).collect();
    let (mut relays, mut state) = registered(person, &board(30, &mine(person, &indices)));
    let once = Compact { again: None, ..SETTINGS() };
    let first = round(person, config(once), &mut state, &mut relays, 2);
    assert!(first.error.is_none() && first.received.is_empty());
    assert_eq!(first.outcome.lost, [0..16, 16..30]);
    assert_eq!(state.lost().collect::<Vec<_>>(), [0..30]);
    let read = round(person, range(10..30), &mut state, &mut relays, 2);
    assert_eq!(read.indices(), indices[10..]);
    // A second look that has too little room, too.
    let (mut relays, mut state) = registered(person, &board(40, &mine(person, &indices)));
    let first = round(person, config(SETTINGS()), &mut state, &mut relays, 2);
    assert_eq!(first.outcome.overflowed, [0..16, 16..32, 0..32]);
    assert_eq!(first.outcome.lost, [0..32]);
    assert_eq!(state.lost().collect::<Vec<_>>(), [0..32]);
}

#[test]
fn a_slow_relay_is_waited_for_over_rounds_with_the_same_job() {
    let person = &PEOPLE[0];
    let (mut relays, mut state) = registered(person, &board(10, &mine(person, &[3])));
    relays[0].polls = 12;
    let asked = orders(&mut relays[0]);
    for number in 0..2 {
        let waiting = round(person, config(SETTINGS()), &mut state, &mut relays, number);
        assert!(waiting.error.is_none() && waiting.outcome.waiting && waiting.received.is_empty());
        assert_eq!((state.complete_to(), waiting.outcome.behind), (0, 10));
    }
    let last = round(person, config(SETTINGS()), &mut state, &mut relays, 2);
    assert_eq!((last.indices(), last.outcome.waiting), (vec![3], false));
    let asked = asked.borrow();
    assert!(asked.len() == 3 && asked.iter().all(|job| *job == asked[0]));
}

#[test]
fn a_job_that_failed_or_was_forgotten_is_ordered_again() {
    let person = &PEOPLE[0];
    let messages = board(10, &mine(person, &[3]));
    let (mut relays, mut state) = registered(person, &messages);
    relays[0].tamper = Some(Box::new(|_, mut response| {
        if let Ok(mut status) = serde_json::from_slice::<JobStatus>(&response.body) {
            (status.state, status.error) = (JobState::Failed, Some("no\nspace".into()));
            response.body = json(&status);
        }
        Reply::Answer(response)
    }));
    let failed = round(person, config(SETTINGS()), &mut state, &mut relays, 1);
    assert!(failed.error.is_none() && failed.received.is_empty());
    assert_eq!(failed.outcome.failed.as_deref(), Some("nospace"));
    assert!(relays[0].jobs().is_empty());
    relays[0].tamper = None;
    assert_eq!(round(person, config(SETTINGS()), &mut state, &mut relays, 2).indices(), [3]);

    // Forgotten once; and by a relay that forgets every job, which the client gives up on.
    for always in [false, true] {
        let (mut relays, mut state) = registered(person, &messages);
        relays[0].polls = 1;
        let mut lies = 0;
        relays[0].tamper = Some(Box::new(move |request, response| {
            if request.path.contains("/jobs/") && (always || lies == 0) {
                lies += 1;
                return Reply::Answer(Response { status: 404, headers: vec![], body: vec![] });
            }
            Reply::Answer(response)
        }));
        let round = round(person, config(SETTINGS()), &mut state, &mut relays, 1);
        if always {
            assert!(matches!(round.error, Some(RelayError::Refused { status: 404, .. })));
        } else {
            assert_eq!(round.indices(), [3]);
        }
    }
}

/// Lies that anybody could notice are errors, and another digest is asked for in the next round.
#[test]
fn digests_that_are_not_what_was_ordered_are_refused() {
    let person = &PEOPLE[0];
    let messages = board(20, &mine(person, &[3, 18]));
    let lies: [fn(&Request, Response) -> Response; 5] = [
        // Other bytes than were announced.
        |request, mut response| {
            if request.path.ends_with("/result") {
                response.body[100] ^= 1;
            }
            response
        },
        // A digest for another range, and of another person.
        |request, response| {
            if request.path.ends_with("/result") {
                ok(crate::fake::digest_for(&PEOPLE[0], 1..16))
            } else {
                announce(response, || crate::fake::digest_for(&PEOPLE[0], 1..16))
            }
        },
        |request, response| {
            if request.path.ends_with("/result") {
                ok(crate::fake::digest_for(&PEOPLE[1], 0..16))
            } else {
                announce(response, || crate::fake::digest_for(&PEOPLE[1], 0..16))
            }
        },
        // Another job.
        |_, response| change_status(response, |status| status.first += 1),
        |_, response| change_status(response, |status| status.result_hash = None),
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let (mut relays, mut state) = registered(person, &messages);
        relays[0].tamper = Some(Box::new(move |request, response| Reply::Answer(lie(request, response))));
        let refused = round(person, config(SETTINGS()), &mut state, &mut relays, 1);
        let error = refused.error.unwrap();
        let expected = match number {
            0 => matches!(error, RelayError::DigestHash { first: 0, end: 16, .. }) && error.is_misbehaviour(),
            2 => matches!(error, RelayError::Omr(OmrError::ForeignDigest { .. })),
            _ => matches!(error, RelayError::Unexpected { .. }),
        };
        assert!(expected, "{number}: {error}");
        assert_eq!((state.complete_to(), refused.received.len()), (0, 0));
        relays[0].tamper = None;
        assert_eq!(round(person, config(SETTINGS()), &mut state, &mut relays, 2).indices(), [3, 18]);
    }
}

/// What the relay says about a job cannot be: the next round orders another, not the same again.
#[test]
fn a_job_with_impossible_answers_is_given_up() {
    let person = &PEOPLE[0];
    let messages = board(10, &mine(person, &[3]));
    let lies: [fn(&Request, Response) -> Response; 5] = [
        |_, response| Response { body: b"{".to_vec(), ..response },
        |_, response| change_status(response, |status| status.first += 1),
        |_, response| change_status(response, |status| status.id.0[0] ^= 1),
        |_, response| change_status(response, |status| status.result_hash = None),
        |request, mut response| {
            if request.path.ends_with("/result") {
                response.body.push(0);
            }
            response
        },
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let (mut relays, mut state) = registered(person, &messages);
        let ids: Rc<RefCell<Vec<restante_wire::relay::JobId>>> = Rc::default();
        let keep = Rc::clone(&ids);
        relays[0].tamper = Some(Box::new(move |request, response| {
            if request.path.ends_with("/jobs") {
                keep.borrow_mut().push(serde_json::from_slice::<JobRequest>(&request.body).unwrap().id);
            }
            Reply::Answer(if request.path.contains("/jobs") { lie(request, response) } else { response })
        }));
        for seed in 1..3 {
            assert!(round(person, config(SETTINGS()), &mut state, &mut relays, seed).error.is_some());
        }
        let ids = ids.borrow();
        assert!(ids.len() == 2 && ids[0] != ids[1], "{number}: {ids:?}");
    }
}

/// A relay that takes one message in a job, and makes up its digests.
#[test]
fn a_round_has_a_bounded_number_of_digests() {
    let person = &PEOPLE[0];
    let (mut relays, mut state) = registered(person, &board(70, &[]));
    relays[0].compact = Some(1);
    let some = crate::fake::digest_for(person, 0..1);
    let file = |job: &JobRequest| {
        let envelope = Envelope::open(&some).unwrap();
        let mut body = envelope.body.to_vec();
        body[..8].copy_from_slice(&job.first.to_le_bytes());
        body[8..16].copy_from_slice(&job.end.unwrap().to_le_bytes());
        Envelope { body: &body, ..envelope }.seal()
    };
    let config = config(Compact { again: None, ..SETTINGS() });
    for (complete_to, jobs, waiting) in [(64, 64, true), (70, 6, false)] {
        let detection = person.detection_for(config.delivery);
        let mut machine = SyncMachine::new(&person.account, detection, config, state).unwrap();
        let mut orders: Vec<JobRequest> = Vec::new();
        while let Step::Ask(request) = machine.step() {
            let reply = match request.method {
                Method::Post => {
                    let job: JobRequest = serde_json::from_slice(&request.body).unwrap();
                    let status = JobStatus {
                        id: job.id,
                        kind: job.kind,
                        first: job.first,
                        complete_to: job.end.unwrap(),
                        capacity: job.capacity,
                        payload_bytes: job.payload_bytes,
                        state: JobState::Done,
                        done: 0,
                        created: 0,
                        result_bytes: None,
                        result_hash: Some(Hex(*blake3::hash(&file(&job)).as_bytes())),
                        error: None,
                    };
                    orders.push(job);
                    Reply::Answer(ok(json(&status)))
                }
                Method::Delete => Reply::Answer(ok(vec![])),
                _ if request.path.ends_with("/result") => Reply::Answer(ok(file(orders.last().unwrap()))),
                _ => relays[0].ask(&request),
            };
            machine.respond(reply, relays[0].now, &mut rng(complete_to as u8)).unwrap();
        }
        let finished = machine.finish(&mut rng(1));
        assert_eq!((finished.state.complete_to(), orders.len()), (complete_to, jobs));
        assert_eq!((finished.outcome.waiting, finished.outcome.unfinished), (waiting, waiting));
        state = finished.state;
    }
}

#[test]
fn private_delivery_after_compact_brings_nothing_twice() {
    let person = &PEOPLE[0];
    let all = board(96, &mine(person, &[3, 70, 90]));
    let (mut relays, mut state) = registered(person, &all[..80]);
    register(person, &mut relays, &mut state, 1);
    let once = config(Compact { messages: 1000, again: None, ..SETTINGS() });
    assert_eq!(round(person, once, &mut state, &mut relays, 2).indices(), [3, 70]);
    // The epoch begins at 32: what is before it would be read whole, had nobody been there.
    relays.iter_mut().for_each(|relay| relay.messages = all.clone());
    let later = round(person, private(4), &mut state, &mut relays, 3);
    assert!(later.error.is_none(), "{:?}", later.error);
    assert_eq!(later.indices(), [90]);
}

#[test]
fn private_delivery_leaves_the_second_look_to_compact() {
    let person = &PEOPLE[0];
    let indices: Vec<u64> = (0..6).collect();
    let all = board(40, &mine(person, &indices));
    let (mut relays, mut state) = registered(person, &all[..16]);
    register(person, &mut relays, &mut state, 1);
    assert!(round(person, config(SETTINGS()), &mut state, &mut relays, 2).received.is_empty());
    relays.iter_mut().for_each(|relay| relay.messages = all.clone());
    let between = round(person, private(4), &mut state, &mut relays, 3);
    assert!(between.error.is_none() && between.received.is_empty(), "{:?}", between.error);
    assert_eq!((state.complete_to(), state.lost().collect::<Vec<_>>()), (40, vec![0..16]));
    assert_eq!(round(person, config(SETTINGS()), &mut state, &mut relays, 4).indices(), indices);
    assert_eq!(state.lost().count(), 0);
}

fn change_status(mut response: Response, change: impl Fn(&mut JobStatus)) -> Response {
    if let Ok(mut status) = serde_json::from_slice::<JobStatus>(&response.body) {
        change(&mut status);
        response.body = json(&status);
    }
    response
}

fn announce(response: Response, file: impl Fn() -> Vec<u8>) -> Response {
    change_status(response, |status| status.result_hash = Some(Hex(*blake3::hash(&file()).as_bytes())))
}

#[test]
fn a_relay_with_smaller_limits_splits_more_or_is_refused() {
    let person = &PEOPLE[0];
    let (mut relays, mut state) = registered(person, &board(20, &mine(person, &[3, 18])));
    relays[0].compact = Some(8);
    let asked = orders(&mut relays[0]);
    assert_eq!(round(person, config(SETTINGS()), &mut state, &mut relays, 1).indices(), [3, 18]);
    let ranges: Vec<_> = asked.borrow().iter().map(|job| (job.first, job.end.unwrap())).collect();
    assert_eq!(ranges, [(0, 8), (8, 16), (16, 20), (0, 8), (8, 16)]);
    let (mut relays, mut state) = registered(person, &board(20, &[]));
    let much = Compact { payload_bytes: 4065, ..SETTINGS() };
    let refused = round(person, config(much), &mut state, &mut relays, 1).error.unwrap();
    assert!(matches!(refused, RelayError::Unexpected { what: "payload size", .. }), "{refused}");
    relays[0].compact = None;
    let refused = round(person, config(SETTINGS()), &mut state, &mut relays, 1).error.unwrap();
    assert!(matches!(refused, RelayError::Unexpected { what: "list of digests", .. }), "{refused}");
    for wrong in [
        Compact { capacity: 0, ..SETTINGS() },
        Compact { payload_bytes: 1535, ..SETTINGS() },
        Compact { messages: 0, ..SETTINGS() },
        Compact { again: Some(Again { messages: 0, capacity: 1 }), ..SETTINGS() },
    ] {
        assert!(crate::world::refused(person, config(wrong), &state), "{wrong:?}");
    }
    assert!(crate::world::refused(person, config(SETTINGS()), &fresh()), "not registered");
    // The largest digest there is fits the largest answer that is read.
    let largest = restante_client::digest_request(0..1, 255, 4064);
    let real = restante_omr::compact::CompactContext::new(
        CompactParameters::new(PARAMETERS).unwrap(),
        restante_ring::Backend::best(),
    );
    assert!(
        (CompactDigest::file_bytes(&real.unwrap(), &largest) as u64) < config(SETTINGS()).answer_bytes_max
    );
}

/// Messages that the relay no longer has: the ranges that were lost there are lost.
#[test]
fn lost_ranges_that_the_relay_has_forgotten_are_named() {
    let person = &PEOPLE[0];
    let indices: Vec<u64> = (0..24).collect();
    let all = board(64, &mine(person, &indices));
    let (mut relays, mut state) = registered(person, &all[..24]);
    let first = round(person, config(SETTINGS()), &mut state, &mut relays, 1);
    assert!(first.received.is_empty() && first.outcome.lost.is_empty());
    relays[0].messages = all;
    relays[0].retained_from = 16;
    let second = round(person, config(SETTINGS()), &mut state, &mut relays, 2);
    assert!(second.error.is_none(), "{:?}", second.error);
    // 16..24 came with the second look at 16..32, and that at 32..64 found nothing.
    assert_eq!((second.indices(), second.outcome.lost), (indices[16..].to_vec(), vec![0..16]));
    state.skip_to(64);
    assert_eq!(state.lost().count(), 0);
}

/// The state after a registration, and the parts of the key that were asked for.
fn uploaded(relay: &mut FakeRelay) -> (SyncState, Vec<Range<u64>>) {
    let person = &PEOPLE[0];
    let mut state = fresh();
    let (mut parts, mut steps) = (Vec::new(), 0);
    let key = person.compact().upload(*blake3::hash(person.compact_key()).as_bytes());
    loop {
        let kept = state.registration(DigestKind::Compact).cloned();
        let known = *state.relay(Side::First);
        let mut machine = RegisterMachine::new(key, known, kept, 0, Retries::default());
        // A new machine after every fourth answer: the program is killed all the time.
        for _ in 0..4 {
            match machine.step() {
                Step::Ask(mut request) => {
                    parts.extend(request.key_part.clone());
                    fill_in(person, &mut request);
                    machine.respond(relay.ask(&request), NOW, &mut rng(1)).unwrap();
                    state.set_registration(DigestKind::Compact, machine.registration().cloned());
                    state = SyncState::from_file(&state.to_file()).unwrap();
                }
                Step::Wait(_) => {}
                Step::Done => return (state, parts),
            }
        }
        steps += 1;
        assert!(steps < 500, "it does not end");
    }
}

#[test]
fn a_compact_key_is_asked_for_in_parts() {
    for standing in [false, true] {
        let mut relay = FakeRelay::new(10, PEOPLE[0].detection.context(), NOW);
        (relay.compact, relay.compact_standing) = (Some(1000), standing);
        relay.limits.upload_part_bytes = 3 << 20;
        let (state, parts) = uploaded(&mut relay);
        let registration = state.registration(DigestKind::Compact).unwrap();
        assert!(registration.is_complete() && registration.is_standing() == standing);
        assert_eq!(relay.registrations(), 1);
        assert!(parts.iter().all(|part| part.end - part.start <= 3 << 20));
        assert_eq!(parts.last().unwrap().end, PEOPLE[0].compact_key().len() as u64);
        assert!(state.registration(DigestKind::Stream).is_none());
    }
}

/// The relay has all bytes and no time to check them: the client asks for the check with an empty part.
#[test]
fn a_check_that_was_put_off_is_asked_for() {
    let mut relay = FakeRelay::new(10, PEOPLE[0].detection.context(), NOW);
    relay.compact = Some(1000);
    relay.limits.upload_part_bytes = 1 << 30;
    let mut busy = 2;
    relay.tamper = Some(Box::new(move |request, response| {
        if request.path.ends_with("/content") && busy > 0 && !request.body.is_empty() {
            busy -= 1;
            return Reply::Answer(Response { status: 503, headers: vec![], body: vec![] });
        }
        Reply::Answer(response)
    }));
    let person = &PEOPLE[0];
    let key = person.compact().upload(*blake3::hash(person.compact_key()).as_bytes());
    let mut machine = RegisterMachine::new(key, Default::default(), None, 0, Retries::default());
    let mut empty = 0;
    loop {
        match machine.step() {
            Step::Ask(mut request) => {
                fill_in(person, &mut request);
                empty += u32::from(request.path.ends_with("/content") && request.body.is_empty());
                machine.respond(relay.ask(&request), NOW, &mut rng(1)).unwrap();
            }
            Step::Wait(_) => {}
            Step::Done => break,
        }
    }
    assert!(machine.registration().is_some_and(Registration::is_complete));
    assert_eq!((relay.registrations(), empty), (1, 1));
}

/// A state of before clues were bound cannot be gone on with, and the refusal says what to do.
#[test]
fn states_of_earlier_versions_are_refused() {
    let file = fresh().to_file();
    let body = Envelope::open(&file).unwrap().body;
    let parameters = PARAMETERS.id();
    for version in [0, 1, 2, SyncState::VERSION + 1] {
        let sealed = Envelope { kind: Kind::SyncState, version, parameters, body }.seal();
        let error = SyncState::from_file(&sealed).unwrap_err().to_string();
        assert!(
            error.contains("this program reads version") && error.contains("version of the program")
                || error.contains("begin"),
            "{error}"
        );
    }
}

#[test]
fn compact_states_read_back_and_damaged_ones_are_refused() {
    let person = &PEOPLE[0];
    let indices: Vec<u64> = (0..10).collect();
    let (mut relays, mut state) = registered(person, &board(20, &mine(person, &indices)));
    // With something lost and a job under way.
    relays[0].limits.job_messages = 16;
    round_until(person, config(SETTINGS()), &mut state, &mut relays, 2, End::Broken(5));
    assert_eq!(state.lost().collect::<Vec<_>>(), [0..16]);
    let file = state.to_file();
    assert_eq!(*SyncState::from_file(&file).unwrap().to_file(), *file);
    let body = Envelope::open(&file).unwrap().body;
    let parameters = PARAMETERS.id();
    for length in (0..2000).chain(body.len() - 100..body.len()) {
        let (kind, version) = (Kind::SyncState, SyncState::VERSION);
        let cut = Envelope { kind, version, parameters, body: &body[..length] }.seal();
        assert!(SyncState::from_file(&cut).is_err(), "{length}");
    }
    assert!(!format!("{state:?}").contains("rst1_"));
    // Whole reading takes off what it reads.
    relays[0].now += 1;
    assert_eq!(round(person, range(0..16), &mut state, &mut relays, 1).indices(), indices);
    assert_eq!(state.lost().count(), 0);
    let rest = round(person, whole(), &mut state, &mut relays, 1);
    assert!(rest.error.is_none() && rest.received.is_empty());
    // A job for messages that were read otherwise is given up.
    let after = round(person, config(SETTINGS()), &mut state, &mut relays, 1);
    assert!(after.error.is_none() && after.received.is_empty());
    assert_eq!(state.complete_to(), 20);
}
