//! Mail is found and read, once, whatever interrupts it.

use std::collections::BTreeSet;

use restante_client::{
    Account, AnyDetection, LetterError, RelayError,
    relay::{Bounds, Delivery, KnownRelay, Private, Side, SyncConfig, SyncMachine, SyncState, Tail},
};
use restante_omr::stream::{BLOCK, DetectionKey};
use restante_ring::sample::Seed;
use restante_wire::{Encode, Envelope, Kind, binding::Binding, merkle::Hash, relay::PageMessage};

use crate::{
    fake::{BOARD, FakeRelay, PARAMETERS},
    world::{
        End, NOW, PEOPLE, Person, Round, Seen, board, fresh, pair, private, refused, register, round,
        round_until, today, whole,
    },
};

fn mine<'a>(person: &'a Person, indices: &[u64]) -> Vec<(u64, &'a Account)> {
    indices.iter().map(|index| (*index, &person.account)).collect()
}

/// A recipient finds mail from a sender it never met: all that the sender used is the address.
#[test]
fn mail_from_an_unknown_sender_is_found_both_ways() {
    let person = &PEOPLE[0];
    let indices = [3, 17, 33];
    let mut relays = pair(&board(40, &mine(person, &indices)));
    let mut state = fresh();
    let reading = round(person, whole(), &mut state, &mut relays, 1);
    assert_eq!(reading.indices(), indices);
    assert_eq!(state.complete_to(), 40);
    let again = round(person, whole(), &mut state, &mut relays, 1);
    assert!(again.received.is_empty() && again.error.is_none());

    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    let fetching = round(person, private(4), &mut state, &mut relays, 2);
    assert_eq!(fetching.indices(), indices[..2], "the third is in no epoch yet");
    assert_eq!((state.complete_to(), state.backlog()), (40, 1));
    let waits = &fetching.outcome;
    assert_eq!((waits.backlog, waits.awaiting_epoch, waits.epoch_end), (1, 1, Some(32)));
    for relay in &mut relays {
        relay.messages.extend(board(8, &[]));
    }
    assert_eq!(round(person, private(4), &mut state, &mut relays, 3).indices(), indices[2..]);
    assert_eq!(state.backlog(), 0);

    // No epoch at all.
    let mut relays = pair(&board(8, &mine(person, &[3])));
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    let none = round(person, private(4), &mut state, &mut relays, 2).outcome;
    assert_eq!((none.backlog, none.awaiting_epoch, none.epoch_end, none.epoch_seconds), (1, 1, None, None));
}

/// Killed after each possible answer, in each kind of delivery: the round comes again as it was, and every message arrives once. Where
/// the relay goes away instead, what came before is read and not asked for again.
#[test]
fn an_interrupted_round_is_repeated_and_a_broken_one_goes_on() {
    let person = &PEOPLE[0];
    let indices = [0, 5, 49, 50, 51, 99, 100, 118, 130];
    let messages = board(144, &mine(person, &indices));
    let tail = SyncConfig::new(Delivery::Private(Private { fetches: 16, tail: Tail::Read }));
    for config in [whole(), private(16), tail] {
        let run = |end: End| {
            let mut relays = pair(&messages);
            let mut state = fresh();
            register(person, &mut relays, &mut state, 1);
            let mut first = round_until(person, config, &mut state, &mut relays, 2, end);
            let (before, requests) = (ranges(&first.seen), first.requests());
            let mut received = first.indices();
            let mut asked = before.clone();
            while received.len() < indices.len() || end == End::Done {
                let next = round(person, config, &mut state, &mut relays, 3);
                assert!(next.error.is_none(), "{:?}", next.error);
                received.extend(next.indices());
                asked.extend(ranges(&next.seen));
                first.seen.extend(next.seen);
                if end == End::Done || next.received.is_empty() {
                    break;
                }
            }
            assert_eq!(state.backlog(), 0);
            (received, before, asked, requests)
        };
        let (reference, whole_round, _, requests) = run(End::Done);
        let expected: BTreeSet<u64> = indices.into();
        assert_eq!(reference.len(), indices.len());
        for stop in 0..requests {
            for end in [End::Killed(stop), End::Broken(stop)] {
                let (received, before, asked, _) = run(end);
                assert_eq!(received.len(), indices.len(), "{end:?}: {received:?}");
                assert_eq!(received.into_iter().collect::<BTreeSet<_>>(), expected, "{end:?}");
                match end {
                    // The same again from the start.
                    End::Killed(_) => assert_eq!(asked[before.len()..], whole_round, "{end:?}"),
                    // What failed is tried several times; a page that came is not asked for again.
                    _ => {
                        let mut asked = asked;
                        asked.dedup();
                        assert_eq!(asked, whole_round, "{end:?}");
                    }
                }
            }
        }
    }
}

