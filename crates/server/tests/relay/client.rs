//! The client library against a relay over sockets: mail by compact digests, in a ring of no security.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some of them with one")]

use std::convert::Infallible;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use restante_client::{
    Account, AnyDetection, CompactDetection,
    relay::{
        Again, Cause, Compact, Delivery, Driver, Host, KnownRelay, Machine, RegisterMachine, Reply, Request,
        Response, Retries, Side, SyncConfig, SyncMachine, SyncState,
    },
};
use restante_load::Connection;
use restante_omr::compact::{CompactContext, CompactParameters};
use restante_ring::Backend;
use restante_server::{CompactConfig, Config};
use restante_wire::relay::{DigestKind, MessageId, PostMessage};

use super::support::{BOARD, CLUE, TestRelay, config, post, posted, random, rng, today};

/// A connection as a client's machines ask over it, with the file of a compact detection key.
pub struct Caller<'a> {
    connection: &'a mut Connection,
    key: &'a [u8],
    start: Instant,
    /// How many parts of the key were sent.
    parts: usize,
}

impl<'a> Caller<'a> {
    pub fn new(connection: &'a mut Connection, key: &'a [u8]) -> Self {
        Self { connection, key, start: Instant::now(), parts: 0 }
    }

    /// Runs a machine to its end.
    pub fn run(&mut self, machine: &mut impl Machine) {
        let ended = Driver::new().run(machine, self, &mut rng(9), |_| Ok(()));
        ended.unwrap();
    }
}

impl Host for Caller<'_> {
    type Error = Infallible;

    fn ask(&mut self, mut request: Request) -> Result<Reply, Infallible> {
        if let Some(part) = request.key_part.take() {
            self.parts += 1;
            request.body = self.key[part.start as usize..part.end as usize].to_vec();
        }
        let mut fields: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if let Some(value) = &request.authorization {
            fields.push(("authorization", value));
        }
        let has_body = fields.iter().any(|(name, _)| *name == "content-type");
        let body = has_body.then_some(&request.body[..]);
        let answer = self.connection.send(request.method.name(), &request.path, &fields, body);
        Ok(answer.map_or(Reply::Broken(Cause::default()), |answer| {
            let (status, headers, body) = (answer.status, answer.headers, answer.body);
            Reply::Answer(Response { status, headers, body })
        }))
    }

    fn clock(&mut self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn now(&mut self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
    }
}

fn written(account: &Account, text: &[u8], seed: u8) -> PostMessage {
    let message = account.address().prepare().write_message(&BOARD, today(), text, &mut rng(seed)).unwrap();
    PostMessage { id: MessageId(random()), clue: message.clue, payload: message.payload }
}

#[test]
fn a_client_reads_its_mail_from_compact_digests() {
    let context = CompactContext::new(CompactParameters::insecure(CLUE).unwrap(), Backend::best()).unwrap();
    let account = Account::random(CLUE, &mut rng(1));
    let detection = CompactDetection::new(&account, &context).unwrap();
    let key = account.compact_secret(&context).unwrap().detection_key().unwrap().to_file();

    let scratch = tempfile::tempdir().unwrap();
    let compact = CompactConfig { enabled: true, insecure_for_tests: true, ..CompactConfig::default() };
    let mut settings = Config { compact, ..config(scratch.path()) };
    settings.limits.upload_part_bytes = 1 << 20;
    let relay = TestRelay::start(settings);
    let mut connection = relay.connect();
    let stranger = Account::random(CLUE, &mut rng(2));
    let mut all: Vec<PostMessage> = (0..30).map(|seed| written(&stranger, b"not hers", seed)).collect();
    all[3] = written(&account, b"one", 40);
    all[20] = written(&account, b"two", 41);
    all[21] = written(&account, b"three", 42);
    all[22] = written(&account, &[7; 1000], 43);
    posted(&post(&mut connection, all));

    let mut state = SyncState::new(CLUE, 0, KnownRelay::pinned(relay.key));
    let upload = detection.upload(*blake3::hash(&key).as_bytes());
    let known = *state.relay(Side::First);
    let mut machine = RegisterMachine::new(upload, known, None, 0, Retries::default());
    let mut caller = Caller::new(&mut connection, &key);
    caller.run(&mut machine);
    assert_eq!(caller.parts, key.len().div_ceil(1 << 20));
    state.set_registration(DigestKind::Compact, machine.registration().cloned());
    assert!(state.registration(DigestKind::Compact).unwrap().is_complete());

    // Room for two: 16..30 has more, which come with the second look at 0..24.
    let settings = Compact {
        messages: 16,
        again: Some(Again { messages: 24, capacity: 60 }),
        poll: Duration::from_millis(20),
        polls: 100_000,
        ..Compact::new(2, 1536)
    };
    let sync = SyncConfig::new(Delivery::Compact(settings));
    let mut machine =
        SyncMachine::new(&account, AnyDetection::Compact(&detection), sync, state.clone()).unwrap();
    caller.run(&mut machine);
    let finished = machine.finish(&mut rng(8));
    let found: Vec<_> = finished.received.iter().map(|one| (one.index, one.text.to_vec())).collect();
    state = SyncState::from_file(&finished.state.to_file()).unwrap();
    let outcome = &finished.outcome;
    assert_eq!(found, [(3, b"one".to_vec()), (20, b"two".to_vec()), (21, b"three".to_vec())]);
    assert_eq!((outcome.overflowed.as_slice(), outcome.too_long.as_slice()), (&[16..30][..], &[22][..]));
    assert_eq!((state.complete_to(), state.lost().collect::<Vec<_>>()), (30, vec![22..23, 24..30]));
    assert!(!outcome.waiting && outcome.failed.is_none());
}
