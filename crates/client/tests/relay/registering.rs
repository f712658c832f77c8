//! A detection key reaches the relay whole, whatever breaks, and its token is kept.

use std::time::Duration;

use restante_client::{
    AnyDetection, Detection, RelayError,
    relay::{
        Cause, Delivery, Driver, KnownRelay, Machine, Method, Private, RegisterMachine, Registration, Reply,
        Request, Response, RetireMachine, Retries, Side, Step, Stopped, SyncConfig, SyncMachine, SyncState,
        Tail,
    },
};
use restante_omr::{OmrError, stream::BLOCK};
use restante_ring::Backend;

use restante_wire::relay::{Credential, DigestKind, Hex, KeyState, KeyStatus, Registered, headers};

use crate::{
    fake::FakeRelay,
    world::{Instant, NOW, PEOPLE, fresh, rng},
};

const PACE: Duration = Duration::from_millis(70);

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
                let result = machine.respond(relay.ask(&request), NOW, &mut rng(1));
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
            1 if !request.body.is_empty() => Reply::Broken(Default::default()),
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
    let mut known = KnownRelay::pinned(Hex([3; 32]));
    known.head = None;
    state.set_relay(Side::First, known);
    relay.tamper = None;
    assert!(matches!(register(&mut state, &mut relay, 9), Err(RelayError::ForeignRelay { .. })));
}

/// A relay that takes the key byte by byte, or always has a reason to look again where it is.
#[test]
fn a_registration_has_a_bounded_number_of_requests() {
    let ask = |limit: Option<u64>, lie: fn(&Request, Response) -> Reply| {
        let mut relay = relay();
        if let Some(limit) = limit {
            relay.limits.upload_part_bytes = limit;
        }
        let retries = Retries { attempts: 3, ..Retries::default() };
        let mut machine =
            RegisterMachine::new(PEOPLE[0].detection.upload(), KnownRelay::default(), None, 0, retries);
        for asked in 0..2000 {
            match machine.step() {
                Step::Ask(request) => {
                    let Reply::Answer(response) = relay.ask(&request) else { panic!("there is an answer") };
                    if let Err(error) = machine.respond(lie(&request, response), NOW, &mut rng(1)) {
                        return (asked, error);
                    }
                }
                Step::Wait(_) => {}
                Step::Done => panic!("it is not done"),
            }
        }
        panic!("it does not end");
    };
    // One byte more each time.
    let (asked, error) = ask(None, |request, response| {
        let Some((_, offset)) = request.headers.iter().find(|(name, _)| *name == headers::UPLOAD_OFFSET)
        else {
            return Reply::Answer(response);
        };
        let mut status: KeyStatus = serde_json::from_slice(&response.body).unwrap_or(KeyStatus {
            key: restante_wire::relay::KeyId([0; 16]),
            kind: DigestKind::Stream,
            state: KeyState::Uploading,
            bytes: 0,
            uploaded: 0,
            registered: 0,
            standing: None,
        });
        status.state = KeyState::Uploading;
        status.uploaded = offset.parse::<u64>().unwrap() + 1;
        Reply::Answer(crate::fake::ok(crate::fake::json(&status)))
    });
    assert!(asked < 200 && matches!(error, RelayError::Unexpected { .. }), "{asked}: {error}");
    // Parts that break off, and a relay that then says where it is.
    let (asked, error) = ask(None, |request, response| match request.method {
        Method::Patch => Reply::Broken(Cause::default()),
        _ => Reply::Answer(response),
    });
    assert!(asked < 400 && matches!(error, RelayError::Unexpected { .. }), "{asked}: {error}");
    // A limit of a byte.
    let (asked, error) = ask(Some(1), |_, response| Reply::Answer(response));
    assert!(asked == 0 && matches!(error, RelayError::Unexpected { .. }), "{asked}: {error}");
}