/// The ranges of messages and digests that were asked for, in order.
fn ranges(seen: &[Seen]) -> Vec<String> {
    let paths = seen.iter().filter_map(|seen| match seen {
        Seen::Request { path, .. } => Some(path.clone()),
        Seen::Wait(_) => None,
    });
    paths.filter(|path| path.contains("first=")).collect()
}

/// An answer that is lost on the way is asked for again, and only that one.
#[test]
fn an_answer_that_is_lost_is_asked_for_again() {
    let person = &PEOPLE[0];
    let mut relays = pair(&board(144, &mine(person, &[7, 140])));
    let mut state = fresh();
    let mut lost = 0;
    relays[0].tamper = Some(Box::new(move |request, response| {
        lost += u32::from(request.path.contains("first=50"));
        match lost {
            1 if request.path.contains("first=50") => {
                restante_client::relay::Reply::Broken(Default::default())
            }
            _ => restante_client::relay::Reply::Answer(response),
        }
    }));
    let round = round(person, whole(), &mut state, &mut relays, 1);
    assert_eq!(round.indices(), [7, 140]);
    let ranges = ranges(&round.seen);
    let unique: BTreeSet<_> = ranges.iter().collect();
    assert_eq!(ranges.len(), unique.len() + 1);
}

/// Blocks that are full, and several answers.
#[test]
fn digests_of_several_blocks_are_followed_to_the_end() {
    let person = &PEOPLE[1];
    let count = 2 * BLOCK as u64 + 100;
    let indices = [1, BLOCK as u64 - 1, BLOCK as u64, 2 * BLOCK as u64 + 90];
    let mut relays = pair(&board(count, &mine(person, &indices)));
    for relay in &mut relays {
        relay.window = 1 << 14;
    }
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    let first = round_until(person, private(2), &mut state, &mut relays, 1, End::Broken(7));
    assert!(first.error.is_some_and(|error| error.is_retryable()));
    assert_eq!((first.received.len(), state.complete_to()), (0, BLOCK as u64));
    let rest = round(person, private(2), &mut state, &mut relays, 2);
    assert_eq!(rest.indices(), indices);
    assert_eq!(state.complete_to(), count);

    // A round that takes two answers ends there, and asks for records as every other does; the next goes on.
    let config = SyncConfig { bounds: Bounds { answers: 2, ..Bounds::default() }, ..private(2) };
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    let first = round(person, config, &mut state, &mut relays, 1);
    assert!(first.error.is_none() && first.outcome.unfinished, "{:?}", first.error);
    assert_eq!((first.indices(), state.complete_to()), (indices[..3].to_vec(), 2 * BLOCK as u64));
    let second = round(person, config, &mut state, &mut relays, 1);
    assert_eq!((second.indices(), second.outcome.unfinished), (indices[3..].to_vec(), false));
    let fetches = |round: &Round| {
        let paths = round
            .seen
            .iter()
            .filter(|seen| matches!(seen, Seen::Request { path, .. } if path.ends_with("/fetch")));
        paths.count()
    };
    assert_eq!((fetches(&first), fetches(&second)), (2, 2));
}

