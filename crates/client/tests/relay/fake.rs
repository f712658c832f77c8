//! A relay in memory, written from docs/protocol.md: honest, unless a test tampers with its answers.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    convert::Infallible,
    ops::Range,
    sync::{Arc, LazyLock, Mutex},
};

use ed25519_dalek::SigningKey;
use restante_client::{
    digest_payload, digest_request,
    relay::{Method, Reply, Request, Response},
};
use restante_clue::{BoundClue, ClueParameters};
use restante_omr::{
    OmrError,
    compact::{self, CompactContext, CompactDetectionKey, CompactParameters},
    stream::{BLOCK, DetectionKey, Detector, PreparedKey, StreamContext, StreamDigest},
};
use restante_pir::fetch::{Content, Epoch, EpochBuilder, Query, answer};
use restante_ring::Backend;
use restante_ring::sample::Seed;
use restante_scan::Runner;
use restante_wire::{
    Encode, Envelope, Kind, ParameterId,
    binding::{BoardId, Period},
    merkle::{ConsistencyProof, Frontier, Hash, RangeProof},
    relay::{
        BoardInfo, DigestInfo, DigestKind, DigestList, EpochList, EpochStatus, FetchInfo, HeadStatus, Hex,
        JobId, JobRequest, JobState, JobStatus, KeyId, KeyState, KeyStatus, LimitsInfo, Page, PageMessage,
        PostBatch, PostResult, Posted, Problem, RegisterRequest, Registered, RelayInfo, RelayKey, SignedHead,
        StandingRequest, StandingStatus, Token,
    },
};
use tempfile::TempDir;

use crate::world::Person;

pub const PARAMETERS: ClueParameters = ClueParameters::STANDARD;

/// The board of every relay, unless a test gives it another one.
pub const BOARD: BoardId = BoardId([0xb0; 16]);

/// Compact digests in a ring of no security, where they take a second.
pub static COMPACT: LazyLock<CompactContext> = LazyLock::new(|| {
    CompactContext::new(CompactParameters::insecure(PARAMETERS).unwrap(), Backend::best()).unwrap()
});

/// Compact digests that some test's relay has made, by the hash of all that they follow from.
static MADE: LazyLock<Mutex<HashMap<blake3::Hash, Arc<Vec<u8>>>>> = LazyLock::new(Mutex::default);

/// What a test may do to an answer.
pub type Tamper = Box<dyn FnMut(&Request, Response) -> Reply>;

pub struct FakeRelay {
    pub key: SigningKey,
    pub board: BoardId,
    pub now: u64,
    pub messages: Vec<PageMessage>,
    pub limits: LimitsInfo,
    pub fetch: Option<FetchInfo>,
    /// The most messages of an epoch.
    pub window: u64,
    /// Digests of an answer.
    pub digests_max: usize,
    /// Messages that standing digests are complete to, if they lag behind.
    pub detected_to: Option<u64>,
    pub retained_from: u64,
    /// Whether there are compact digests, for at most so many messages.
    pub compact: Option<u64>,
    /// Whether compact keys may have standing orders.
    pub compact_standing: bool,
    /// How often a job is seen at work before it is done.
    pub polls: u32,
    pub tamper: Option<Tamper>,
    /// What the next refusal is about.
    field: Option<String>,
    context: StreamContext,
    detector: Detector,
    ids: HashMap<[u8; 16], (Hash, u64)>,
    keys: Vec<KeyRecord>,
    digests: BTreeMap<([u8; 16], u64, u64), Vec<u8>>,
    epochs: HashMap<(u64, u64), Epoch>,
    directory: TempDir,
    runner: Runner,
}

/// A registration.
struct KeyRecord {
    token: [u8; 32],
    /// What its credential paid for.
    name: Option<String>,
    request: RegisterRequest,
    bytes: Vec<u8>,
    prepared: Option<Prepared>,
    standing: Option<u64>,
    jobs: BTreeMap<JobId, JobRecord>,
}

