//! What is sent does not depend on what is found.

use std::{
    convert::Infallible,
    thread,
    time::{Duration, Instant},
};

use restante_client::{
    Account,
    relay::{
        Again, Bounds, Compact, Delivery, Driver, Host, Private, Reply, Request, Schedule, Side, SyncConfig,
        SyncMachine, SyncState, Tail, Work, wait_until,
    },
};
use restante_wire::relay::{DigestKind, PageMessage};

use crate::{
    fake::FakeRelay,
    world::{
        PEOPLE, Person, Round, Seen, board, fresh, pair, private, register, register_key, rng, round, whole,
    },
};

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
    use restante_client::relay::Response;
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

/// A board on which the first of three people has no message, the second one, and the third so many.
fn crowded(many: u64) -> Vec<PageMessage> {
    let [_, one, third] = &*PEOPLE;
    let mut mine: Vec<(u64, &Account)> = (0..many).map(|index| (index, &third.account)).collect();
    mine.push((many + 10, &one.account));
    board(many + 96, &mine)
}

fn tail() -> SyncConfig {
    SyncConfig::new(Delivery::Private(Private { fetches: 64, tail: Tail::Read }))
}

/// What a machine has done with the account's secrets, whenever a request leaves: nothing, or with stream digests as many blocks as
/// everybody. The states are written once in a round, with the same length.
#[test]
fn no_work_between_two_requests_depends_on_what_was_found() {
    let all = crowded(1000);
    let compact = Compact {
        messages: 1 << 9,
        again: Some(Again { messages: 1 << 10, capacity: 40 }),
        ..Compact::new(20, 1536)
    };
    let range = SyncConfig::new(Delivery::Range { first: 0, end: 1096 });
    let configs = [whole(), range, private(64), tail(), SyncConfig::new(Delivery::Compact(compact))];
    for config in configs {
        let clients = [0, 1, 2].map(|place| {
            let (person, mut relays, mut state) = (&PEOPLE[place], pair(&all), fresh());
            for relay in &mut relays {
                relay.window = 512;
                (relay.limits.page_messages, relay.limits.page_bytes) = (300, 4 << 20);
            }
            (relays[0].compact, relays[0].limits.upload_part_bytes) = (Some(1 << 16), 1 << 20);
            match config.delivery {
                Delivery::Compact(_) => {
                    register_key(person, DigestKind::Compact, &mut relays[0], &mut state, 1)
                }
                _ => register(person, &mut relays, &mut state, 1),
            }
            let round = round(person, config, &mut state, &mut relays, 2);
            assert!(round.error.is_none(), "{:?}", round.error);
            (round, state.to_file().len())
        });
        for (client, (round, state_bytes)) in clients.iter().enumerate() {
            assert_eq!(
                (&round.seen, state_bytes),
                (&clients[0].0.seen, &clients[0].1),
                "{config:?} {client}"
            );
            for seen in &round.seen {
                if let Seen::Request { work, .. } = seen {
                    assert_eq!(Work { blocks: 0, ..*work }, Work::default(), "{config:?} {client}");
                }
            }
        }
        let found = clients.each_ref().map(|(round, _)| round.received.len());
        let expected = match config.delivery {
            Delivery::Whole { .. } | Delivery::Range { .. } => [0, 1, 1000],
            // What no epoch holds any more comes whole, and 64 of each epoch's worth.
            Delivery::Private(Private { tail: Tail::Wait, .. }) => [0, 1, 1000],
            Delivery::Private(_) => [0, 1, 1000],
            // More than every digest holds.
            Delivery::Compact(_) => [0, 1, 0],
        };
        assert_eq!(found, expected, "{config:?}");
    }
}