/// Messages that the epochs have left behind before the client came are read whole, which everybody in its place does.
#[test]
fn what_no_epoch_holds_any_more_is_read() {
    let person = &PEOPLE[0];
    let indices = [2, 60, 100, 140];
    let mut relays = pair(&board(144, &mine(person, &indices)));
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    let round = round(person, private(4), &mut state, &mut relays, 2);
    assert_eq!(round.indices(), indices);
    let pages: Vec<_> = ranges(&round.seen).into_iter().filter(|path| path.contains("messages")).collect();
    assert_eq!(pages, ["/v1/messages?first=0&end=80", "/v1/messages?first=50&end=80"]);
}

/// More messages than fetches, until the epochs move on: what is lost is named, and nothing else is sent for it.
#[test]
fn a_backlog_that_outlives_its_epoch_is_reported() {
    let person = &PEOPLE[0];
    let indices: Vec<u64> = (0..16).collect();
    let all = board(96, &mine(person, &indices));
    let mut relays = pair(&all[..16]);
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    let first = round(person, private(3), &mut state, &mut relays, 2);
    // The newest three, and any three.
    assert!(first.received.len() == 6 && first.indices().ends_with(&[13, 14, 15]));
    assert_eq!((first.outcome.backlog, first.outcome.overdue.len()), (10, 0));
    // They wait for further fetches, and not for an epoch.
    assert_eq!((first.outcome.awaiting_epoch, first.outcome.epoch_end), (0, Some(16)));
    let rest: Vec<u64> = indices.iter().copied().filter(|index| !first.indices().contains(index)).collect();
    for relay in &mut relays {
        relay.messages = all.clone();
    }
    let second = round(person, private(3), &mut state, &mut relays, 3);
    assert!(second.received.is_empty());
    let mut overdue = second.outcome.overdue;
    overdue.sort_unstable();
    assert_eq!(overdue, rest);
    // They are remembered until they are read.
    let third = round(person, private(3), &mut state, &mut relays, 4);
    assert!(third.outcome.overdue.is_empty());
    assert_eq!(state.lost().flatten().collect::<Vec<_>>(), rest);
    let range = Delivery::Range { first: rest[0], end: rest[0] + 1 };
    let read = round(person, SyncConfig::new(range), &mut state, &mut relays, 5);
    assert_eq!(
        (read.indices(), state.lost().flatten().collect::<Vec<_>>()),
        (vec![rest[0]], rest[1..].to_vec())
    );
    // The caller decides to read the range, whole.
    let mut again = fresh();
    assert_eq!(round(person, whole(), &mut again, &mut relays, 4).indices(), indices);
}

/// A stale answer that looks fresh: the digests end before the board that the head counts, and the client says so.
#[test]
fn digests_that_lag_behind_the_signed_head_are_noticed() {
    let person = &PEOPLE[0];
    let mut relays = pair(&board(48, &mine(person, &[3, 40])));
    relays[0].detected_to = Some(30);
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    let behind = round(person, private(4), &mut state, &mut relays, 2);
    assert_eq!((behind.indices(), behind.outcome.behind, state.complete_to()), (vec![3], 18, 30));
    relays[0].detected_to = None;
    let caught_up = round(person, private(4), &mut state, &mut relays, 3);
    assert_eq!((caught_up.indices(), caught_up.outcome.behind), (vec![40], 0));
}

