//! What somebody makes of another's messages who has not the address: copies with another tail, payload, day or board. A board takes
//! each clue once, and what it takes of them is for nobody.

use rand_core::Rng;
use restante_client::{
    Account, Period, RelayError,
    relay::{Again, Compact, Delivery, KnownRelay, Machine, Outbox, PostMachine, Retries, Step, SyncConfig},
};
use restante_clue::Clue;
use restante_wire::{
    Decode, Encode,
    relay::{DigestKind, Hex, PageMessage, PostBatch, PostMessage, media},
};

use crate::{
    fake::{BOARD, FakeRelay, PARAMETERS},
    world::{NOW, PEOPLE, board, fresh, pair, private, register, register_key, rng, round, today, whole},
};

const DAY: u64 = 24 * 3600;

/// Copies of a message with random payloads and, if they are `distinct`, each with another a': what a board takes.
fn bent(victim: &PageMessage, count: usize, distinct: bool) -> Vec<PageMessage> {
    let clue = Clue::from_bytes(&PARAMETERS, &victim.clue).unwrap();
    let q = PARAMETERS.modulus();
    let mut rng = rng(77);
    (0..count)
        .map(|n| {
            let (i, j) = ((n % 60) as u32, (n / 60) as u32);
            let [b0, b1] = *clue.b();
            let mut a = clue.a().to_vec();
            if distinct {
                // The least change that makes another a': the old test would have matched as before.
                let place = n % a.len();
                a[place] = (a[place] + 1 + (n / a.len()) as u32) % q;
            }
            let b = [(b0 + i + q - 30) % q, (b1 + j + q - 2) % q];
            let bent = Clue::from_coefficients(PARAMETERS, clue.period(), &a, b).unwrap();
            let mut payload = vec![0; 1536];
            rng.fill_bytes(&mut payload);
            PageMessage { clue: bent.to_bytes(), payload }
        })
        .collect()
}

/// Posts messages in one batch; the code of the refusal and its field.
fn post(relay: &mut FakeRelay, messages: &[PageMessage]) -> Result<(), (String, Option<String>)> {
    relay.limits.batch_messages = 4096;
    relay.limits.batch_bytes = 1 << 30;
    let batch = messages.iter().map(|one| {
        let mut id = restante_wire::relay::MessageId([0; 16]);
        rng(relay.count() as u8).fill_bytes(&mut id.0);
        id.0[..8].copy_from_slice(&one.hashes().payload.0[..8]);
        PostMessage { id, clue: one.clue.clone(), payload: one.payload.clone() }
    });
    let body = PostBatch(batch.collect()).to_body(PARAMETERS.id());
    let mut request = first_request();
    request.method = restante_client::relay::Method::Post;
    request.path = "/v1/messages".into();
    request.headers = vec![("content-type", media::POST.into())];
    request.body = body;
    let restante_client::relay::Reply::Answer(answer) = relay.ask(&request) else { panic!("no answer") };
    match answer.status {
        200 => Ok(()),
        _ => {
            let problem: restante_wire::relay::Problem = serde_json::from_slice(&answer.body).unwrap();
            Err((problem.code().to_owned(), problem.field))
        }
    }
}

/// A request to change.
fn first_request() -> restante_client::relay::Request {
    let outbox = Outbox::new(PARAMETERS);
    let mut machine = PostMachine::new(outbox, KnownRelay::default(), 1, Retries::default());
    let Step::Ask(request) = machine.step() else { panic!("a machine asks") };
    request
}