#[derive(Clone)]
enum Prepared {
    Stream(Arc<PreparedKey>),
    Compact(Arc<compact::PreparedKey>),
}

struct JobRecord {
    request: JobRequest,
    /// How often it is still seen at work.
    polls: u32,
    file: Arc<Vec<u8>>,
}

/// Messages as a detector takes them.
fn bound<'a>(board: &BoardId, messages: &'a [PageMessage]) -> Vec<BoundClue<'a>> {
    let bound = |message: &'a PageMessage| BoundClue {
        bytes: &message.clue,
        binding: message.hashes().binding(board),
    };
    messages.iter().map(bound).collect()
}

impl FakeRelay {
    pub fn new(name: u8, context: &StreamContext, now: u64) -> Self {
        Self {
            key: SigningKey::from_bytes(&[name; 32]),
            board: BOARD,
            now,
            messages: Vec::new(),
            limits: LimitsInfo {
                batch_messages: 3,
                batch_bytes: 1 << 20,
                page_messages: 50,
                page_bytes: 1 << 20,
                upload_part_bytes: 100_000,
                job_messages: 1 << 20,
                jobs: 8,
                id_seconds: 1000,
                job_seconds: 1000,
            },
            fetch: Some(FetchInfo {
                record_bytes: 8192,
                part: "message".into(),
                messages: 16,
                seconds: None,
                server: None,
            }),
            window: 64,
            digests_max: 1,
            detected_to: None,
            retained_from: 0,
            compact: None,
            compact_standing: false,
            polls: 0,
            tamper: None,
            field: None,
            context: context.clone(),
            detector: Detector::new(context).unwrap(),
            ids: HashMap::new(),
            keys: Vec::new(),
            digests: BTreeMap::new(),
            epochs: HashMap::new(),
            directory: tempfile::tempdir().unwrap(),
            runner: Runner::new(1).unwrap(),
        }
    }

    pub fn relay_key(&self) -> RelayKey {
        Hex(self.key.verifying_key().to_bytes())
    }

    pub fn count(&self) -> u64 {
        self.messages.len() as u64
    }

    fn root(&self, range: Range<u64>) -> Hash {
        let mut tree = Frontier::default();
        let leaves = &self.messages[range.start as usize..range.end as usize];
        leaves.iter().for_each(|message| tree.push(0, message.leaf()));
        tree.root()
    }

    pub fn head(&self) -> SignedHead {
        let count = self.count();
        SignedHead::sign(&self.key, (self.board, PARAMETERS.id()), count, self.root(0..count), self.now)
    }

    pub fn page(&self, range: Range<u64>) -> Page {
        let Ok(proof) =
            RangeProof::build(&range, self.count(), |range| Ok::<_, Infallible>(self.root(range)));
        let messages = self.messages[range.start as usize..range.end as usize].to_vec();
        Page { head: self.head(), first: range.start, messages, proof }
    }

    pub fn ask(&mut self, request: &Request) -> Reply {
        let response = self.handle(request).unwrap_or_else(|(status, code)| {
            let problem = Problem {
                kind: format!("{}{code}", Problem::TYPE_PREFIX),
                title: String::new(),
                status,
                detail: String::new(),
                field: self.field.take(),
                retry_after: None,
            };
            respond(status, vec![], json(&problem))
        });
        match &mut self.tamper {
            Some(tamper) => tamper(request, response),
            None => Reply::Answer(response),
        }
    }

