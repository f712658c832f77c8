//! A relay for tests, and what its clients need.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a panic is how a test fails; not every test needs everything"
)]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use restante_client::Account;
use restante_clue::ClueParameters;
use restante_load::{Connection, Response};
use restante_omr::stream::{Decoder, RecipientSecret, StreamContext, StreamDigest, StreamParameters};
use restante_ring::Backend;
use restante_server::{Config, Limits, Relay, Running, serve};
use restante_wire::binding::{BoardId, Period};
use restante_wire::merkle::{ConsistencyProof, Hash};
use restante_wire::relay::{
    DigestKind, Hex, JobId, JobRequest, JobState, JobStatus, KeyStatus, MessageId, Page, PostBatch,
    PostMessage, PostResult, Problem, RegisterRequest, Registered, RelayKey, SignedHead, media,
};
use restante_wire::{Decode, Envelope, Kind, ParameterId};

pub const CLUE: ClueParameters = ClueParameters::STANDARD;
/// The board of every relay that is no mirror.
pub const BOARD: BoardId = BoardId([0xb0; 16]);

/// Today.
pub fn today() -> Period {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Period::of(now.as_secs())
}

/// A relay in this process.
pub struct TestRelay {
    runtime: tokio::runtime::Runtime,
    running: Option<Running>,
    pub key: RelayKey,
    pub address: SocketAddr,
    pub operations: SocketAddr,
}

/// A configuration for tests: any port, small segments, room on small disks.
pub fn config(data: &Path) -> Config {
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    Config {
        data: data.into(),
        listen: local,
        operations: local,
        segment_capacity: 64,
        board_id_for_tests: Some(BOARD),
        standing_seconds: 1,
        limits: Limits { disk_reserve_bytes: 0, ..Limits::default() },
        ..Config::default()
    }
}

impl TestRelay {
    pub fn start(config: Config) -> Self {
        let relay = Relay::open(config).unwrap();
        let key = relay.key();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let running = runtime.block_on(serve(relay)).unwrap();
        let (address, operations) = (running.address, running.operations);
        Self { runtime, running: Some(running), key, address, operations }
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap()
    }

    /// A connection from another address of this machine.
    pub fn connect_from(&self, from: [u8; 4]) -> Connection {
        let stream = self.runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::from((from, 0))).unwrap();
            socket.connect(self.address).await.unwrap()
        });
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        Connection::over(stream).unwrap()
    }

    /// Asks the operators' address.
    pub fn operate(&self, method: &str, path: &str) -> Response {
        Connection::open(self.operations).unwrap().send(method, path, &[], None).unwrap()
    }

    /// Waits until the relay says that it cannot do what it is for, and gives the reason.
    #[allow(dead_code, reason = "each test program uses some of these")]
    pub fn failure(mut self) -> String {
        let running = self.running.as_mut().unwrap();
        let failed = async { tokio::time::timeout(Duration::from_secs(60), running.failed()).await };
        self.runtime.block_on(failed).unwrap().to_string()
    }

    pub fn stop(mut self) {
        let running = self.running.take().unwrap();
        self.runtime.block_on(running.stop());
    }
}

impl Drop for TestRelay {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.stop());
        }
    }
}