#[test]
fn a_batch_made_from_one_clue_is_refused() {
    let mut relay = FakeRelay::new(10, PEOPLE[0].detection.context(), NOW);
    relay.messages = board(8, &[(3, &PEOPLE[0].account)]);
    let copies = bent(&relay.messages[3], 256, false);
    let distinct: std::collections::HashSet<_> = copies.iter().map(|one| one.clue.clone()).collect();
    assert_eq!(distinct.len(), 256);
    let refusal = post(&mut relay, &copies).unwrap_err();
    assert_eq!(refusal, ("duplicate".into(), Some("body:messages[0].clue".into())));
    // Two of a clue that the board does not have yet are one too many.
    let new = board(9, &[])[8].clone();
    let refusal = post(&mut relay, &bent(&new, 2, false)).unwrap_err();
    assert_eq!(refusal, ("duplicate".into(), Some("body:messages[1].clue".into())));
    assert_eq!(relay.count(), 8);
}

#[test]
fn bent_copies_are_pertinent_to_nobody() {
    let messages = board(8, &[(3, &PEOPLE[0].account)]);
    for distinct in [false, true] {
        for copy in bent(&messages[3], 256, distinct) {
            assert!(
                PEOPLE
                    .iter()
                    .all(|one| !one.account.is_pertinent(&BOARD, &copy.clue, &copy.payload).unwrap())
            );
        }
    }
}

#[test]
fn bent_copies_hide_nothing_from_compact_delivery() {
    let person = &PEOPLE[0];
    let mut messages = board(64, &[(3, &person.account)]);
    // One window with 13 of them had overflowed a second look with room for 12.
    for (slot, copy) in (4..17).zip(bent(&messages[3], 13, true)) {
        messages[slot] = copy;
    }
    let settings = Compact {
        messages: 16,
        again: Some(Again { messages: 32, capacity: 12 }),
        polls: 5,
        ..Compact::new(4, 1536)
    };
    let mut relays = pair(&messages);
    relays[0].compact = Some(1000);
    relays[0].limits.upload_part_bytes = 1 << 20;
    let mut state = fresh();
    register_key(person, DigestKind::Compact, &mut relays[0], &mut state, 1);
    let out = round(person, SyncConfig::new(Delivery::Compact(settings)), &mut state, &mut relays, 2);
    assert!(out.error.is_none());
    assert_eq!(out.indices(), [3]);
    assert!(out.outcome.overflowed.is_empty() && out.outcome.lost.is_empty());
}

#[test]
fn bent_copies_starve_nothing_in_private_delivery() {
    let person = &PEOPLE[0];
    // Epochs of 16 messages, a window of 64, a round for each epoch with two fetches, and ten copies in each epoch.
    let own = [3u64, 90, 130, 200].map(|index| (index, &person.account));
    let mut messages = board(16 * 16, &own);
    let mut copies = bent(&messages[3], 160, true).into_iter();
    for epoch in 1..16 {
        let slots = (0..16).map(|slot| 16 * epoch + slot).filter(|slot| ![90, 130, 200].contains(slot));
        for slot in slots.take(10) {
            messages[slot] = copies.next().unwrap();
        }
    }
    let mut relays = pair(&messages[..16]);
    let mut state = fresh();
    register(person, &mut relays, &mut state, 1);
    let (mut got, mut overdue) = (Vec::new(), Vec::new());
    for number in 1..=16u64 {
        for relay in &mut relays {
            relay.messages = messages[..16 * number as usize].to_vec();
            relay.now += 60;
        }
        let out = round(person, private(2), &mut state, &mut relays, number as u8);
        assert!(out.error.is_none());
        got.extend(out.indices());
        overdue.extend(out.outcome.overdue);
    }
    assert_eq!((got, overdue), (vec![3, 90, 130, 200], vec![]));
}

#[test]
fn bent_copies_have_no_effect_on_whole_reading() {
    let person = &PEOPLE[0];
    let messages = board(30, &[(3, &person.account)]);
    let quiet = round(person, whole(), &mut fresh(), &mut pair(&messages), 1);
    let mut flooded = messages.clone();
    for (slot, copy) in (4..24).zip(bent(&messages[3], 20, true)) {
        flooded[slot] = copy;
    }
    let out = round(person, whole(), &mut fresh(), &mut pair(&flooded), 1);
    assert!(out.error.is_none());
    assert_eq!((out.indices(), out.outcome.unopened), (vec![3], 0));
    assert_eq!(out.seen, quiet.seen);
}