/// A relay whose pages hold one message keeps nobody in a round, and what a round leaves the next one takes.
#[test]
fn rounds_end_whatever_the_size_of_pages() {
    let person = &PEOPLE[0];
    let indices = [0, 5, 11, 20, 29, 40, 60];
    let mine: Vec<(u64, &Account)> = indices.iter().map(|index| (*index, &person.account)).collect();
    let all = board(72, &mine);
    assert!(Bounds::default().answers <= 1000 && Bounds::default().messages <= 10_000);
    let bounds = Bounds { answers: 12, ..Bounds::default() };
    for config in [whole(), private(8), tail()] {
        let config = SyncConfig { bounds, ..config };
        let mut relays = pair(&all);
        let mut state = fresh();
        register(person, &mut relays, &mut state, 1);
        for relay in &mut relays {
            relay.limits.page_messages = 1;
            relay.window = 16;
        }
        let (mut received, mut rounds) = (Vec::new(), 0);
        loop {
            let before = state.complete_to();
            let round = round(person, config, &mut state, &mut relays, 1);
            assert!(round.error.is_none(), "{:?}", round.error);
            assert!(round.requests() <= 12 + 12, "{config:?}: {}", round.requests());
            received.extend(round.indices());
            rounds += 1;
            if !round.outcome.unfinished {
                break;
            }
            assert!(state.complete_to() > before && rounds < 10, "{config:?}");
        }
        assert!(rounds >= 4);
        received.sort_unstable();
        assert_eq!((received, state.complete_to()), (indices.to_vec(), 72), "{config:?}");
    }
    // A range that is asked for has no cursor: the outcome says where it goes on.
    let (mut relays, mut state, mut first, mut received) = (pair(&all), fresh(), 3, Vec::new());
    relays[0].limits.page_messages = 1;
    for rounds in 1.. {
        let config = SyncConfig { bounds, ..SyncConfig::new(Delivery::Range { first, end: 30 }) };
        let round = round(person, config, &mut state, &mut relays, 1);
        received.extend(round.indices());
        if !round.outcome.unfinished {
            assert_eq!((rounds, round.outcome.read_to), (3, 30));
            break;
        }
        assert_eq!(round.outcome.read_to, first + 12);
        first = round.outcome.read_to;
    }
    assert_eq!(received, [5, 11, 20, 29]);
    // Messages and bytes are bounds, too: no page is asked for beyond the first, and none behind the second.
    for (bounds, size) in [(Bounds { messages: 7, ..bounds }, 7), (Bounds { bytes: 1, ..bounds }, 50)] {
        let (mut relays, mut state) = (pair(&all), fresh());
        let round = round(person, SyncConfig { bounds, ..whole() }, &mut state, &mut relays, 1);
        assert_eq!((state.complete_to(), round.outcome.unfinished), (size, true));
    }
}

/// Relays on this machine's clock, which note when requests come and when their answers go.
struct Watched<'a> {
    relays: &'a mut [FakeRelay; 2],
    start: Instant,
    seen: Vec<(Duration, Duration)>,
}

impl Host for Watched<'_> {
    type Error = Infallible;

    fn ask(&mut self, request: Request) -> Result<Reply, Infallible> {
        let asked = self.start.elapsed();
        let reply = self.relays[usize::from(request.relay == Side::Second)].ask(&request);
        self.seen.push((asked, self.start.elapsed()));
        Ok(reply)
    }

    fn clock(&mut self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&mut self, time: Duration) {
        thread::sleep(time);
    }

    fn now(&mut self) -> u64 {
        self.relays[0].now
    }
}

/// The relays of a test, with what the delivery needs.
fn prepared(person: &Person, all: &[PageMessage], config: SyncConfig) -> ([FakeRelay; 2], SyncState) {
    let (mut relays, mut state) = (pair(all), fresh());
    for relay in &mut relays {
        relay.window = 512;
        (relay.limits.page_messages, relay.limits.page_bytes) = (550, 4 << 20);
    }
    (relays[0].compact, relays[0].limits.upload_part_bytes) = (Some(1 << 16), 1 << 20);
    match config.delivery {
        Delivery::Compact(_) => register_key(person, DigestKind::Compact, &mut relays[0], &mut state, 1),
        Delivery::Private(_) => register(person, &mut relays, &mut state, 1),
        _ => {}
    }
    (relays, state)
}