/// The relay gives a token once: it is kept although the answer that brought it was wrong.
#[test]
fn a_token_is_kept_though_the_answer_that_brought_it_is_refused() {
    let mut relay = relay();
    relay.tamper = Some(Box::new(|request, mut response| {
        if request.path == "/v1/keys" {
            let mut registered: Registered = serde_json::from_slice(&response.body).unwrap();
            registered.key.uploaded = u64::MAX;
            response.body = crate::fake::json(&registered);
        }
        Reply::Answer(response)
    }));
    let mut state = fresh();
    let upload = PEOPLE[0].detection.upload();
    let mut machine = RegisterMachine::new(upload, KnownRelay::default(), None, 0, Retries::default());
    let mut host = Instant(&mut relay);
    let result = Driver::new().run(&mut machine, &mut host, &mut rng(1), |machine| {
        state.set_registration(DigestKind::Stream, machine.registration().cloned());
        Ok(())
    });
    assert!(matches!(result, Err(Stopped::Relay(RelayError::Unexpected { .. }))));
    let token = state.registration(DigestKind::Stream).unwrap().token().clone();
    relay.tamper = None;
    register(&mut state, &mut relay, 100).unwrap();
    assert!(complete(&state) && relay.registrations() == 1);
    assert_eq!(state.registration(DigestKind::Stream).unwrap().token().hash(), token.hash());
}

/// One registration's requests: what came in the header, and what the relay says to them.
fn ask_with_credential(
    credential: &Credential,
    person: usize,
    answer: (u16, &str),
) -> (Vec<String>, RelayError) {
    let mut relay = relay();
    let mut asked = Vec::new();
    let mut machine = RegisterMachine::new(
        PEOPLE[person].detection.upload(),
        KnownRelay::default(),
        None,
        0,
        Retries::default(),
    )
    .with_credential(&PEOPLE[person].account, credential.clone());
    loop {
        let request = match machine.step() {
            Step::Ask(request) => request,
            Step::Wait(_) => continue,
            Step::Done => panic!("it was refused"),
        };
        if request.path != "/v1/keys" {
            assert!(request.authorization.is_none());
            machine.respond(relay.ask(&request), NOW, &mut rng(1)).unwrap();
            continue;
        }
        assert_eq!(
            request.authorization.as_ref().unwrap().as_str(),
            format!("Bearer {}", credential.reveal())
        );
        assert!(!format!("{request:?}").contains(&credential.reveal()));
        let id = request.headers.iter().find(|(name, _)| *name == headers::REQUEST_ID).unwrap();
        asked.push(id.1.clone());
        let (status, code) = answer;
        let body = format!(
            "{{\"type\":\"urn:restante:problem:{code}\",\"title\":\"\",\"status\":{status},\"detail\":\"because\"}}"
        );
        // Lost at first: the same request comes again.
        let reply = match asked.len() {
            1 => Reply::Broken(Default::default()),
            _ => Reply::Answer(Response { status, headers: vec![], body: body.into_bytes() }),
        };
        if let Err(error) = machine.respond(reply, NOW, &mut rng(1)) {
            return (asked, error);
        }
    }
}

#[test]
fn a_credential_names_its_registration_the_same_way_each_time() {
    let (one, other) = (Credential::new([5; 32]), Credential::new([6; 32]));
    let (asked, error) = ask_with_credential(&one, 0, (403, "credential-spent"));
    assert!(
        matches!(&error, RelayError::Credential { code, detail } if code == "credential-spent" && detail == "because"),
        "{error}"
    );
    assert!(asked.len() == 2 && asked[0] == asked[1] && asked[0].parse::<Hex<16>>().is_ok());
    let (again, error) = ask_with_credential(&one, 0, (401, "credential"));
    assert!(matches!(&error, RelayError::Credential { code, .. } if code == "credential"), "{error}");
    assert_eq!(asked, again);
    // Neither another credential's nor another account's.
    assert_ne!(asked, ask_with_credential(&other, 0, (401, "credential")).0);
    assert_ne!(asked, ask_with_credential(&one, 1, (401, "credential")).0);
}

/// Registers with a credential, from nothing, for messages from `first` on: what was asked, and what came of it.
fn register_from(relay: &mut FakeRelay, first: u64) -> (Vec<(Method, String)>, Result<(), RelayError>) {
    let (upload, known) = (PEOPLE[0].detection.upload(), KnownRelay::default());
    let mut machine = RegisterMachine::new(upload, known, None, first, Retries::default())
        .with_credential(&PEOPLE[0].account, Credential::new([5; 32]));
    let mut asked = Vec::new();
    while let Step::Ask(request) = machine.step() {
        asked.push((request.method, request.path.clone()));
        if let Err(error) = machine.respond(relay.ask(&request), NOW, &mut rng(1)) {
            return (asked, Err(error));
        }
        assert!(asked.len() < 100, "it does not end");
    }
    assert!(machine.registration().is_some_and(|one| one.is_complete() && one.is_standing()));
    (asked, Ok(()))
}