/// Sets a flag when it is dropped, so that the other threads of a scope end when this one panics, too.
pub struct SetAtEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub fn random<const LEN: usize>() -> [u8; LEN] {
    let mut bytes = [0; LEN];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

pub fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// A message for nobody: any residues are a clue.
pub fn message(number: u64) -> PostMessage {
    let mut rng = ChaCha20Rng::seed_from_u64(number);
    let mut payload = vec![0; 40];
    rng.fill_bytes(&mut payload);
    PostMessage { id: MessageId(random()), clue: any_clue(today()), payload }
}

/// A clue for nobody, another one at each call.
pub fn any_clue(period: Period) -> Vec<u8> {
    let mut clue = vec![0; CLUE.clue_bytes()];
    clue[..4].copy_from_slice(&period.0.to_le_bytes());
    // Coefficients and residues have 20 bits each and are less than 0xc0001. All are random: with most of them zero, one
    // clue in a million would seem to be for somebody.
    getrandom::fill(&mut clue[4..]).unwrap();
    for two in clue[4..].chunks_exact_mut(5) {
        let both = u64::from_le_bytes([two[0], two[1], two[2], two[3], two[4], 0, 0, 0]);
        let below = |value: u64| if value >> 18 == 3 { value & 0x3ffff } else { value };
        let both = below(both & 0xfffff) | below(both >> 20) << 20;
        two.copy_from_slice(&both.to_le_bytes()[..5]);
    }
    clue
}

pub fn problem(response: &Response) -> Problem {
    assert_eq!(response.header("content-type"), Some(media::PROBLEM), "{response:?}");
    let problem: Problem = response.json().unwrap();
    assert_eq!(problem.status, response.status);
    problem
}

/// Checks status, code and field of a refusal.
pub fn assert_refused(response: &Response, status: u16, code: &str, field: Option<&str>) {
    let problem = problem(response);
    assert_eq!(
        (response.status, problem.code(), problem.field.as_deref()),
        (status, code, field),
        "{problem:?}"
    );
}

pub fn post(connection: &mut Connection, messages: Vec<PostMessage>) -> Response {
    let body = PostBatch(messages).to_body(CLUE.id());
    connection.send("POST", "/v1/messages", &[("content-type", media::POST)], Some(&body)).unwrap()
}

/// Posts `count` messages for nobody.
pub fn fill(connection: &mut Connection, count: u64) {
    let mut number = 0;
    while number < count {
        let end = count.min(number + 256);
        let response = post(connection, (number..end).map(message).collect());
        assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
        number = end;
    }
}

pub fn posted(response: &Response) -> PostResult {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    response.json().unwrap()
}

pub fn head(connection: &mut Connection, relay: &RelayKey) -> SignedHead {
    let response = connection.send("GET", "/v1/head", &[], None).unwrap();
    let head = SignedHead::from_file(&response.body).unwrap();
    assert!(head.is_signed_by(relay));
    head
}

pub fn page(connection: &mut Connection, first: u64, end: u64) -> Page {
    let response =
        connection.send("GET", &format!("/v1/messages?first={first}&end={end}"), &[], None).unwrap();
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    let page = Page::from_body(CLUE.id(), CLUE.clue_bytes(), &response.body).unwrap();
    assert_eq!(response.header("restante-complete-to"), Some(page.end().to_string().as_str()));
    page.verify().unwrap();
    page
}

pub fn consistency(connection: &mut Connection, from: u64, to: u64) -> ConsistencyProof {
    let response =
        connection.send("GET", &format!("/v1/consistency?from={from}&to={to}"), &[], None).unwrap();
    assert_eq!(response.status, 200);
    let envelope = Envelope::open_as(&response.body, Kind::ConsistencyProof, 1, CLUE.id()).unwrap();
    ConsistencyProof::from_bytes(&(), envelope.body).unwrap()
}

pub fn context() -> &'static StreamContext {
    static CONTEXT: OnceLock<StreamContext> = OnceLock::new();
    CONTEXT.get_or_init(|| StreamContext::new(StreamParameters::new(CLUE).unwrap(), Backend::best()).unwrap())
}

/// A job for a stream digest.
pub fn stream_job(first: u64, end: Option<u64>) -> JobRequest {
    JobRequest {
        id: JobId(random()),
        kind: DigestKind::Stream,
        first,
        end,
        capacity: None,
        payload_bytes: None,
    }
}

/// A message to an account.
pub fn message_to(account: &Account, text: &str, seed: u8) -> PostMessage {
    let sender = account.address().prepare();
    let message = sender.write_message(&BOARD, today(), text.as_bytes(), &mut rng(seed)).unwrap();
    PostMessage { id: MessageId(random()), clue: message.clue, payload: message.payload }
}

/// The registration of a detection key's file.
pub fn registration(kind: DigestKind, parameters: ParameterId, file: &[u8]) -> RegisterRequest {
    RegisterRequest {
        kind,
        parameters: parameters.into(),
        bytes: file.len() as u64,
        hash: Hash::of(file).into(),
    }
}

