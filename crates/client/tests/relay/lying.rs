//! A relay that drops, changes, reorders, replays, truncates or forks is noticed where the signed head allows it; and what the
//! client decrypts has no influence on what it sends.

use std::{cell::RefCell, rc::Rc};

use restante_client::{
    RelayError,
    relay::{Delivery, KnownRelay, Reply, Request, Response, Side, SyncConfig, SyncState},
};
use restante_omr::stream::StreamDigest;
use restante_pir::fetch::Answer;
use restante_wire::{
    Decode, Encode, Envelope,
    relay::{DigestList, HeadStatus, Hex, Page, PageMessage, SignedHead},
};

use crate::{
    fake::{BOARD, FakeRelay, PARAMETERS, complete, id, json, ok},
    world::{NOW, PEOPLE, Person, board, fresh, pair, private, register, round, whole},
};

fn person() -> &'static Person {
    &PEOPLE[0]
}

/// A round of reading everything against two relays, of which the first has been changed; the state has seen 20 messages.
fn after_twenty(change: impl FnOnce(&mut FakeRelay)) -> RelayError {
    let all = board(40, &[(30, &person().account)]);
    let mut relays = pair(&all[..20]);
    let mut state = fresh();
    assert!(round(person(), whole(), &mut state, &mut relays, 1).error.is_none());
    relays[0].messages = all;
    relays[0].now += 60;
    change(&mut relays[0]);
    let before = state.to_file();
    let round = round(person(), whole(), &mut state, &mut relays, 1);
    let error = round.error.expect("the lie is noticed");
    assert!(round.received.is_empty());
    assert!(state.complete_to() == 20 || *state.to_file() != *before);
    assert_eq!(state.complete_to(), 20, "what a lie says is not taken");
    error
}

/// Answers requests whose path starts with a prefix in another way.
fn instead(
    relay: &mut FakeRelay,
    prefix: &'static str,
    mut change: impl FnMut(&Request, Response) -> Response + 'static,
) {
    relay.tamper = Some(Box::new(move |request, response| {
        Reply::Answer(if request.path.starts_with(prefix) { change(request, response) } else { response })
    }));
}

#[test]
fn messages_dropped_changed_or_reordered_behind_the_remembered_head_are_noticed() {
    let changes: [fn(&mut FakeRelay); 4] = [
        |relay| drop(relay.messages.remove(3)),
        |relay| relay.messages[3].payload[0] ^= 1,
        |relay| relay.messages[3].clue[0] ^= 1,
        |relay| relay.messages.swap(3, 4),
    ];
    for change in changes {
        let error = after_twenty(change);
        assert!(error.is_misbehaviour() && !error.is_retryable());
        let RelayError::Inconsistent { older, newer, side: Side::First, .. } = error else {
            panic!("{error}");
        };
        // The two heads are the proof.
        let key = older.relay;
        assert!(older.is_signed_by(&key) && newer.is_signed_by(&key) && older.count < newer.count);
    }
}

#[test]
fn a_truncated_board_is_noticed() {
    let error = after_twenty(|relay| relay.messages.truncate(19));
    assert!(matches!(error, RelayError::Shrunk { remembered: 20, found: 19, .. }), "{error}");
    // Another message in the last place: the same count, another root.
    let error = after_twenty(|relay| {
        relay.messages.truncate(20);
        relay.messages[19].payload[5] ^= 1;
    });
    assert!(matches!(error, RelayError::Inconsistent { .. }), "{error}");
}

#[test]
fn an_old_head_that_is_replayed_is_noticed() {
    // A relay that froze: its clock stands still while the client's goes on.
    let mut relays = pair(&board(8, &[]));
    let mut state = fresh();
    round(person(), whole(), &mut state, &mut relays, 1);
    let old = relays[0].head();
    instead(&mut relays[0], "/v1/head", move |_, _| ok(json(&HeadStatus::new(&old, 0))));
    relays[0].now += 3600;
    assert!(round(person(), whole(), &mut state, &mut relays, 1).error.is_none(), "within the tolerance");
    relays[0].now += 1;
    let error = round(person(), whole(), &mut state, &mut relays, 1).error.unwrap();
    assert!(matches!(error, RelayError::Stale { .. }), "{error}");
    // A head that is older than the remembered one, though the client would tolerate its age.
    let error = after_twenty(|relay| {
        let old = SignedHead::sign(&relay.key, (BOARD, id()), 20, relay.head().root, NOW - 1);
        instead(relay, "/v1/head", move |_, _| ok(json(&HeadStatus::new(&old, 0))));
    });
    let RelayError::Stale { time, least, .. } = error else { panic!("{error}") };
    assert_eq!((time, least), (NOW - 1, NOW));
    // One from the future, which would make every honest head after it look old.
    let error = after_twenty(|relay| {
        let future = SignedHead::sign(&relay.key, (BOARD, id()), 20, relay.head().root, NOW + 10_000);
        instead(relay, "/v1/head", move |_, _| ok(json(&HeadStatus::new(&future, 0))));
    });
    assert!(matches!(error, RelayError::Stale { .. }), "{error}");
}