/// Whoever posts garbage with a clue for somebody keeps nobody from the messages after it, and changes no request.
#[test]
fn malformed_messages_are_counted_and_passed_over() {
    let person = &PEOPLE[0];
    let mut messages = board(32, &mine(person, &[4, 9]));
    // Only who has the address can: a clue is bound to its payload.
    let maker = person.account.address().clue_key().prepare();
    for (index, payload) in [(5, vec![0; 1536]), (6, vec![]), (7, vec![1; 77])] {
        let draft = maker.draft(today(), &mut Seed::from([index as u8; 32]).stream("test", &[]));
        let binding = Binding::new(&BOARD, &draft.bound_hash(), &Hash::of(&payload));
        messages[index] = PageMessage { clue: draft.bind(&binding).to_bytes(), payload };
    }
    // A clue whose residues are out of range, for everybody.
    let mut clue = vec![255; PARAMETERS.clue_bytes()];
    clue[..4].copy_from_slice(&today().0.to_le_bytes());
    messages[8] = PageMessage { clue, payload: vec![0; 1536] };
    for config in [whole(), private(8)] {
        let mut relays = pair(&messages);
        let mut state = fresh();
        register(person, &mut relays, &mut state, 1);
        let round = round(person, config, &mut state, &mut relays, 2);
        assert_eq!((round.indices(), round.outcome.unopened), (vec![4, 9], 3), "{config:?}");
    }
}

#[test]
fn forgotten_messages_are_not_passed_over_in_silence() {
    let person = &PEOPLE[0];
    let mut relays = pair(&board(40, &mine(person, &[3, 20])));
    relays[0].retained_from = 16;
    let mut state = fresh();
    let refused = round(person, whole(), &mut state, &mut relays, 1).error.unwrap();
    assert!(matches!(refused, RelayError::Forgotten { complete_to: 0, retained_from: 16 }));
    assert_eq!(state.complete_to(), 0);
    state.skip_to(16);
    assert_eq!(round(person, whole(), &mut state, &mut relays, 1).indices(), [20]);
}

/// A client that was away until the relay could prove no more that its board is the one that the client knows.
#[test]
fn a_head_that_nothing_can_be_proved_about_is_given_up_by_the_caller_alone() {
    let person = &PEOPLE[0];
    let all = board(64, &mine(person, &[3, 50]));
    let mut relays = pair(&all[..10]);
    let mut state = fresh();
    assert_eq!(round(person, whole(), &mut state, &mut relays, 1).indices(), [3]);
    relays[0].messages = all;
    relays[0].retained_from = 32;
    state.skip_to(32);
    let gone = round(person, whole(), &mut state, &mut relays, 1).error.unwrap();
    assert!(matches!(gone, RelayError::Gone { .. }) && !gone.is_retryable(), "{gone}");
    state.forget_heads();
    assert!(state.relay(Side::First).key.is_some());
    assert_eq!(round(person, whole(), &mut state, &mut relays, 1).indices(), [50]);
}

/// A backlog whose messages the relay has forgotten does not stop the client.
#[test]
fn a_forgotten_backlog_is_overdue() {
    let person = &PEOPLE[0];
    let indices: Vec<u64> = (0..16).collect();
    let all = board(160, &mine(person, &indices));
    let mut relays = pair(&all[..16]);
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    relays.iter_mut().for_each(|relay| relay.fetch.as_mut().unwrap().messages = 32);
    assert!(round(person, private(2), &mut state, &mut relays, 2).received.is_empty());
    assert_eq!((state.complete_to(), state.backlog()), (16, 16));
    for relay in &mut relays {
        relay.messages = all.clone();
        relay.retained_from = 16;
    }
    let later = round(person, private(2), &mut state, &mut relays, 3);
    assert!(later.error.is_none(), "{:?}", later.error);
    let mut overdue = later.outcome.overdue;
    overdue.sort_unstable();
    assert_eq!((overdue, state.backlog()), (indices, 0));
    assert!(state.lost().eq(std::iter::once(0..16)));
}

/// A message that is longer than a record comes as an empty one; the client says which, and reads on.
#[test]
fn messages_longer_than_a_record_are_named() {
    let person = &PEOPLE[0];
    let mut messages = board(32, &mine(person, &[4, 9]));
    let mut rng = crate::world::rng(7);
    let long =
        person.account.address().prepare().write_message(&BOARD, today(), &[1; 2000], &mut rng).unwrap();
    messages[6] = PageMessage { clue: long.clue, payload: long.payload };
    let mut relays = pair(&messages);
    relays.iter_mut().for_each(|relay| relay.fetch.as_mut().unwrap().record_bytes = 4200);
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    let round = round(person, private(8), &mut state, &mut relays, 2);
    assert_eq!((round.indices(), round.outcome.too_long), (vec![4, 9], vec![6]));
    assert!(round.outcome.short_records);
    assert!(state.lost().eq(std::iter::once(6..7)));
}

