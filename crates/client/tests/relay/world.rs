//! Accounts, boards, and a caller that drives machines and writes down what was sent.

use std::{sync::LazyLock, time::Duration};

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use restante_client::{
    Account, AnyDetection, CompactDetection, Detection, Period, RelayError,
    relay::{
        Cause, Delivery, Host, KnownRelay, Machine, Method, Outcome, Private, Received, RegisterMachine,
        Reply, Request, Retries, Side, Step, SyncConfig, SyncMachine, SyncState, Tail, Work,
    },
};
use restante_ring::{Backend, sample::Seed};
use restante_wire::relay::{DigestKind, PageMessage};

use crate::fake::{BOARD, COMPACT, FakeRelay, PARAMETERS};

pub const NOW: u64 = 1_800_000_000;

pub fn today() -> Period {
    Period::of(NOW)
}

/// Somebody with an account.
pub struct Person {
    pub account: Account,
    pub detection: Detection,
    compact: LazyLock<(CompactDetection, Vec<u8>), Box<dyn FnOnce() -> (CompactDetection, Vec<u8>) + Send>>,
}

impl Person {
    pub fn new(name: u8) -> Self {
        let account = Account::from_seed(PARAMETERS, Seed::from([name; 32]));
        let detection = Detection::new(&account, Backend::best()).unwrap();
        let compact = LazyLock::new(Box::new(move || {
            let account = Account::from_seed(PARAMETERS, Seed::from([name; 32]));
            let key = account.compact_secret(&COMPACT).unwrap().detection_key().unwrap().to_file();
            (CompactDetection::new(&account, &COMPACT).unwrap(), key)
        }) as Box<_>);
        Self { account, detection, compact }
    }

    pub fn compact(&self) -> &CompactDetection {
        &self.compact.0
    }

    /// The file of the compact detection key.
    pub fn compact_key(&self) -> &[u8] {
        &self.compact.1
    }

    pub fn detection_for(&self, delivery: Delivery) -> AnyDetection<'_> {
        match delivery {
            Delivery::Compact(_) => AnyDetection::Compact(self.compact()),
            _ => AnyDetection::Stream(&self.detection),
        }
    }
}

/// Three recipients, and one that nobody here is.
pub static PEOPLE: LazyLock<[Person; 3]> = LazyLock::new(|| [1, 2, 3].map(Person::new));
static STRANGER: LazyLock<Account> = LazyLock::new(|| Account::from_seed(PARAMETERS, Seed::from([99; 32])));

pub fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// `count` messages; those at `mine` are for the person, the others for a stranger.
pub fn board(count: u64, mine: &[(u64, &Account)]) -> Vec<PageMessage> {
    let mut rng = rng(50);
    let stranger = STRANGER.address().prepare();
    (0..count)
        .map(|index| match mine.iter().find(|(place, _)| *place == index) {
            Some((_, account)) => {
                let sender = account.address().prepare();
                let message =
                    sender.write_message(&BOARD, today(), text(index).as_bytes(), &mut rng).unwrap();
                PageMessage { clue: message.clue, payload: message.payload }
            }
            None => {
                let mut payload = vec![0; 1536];
                rng.fill_bytes(&mut payload);
                PageMessage { clue: stranger.make_clue(&BOARD, today(), &payload, &mut rng), payload }
            }
        })
        .collect()
}

pub fn text(index: u64) -> String {
    format!("message {index}")
}

/// Two relays with the same board.
pub fn pair(messages: &[PageMessage]) -> [FakeRelay; 2] {
    [10, 11].map(|name| {
        let mut relay = FakeRelay::new(name, PEOPLE[0].detection.context(), NOW);
        relay.messages = messages.to_vec();
        relay
    })
}

/// What an observer of the line, or the relays together, see of a request: everything but secrets in random-looking bytes. And how
/// much had been done with the account's secrets when its answer had been taken, which shows as time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Request {
        side: Side,
        method: Method,
        path: String,
        body_bytes: usize,
        answer_bytes: usize,
        pace: Duration,
        work: Work,
    },
    Wait(Duration),
}

impl Seen {
    fn new(request: &Request, answer_bytes: usize, work: Work) -> Self {
        // A key's id is the registration's name, and jobs have names under it; they differ between clients, and not with what they find.
        let mut path = request.path.clone();
        if let Some(rest) = request.path.strip_prefix("/v1/keys/") {
            let rest = match rest[32..].strip_prefix("/jobs/") {
                Some(job) => format!("/jobs/{{job}}{}", &job[32..]),
                None => rest[32..].to_owned(),
            };
            path = format!("/v1/keys/{{key}}{rest}");
        }
        let Request { relay: side, method, pace, .. } = *request;
        Self::Request { side, method, path, body_bytes: request.body.len(), answer_bytes, pace, work }
    }
}

pub fn register(person: &Person, relays: &mut [FakeRelay; 2], state: &mut SyncState, seed: u8) {
    register_key(person, DigestKind::Stream, &mut relays[0], state, seed);
}

pub fn register_key(
    person: &Person,
    kind: DigestKind,
    relay: &mut FakeRelay,
    state: &mut SyncState,
    seed: u8,
) {
    let first = state.complete_to();
    let known = *state.relay(Side::First);
    let key = match kind {
        DigestKind::Compact => person.compact().upload(*blake3::hash(person.compact_key()).as_bytes()),
        _ => person.detection.upload(),
    };
    let mut machine = RegisterMachine::new(key, known, None, first, Retries::default());
    loop {
        match machine.step() {
            Step::Ask(mut request) => {
                fill_in(person, &mut request);
                let reply = relay.ask(&request);
                machine.respond(reply, NOW, &mut rng(seed)).unwrap();
            }
            Step::Wait(_) => {}
            Step::Done => break,
        }
    }
    state.set_registration(kind, machine.registration().cloned());
}