/// A relay that does not keep to the rule, and shows a message again with another tail, or as it is.
#[test]
fn a_message_that_a_relay_shows_twice_is_one_text_and_changes_no_request() {
    let person = &PEOPLE[0];
    let mut messages = board(40, &[(3, &person.account)]);
    let quiet = round(person, whole(), &mut fresh(), &mut pair(&messages), 1);
    let clue = Clue::from_bytes(&PARAMETERS, &messages[3].clue).unwrap();
    let [b0, b1] = *clue.b();
    let nudged = Clue::from_coefficients(PARAMETERS, clue.period(), clue.a(), [b0 ^ 1, b1]).unwrap();
    messages[7] = messages[3].clone();
    messages[9] = PageMessage { clue: nudged.to_bytes(), payload: messages[3].payload.clone() };
    messages[35] = messages[3].clone();
    let (mut relays, mut state) = (pair(&messages), fresh());
    // In two rounds: what was read is in the state.
    relays[0].messages.truncate(20);
    let first = round(person, whole(), &mut state, &mut relays, 1);
    assert_eq!(first.indices(), [3]);
    relays[0].messages = messages.clone();
    relays[0].now += 1;
    let second = round(person, whole(), &mut state, &mut relays, 1);
    assert!(second.error.is_none() && second.received.is_empty() && second.outcome.unopened == 0);
    assert_eq!((first.outcome.repeated, second.outcome.repeated), (2, 1));
    let all = round(person, whole(), &mut fresh(), &mut pair(&messages), 1);
    assert_eq!((all.indices(), all.seen), (vec![3], quiet.seen));
}

/// What somebody with the address makes who sees a message on its way: another text with the same a', and the tag that goes with it.
fn forged(account: &Account, message: &PageMessage, text: &str) -> PageMessage {
    let sender = account.address().prepare();
    let payload = sender.seal(&BOARD, &message.clue, text.as_bytes(), &mut rng(5)).unwrap();
    let clue = Clue::from_bytes(&PARAMETERS, &message.clue).unwrap();
    let q = u64::from(PARAMETERS.modulus());
    let vector = |payload: &[u8]| {
        let one = PageMessage { clue: message.clue.clone(), payload: payload.to_vec() };
        PARAMETERS.binding_vector(&one.hashes().binding(&BOARD))
    };
    let (new, old) = (vector(&payload), vector(&message.payload));
    let tags = account.address().clue_key().tags();
    let b = std::array::from_fn(|c| {
        let tag = |vector: &[u32]| -> u64 {
            tags[c].iter().zip(vector).map(|(a, b)| u64::from(*a) * u64::from(*b) % q).sum()
        };
        ((u64::from(clue.b()[c]) + tag(&new) + 7 * q - tag(&old)) % q) as u32
    });
    let clue = Clue::from_coefficients(PARAMETERS, clue.period(), clue.a(), b).unwrap();
    PageMessage { clue: clue.to_bytes(), payload }
}

/// A relay that works with somebody who has the address shows a forgery with a message's clue before the message: both are
/// read, as nobody can tell which is the copy. By the clue alone the message itself was left out, and nothing said so.
#[test]
fn another_payload_with_a_messages_clue_does_not_hide_the_message() {
    let person = &PEOPLE[0];
    let mut messages = board(40, &[(9, &person.account)]);
    messages[7] = forged(&person.account, &messages[9], "message 7");
    assert!(person.account.is_pertinent(&BOARD, &messages[7].clue, &messages[7].payload).unwrap());
    assert_eq!(messages[7].hashes().bound, messages[9].hashes().bound);
    // And the message once more, which is one too many.
    messages[20] = messages[9].clone();
    let compact = Compact { polls: 5, ..Compact::new(4, 1536) };
    for config in [whole(), private(8), SyncConfig::new(Delivery::Compact(compact))] {
        let (mut relays, mut state) = (pair(&messages), fresh());
        relays[0].compact = Some(1000);
        relays[0].limits.upload_part_bytes = 1 << 20;
        match config.delivery {
            Delivery::Compact(_) => register_key(person, DigestKind::Compact, &mut relays[0], &mut state, 1),
            _ => register(person, &mut relays, &mut state, 1),
        }
        let out = round(person, config, &mut state, &mut relays, 2);
        assert!(out.error.is_none(), "{:?}", out.error);
        assert_eq!((out.indices(), out.outcome.repeated), (vec![7, 9], 1), "{config:?}");
    }
}