/// From the seed alone, and a new registration, everything that the board still has is found again.
#[test]
fn everything_is_found_again_from_the_seed() {
    let person = &PEOPLE[0];
    let mut relays = pair(&board(32, &mine(person, &[1, 30])));
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    let before = round(person, private(4), &mut state, &mut relays, 1).indices();
    let recovered = Person::new(1);
    assert_eq!(recovered.detection.key_file(), person.detection.key_file());
    let mut state = fresh();
    register(&recovered, &mut relays, &mut state, 9);
    assert_eq!(relays[0].registrations(), 2);
    assert_eq!(round(&recovered, private(4), &mut state, &mut relays, 1).indices(), before);
}

/// Two relays with roles, in either order.
#[test]
fn relays_that_serve_one_side_only_get_the_query_for_it() {
    let person = &PEOPLE[0];
    for roles in [[Some(0), Some(1)], [Some(1), Some(0)], [None, Some(0)], [Some(1), None]] {
        let mut relays = pair(&board(32, &mine(person, &[1])));
        for (relay, role) in relays.iter_mut().zip(roles) {
            relay.fetch.as_mut().unwrap().server = role;
            relay.tamper = Some(Box::new(move |request, response| {
                if request.path.ends_with("/fetch") {
                    let query = restante_pir::fetch::Query::from_file(&request.body).unwrap();
                    assert!(role.is_none_or(|role| role == query.party()));
                }
                restante_client::relay::Reply::Answer(response)
            }));
        }
        let mut state = fresh();
        register(person, &mut relays, &mut state, 1);
        assert_eq!(round(person, private(2), &mut state, &mut relays, 1).indices(), [1]);
    }
    let mut relays = pair(&board(32, &[]));
    relays.iter_mut().for_each(|relay| relay.fetch.as_mut().unwrap().server = Some(1));
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    assert!(round(person, private(2), &mut state, &mut relays, 1).error.is_some());
}

#[test]
fn messages_that_arrive_in_the_middle_of_a_round_wait_for_the_next() {
    let person = &PEOPLE[0];
    let all = board(120, &mine(person, &[10, 110]));
    let mut relays = pair(&all[..100]);
    let mut state = fresh();
    let key = relays[0].key.clone();
    let grown = all.clone();
    relays[0].tamper = Some(Box::new(move |request, response| {
        // The page is proved by a head that counts more messages than the round began with.
        let range = request.path.strip_prefix("/v1/messages?first=");
        let Some((first, end)) = range.and_then(|range| range.split_once("&end=")) else {
            if request.path.starts_with("/v1/consistency") {
                let mut relay = FakeRelay::new(10, PEOPLE[0].detection.context(), NOW);
                relay.messages = grown.clone();
                return relay.ask(request);
            }
            return restante_client::relay::Reply::Answer(response);
        };
        let mut relay = FakeRelay::new(10, PEOPLE[0].detection.context(), NOW);
        relay.key = key.clone();
        relay.messages = grown.clone();
        let (first, end): (u64, u64) = (first.parse().unwrap(), end.parse().unwrap());
        restante_client::relay::Reply::Answer(crate::fake::ok(
            relay.page(first..end.min(first + 50)).to_body(),
        ))
    }));
    let first = round(person, whole(), &mut state, &mut relays, 1);
    assert!(first.error.is_none(), "{:?}", first.error);
    assert_eq!((first.indices(), state.complete_to()), (vec![10], 100));
    assert_eq!(state.relay(Side::First).head.unwrap().count, 120);
    relays[0].tamper = None;
    relays[0].messages = all;
    assert_eq!(round(person, whole(), &mut state, &mut relays, 1).indices(), [110]);
}