/// Puts in what a machine leaves to its caller.
pub fn fill_in(person: &Person, request: &mut Request) {
    if let Some(part) = request.key_part.take() {
        assert!(request.body.is_empty());
        request.body = person.compact_key()[part.start as usize..part.end as usize].to_vec();
    }
}

pub fn fresh() -> SyncState {
    SyncState::new(PARAMETERS, 0, KnownRelay::default())
}

pub fn private(fetches: u32) -> SyncConfig {
    SyncConfig::new(Delivery::Private(Private { fetches, tail: Tail::Wait }))
}

pub fn whole() -> SyncConfig {
    SyncConfig::new(Delivery::Whole { second: false })
}

/// A relay that is asked in no time.
pub struct Instant<'a>(pub &'a mut FakeRelay);

impl Host for Instant<'_> {
    type Error = std::convert::Infallible;

    fn ask(&mut self, request: Request) -> Result<Reply, Self::Error> {
        Ok(self.0.ask(&request))
    }

    fn clock(&mut self) -> Duration {
        Duration::MAX
    }

    fn sleep(&mut self, _: Duration) {}

    fn now(&mut self) -> u64 {
        self.0.now
    }
}

/// What a round has come to.
pub struct Round {
    pub received: Vec<Received>,
    pub outcome: Outcome,
    pub seen: Vec<Seen>,
    pub error: Option<RelayError>,
}

impl Round {
    pub fn indices(&self) -> Vec<u64> {
        self.received.iter().map(|received| received.index).collect()
    }

    pub fn requests(&self) -> usize {
        self.seen.iter().filter(|seen| matches!(seen, Seen::Request { .. })).count()
    }
}

/// How a round ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As the machine says.
    Done,
    /// The program is killed after so many answers: all that is left is the state from before.
    Killed(usize),
    /// After so many answers there are no more, and the round fails.
    Broken(usize),
}

/// One round that ends somehow. The state goes through its file.
pub fn round_until(
    person: &Person,
    config: SyncConfig,
    state: &mut SyncState,
    relays: &mut [FakeRelay; 2],
    seed: u8,
    end: End,
) -> Round {
    let now = relays[0].now;
    let mut rng = rng(seed);
    let copy = SyncState::from_file(&state.to_file()).unwrap();
    let mut machine =
        SyncMachine::new(&person.account, person.detection_for(config.delivery), config, copy).unwrap();
    let mut round = Round { received: vec![], outcome: Outcome::default(), seen: vec![], error: None };
    let mut answers = 0;
    loop {
        if end == End::Killed(answers) {
            round.outcome = machine.outcome().clone();
            return round;
        }
        match machine.step() {
            Step::Ask(request) => {
                let reply = match end {
                    End::Broken(after) if answers >= after => Reply::Broken(Cause::default()),
                    _ => relays[if request.relay == Side::First { 0 } else { 1 }].ask(&request),
                };
                let answer_bytes = match &reply {
                    Reply::Answer(response) => response.body.len(),
                    Reply::Broken(_) => 0,
                };
                let result = machine.respond(reply, now, &mut rng);
                round.seen.push(Seen::new(&request, answer_bytes, machine.work()));
                answers += 1;
                if let Err(error) = result {
                    round.error = Some(error);
                    break;
                }
            }
            Step::Wait(time) => round.seen.push(Seen::Wait(time)),
            Step::Done => break,
        }
        assert!(round.seen.len() < 2000, "the machine does not end");
    }
    let finished = machine.finish(&mut rng);
    assert_eq!(finished.state.rounds(), state.rounds() + 1);
    *state = SyncState::from_file(&finished.state.to_file()).unwrap();
    (round.received, round.outcome) = (finished.received, finished.outcome);
    round.error = round.error.or(finished.error);
    for received in &round.received {
        assert_eq!(*received.text, text(received.index).into_bytes());
    }
    round
}

/// A round whose texts are not those of [`board`].
pub fn texts(
    person: &Person,
    config: SyncConfig,
    state: &mut SyncState,
    relays: &mut [FakeRelay; 2],
    texts: &mut Vec<(u64, Vec<u8>)>,
) -> Option<RelayError> {
    let detection = person.detection_for(config.delivery);
    let mut machine = SyncMachine::new(&person.account, detection, config, state.clone()).unwrap();
    while let Step::Ask(request) = machine.step() {
        let reply = relays[0].ask(&request);
        if let Err(error) = machine.respond(reply, relays[0].now, &mut rng(1)) {
            return Some(error);
        }
    }
    let finished = machine.finish(&mut rng(1));
    texts.extend(finished.received.into_iter().map(|one| (one.index, one.text.to_vec())));
    *state = finished.state;
    finished.error
}

/// Whether settings are refused.
pub fn refused(person: &Person, config: SyncConfig, state: &SyncState) -> bool {
    let detection = person.detection_for(config.delivery);
    let machine = SyncMachine::new(&person.account, detection, config, state.clone());
    matches!(machine.err(), Some(RelayError::Configuration(_)))
}

pub fn round(
    person: &Person,
    config: SyncConfig,
    state: &mut SyncState,
    relays: &mut [FakeRelay; 2],
    seed: u8,
) -> Round {
    round_until(person, config, state, relays, seed, End::Done)
}