/// After a loss of the state a credential brings the registration back, with the standing order that it had.
#[test]
fn a_standing_order_from_before_is_kept_or_replaced() {
    let block = BLOCK as u64;
    let mut relay = relay();
    register_from(&mut relay, 2 * block).1.unwrap();
    // Further on: the order that is there has it all.
    let (asked, done) = register_from(&mut relay, 5 * block + 7);
    assert!(done.is_ok() && asked.iter().all(|(method, _)| *method != Method::Delete));
    assert_eq!(relay.standing(), [Some(2 * block)]);
    // Further back: it has not.
    let (asked, done) = register_from(&mut relay, block - 1);
    assert!(
        done.is_ok()
            && asked.iter().any(|(method, path)| *method == Method::Delete && path.ends_with("/standing"))
    );
    assert_eq!(relay.standing(), [Some(0)]);
    // A relay that says that there is another where there is not, and one that always has another.
    relay.tamper = Some(Box::new(|request, response| {
        Reply::Answer(match request.method {
            Method::Put => Response { status: 409, ..response },
            _ => response,
        })
    }));
    register_from(&mut relay, 0).1.unwrap();
    relay.tamper = Some(Box::new(|request, mut response| {
        if request.method == Method::Put {
            response.status = 409;
        } else if request.method == Method::Get && request.path.starts_with("/v1/keys/") {
            let text = String::from_utf8(response.body).unwrap();
            response.body = text.replace("\"first\":0", "\"first\":4096").into_bytes();
        }
        Reply::Answer(response)
    }));
    let (asked, done) = register_from(&mut relay, 0);
    assert!(matches!(done, Err(RelayError::Refused { status: 409, .. })), "{done:?}");
    assert_eq!(asked.iter().filter(|(method, _)| *method == Method::Put).count(), 4);
}

/// Whoever says that a request is not authorised which carries no token says nothing of the registration.
#[test]
fn only_the_first_relay_can_refuse_a_token() {
    let person = &PEOPLE[0];
    for (side, prefix, expected) in [
        (1, "/v1/parameters", false),
        (1, "/v1/head", false),
        (0, "/v1/parameters", false),
        (0, "/v1/keys/", true),
    ] {
        let mut relays = crate::world::pair(&crate::world::board(8, &[]));
        let mut state = fresh();
        crate::world::register(person, &mut relays, &mut state, 1);
        relays[side].tamper = Some(Box::new(move |request, response| {
            Reply::Answer(if request.path.starts_with(prefix) {
                Response { status: 401, headers: vec![], body: vec![] }
            } else {
                response
            })
        }));
        let error = crate::world::round(person, crate::world::private(2), &mut state, &mut relays, 1).error;
        let is_expected = if expected {
            matches!(error, Some(RelayError::Unauthorized))
        } else {
            matches!(error, Some(RelayError::Refused { status: 401, .. }))
        };
        assert!(is_expected, "{side} {prefix}: {error:?}");
        assert!(complete(&state));
    }
}

/// A registration whose token was refused is deleted if the relay knows it after all, unless it turns out to be the one in use.
#[test]
fn a_registration_that_was_refused_is_put_away() {
    let (mut state, mut relay) = (fresh(), relay());
    register(&mut state, &mut relay, 100).unwrap();
    let first = state.registration(DigestKind::Stream).cloned();
    state.retire(DigestKind::Stream);
    assert!(state.registration(DigestKind::Stream).is_none() && state.retired().len() == 1);
    let mut same = state.clone();
    same.set_registration(DigestKind::Stream, first);
    assert!(complete(&same) && same.retired().is_empty(), "the relay gave the same token again");
    register(&mut state, &mut relay, 100).unwrap();
    assert_eq!((relay.registrations(), state.retired().len()), (2, 1));
    for forgotten in [false, true] {
        let mut machine = RetireMachine::new(state.retired().to_vec(), PACE, Retries::default());
        if forgotten {
            relay.forget_keys();
        }
        while let Step::Ask(request) = machine.step() {
            machine.respond(relay.ask(&request), NOW, &mut rng(1)).unwrap();
        }
        assert!(machine.registrations().is_empty());
        assert_eq!(relay.registrations(), usize::from(!forgotten));
    }
}