    fn handle(&mut self, request: &Request) -> Result<Response, (u16, &'static str)> {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let number = |name: &str| -> Option<u64> {
            query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
        };
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match (request.method, segments.as_slice()) {
            (Method::Get, ["v1", "parameters"]) => Ok(ok(json(&self.info()))),
            (Method::Get, ["v1", "head"]) => {
                assert!(header(request, "accept") == Some("application/json"));
                Ok(ok(json(&HeadStatus::new(&self.head(), self.retained_from))))
            }
            (Method::Get, ["v1", "consistency"]) => {
                let (from, to) = (number("from").unwrap(), number("to").unwrap());
                if from > to || to > self.count() {
                    return Err((416, "range"));
                }
                if from < self.retained_from && from % 16 != 0 {
                    return Err((410, "gone"));
                }
                let Ok(proof) =
                    ConsistencyProof::build(from, to, |range| Ok::<_, Infallible>(self.root(range)));
                let body = proof.to_bytes();
                let (kind, parameters) = (Kind::ConsistencyProof, PARAMETERS.id());
                Ok(ok(Envelope { kind, version: 1, parameters, body: &body }.seal()))
            }
            (Method::Get, ["v1", "messages"]) => {
                let first = number("first").unwrap();
                let end = number("end").unwrap_or(self.count()).min(self.count());
                if first < self.retained_from {
                    return Err((410, "gone"));
                }
                if first > end {
                    return Err((416, "range"));
                }
                let end = end.min(first + u64::from(self.limits.page_messages));
                Ok(complete(end, self.page(first..end).to_body()))
            }
            (Method::Post, ["v1", "messages"]) => self.post(request),
            (Method::Post, ["v1", "keys"]) => self.register(request),
            (Method::Get, ["v1", "epochs"]) => Ok(ok(json(&self.epoch_list()))),
            (method, ["v1", "epochs", epoch, rest @ ..]) => self.epoch(method, epoch, rest, request),
            (method, ["v1", "keys", key, rest @ ..]) => {
                let key: KeyId = key.parse().unwrap();
                let authorization = request.authorization.as_ref().ok_or((401, "unauthorized"))?;
                let token: Token = authorization.strip_prefix("Bearer ").unwrap().parse().unwrap();
                let place = self.keys.iter().position(|r| {
                    Token::new(r.token).hash() == token.hash() && r.request.hash.0[..16] == key.0
                });
                self.owned(method, place.ok_or((401, "unauthorized"))?, rest, request, number("first"))
            }
            _ => Err((404, "not-found")),
        }
    }

    fn info(&self) -> RelayInfo {
        RelayInfo {
            protocol: 2,
            relay: self.relay_key(),
            board: BoardInfo {
                id: Hex(self.board.0),
                parameters: PARAMETERS.id().into(),
                clue_bytes: PARAMETERS.clue_bytes() as u32,
                payload_bytes_max: 4096,
                segment_capacity: 16,
            },
            digests: std::iter::once(DigestInfo {
                kind: DigestKind::Stream,
                parameters: self.context.id().into(),
                key_bytes: DetectionKey::file_bytes(&self.context) as u64,
                block: BLOCK as u32,
                block_bytes: StreamDigest::file_bytes(&self.context, 1) as u64,
                messages_max: StreamDigest::MAX_MESSAGES,
                capacity_max: None,
                payload_bytes_max: None,
            })
            .chain(self.compact.map(|messages_max| DigestInfo {
                kind: DigestKind::Compact,
                parameters: COMPACT.id().into(),
                key_bytes: CompactDetectionKey::file_bytes(&COMPACT) as u64,
                block: COMPACT.degree() as u32,
                block_bytes: 1 << 20,
                messages_max,
                capacity_max: Some(255),
                payload_bytes_max: Some(4064),
            }))
            .collect(),
            fetch: self.fetch.clone(),
            limits: self.limits.clone(),
        }
    }

    fn post(&mut self, request: &Request) -> Result<Response, (u16, &'static str)> {
        assert_eq!(header(request, "content-type"), Some("application/vnd.restante.post.v2"));
        let batch = PostBatch::from_body(PARAMETERS.id(), PARAMETERS.clue_bytes(), &request.body).unwrap().0;
        assert!(batch.len() <= self.limits.batch_messages as usize);
        assert!(request.body.len() as u64 <= self.limits.batch_bytes);
        // As docs/protocol.md has it: ids first, then days, then clues, and all of a batch or none.
        let today = Period::of(self.now);
        let mut taken: HashSet<Hash> = self.messages.iter().map(|message| message.hashes().bound).collect();
        for (place, message) in batch.iter().enumerate() {
            if self.ids.contains_key(&message.id.0) {
                continue;
            }
            self.field = Some(format!("body:messages[{place}].clue"));
            if !Period::of_clue(&message.clue).unwrap().is_near(today) {
                return Err((422, "period"));
            }
            if !taken.insert(message.hashes().bound) {
                return Err((409, "duplicate"));
            }
            self.field = None;
        }
        let mut messages = Vec::new();
        for message in batch {
            let posted = PageMessage { clue: message.clue, payload: message.payload };
            let leaf = posted.leaf();
            match self.ids.get(&message.id.0) {
                Some((old, _)) if *old != leaf => return Err((409, "conflict")),
                Some((_, index)) => messages.push(Posted { index: *index, replayed: true }),
                None => {
                    let index = self.count();
                    self.ids.insert(message.id.0, (leaf, index));
                    self.messages.push(posted);
                    messages.push(Posted { index, replayed: false });
                }
            }
        }
        let head = HeadStatus::new(&self.head(), self.retained_from);
        Ok(ok(json(&PostResult { messages, head })))
    }

    fn register(&mut self, request: &Request) -> Result<Response, (u16, &'static str)> {
        let name = header(request, "restante-request-id").map(str::to_owned);
        if let Some(place) = self.keys.iter().position(|key| name.is_some() && key.name == name) {
            let (token, key) = (Token::new(self.keys[place].token), self.key_status(place));
            return Ok(respond(201, vec![], json(&Registered { token, key })));
        }
        let request: RegisterRequest = serde_json::from_slice(&request.body).unwrap();
        let bytes = match request.kind {
            DigestKind::Compact if self.compact.is_none() => return Err((422, "invalid")),
            DigestKind::Compact => CompactDetectionKey::file_bytes(&COMPACT),
            _ => DetectionKey::file_bytes(&self.context),
        };
        assert_eq!(request.bytes, bytes as u64);
        let token = [self.keys.len() as u8 + 1; 32];
        let (bytes, jobs) = (vec![], BTreeMap::new());
        self.keys.push(KeyRecord { token, name, request, bytes, prepared: None, standing: None, jobs });
        let key = self.key_status(self.keys.len() - 1);
        Ok(respond(201, vec![], json(&Registered { token: Token::new(token), key })))
    }

    fn key_status(&self, place: usize) -> KeyStatus {
        let key = &self.keys[place];
        KeyStatus {
            key: KeyId::of(&key.request.hash),
            kind: key.request.kind,
            state: if key.prepared.is_some() { KeyState::Ready } else { KeyState::Uploading },
            bytes: key.request.bytes,
            uploaded: key.bytes.len() as u64,
            registered: self.now,
            standing: key.standing.map(|first| StandingStatus { first, complete_to: self.count() }),
        }
    }

    /// Where the standing orders begin.
    pub fn standing(&self) -> Vec<Option<u64>> {
        self.keys.iter().map(|key| key.standing).collect()
    }

    /// Forgets all registrations.
    pub fn forget_keys(&mut self) {
        self.keys.clear();
    }

    /// Jobs that nobody has deleted.
    pub fn jobs(&self) -> Vec<JobRequest> {
        self.keys.iter().flat_map(|key| key.jobs.values().map(|job| job.request.clone())).collect()
    }

    pub fn registrations(&self) -> usize {
        self.keys.len()
    }

    fn owned(
        &mut self,
        method: Method,
        place: usize,
        rest: &[&str],
        request: &Request,
        first: Option<u64>,
    ) -> Result<Response, (u16, &'static str)> {
        let offset = vec![("Upload-Offset".to_string(), self.keys[place].bytes.len().to_string())];
        match (method, rest) {
            (Method::Delete, []) => {
                self.keys.remove(place);
                Ok(respond(204, vec![], vec![]))
            }
            (Method::Head, ["content"]) => Ok(respond(204, offset, vec![])),
            (Method::Patch, ["content"]) => {
                let context = self.context.clone();
                let key = &mut self.keys[place];
                let at: usize = header(request, "upload-offset").unwrap().parse().unwrap();
                if at != key.bytes.len() || key.prepared.is_some() {
                    return Ok(respond(409, offset, vec![]));
                }
                assert!(request.body.len() as u64 <= self.limits.upload_part_bytes);
                key.bytes.extend_from_slice(&request.body);
                if key.bytes.len() as u64 == key.request.bytes {
                    if blake3::hash(&key.bytes).as_bytes() != &key.request.hash.0 {
                        key.bytes.clear();
                        return Err((422, "invalid"));
                    }
                    key.prepared = Some(match key.request.kind {
                        DigestKind::Compact => {
                            let detection = CompactDetectionKey::from_file(&COMPACT, &key.bytes).unwrap();
                            Prepared::Compact(Arc::new(compact::PreparedKey::new(detection)))
                        }
                        _ => {
                            let detection = DetectionKey::from_file(&context, &key.bytes).unwrap();
                            Prepared::Stream(Arc::new(PreparedKey::new(&detection)))
                        }
                    });
                }
                Ok(ok(json(&self.key_status(place))))
            }
            (Method::Put, ["standing"]) => {
                if self.keys[place].prepared.is_none() {
                    return Err((409, "conflict"));
                }
                if self.keys[place].request.kind == DigestKind::Compact && !self.compact_standing {
                    return Err((422, "invalid"));
                }
                let order: StandingRequest = serde_json::from_slice(&request.body).unwrap();
                let first = order.first.unwrap_or(self.count()) / BLOCK as u64 * BLOCK as u64;
                if self.keys[place].standing.is_some_and(|before| before != first) {
                    return Err((409, "conflict"));
                }
                self.keys[place].standing = Some(first);
                Ok(ok(json(&self.key_status(place))))
            }
            (Method::Delete, ["standing"]) => {
                self.keys[place].standing.take().ok_or((404, "not-found"))?;
                Ok(respond(204, vec![], vec![]))
            }
            (Method::Get, []) => Ok(ok(json(&self.key_status(place)))),
            (Method::Get, ["digests"]) => self.standing_digests(place, first.unwrap()),
            (Method::Post, ["jobs"]) => self.submit(place, request),
            (method, ["jobs", job, rest @ ..]) => {
                let id: JobId = job.parse().unwrap();
                let jobs = &mut self.keys[place].jobs;
                let job = jobs.get_mut(&id).ok_or((404, "not-found"))?;
                match (method, rest) {
                    (Method::Get, []) => {
                        job.polls = job.polls.saturating_sub(1);
                        Ok(ok(json(&job.status())))
                    }
                    (Method::Get, ["result"]) if job.polls > 0 => Err((409, "conflict")),
                    (Method::Get, ["result"]) => Ok(complete(job.request.end.unwrap(), job.file.to_vec())),
                    (Method::Delete, []) => {
                        jobs.remove(&id);
                        Ok(respond(204, vec![], vec![]))
                    }
                    _ => Err((404, "not-found")),
                }
            }
            _ => Err((404, "not-found")),
        }
    }

    fn submit(&mut self, place: usize, request: &Request) -> Result<Response, (u16, &'static str)> {
        let wanted: JobRequest = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(wanted.kind, DigestKind::Compact, "no client of ours asks for another");
        if let Some(job) = self.keys[place].jobs.get(&wanted.id) {
            return if job.request == wanted { Ok(ok(json(&job.status()))) } else { Err((409, "conflict")) };
        }
        if self.keys[place].jobs.len() >= self.limits.jobs as usize {
            return Err((429, "rate"));
        }
        let (range, most) = (wanted.first..wanted.end.unwrap(), self.compact.unwrap_or(0));
        assert!(!range.is_empty() && range.end <= self.count());
        if range.end - range.start > most.min(self.limits.job_messages) {
            return Err((413, "too-large"));
        }
        if range.start < self.retained_from {
            return Err((410, "gone"));
        }
        let Some(Prepared::Compact(key)) = self.keys[place].prepared.clone() else {
            return Err((409, "conflict"));
        };
        let file = self.compact_digest(&key, range, &wanted);
        let job = JobRecord { request: wanted.clone(), polls: self.polls, file };
        let status = json(&job.status());
        self.keys[place].jobs.insert(wanted.id, job);
        Ok(respond(202, vec![], status))
    }

    fn compact_digest(
        &self,
        key: &compact::PreparedKey,
        range: Range<u64>,
        wanted: &JobRequest,
    ) -> Arc<Vec<u8>> {
        let sizes = [wanted.capacity, wanted.payload_bytes].map(|size| size.unwrap() as usize);
        let request = digest_request(range.clone(), sizes[0], sizes[1]);
        let messages = &self.messages[range.start as usize..range.end as usize];
        let mut name = blake3::Hasher::new();
        name.update(&key.id().0).update(&self.board.0).update(format!("{request:?}").as_bytes());
        for message in messages {
            name.update(&message.leaf().0);
        }
        let name = name.finalize();
        if let Some(file) = MADE.lock().unwrap().get(&name) {
            return file.clone();
        }
        let clues = bound(&self.board, messages);
        let detector = compact::Detector::new(&COMPACT).unwrap();
        let seed = Seed::from([range.end as u8; 32]);
        let vectors = detector.pertinency(&[key], range.start, &clues, &seed, |_| ()).unwrap();
        let records = |range: Range<u64>| -> Result<Vec<compact::Payload<'static>>, OmrError> {
            let record = |index: u64| {
                let message = &self.messages[index as usize];
                digest_payload(&request, &message.clue, &message.payload)
            };
            Ok(range.map(record).collect())
        };
        let digests = detector.digests(&[key.key()], &[&vectors[0]], &request, records, |_| ()).unwrap();
        let file = Arc::new(digests[0].to_file(&COMPACT));
        MADE.lock().unwrap().insert(name, file.clone());
        file
    }

    fn standing_digests(&mut self, place: usize, first: u64) -> Result<Response, (u16, &'static str)> {
        let standing = self.keys[place].standing.ok_or((404, "not-found"))?;
        if first < standing {
            return Err((416, "range"));
        }
        let end = self.detected_to.unwrap_or(self.count()).min(self.count());
        let (mut files, mut complete_to) = (Vec::new(), first);
        let mut start = first / BLOCK as u64 * BLOCK as u64;
        while complete_to < end && files.len() < self.digests_max {
            let stop = end.min(start + BLOCK as u64);
            files.push(self.digest(place, start..stop));
            (complete_to, start) = (stop, stop);
        }
        Ok(complete(complete_to, DigestList(files).to_body(self.context.id())))
    }

    fn digest(&mut self, place: usize, range: Range<u64>) -> Vec<u8> {
        let Some(Prepared::Stream(key)) = self.keys[place].prepared.clone() else {
            panic!("only stream keys have standing digests");
        };
        let name = (key.id().0, range.start, range.end);
        if let Some(file) = self.digests.get(&name) {
            return file.clone();
        }
        let messages = &self.messages[range.start as usize..range.end as usize];
        let clues = bound(&self.board, messages);
        let seed = Seed::from([range.end as u8; 32]);
        let digests = self.detector.detect(std::slice::from_ref(&*key), range.start, &clues, &seed).unwrap();
        let file = digests[0].to_file(&self.context);
        self.digests.insert(name, file.clone());
        file
    }

    fn newest_epoch(&mut self) -> Option<(Range<u64>, &Epoch)> {
        let fetch = self.fetch.clone()?;
        let end = self.count() / fetch.messages * fetch.messages;
        let first = end.saturating_sub(self.window);
        if end == first {
            return None;
        }
        if !self.epochs.contains_key(&(first, end)) {
            let path = self.directory.path().join(format!("{first}-{end}"));
            let mut builder =
                EpochBuilder::create(path, fetch.record_bytes as usize, Content::Padded).unwrap();
            for message in &self.messages[first as usize..end as usize] {
                let record = [message.clue.as_slice(), &message.payload].concat();
                let fits = record.len() + 4 <= fetch.record_bytes as usize;
                builder.push(if fits { &record } else { &[] }).unwrap();
            }
            self.epochs.insert((first, end), builder.seal().unwrap());
        }
        self.epochs.get(&(first, end)).map(|epoch| (first..end, epoch))
    }

    pub fn epoch_list(&mut self) -> EpochList {
        let epochs = self.newest_epoch().map(|(range, epoch)| EpochStatus {
            epoch: Hex(epoch.id().0),
            first: range.start,
            complete_to: range.end,
            record_bytes: epoch.info().record_bytes() as u32,
        });
        EpochList { epochs: epochs.into_iter().collect() }
    }

    fn epoch(
        &mut self,
        method: Method,
        epoch: &str,
        rest: &[&str],
        request: &Request,
    ) -> Result<Response, (u16, &'static str)> {
        let runner = Runner::new(1).unwrap();
        let runner = std::mem::replace(&mut self.runner, runner);
        let found =
            self.newest_epoch().map(|(_, found)| found).filter(|found| found.id().to_string() == epoch);
        let found = found.ok_or((404, "not-found"))?;
        Ok(ok(match (method, rest) {
            (Method::Get, []) => found.info().to_file(),
            (Method::Get, ["hashes"]) => std::fs::read(found.path().join("hashes")).unwrap(),
            (Method::Post, ["fetch"]) => {
                let query = Query::from_file(&request.body).unwrap();
                answer(found, &query, &runner).unwrap().to_file()
            }
            _ => return Err((404, "not-found")),
        }))
    }
}