/// Rounds on a real clock, with a pause for a slow disk and slow output where there are messages. Gives for each round when its first
/// request came, how long after each answer the next one did, and how many messages there were.
fn watched_rounds(
    person: &Person,
    all: &[PageMessage],
    config: SyncConfig,
    rounds: u32,
    every: Duration,
) -> Vec<(Duration, Vec<Duration>, usize)> {
    let (mut relays, mut state) = prepared(person, all, config);
    let mut host = Watched { relays: &mut relays, start: Instant::now(), seen: Vec::new() };
    let (mut driver, mut schedule) = (Driver::new(), Schedule::every(Duration::ZERO, every));
    let mut result = Vec::new();
    for _ in 0..rounds {
        let mut machine =
            SyncMachine::new(&person.account, person.detection_for(config.delivery), config, state).unwrap();
        driver.run(&mut machine, &mut host, &mut rng(3), |_| Ok(())).unwrap();
        let seen = std::mem::take(&mut host.seen);
        let gaps = seen.windows(2).map(|pair| pair[1].0 - pair[0].1).collect();
        let next = schedule.next(driver.arrival().unwrap(), machine.outcome().unfinished).unwrap();
        let finished = machine.finish(&mut rng(3));
        result.push((seen[0].0, gaps, finished.received.len()));
        let slow = |_: u64, messages: &[_]| {
            thread::sleep(Duration::from_micros(300) * messages.len() as u32);
            Ok::<_, Infallible>(())
        };
        let Ok(()) = finished.save(slow, |_| Ok(()));
        state = finished.state;
        if result.len() < rounds as usize {
            let next = schedule.put_off(next, host.clock());
            wait_until(&mut host, next);
        }
    }
    result
}

fn slowly(config: SyncConfig) -> SyncConfig {
    SyncConfig { pace: Duration::from_millis(100), ..config }
}

/// The gaps of a round, the same for everybody as far as medians of several tries say. The machine may be busy with other things.
fn assert_gaps_alike(all: &[PageMessage], config: SyncConfig, tries: usize, found: [usize; 3]) {
    let config = slowly(config);
    let tries: Vec<[Vec<Duration>; 3]> = (0..tries)
        .map(|_| {
            [0, 1, 2].map(|place| {
                let (_, gaps, count) =
                    watched_rounds(&PEOPLE[place], all, config, 1, Duration::MAX).remove(0);
                assert_eq!(count, found[place], "{config:?}");
                gaps
            })
        })
        .collect();
    let requests = tries[0][0].len();
    for place in 0..requests {
        let gap = |client: usize| median(tries.iter().map(|clients| clients[client][place]).collect());
        for gaps in tries.iter().flatten() {
            assert!(gaps.len() == requests && gaps[place] >= config.pace, "{config:?}: {gaps:?}");
        }
        for client in [1, 2] {
            let (here, there) = (gap(client), gap(0));
            assert!(
                here.abs_diff(there) < Duration::from_millis(50),
                "{config:?} {client} {place}: {here:?} {there:?}"
            );
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// With the code before, the gap behind a page of 1,000 messages was 355 ms for their recipient and 50 for everybody else.
#[test]
fn a_relay_sees_the_same_gaps_for_no_one_and_a_thousand_messages() {
    // Behind the parameters, the head, and the first of two pages.
    assert_gaps_alike(&crowded(1000), whole(), 7, [0, 1, 1000]);
}

/// Pages that no epoch holds any more, digests, records: opening what is in them would take 340 ms.
#[test]
fn relays_see_the_same_gaps_in_private_delivery() {
    assert_gaps_alike(&crowded(1000), private(64), 5, [0, 1, 1000]);
}

/// Decoding a digest with 200 messages takes a tenth of a second.
#[test]
fn a_relay_sees_the_same_gaps_in_compact_delivery() {
    let again = Some(Again { messages: 1 << 8, capacity: 255 });
    let compact = Compact { messages: 1 << 9, again, ..Compact::new(255, 1536) };
    assert_gaps_alike(&crowded(200), SyncConfig::new(Delivery::Compact(compact)), 3, [0, 1, 200]);
}

/// Rounds begin at the same times, though one client has a thousand messages to open, write down and show, on a slow disk. A machine that
/// is busy with other things may make one of them late, but not always.
#[test]
fn a_relay_sees_the_same_rounds_for_no_one_and_a_thousand_messages() {
    let all = crowded(1000);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let times = thread::scope(|scope| {
            let clients = PEOPLE.each_ref().map(|person| {
                let all = &all;
                scope.spawn(move || {
                    let rounds = watched_rounds(person, all, slowly(whole()), 2, Duration::from_secs(8));
                    rounds[1].0 - rounds[0].0
                })
            });
            clients.map(|client| client.join().unwrap())
        });
        seen.push(times);
        if times[1..].iter().all(|time| time.abs_diff(times[0]) < Duration::from_millis(100)) {
            return;
        }
    }
    panic!("the second round began at other times: {seen:?}");
}