/// A head that is dated nearly an hour ahead, which the tolerance allows, does not make honest ones look old until then.
#[test]
fn a_head_from_the_future_stands_in_nobodys_way() {
    let all = board(24, &[(22, &person().account)]);
    let mut relays = pair(&all[..20]);
    let mut state = fresh();
    relays[0].now += 3500;
    let ahead = relays[0].head();
    relays[0].now -= 3500;
    instead(&mut relays[0], "/v1/head", move |_, _| ok(json(&HeadStatus::new(&ahead, 0))));
    assert!(round(person(), whole(), &mut state, &mut relays, 1).error.is_none());
    assert_eq!(state.relay(Side::First).head.unwrap().time, NOW + 3500);
    relays[0].tamper = None;
    relays[0].now += 60;
    relays[0].messages = all;
    let honest = round(person(), whole(), &mut state, &mut relays, 1);
    assert!(honest.error.is_none(), "{:?}", honest.error);
    assert_eq!((honest.indices(), state.relay(Side::First).head.unwrap().time), (vec![22], NOW + 60));
    // Fewer messages are noticed whatever the date.
    relays[0].messages.truncate(23);
    let error = round(person(), whole(), &mut state, &mut relays, 1).error.unwrap();
    assert!(matches!(error, RelayError::Shrunk { .. }), "{error}");
}

#[test]
fn another_key_or_no_signature_is_refused() {
    let error = after_twenty(|relay| relay.key = ed25519_dalek::SigningKey::from_bytes(&[77; 32]));
    assert!(matches!(error, RelayError::ForeignRelay { side: Side::First, .. }), "{error}");
    for change in [0, 1, 2] {
        let error = after_twenty(|relay| {
            instead(relay, "/v1/head", move |_, response| {
                let mut status: HeadStatus = serde_json::from_slice(&response.body).unwrap();
                match change {
                    0 => status.signature = Hex([0; 64]),
                    1 => status.count += 1,
                    _ => status.time += 1,
                }
                ok(json(&status))
            });
        });
        assert!(matches!(error, RelayError::Signature { .. }), "{error}");
    }
    // A key that was pinned before the first contact.
    let mut relays = pair(&board(4, &[]));
    let mut state = SyncState::new(PARAMETERS, 0, KnownRelay::pinned(Hex([9; 32])));
    let error = round(person(), whole(), &mut state, &mut relays, 1).error.unwrap();
    assert!(matches!(error, RelayError::ForeignRelay { .. }), "{error}");
    // Without one, the first contact is taken on trust and said to be.
    let first = round(person(), whole(), &mut fresh(), &mut relays, 1);
    assert_eq!(first.outcome.first_use, [true, false]);
}

/// A page of the honest board, changed by the relay.
fn changed_page(change: fn(&mut Page)) -> RelayError {
    after_twenty(|relay| {
        instead(relay, "/v1/messages", move |_, response| {
            let mut page = Page::from_body(id(), PARAMETERS.clue_bytes(), &response.body).unwrap();
            change(&mut page);
            complete(page.end(), page.to_body())
        });
    })
}

#[test]
fn a_page_that_is_not_what_the_head_counts_is_refused() {
    let changes: [(fn(&mut Page), bool); 7] = [
        (|page| drop(page.messages.remove(5)), true),
        (|page| page.messages.swap(5, 6), true),
        (|page| page.messages[5].payload[9] ^= 1, true),
        (|page| page.messages.insert(5, page.messages[4].clone()), false),
        (|page| page.first -= 1, false),
        (|page| page.messages.clear(), false),
        (|page| page.messages.truncate(3), true),
    ];
    for (number, (change, proof)) in changes.into_iter().enumerate() {
        let error = changed_page(change);
        let expected = if proof {
            matches!(error, RelayError::Page { first: 20, .. })
        } else {
            matches!(error, RelayError::PageRange { .. })
        };
        assert!(expected && error.is_misbehaviour(), "{number}: {error}");
    }
    // With a head of its own that fits the page, signed by somebody else or by the relay itself for another board.
    let error = changed_page(|page| {
        page.head = SignedHead::sign(
            &ed25519_dalek::SigningKey::from_bytes(&[1; 32]),
            (BOARD, id()),
            page.head.count + 1,
            page.head.root,
            page.head.time,
        );
    });
    assert!(matches!(error, RelayError::Signature { .. }), "{error}");
    let error = changed_page(|page| {
        page.head = SignedHead::sign(
            &ed25519_dalek::SigningKey::from_bytes(&[10; 32]),
            (BOARD, id()),
            page.head.count,
            Hashes::other(),
            page.head.time,
        );
    });
    assert!(matches!(error, RelayError::Inconsistent { .. }), "{error}");
}