/// Both relays work together, and make an epoch that has a message of a day that is long closed, or has not begun.
#[test]
fn records_of_closed_days_are_left_out_and_named() {
    let person = &PEOPLE[0];
    let mut messages = board(32, &[(3, &person.account), (20, &person.account)]);
    let of_day = |index: u64, day: u32| {
        let sender = person.account.address().prepare();
        let text = format!("message {index}");
        let seed = &mut rng(index as u8);
        let message = sender.write_message(&BOARD, Period(day), text.as_bytes(), seed).unwrap();
        PageMessage { clue: message.clue, payload: message.payload }
    };
    for (index, days) in [(17, -3i64), (18, -2), (19, 1), (21, 2)] {
        messages[index as usize] = of_day(index, (i64::from(today().0) + days) as u32);
    }
    let (mut relays, mut state) = (pair(&messages[..16]), fresh());
    register(person, &mut relays, &mut state, 1);
    assert_eq!(round(person, private(32), &mut state, &mut relays, 1).indices(), [3]);
    for relay in &mut relays {
        relay.messages = messages.clone();
        relay.now += 60;
    }
    let out = round(person, private(32), &mut state, &mut relays, 2);
    assert!(out.error.is_none(), "{:?}", out.error);
    assert_eq!((out.indices(), out.outcome.misdated), (vec![18, 19, 20], 2));
    // Of what was there before the client came, only that is known which had not begun.
    let (mut relays, mut state) = (pair(&messages), fresh());
    register(person, &mut relays, &mut state, 1);
    let out = round(person, private(32), &mut state, &mut relays, 2);
    assert_eq!((out.indices(), out.outcome.misdated), (vec![3, 17, 18, 19, 20], 1));
}

#[test]
fn a_replay_on_a_later_day_is_refused_or_pertinent_to_nobody() {
    let person = &PEOPLE[0];
    let mut relay = FakeRelay::new(10, person.detection.context(), NOW);
    relay.messages = board(8, &[(3, &person.account)]);
    let old = relay.messages[3].clone();
    // A board that has forgotten it.
    relay.messages = board(3, &[]);
    relay.now += 2 * DAY;
    let refusal = post(&mut relay, std::slice::from_ref(&old)).unwrap_err();
    assert_eq!(refusal, ("period".into(), Some("body:messages[0].clue".into())));
    let mut redated = old.clone();
    redated.clue[..4].copy_from_slice(&(today().0 + 2).to_le_bytes());
    post(&mut relay, std::slice::from_ref(&redated)).unwrap();
    assert!(!person.account.is_pertinent(&BOARD, &redated.clue, &redated.payload).unwrap());
    assert!(person.account.open(&BOARD, &redated.clue, &redated.payload).is_err());
}