/// Another detection key of the same account: the same mail, another name, and nothing that the one opens of the other's.
#[test]
fn a_key_is_replaced_by_another_of_the_same_account() {
    let person = &PEOPLE[0];
    let mut relays =
        crate::world::pair(&crate::world::board(32, &[(3, &person.account), (30, &person.account)]));
    let mut state = fresh();
    crate::world::register(person, &mut relays, &mut state, 1);
    let config = SyncConfig::new(Delivery::Private(Private { fetches: 4, tail: Tail::Wait }));
    let before = crate::world::round(person, config, &mut state, &mut relays, 1);
    assert_eq!(before.indices(), [3, 30]);

    let old = state.registration(DigestKind::Stream).unwrap().key();
    state.rotate(DigestKind::Stream, &mut rng(5));
    assert!(state.registration(DigestKind::Stream).is_none() && state.retired().len() == 1);
    state = SyncState::from_file(&state.to_file()).unwrap();
    let rotation = state.rotation(DigestKind::Stream);
    let rotated = Detection::rotated(&person.account, rotation, Backend::best()).unwrap();
    let others =
        [0, 1, 2].map(|number| Detection::rotated(&person.account, number, Backend::best()).unwrap());
    assert_eq!(others[0].key_file(), person.detection.key_file());
    let mut keys: Vec<&Detection> = others.iter().chain([&rotated]).collect();
    keys.sort_by_key(|key| key.key_id());
    // Ids, and what is encrypted first, behind the name of the uniform halves that all keys have in common.
    assert!(keys.windows(2).all(|pair| pair[0].key_id() != pair[1].key_id()));
    keys.sort_by_key(|key| key.key_file()[64..128].to_vec());
    assert!(keys.windows(2).all(|pair| pair[0].key_file()[64..128] != pair[1].key_file()[64..128]));

    // A round with the old key is refused, and one with the new needs its registration.
    let refused = |detection, state: &SyncState| {
        SyncMachine::new(&person.account, AnyDetection::Stream(detection), config, state.clone()).is_err()
    };
    assert!(refused(&rotated, &state));
    let (known, retries) = (*state.relay(Side::First), Retries::default());
    let mut machine = RegisterMachine::new(rotated.upload(), known, None, state.complete_to(), retries);
    while let Step::Ask(request) = machine.step() {
        machine.respond(relays[0].ask(&request), NOW, &mut rng(6)).unwrap();
    }
    state.set_registration(DigestKind::Stream, machine.registration().cloned());
    assert!(refused(&person.detection, &state) && relays[0].registrations() == 2);
    assert_ne!(state.registration(DigestKind::Stream).unwrap().key(), old);

    // Mail that comes now is found with it. The old key's digest is not the new one's.
    let all = crate::world::board(48, &[(3, &person.account), (30, &person.account), (40, &person.account)]);
    relays.iter_mut().for_each(|relay| relay.messages = all.clone());
    let mut machine =
        SyncMachine::new(&person.account, AnyDetection::Stream(&rotated), config, state.clone()).unwrap();
    let mut digests = Vec::new();
    while let Step::Ask(request) = machine.step() {
        let reply = relays[request.relay as usize].ask(&request);
        if let (true, Reply::Answer(response)) = (request.path.contains("/digests"), &reply) {
            digests.push(response.body.clone());
        }
        machine.respond(reply, NOW, &mut rng(7)).unwrap();
    }
    let finished = machine.finish(&mut rng(7));
    let found: Vec<u64> = finished.received.iter().map(|one| one.index).collect();
    state = SyncState::from_file(&finished.state.to_file()).unwrap();
    assert_eq!((found, state.complete_to()), (vec![40], 48));
    let context = rotated.context();
    let files = restante_wire::relay::DigestList::from_body(context.id(), &digests[0]).unwrap().0;
    let digest = restante_omr::stream::StreamDigest::from_file(context, &files[0]).unwrap();
    let foreign = person.detection.decoder().pertinent(&digest);
    assert!(matches!(foreign, Err(OmrError::ForeignDigest { .. })));

    // The old registration goes, though the answer is lost once.
    let mut machine = RetireMachine::new(state.retired().to_vec(), PACE, retries);
    let mut lost = false;
    loop {
        match machine.step() {
            Step::Ask(request) => {
                assert!(request.path.ends_with(&old.to_string()) && request.pace == PACE);
                let reply = relays[0].ask(&request);
                let reply = if std::mem::replace(&mut lost, true) {
                    reply
                } else {
                    Reply::Broken(Default::default())
                };
                machine.respond(reply, NOW, &mut rng(8)).unwrap();
                state.set_retired(machine.registrations());
            }
            Step::Wait(_) => {}
            Step::Done => break,
        }
    }
    assert_eq!((relays[0].registrations(), state.retired().len()), (1, 0));
}
