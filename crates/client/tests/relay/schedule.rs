//! What is sent does not depend on what is found.

use restante_client::{
    Account,
    relay::{Delivery, Private, Side, SyncConfig, Tail},
};

use crate::world::{PEOPLE, Round, Seen, board, fresh, pair, private, register, round, whole};

/// Clients with no, one, and many messages on one board, over several rounds in which the board grows.
fn rounds_of_three(config: SyncConfig, sizes: &[u64]) -> Vec<Vec<Round>> {
    let [none, one, many] = &*PEOPLE;
    let mut mine: Vec<(u64, &Account)> = (0..120).step_by(3).map(|index| (index, &many.account)).collect();
    mine.push((70, &one.account));
    let all = board(*sizes.last().unwrap(), &mine);
    [none, one, many]
        .into_iter()
        .map(|person| {
            let mut relays = pair(&all[..sizes[0] as usize]);
            let mut state = fresh();
            register(person, &mut relays, &mut state, 1);
            let rounds = sizes.iter().enumerate().map(|(number, size)| {
                for relay in &mut relays {
                    relay.window = 256;
                    relay.messages = all[..*size as usize].to_vec();
                    relay.now += 60;
                }
                round(person, config, &mut state, &mut relays, number as u8)
            });
            rounds.collect()
        })
        .collect()
}

fn all_alike(clients: &[Vec<Round>]) {
    for rounds in clients {
        for (round, reference) in rounds.iter().zip(&clients[0]) {
            assert!(round.error.is_none(), "{:?}", round.error);
            assert_eq!(round.seen, reference.seen);
        }
    }
}

fn total(rounds: &[Round]) -> usize {
    rounds.iter().map(|round| round.received.len()).sum()
}

#[test]
fn private_delivery_looks_the_same_for_no_one_and_many_messages() {
    let sizes = [[10, 40, 40, 90].as_slice(), &[150; 12]].concat();
    let clients = rounds_of_three(private(2), &sizes);
    all_alike(&clients);
    assert_eq!([0, 1, 2].map(|client| total(&clients[client])), [0, 1, 40]);
    // Far more messages than a round has fetches for: they came in later rounds, with nothing else to be seen.
    assert!(clients[2][4..9].iter().all(|round| round.outcome.backlog > 2 && !round.received.is_empty()));
    assert_eq!(clients[2].last().unwrap().outcome.backlog, 0);
    assert!(clients[2].iter().all(|round| round.outcome.overdue.is_empty()));
    // The client that found nothing asked both relays for records in every round that had an epoch.
    for round in &clients[0][1..] {
        let queries = round.seen.iter().filter_map(|seen| match seen {
            Seen::Request { side, path, body_bytes, .. } if path.ends_with("/fetch") => {
                Some((*side, *body_bytes))
            }
            _ => None,
        });
        let [(Side::First, first), (Side::Second, second)] = queries.collect::<Vec<_>>()[..] else {
            panic!("expected a query to each relay");
        };
        assert!(first == second && first > 0);
    }
}

#[test]
fn reading_the_tail_and_reading_everything_look_the_same_too() {
    let sizes = [10, 40, 90, 150, 150];
    let tail = SyncConfig::new(Delivery::Private(Private { fetches: 32, tail: Tail::Read }));
    for config in [tail, whole(), SyncConfig::new(Delivery::Whole { second: true })] {
        let clients = rounds_of_three(config, &sizes);
        all_alike(&clients);
        assert_eq!([0, 1, 2].map(|client| total(&clients[client])), [0, 1, 40], "{config:?}");
    }
}

#[test]
fn failures_of_the_network_are_answered_alike() {
    use restante_client::relay::{Reply, Response};
    let [none, _, many] = &*PEOPLE;
    let mine: Vec<(u64, &Account)> = (0..40).step_by(2).map(|index| (index, &many.account)).collect();
    let all = board(48, &mine);
    let seen = [none, many].map(|person| {
        let mut relays = pair(&all);
        let mut state = fresh();
        register(person, &mut relays, &mut state, 1);
        for relay in &mut relays {
            let mut asked = 0;
            relay.tamper = Some(Box::new(move |_, response| {
                asked += 1;
                match asked % 4 {
                    0 => Reply::Broken(Default::default()),
                    1 => Reply::Answer(Response {
                        status: 503,
                        headers: vec![("Retry-After".into(), "7".into())],
                        body: vec![],
                    }),
                    _ => Reply::Answer(response),
                }
            }));
        }
        let round = round(person, private(32), &mut state, &mut relays, 3);
        assert!(round.error.is_none(), "{:?}", round.error);
        (round.seen, round.received.len())
    });
    // Waits are drawn from the same generator, but after a query the clients have drawn different dummies; all else is the same.
    assert_eq!(seen[0].0.len(), seen[1].0.len());
    for (a, b) in seen[0].0.iter().zip(&seen[1].0) {
        match (a, b) {
            (Seen::Wait(_), Seen::Wait(_)) => {}
            _ => assert_eq!(a, b),
        }
    }
    assert_eq!([seen[0].1, seen[1].1], [0, 20]);
}