#[test]
fn a_message_that_is_copied_to_another_board_is_pertinent_to_nobody_there() {
    let person = &PEOPLE[0];
    let messages = board(8, &[(3, &person.account)]);
    let other = restante_client::BoardId([1; 16]);
    assert!(person.account.is_pertinent(&BOARD, &messages[3].clue, &messages[3].payload).unwrap());
    assert!(!person.account.is_pertinent(&other, &messages[3].clue, &messages[3].payload).unwrap());
    assert!(person.account.open(&other, &messages[3].clue, &messages[3].payload).is_err());
    // By each delivery.
    let copied = |relays: &mut [FakeRelay; 2]| relays.iter_mut().for_each(|relay| relay.board = other);
    let mut relays = pair(&messages);
    copied(&mut relays);
    let out = round(person, whole(), &mut fresh(), &mut relays, 1);
    assert!(out.error.is_none(), "{:?}", out.error);
    assert_eq!((out.indices(), out.outcome.unopened), (vec![], 0));
    let mut relays = pair(&messages);
    copied(&mut relays);
    relays[0].compact = Some(1000);
    relays[0].limits.upload_part_bytes = 1 << 20;
    let mut state = fresh();
    register_key(person, DigestKind::Compact, &mut relays[0], &mut state, 1);
    let settings = Delivery::Compact(Compact { polls: 5, ..Compact::new(4, 1536) });
    let out = round(person, SyncConfig::new(settings), &mut state, &mut relays, 2);
    assert!(out.error.is_none(), "{:?}", out.error);
    assert_eq!((out.indices(), out.outcome.unopened), (vec![], 0), "{:?}", out.outcome);
}

#[test]
fn a_client_stays_with_one_board() {
    let person = &PEOPLE[0];
    let messages = board(8, &[(3, &person.account)]);
    let other = restante_client::BoardId([1; 16]);
    let (mut relays, mut state) = (pair(&messages), fresh());
    round(person, whole(), &mut state, &mut relays, 1);
    assert_eq!(state.board(), Some(BOARD));
    relays[0].board = other;
    relays[0].now += 1;
    let error = round(person, whole(), &mut state, &mut relays, 1).error.unwrap();
    assert!(matches!(error, RelayError::OtherBoard { .. }) && error.is_misbehaviour(), "{error}");
    // Two relays that have not the same board.
    let mut relays = pair(&messages);
    relays[1].board = other;
    let config = SyncConfig::new(Delivery::Whole { second: true });
    let error = round(person, config, &mut fresh(), &mut relays, 1).error.unwrap();
    assert!(error.to_string().contains("board of the second relay"), "{error}");
}

/// Parameters are not signed: whoever stands on the way can put another board's id there.
#[test]
fn the_board_is_that_of_the_signed_head_whatever_the_parameters_say() {
    let person = &PEOPLE[0];
    let other = restante_client::BoardId([1; 16]);
    let lie = || -> crate::fake::Tamper {
        Box::new(move |request, mut response| {
            if request.path == "/v1/parameters" {
                let mut info: restante_wire::relay::RelayInfo =
                    serde_json::from_slice(&response.body).unwrap();
                info.board.id = Hex(other.0);
                response.body = serde_json::to_vec(&info).unwrap();
            }
            restante_client::relay::Reply::Answer(response)
        })
    };
    let mut relay = FakeRelay::new(10, person.detection.context(), NOW);
    relay.tamper = Some(lie());
    let mut outbox = Outbox::new(PARAMETERS);
    outbox.push(person.account.address(), b"text", &mut rng(2)).unwrap();
    let mut machine = PostMachine::new(outbox, KnownRelay::default(), 3600, Retries::default());
    let mut rng = rng(1);
    loop {
        match machine.step() {
            Step::Ask(request) => machine.respond(relay.ask(&request), NOW, &mut rng).unwrap(),
            Step::Wait(_) => {}
            Step::Done => break,
        }
    }
    assert_eq!((relay.count(), machine.known().board), (1, Some(BOARD)));
    let posted = &relay.messages[0];
    assert!(person.account.is_pertinent(&BOARD, &posted.clue, &posted.payload).unwrap());
    let mut relays = pair(&board(8, &[(3, &person.account)]));
    relays[0].tamper = Some(lie());
    let mut state = fresh();
    let out = round(person, whole(), &mut state, &mut relays, 1);
    assert_eq!((out.indices(), state.board()), (vec![3], Some(BOARD)));
    // Of a board that is known nothing else is believed, and nothing is remembered of it.
    relays[0].now += 1;
    let error = round(person, whole(), &mut state, &mut relays, 1).error.unwrap();
    assert!(matches!(error, RelayError::OtherBoard { .. }), "{error}");
    relays[0].tamper = None;
    assert!(round(person, whole(), &mut state, &mut relays, 1).error.is_none());
}