/// A compact digest that some relay has made, by the hash of its file.
pub fn made_digests(hash: &Hex<32>) -> Option<Arc<Vec<u8>>> {
    let made = MADE.lock().unwrap();
    made.values().find(|file| blake3::hash(file).as_bytes() == &hash.0).cloned()
}

/// A compact digest of messages for nobody, for somebody.
pub fn digest_for(person: &Person, range: Range<u64>) -> Vec<u8> {
    let mut relay = FakeRelay::new(10, person.detection.context(), 0);
    relay.messages = crate::world::board(range.end, &[]);
    let key = CompactDetectionKey::from_file(&COMPACT, person.compact_key()).unwrap();
    let wanted = JobRequest {
        id: JobId([0; 16]),
        kind: DigestKind::Compact,
        first: range.start,
        end: Some(range.end),
        capacity: Some(4),
        payload_bytes: Some(1536),
    };
    relay.compact_digest(&compact::PreparedKey::new(key), range, &wanted).to_vec()
}

impl JobRecord {
    fn status(&self) -> JobStatus {
        let JobRequest { id, kind, first, end, capacity, payload_bytes } = self.request;
        let done = self.polls == 0;
        JobStatus {
            id,
            kind,
            first,
            complete_to: end.unwrap(),
            capacity,
            payload_bytes,
            state: if done { JobState::Done } else { JobState::Running },
            done: 0,
            created: 0,
            result_bytes: done.then_some(self.file.len() as u64),
            result_hash: done.then(|| Hex(*blake3::hash(&self.file).as_bytes())),
            error: None,
        }
    }
}

pub fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

fn respond(status: u16, headers: Vec<(String, String)>, body: Vec<u8>) -> Response {
    Response { status, headers, body }
}

pub fn ok(body: Vec<u8>) -> Response {
    respond(200, vec![], body)
}

pub fn complete(to: u64, body: Vec<u8>) -> Response {
    respond(200, vec![("Restante-Complete-To".into(), to.to_string())], body)
}

fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    request.headers.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str())
}

/// The parameter id of a relay's bodies.
pub fn id() -> ParameterId {
    PARAMETERS.id()
}