struct Hashes;

impl Hashes {
    fn other() -> restante_wire::merkle::Hash {
        restante_wire::merkle::Hash::of(b"another board")
    }
}

/// The first relay shows this client a board of its own: the other relay's head does not agree.
#[test]
fn a_fork_is_noticed_by_whoever_asks_two_relays() {
    let honest = board(40, &[(7, &person().account)]);
    let mut forked = honest.clone();
    forked[7] = PageMessage { clue: forked[8].clue.clone(), payload: forked[8].payload.clone() };
    for (count, cut) in [(40, 40), (40, 30), (30, 40)] {
        let mut relays = pair(&honest);
        relays[0].messages = forked[..count].to_vec();
        relays[1].messages.truncate(cut);
        for config in [SyncConfig::new(Delivery::Whole { second: true }), private(2)] {
            let mut state = fresh();
            register(person(), &mut relays, &mut state, 1);
            let round = round(person(), config, &mut state, &mut relays, 1);
            let Some(RelayError::Fork { shorter, longer, .. }) = round.error else {
                panic!("{:?}", round.error);
            };
            assert!(shorter.count <= longer.count && shorter.relay != longer.relay);
            assert_eq!(state.complete_to(), 0);
        }
    }
    // One that is merely behind is no fork.
    let mut relays = pair(&honest);
    relays[1].messages.truncate(33);
    let mut state = fresh();
    register(person(), &mut relays, &mut state, 1);
    assert_eq!(round(person(), private(2), &mut state, &mut relays, 1).indices(), [7]);
}

#[test]
fn digests_that_leave_messages_out_are_refused() {
    type Change = fn(u64, Vec<Vec<u8>>) -> (u64, Vec<Vec<u8>>);
    let changes: [Change; 3] = [
        // Complete, and nothing to show for it.
        |complete_to, _| (complete_to, vec![]),
        // Complete beyond what is covered.
        |complete_to, files| (complete_to + 1, files),
        // The end alone.
        |complete_to, files| (complete_to + 5000, files),
    ];
    for change in changes {
        let mut relays = pair(&board(40, &[(3, &person().account)]));
        let mut state = fresh();
        register(person(), &mut relays, &mut state, 1);
        instead(&mut relays[0], "/v1/keys", move |_, response| {
            let context = person().detection.context();
            let files = DigestList::from_body(context.id(), &response.body).unwrap().0;
            let (complete_to, files) = change(response.complete_to_header(), files);
            complete(complete_to, DigestList(files).to_body(context.id()))
        });
        let round = round(person(), private(2), &mut state, &mut relays, 1);
        let error = round.error.unwrap();
        assert!(matches!(error, RelayError::DigestGap { .. }) && error.is_misbehaviour(), "{error}");
        assert_eq!((state.complete_to(), state.backlog()), (0, 0));
    }
}

trait CompleteTo {
    fn complete_to_header(&self) -> u64;
}

impl CompleteTo for Response {
    fn complete_to_header(&self) -> u64 {
        self.header("restante-complete-to").unwrap().parse().unwrap()
    }
}

#[test]
fn another_recipients_digest_is_refused() {
    let mut relays = pair(&board(40, &[]));
    let mut foreign = fresh();
    register(&PEOPLE[1], &mut relays, &mut foreign, 1);
    let kept: Rc<RefCell<Option<Response>>> = Rc::default();
    let keep = Rc::clone(&kept);
    instead(&mut relays[0], "/v1/keys", move |_, response| {
        *keep.borrow_mut() = Some(response.clone());
        response
    });
    round(&PEOPLE[1], private(2), &mut foreign, &mut relays, 1);
    let foreign = kept.borrow_mut().take().unwrap();
    relays[0].tamper = None;
    let mut state = fresh();
    register(person(), &mut relays, &mut state, 1);
    instead(&mut relays[0], "/v1/keys", move |_, _| foreign.clone());
    let error = round(person(), private(2), &mut state, &mut relays, 1).error.unwrap();
    assert!(matches!(error, RelayError::Omr(restante_omr::OmrError::ForeignDigest { .. })), "{error}");
}

