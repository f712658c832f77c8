//! A detection key reaches the relay whole, whatever breaks, and its token is kept.

use restante_client::{
    RelayError,
    relay::{KnownRelay, RegisterMachine, Registration, Reply, Response, Retries, Side, Step, SyncState},
};

use restante_wire::relay::DigestKind;

use crate::{
    fake::FakeRelay,
    world::{NOW, PEOPLE, fresh, rng},
};

fn relay() -> FakeRelay {
    FakeRelay::new(10, PEOPLE[0].detection.context(), NOW)
}

/// Registers until it is done or stopped after some answers; the state goes through its file.
fn register(state: &mut SyncState, relay: &mut FakeRelay, stop: usize) -> Result<(), RelayError> {
    let (known, kept) = (*state.relay(Side::First), state.registration(DigestKind::Stream).cloned());
    let mut machine = RegisterMachine::new(PEOPLE[0].detection.upload(), known, kept, 0, Retries::default());
    for _ in 0..stop {
        match machine.step() {
            Step::Ask(request) => {
                let result = machine.respond(relay.ask(&request), &mut rng(1));
                state.set_registration(DigestKind::Stream, machine.registration().cloned());
                state.set_relay(Side::First, *machine.known());
                *state = SyncState::from_file(&state.to_file()).unwrap();
                result?;
            }
            Step::Wait(_) => {}
            Step::Done => break,
        }
    }
    Ok(())
}

fn complete(state: &SyncState) -> bool {
    state.registration(DigestKind::Stream).is_some_and(Registration::is_complete)
}

#[test]
fn a_key_is_uploaded_in_parts_and_only_once() {
    let (mut state, mut relay) = (fresh(), relay());
    register(&mut state, &mut relay, 100).unwrap();
    assert!(complete(&state));
    assert_eq!((relay.registrations(), state.relay(Side::First).key), (1, Some(relay.relay_key())));
    assert_eq!(state.registration(DigestKind::Stream).unwrap().key().0, PEOPLE[0].detection.key_id().0);
    relay.tamper = Some(Box::new(|_, _| panic!("nothing is left to ask")));
    register(&mut state, &mut relay, 100).unwrap();
}

#[test]
fn an_interrupted_upload_goes_on_where_it_was() {
    for stop in 0..10 {
        let (mut state, mut relay) = (fresh(), relay());
        register(&mut state, &mut relay, stop).unwrap();
        register(&mut state, &mut relay, 100).unwrap();
        assert!(complete(&state), "{stop}");
        assert_eq!(relay.registrations(), 1, "{stop}");
    }
}

#[test]
fn a_part_whose_answer_is_lost_is_not_sent_twice() {
    let (mut state, mut relay) = (fresh(), relay());
    let mut parts = 0;
    relay.tamper = Some(Box::new(move |request, response| {
        parts += u32::from(request.path.ends_with("/content") && !request.body.is_empty());
        match parts {
            1 if !request.body.is_empty() => Reply::Broken,
            // The relay would answer 409 to a part that starts where the first one did.
            _ => {
                assert_ne!(response.status, 409);
                Reply::Answer(response)
            }
        }
    }));
    register(&mut state, &mut relay, 100).unwrap();
    assert!(complete(&state));
}

#[test]
fn an_offset_that_differs_is_followed() {
    let (mut state, mut relay) = (fresh(), relay());
    register(&mut state, &mut relay, 3).unwrap();
    // Another process of the same client has sent a part in between.
    let mut other = state.clone();
    register(&mut other, &mut relay, 3).unwrap();
    register(&mut state, &mut relay, 100).unwrap();
    assert!(complete(&state));
}

#[test]
fn a_registration_that_the_relay_has_forgotten_is_made_again() {
    let (mut state, mut relay) = (fresh(), relay());
    register(&mut state, &mut relay, 3).unwrap();
    relay.forget_keys();
    register(&mut state, &mut relay, 100).unwrap();
    assert!(complete(&state));
}

#[test]
fn a_relay_that_never_takes_the_key_does_not_keep_the_client_busy_for_ever() {
    let lies: [fn(Response) -> Response; 3] = [
        |response| Response { status: 422, body: vec![], ..response },
        |response| Response { status: 401, body: vec![], ..response },
        |response| Response { status: 409, headers: vec![("upload-offset".into(), "0".into())], ..response },
    ];
    for lie in lies {
        let (mut state, mut relay) = (fresh(), relay());
        relay.tamper = Some(Box::new(move |request, response| {
            Reply::Answer(if request.path.ends_with("/content") { lie(response) } else { response })
        }));
        assert!(register(&mut state, &mut relay, 100).is_err());
    }
}

#[test]
fn a_relay_for_other_parameters_is_refused_before_anything_is_sent() {
    let (mut state, mut relay) = (fresh(), relay());
    relay.tamper = Some(Box::new(|request, mut response| {
        assert_eq!(request.path, "/v1/parameters");
        let text = String::from_utf8(response.body).unwrap();
        response.body = text.replace("\"clue_bytes\":", "\"clue_bytes\":1").into_bytes();
        Reply::Answer(response)
    }));
    assert!(matches!(register(&mut state, &mut relay, 9), Err(RelayError::Unexpected { .. })));
    let mut known = KnownRelay::pinned(restante_wire::relay::Hex([3; 32]));
    known.head = None;
    state.set_relay(Side::First, known);
    relay.tamper = None;
    assert!(matches!(register(&mut state, &mut relay, 9), Err(RelayError::ForeignRelay { .. })));
}
