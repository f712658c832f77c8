//! A client meets a relay, and begins where its board ends.

use rand_core::Rng;
use restante_client::{
    Period, RelayError,
    relay::{
        Driver, KnownRelay, Machine, MeetMachine, Reply, Request, Response, Retries, Side, Step, Stopped,
        SyncState,
    },
};
use restante_wire::relay::{Hex, PageMessage};

use crate::{
    fake::{FakeRelay, PARAMETERS},
    world::{Instant, NOW, PEOPLE, board, pair, rng, round, today, whole},
};

/// Meets a relay, and asks where a day begins: that, and how many requests it took.
fn since(relay: &mut FakeRelay, day: u32) -> Result<(u64, usize), RelayError> {
    let machine = MeetMachine::new(PARAMETERS, KnownRelay::default(), 3600, Retries::default());
    let (mut machine, mut asked) = (machine.since(Period(day)), 0);
    loop {
        match machine.step() {
            Step::Ask(request) => {
                assert_eq!((machine.first(), machine.messages()), (None, None));
                asked += 1;
                machine.respond(relay.ask(&request), NOW, &mut rng(1))?;
            }
            Step::Done => return Ok((machine.first().unwrap(), asked)),
            Step::Wait(_) => panic!("nothing failed"),
        }
    }
}

/// Messages of these days, for nobody.
fn of_days(days: &[u32]) -> Vec<PageMessage> {
    let mut message = board(1, &[]).remove(0);
    let clues = days.iter().enumerate().map(|(index, day)| {
        message.clue[..4].copy_from_slice(&day.to_le_bytes());
        message.clue[4..12].copy_from_slice(&(index as u64).to_le_bytes());
        message.clone()
    });
    clues.collect()
}

/// The relay's day goes on by a few days now and then, and senders' clocks are a day ahead or behind.
#[test]
fn the_place_where_a_day_begins_has_no_message_of_it_before() {
    let mut rng = rng(9);
    let mut day = today().0 - 40;
    let days: Vec<u32> = (0..97)
        .map(|_| {
            let random = rng.next_u32();
            day = (day + if random % 4 == 0 { random / 4 % 4 } else { 0 }).min(today().0);
            (day + random / 16 % 3 - 1).min(today().0)
        })
        .collect();
    let mut relay = pair(&of_days(&days)).into_iter().next().unwrap();
    for wanted in (today().0 - 45..=today().0).chain([0, u32::MAX]) {
        let (first, asked) = since(&mut relay, wanted).unwrap();
        let (before, behind) = days.split_at(first as usize);
        assert!(before.iter().all(|day| *day < wanted), "{wanted} {first}");
        // And it is not much too early.
        assert!(behind.first().is_none_or(|day| *day + 2 >= wanted), "{wanted} {first}");
        assert!(asked <= 2 + 7, "{asked}");
    }
    // With older messages forgotten.
    relay.retained_from = 48;
    for wanted in [0, days[20], days[90]] {
        let (first, _) = since(&mut relay, wanted).unwrap();
        assert!(first >= 48 && days[48..first as usize].iter().all(|day| *day < wanted), "{wanted} {first}");
    }
    let mut empty = pair(&[]).into_iter().next().unwrap();
    assert_eq!(since(&mut empty, today().0).unwrap(), (0, 2));
}

#[test]
fn a_relay_that_shows_other_days_than_its_board_has_is_refused() {
    let days: Vec<u32> = (0..32).map(|index| today().0 - 31 + index).collect();
    let relay = || pair(&of_days(&days)).into_iter().next().unwrap();
    let other: Vec<u32> = days.iter().map(|day| day - 20).collect();
    // Messages that the head does not count; a page of another place; no message.
    let mut liar = pair(&of_days(&other)).into_iter().next().unwrap();
    let mut elsewhere = relay();
    let lies: [Box<dyn FnMut(&Request, Response) -> Reply>; 3] = [
        Box::new(move |request, response| {
            if !request.path.starts_with("/v1/messages") {
                return Reply::Answer(response);
            }
            liar.ask(request)
        }),
        Box::new(move |request, response| {
            if !request.path.starts_with("/v1/messages") {
                return Reply::Answer(response);
            }
            elsewhere.ask(&Request { path: "/v1/messages?first=3&end=4".into(), ..request.clone() })
        }),
        Box::new(|request, mut response| {
            if request.path.starts_with("/v1/messages") {
                let place = response.body.len() - 1600;
                response.body[place] ^= 1;
            }
            Reply::Answer(response)
        }),
    ];
    for lie in lies {
        let mut relay = relay();
        relay.tamper = Some(lie);
        let error = since(&mut relay, today().0 - 5).unwrap_err();
        assert!(!error.is_retryable(), "{error}");
    }
}