/// What a relay holds for an account, its detection key, and the whole board open no message.
#[test]
fn a_detection_key_and_the_whole_board_decrypt_nothing() {
    let person = &PEOPLE[0];
    let messages = board(24, &mine(person, &[2, 3, 5, 7, 11, 13]));
    let key = DetectionKey::from_file(person.detection.context(), person.detection.key_file()).unwrap();
    // Every window of 32 bytes of the key, taken for the seed of an account, and some of the ways to derive one.
    let file = key.to_file();
    let mut seeds: Vec<[u8; 32]> =
        file.windows(32).step_by(8191).map(|window| window.try_into().unwrap()).collect();
    seeds.push(file[24..56].try_into().unwrap());
    seeds.push(*blake3::hash(&file).as_bytes());
    for seed in seeds {
        let relay = Account::from_seed(PARAMETERS, seed.into());
        for message in &messages {
            assert_eq!(relay.open(&BOARD, &message.clue, &message.payload), Err(LetterError::NotForUs));
        }
    }
    let texts = messages
        .iter()
        .filter(|message| person.account.open(&BOARD, &message.clue, &message.payload).is_ok());
    assert_eq!(texts.count(), 6);
    for message in &messages {
        assert!(!contains(&message.payload, b"message"));
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn state_files_read_back_and_damaged_ones_are_refused() {
    let person = &PEOPLE[0];
    let mut relays = pair(&board(40, &mine(person, &[3, 35])));
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    round(person, private(4), &mut state, &mut relays, 2);
    let file = state.to_file();
    assert_eq!(*SyncState::from_file(&file).unwrap().to_file(), *file);
    let body = Envelope::open(&file).unwrap().body;
    let seal = |body: &[u8]| {
        let parameters = PARAMETERS.id();
        Envelope { kind: Kind::SyncState, version: SyncState::VERSION, parameters, body }.seal()
    };
    for length in (0..2000).chain(body.len() - 100..body.len()) {
        assert!(SyncState::from_file(&seal(&body[..length])).is_err(), "{length}");
    }
    let mut huge = body.to_vec();
    let place = 2 * (33 + 17 + 1 + 160) + 16;
    huge[place..place + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(SyncState::from_file(&seal(&huge)).is_err());
    assert!(!format!("{state:?}").contains("rst1_"));
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let person = &PEOPLE[0];
    let machine = |config, state| {
        SyncMachine::new(&person.account, AnyDetection::Stream(&person.detection), config, state).err()
    };
    assert!(matches!(machine(private(4), fresh()), Some(RelayError::Configuration(_))), "not registered");
    let mut relays = pair(&board(1, &[]));
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    for fetches in [0, 1025] {
        assert!(matches!(machine(private(fetches), state.clone()), Some(RelayError::Configuration(_))));
    }
    assert!(machine(private(1024), state).is_none());
    let short = SyncState::new(restante_clue::ClueParameters::SHORT, 0, KnownRelay::default());
    assert!(matches!(machine(whole(), short), Some(RelayError::Configuration(_))));
}

/// With somebody else's state, everything before its cursors would be lost without a word.
#[test]
fn a_state_is_one_accounts() {
    let [alice, bob, _] = &*PEOPLE;
    let messages = board(12, &[(3, &alice.account), (7, &bob.account)]);
    let (mut relays, mut state) = (pair(&messages), fresh());
    assert_eq!(round(alice, whole(), &mut state, &mut relays, 1).indices(), [3]);
    assert!(refused(bob, whole(), &state));
    assert!(state.claim(&bob.account).is_err() && state.claim(&alice.account).is_ok());
    let mut file = fresh();
    file.claim(&bob.account).unwrap();
    assert!(refused(alice, whole(), &SyncState::from_file(&file.to_file()).unwrap()));
}