/// A recipient with its detection key.
pub struct Recipient {
    pub account: Account,
    pub secret: RecipientSecret,
    pub file: Vec<u8>,
}

impl Recipient {
    pub fn new(seed: u8) -> Self {
        let account = Account::random(CLUE, &mut rng(seed));
        let secret = account.recipient_secret(context()).unwrap();
        let file = secret.detection_key().unwrap().to_file();
        Self { account, secret, file }
    }

    pub fn message(&self, text: &str, seed: u8) -> PostMessage {
        message_to(&self.account, text, seed)
    }

    pub fn request(&self) -> RegisterRequest {
        registration(DigestKind::Stream, context().id(), &self.file)
    }

    /// The messages that a digest says are pertinent.
    pub fn pertinent(&self, digest: &[u8]) -> Vec<u64> {
        let digest = StreamDigest::from_file(context(), digest).unwrap();
        Decoder::new(&self.secret).unwrap().pertinent(&digest).unwrap()
    }
}

/// A registration.
pub struct Owner {
    pub path: String,
    pub authorization: String,
}

pub fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

impl Owner {
    /// Registers a key and uploads it.
    pub fn register(connection: &mut Connection, recipient: &Recipient) -> Self {
        let owner = Self::announce(connection, &recipient.request());
        let response = owner.upload(connection, 0, &recipient.file);
        assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
        owner
    }

    pub fn announce(connection: &mut Connection, request: &RegisterRequest) -> Self {
        let headers = [("content-type", media::JSON)];
        let response = connection.send("POST", "/v1/keys", &headers, Some(&json(request))).unwrap();
        assert_eq!(response.status, 201, "{}", String::from_utf8_lossy(&response.body));
        let registered: Registered = response.json().unwrap();
        let path = format!("/v1/keys/{}", registered.key.key);
        assert_eq!(response.header("location"), Some(path.as_str()));
        Self { path, authorization: format!("Bearer {}", registered.token.reveal()) }
    }

    pub fn upload(&self, connection: &mut Connection, offset: usize, part: &[u8]) -> Response {
        let offset = offset.to_string();
        let headers = [
            ("authorization", self.authorization.as_str()),
            ("content-type", media::KEY_PART),
            ("upload-offset", offset.as_str()),
        ];
        connection.send("PATCH", &format!("{}/content", self.path), &headers, Some(part)).unwrap()
    }

    pub fn send(
        &self,
        connection: &mut Connection,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
    ) -> Response {
        let headers = [("authorization", self.authorization.as_str()), ("content-type", media::JSON)];
        connection.send(method, &format!("{}{path}", self.path), &headers, body).unwrap()
    }

    pub fn status(&self, connection: &mut Connection) -> KeyStatus {
        self.send(connection, "GET", "", None).json().unwrap()
    }

    pub fn submit(&self, connection: &mut Connection, first: u64, end: Option<u64>) -> JobStatus {
        let request = stream_job(first, end);
        let response = self.send(connection, "POST", "/jobs", Some(&json(&request)));
        assert_eq!(response.status, 202, "{}", String::from_utf8_lossy(&response.body));
        response.json().unwrap()
    }

    pub fn wait(&self, connection: &mut Connection, id: JobId) -> JobStatus {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let status: JobStatus =
                self.send(connection, "GET", &format!("/jobs/{id}"), None).json().unwrap();
            if status.state.is_final() {
                return status;
            }
            assert!(Instant::now() < deadline, "{status:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn result(&self, connection: &mut Connection, id: JobId) -> Vec<u8> {
        let status = self.wait(connection, id);
        assert_eq!(status.state, JobState::Done, "{status:?}");
        let response = self.send(connection, "GET", &format!("/jobs/{id}/result"), None);
        assert_eq!(response.status, 200);
        assert_eq!(Some(Hex(Hash::of(&response.body).0)), status.result_hash);
        assert_eq!(Some(response.body.len() as u64), status.result_bytes);
        response.body
    }
}
