//! A client meets a relay, and begins where its board ends.

use restante_client::{
    RelayError,
    relay::{Driver, KnownRelay, Machine, MeetMachine, Response, Retries, Side, Step, Stopped, SyncState},
};
use restante_wire::relay::Hex;

use crate::{
    fake::{FakeRelay, PARAMETERS},
    world::{Instant, NOW, PEOPLE, board, pair, rng, round, whole},
};

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
        _ => restante_client::relay::Reply::Answer(response),
    }));
    let error = meet(&mut forged, KnownRelay::default()).err().unwrap();
    assert!(matches!(error, RelayError::Signature { .. }), "{error}");
}