#[test]
fn pages_with_days_that_were_closed_or_had_not_begun_are_refused() {
    let person = &PEOPLE[0];
    for (days, index) in [(-3i64, 6), (2, 6), (i64::from(u32::MAX - today().0), 6)] {
        let mut messages = board(12, &[(9, &person.account)]);
        let day = (i64::from(today().0) + days) as u32;
        messages[index].clue[..4].copy_from_slice(&day.to_le_bytes());
        let mut relays = pair(&messages);
        let mut state = fresh();
        let error = round(person, whole(), &mut state, &mut relays, 1).error.unwrap();
        let named = matches!(error, RelayError::Period { index: 6, found, .. } if found == day);
        assert!(named && error.is_misbehaviour(), "{error}");
        // Over two rounds, too.
        let (mut relays, mut state) = (pair(&messages), fresh());
        relays[0].messages.truncate(6);
        assert!(round(person, whole(), &mut state, &mut relays, 1).error.is_none());
        relays[0].messages = messages;
        let error = round(person, whole(), &mut state, &mut relays, 1).error.unwrap();
        assert!(matches!(error, RelayError::Period { index: 6, .. }), "{error}");
    }
}

/// Somebody who sees a message on its way and posts its clue first.
#[test]
fn a_message_whose_clue_was_taken_on_the_way_is_made_anew() {
    let person = &PEOPLE[0];
    let mut relay = FakeRelay::new(10, person.detection.context(), NOW);
    let mut rng = rng(1);
    let mut outbox = Outbox::new(PARAMETERS);
    for text in ["one", "two", "three"] {
        outbox.push(person.account.address(), text.as_bytes(), &mut rng).unwrap();
    }
    let mut machine = PostMachine::new(outbox, KnownRelay::default(), 3600, Retries::default());
    let (mut barred, mut asked) = (0, 0);
    loop {
        match machine.step() {
            Step::Ask(request) => {
                asked += 1;
                if request.path == "/v1/messages" && barred < 2 {
                    barred += 1;
                    let batch = PostBatch::from_body(PARAMETERS.id(), PARAMETERS.clue_bytes(), &request.body);
                    let second = &batch.unwrap().0[1];
                    relay.messages.push(PageMessage { clue: second.clue.clone(), payload: vec![1; 1536] });
                }
                machine.respond(relay.ask(&request), NOW, &mut rng).unwrap();
            }
            Step::Wait(_) => {}
            Step::Done => break,
        }
        assert!(asked < 20, "it goes on for ever");
    }
    let mut texts: Vec<String> = relay
        .messages
        .iter()
        .filter(|one| person.account.is_pertinent(&BOARD, &one.clue, &one.payload).unwrap())
        .map(|one| String::from_utf8(person.account.open(&BOARD, &one.clue, &one.payload).unwrap()).unwrap())
        .collect();
    texts.sort();
    assert_eq!(
        (texts.as_slice(), machine.outbox().waiting()),
        (&["one", "three", "two"].map(String::from)[..], 0)
    );
}

#[test]
fn days_and_accounts_are_part_of_what_is_tested() {
    // The helpers above make what they say: an honest message of another day is pertinent with that day's board.
    let account: &Account = &PEOPLE[0].account;
    let message = account
        .address()
        .prepare()
        .write_message(&BOARD, Period(today().0 + 1), b"tomorrow", &mut rng(3))
        .unwrap();
    assert!(account.is_pertinent(&BOARD, &message.clue, &message.payload).unwrap());
}