fn meet(relay: &mut FakeRelay, known: KnownRelay) -> Result<MeetMachine, RelayError> {
    let mut machine = MeetMachine::new(PARAMETERS, known, 3600, Retries::default());
    assert_eq!(machine.messages(), None);
    match Driver::new().run(&mut machine, &mut Instant(relay), &mut rng(1), |_| Ok(())) {
        Ok(()) => Ok(machine),
        Err(Stopped::Relay(error)) => {
            // What was not shown to be true is not known.
            assert_eq!((machine.messages(), machine.known().head), (None, known.head));
            Err(error)
        }
        Err(Stopped::Host(never)) => match never {},
    }
}

#[test]
fn a_client_that_begins_at_the_boards_end_gets_what_comes_behind_it() {
    let alice = &PEOPLE[0];
    let mut messages = board(9, &[(3, &alice.account), (7, &alice.account)]);
    let later = messages.split_off(5);
    let mut relays = pair(&messages);
    let machine = meet(&mut relays[0], KnownRelay::default()).unwrap();
    assert!(machine.is_first_use());
    assert_eq!(machine.messages(), Some(5));
    let mut state = SyncState::new(PARAMETERS, machine.messages().unwrap(), *machine.known());
    // The key that was met is the one that counts from then on.
    assert_eq!(state.relay(Side::First).key, Some(relays[0].relay_key()));
    assert!(round(alice, whole(), &mut state, &mut relays, 1).indices().is_empty());
    relays[0].messages.extend(later);
    assert_eq!(round(alice, whole(), &mut state, &mut relays, 2).indices(), [7]);

    // Met again, the board goes on, and is shown to.
    let machine = meet(&mut relays[0], *machine.known()).unwrap();
    assert!(!machine.is_first_use());
    assert_eq!(machine.messages(), Some(9));
}

#[test]
fn a_relay_that_is_not_the_one_that_is_known_is_refused() {
    let relay = || pair(&board(5, &[])).into_iter().next().unwrap();
    let known = *meet(&mut relay(), KnownRelay::default()).unwrap().known();
    let error = meet(&mut relay(), KnownRelay::pinned(Hex([9; 32]))).err().unwrap();
    assert!(matches!(error, RelayError::ForeignRelay { .. }), "{error}");

    let mut shorter = relay();
    shorter.messages.truncate(3);
    let error = meet(&mut shorter, known).err().unwrap();
    assert!(matches!(error, RelayError::Shrunk { .. }), "{error}");

    // A longer board that begins otherwise.
    let mut other = relay();
    other.messages = board(6, &[(0, &PEOPLE[1].account)]);
    let error = meet(&mut other, known).err().unwrap();
    assert!(matches!(error, RelayError::Inconsistent { .. }), "{error}");

    let mut stopped = relay();
    stopped.now = NOW - 2 * 3600;
    let mut machine = MeetMachine::new(PARAMETERS, known, 3600, Retries::default());
    let error = loop {
        let Step::Ask(request) = machine.step() else { panic!("it was believed") };
        if let Err(error) = machine.respond(stopped.ask(&request), NOW, &mut rng(1)) {
            break error;
        }
    };
    assert!(matches!(error, RelayError::Stale { .. }), "{error}");

    // A head that another has signed.
    let mut forged = relay();
    let mut liar = pair(&board(5, &[])).into_iter().nth(1).unwrap();
    forged.tamper = Some(Box::new(move |request, response: Response| match request.path.as_str() {
        "/v1/head" => liar.ask(request),
        _ => Reply::Answer(response),
    }));
    let error = meet(&mut forged, KnownRelay::default()).err().unwrap();
    assert!(matches!(error, RelayError::Signature { .. }), "{error}");
}