/// A relay that changes a ciphertext, or a record, learns nothing from what the client does next: it does the same.
#[test]
fn what_does_not_decrypt_changes_no_request() {
    let all = board(480, &[(3, &person().account), (20, &person().account)]);
    let run = |tamper: Option<fn(&Request, Response) -> Response>, side: usize| {
        let mut relays = pair(&all);
        for relay in &mut relays {
            // So many records that no dummy of the rounds below is one of the two.
            relay.window = 480;
            relay.fetch.as_mut().unwrap().messages = 240;
        }
        let mut state = fresh();
        register(person(), &mut relays, &mut state, 1);
        if let Some(tamper) = tamper {
            instead(&mut relays[side], "/v1/", tamper);
        }
        let first = round(person(), private(4), &mut state, &mut relays, 2);
        assert!(first.error.is_none(), "{:?}", first.error);
        let second = round(person(), private(4), &mut state, &mut relays, 3);
        (first, second)
    };
    let (honest, after) = run(None, 0);
    assert_eq!((honest.indices(), after.indices()), (vec![3, 20], vec![]));

    let (digest, next) = run(
        Some(|request, response| {
            if !request.path.contains("/digests") || response.body.len() < 500 {
                return response;
            }
            let context = person().detection.context();
            let mut files = DigestList::from_body(context.id(), &response.body).unwrap().0;
            let envelope = Envelope::open(&files[0]).unwrap();
            let mut body = envelope.body.to_vec();
            // The coefficients of the first ciphertext, behind the 64 bytes of the header.
            body[64..20_000].fill(0xa5);
            files[0] = Envelope { body: &body, ..envelope }.seal();
            assert!(StreamDigest::from_file(context, &files[0]).is_ok());
            complete(response.complete_to_header(), DigestList(files).to_body(context.id()))
        }),
        0,
    );
    assert_eq!((digest.seen, next.seen), (honest.seen.clone(), after.seen.clone()));
    assert_eq!((digest.outcome.unreadable.len(), digest.outcome.unreadable[0].clone()), (1, 0..480));

    for side in [0, 1] {
        let (record, next) = run(
            Some(|request, response| {
                if !request.path.ends_with("/fetch") {
                    return response;
                }
                let envelope = Envelope::open(&response.body).unwrap();
                let mut body = envelope.body.to_vec();
                // A bit of the first record's share.
                body[57 + 100] ^= 1;
                Answer::from_bytes(&(), &body).unwrap();
                ok(Envelope { body: &body, ..envelope }.seal())
            }),
            side,
        );
        assert_eq!((record.seen.clone(), next.seen.clone()), (honest.seen.clone(), after.seen.clone()));
        // Which record is in the place that is changed in every answer is drawn each time: none is kept away. Of a dummy nobody knows
        // whether it was changed.
        let mut found = record.indices();
        let missing = 2 - found.len();
        assert_eq!((record.outcome.wrong_records as usize, record.outcome.backlog), (missing, missing));
        found.extend(next.indices());
        found.sort_unstable();
        assert_eq!((found, next.outcome.wrong_records, next.outcome.backlog), (vec![3, 20], 0, 0));
    }
}

/// Whatever comes back, no answer makes the client panic, or believe that it has seen what it has not.
#[test]
fn damaged_answers_are_errors() {
    let all = board(20, &[(3, &person().account)]);
    for target in 0..9 {
        for damage in 0..5 {
            let mut relays = pair(&all);
            let mut state = fresh();
            register(person(), &mut relays, &mut state, 1);
            for relay in &mut relays {
                let mut asked = 0;
                relay.tamper = Some(Box::new(move |_, mut response| {
                    asked += 1;
                    if asked != target + 1 {
                        return Reply::Answer(response);
                    }
                    match damage {
                        0 => response.body.clear(),
                        1 => response.body.truncate(response.body.len() / 2),
                        2 => response.body.extend_from_slice(b"more"),
                        3 => response.status = 418,
                        _ => response.body = vec![b'{'; 100_000],
                    }
                    Reply::Answer(response)
                }));
            }
            let round = round(person(), private(2), &mut state, &mut relays, 1);
            if let Some(error) = &round.error {
                assert!(!error.is_retryable(), "{error}");
            }
            relays.iter_mut().for_each(|relay| relay.tamper = None);
            let rest = self::round(person(), private(2), &mut state, &mut relays, 1);
            assert!(rest.error.is_none());
            assert_eq!(round.received.len() + rest.received.len(), 1, "{target} {damage}");
        }
    }
}

#[test]
fn a_fabricated_consistency_proof_is_refused() {
    let error = after_twenty(|relay| {
        instead(relay, "/v1/consistency", |_, response| {
            let envelope = Envelope::open(&response.body).unwrap();
            let proof = restante_wire::merkle::ConsistencyProof::from_bytes(&(), envelope.body).unwrap();
            let mut body = proof.to_bytes();
            let last = body.len() - 1;
            body[last] ^= 1;
            ok(Envelope { body: &body, ..envelope }.seal())
        });
    });
    assert!(matches!(error, RelayError::Inconsistent { .. }), "{error}");
}
