//! A recipient that registers its key, asks for digests again and again, and looks whether its messages are in them.

use std::{
    net::SocketAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use restante_client::{Account, BoardId, Period, digest_request};
use restante_clue::ClueParameters;
use restante_load::Connection;
use restante_omr::{
    compact::{self, CompactContext, CompactDetectionKey, CompactDigest},
    stream::{self, StreamContext, StreamDigest},
};
use restante_wire::{
    ParameterId,
    relay::{DigestKind, Hex, JobId, JobRequest, JobState, JobStatus, RegisterRequest, Registered, media},
};

use super::{Digest, Sizes, board_of, broken, fill, json, now, random, refused};
use crate::{Bench, BenchError};

/// How many messages on the board are the recipient's.
const MESSAGES: u64 = 20;
/// Bytes of a part of the key's upload.
const PART_BYTES: usize = 8 << 20;

/// Reads a digest's file.
enum Reader {
    Stream(StreamContext, Box<stream::Decoder>),
    Compact(CompactContext, compact::Decoder),
}

impl Reader {
    /// A reader of an account's digests, their parameters, and the detection key's file.
    fn new(
        bench: &Bench<'_>,
        account: &Account,
        digest: Digest,
    ) -> Result<(Self, ParameterId, Vec<u8>), BenchError> {
        let clue = ClueParameters::STANDARD;
        Ok(match digest {
            Digest::Stream => {
                let context = bench.stream_context(clue)?;
                let secret = account.recipient_secret(&context)?;
                let file = secret.detection_key()?.to_file();
                let (id, decoder) = (context.id(), Box::new(stream::Decoder::new(&secret)?));
                (Self::Stream(context, decoder), id, file)
            }
            Digest::Compact { .. } => {
                let context = bench.compact_context(clue, false)?;
                let secret = account.compact_secret(&context)?;
                let key: CompactDetectionKey = secret.detection_key()?;
                let (id, decoder) = (context.id(), compact::Decoder::new(&secret)?);
                (Self::Compact(context, decoder), id, key.to_file())
            }
        })
    }

    /// The indices of the recipient's messages; of those whose payloads came whole, only if they can be opened.
    fn read(
        &self,
        account: &Account,
        board: &BoardId,
        digest: Digest,
        file: &[u8],
    ) -> Result<Vec<u64>, BenchError> {
        Ok(match self {
            Self::Stream(context, decoder) => decoder.pertinent(&StreamDigest::from_file(context, file)?)?,
            Self::Compact(context, decoder) => {
                let found = decoder.decode(&CompactDigest::from_file(context, file)?)?;
                let opens = |message: &compact::Retrieved| {
                    matches!(digest, Digest::Compact { payload_bytes: 0, .. })
                        || message.payload.len() < message.payload_bytes
                        || account.open_record(board, &message.payload).is_ok()
                };
                found.iter().filter(|message| opens(message)).map(|message| message.index).collect()
            }
        })
    }
}

/// Asks until it is told to stop, and for one digest at least. `digested` gets the seconds that each job took.
pub fn run(
    bench: &Bench<'_>,
    address: SocketAddr,
    sizes: &Sizes,
    stop: &AtomicBool,
    digested: &Mutex<Vec<f64>>,
) -> Result<(), BenchError> {
    let account = Account::random(ClueParameters::STANDARD, &mut bench.rng()?);
    let (reader, parameters, file) = Reader::new(bench, &account, sizes.digest)?;
    let sender = account.address().prepare();
    let mut rng = bench.rng()?;
    let (board, today) = (board_of(address)?, Period::of(now()));
    let messages = (0..MESSAGES).map(|_| sender.write_message(&board, today, b"for the recipient", &mut rng));
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    let places = fill(bench, address, &messages, MESSAGES)?;

    let (kind, capacity, payload_bytes) = match sizes.digest {
        Digest::Stream => (DigestKind::Stream, None, None),
        Digest::Compact { capacity, payload_bytes } => {
            digest_request(0..1, capacity.into(), payload_bytes.into()).check()?;
            (DigestKind::Compact, Some(capacity.into()), Some(payload_bytes.into()))
        }
    };
    let mut connection = Connection::open(address).map_err(broken)?;
    let (path, authorization) = register(&mut connection, kind, parameters.into(), &file)?;
    drop(file);

    let headers = [("authorization", authorization.as_str()), ("content-type", media::JSON)];
    let stopped = || stop.load(Ordering::Relaxed);
    let mut own = 0;
    while own == 0 || !stopped() {
        let id = JobId(random(bench)?);
        let end = sizes.messages.max(places.last().map_or(0, |last| last + 1));
        let request = JobRequest { id, kind, first: 0, end: Some(end), capacity, payload_bytes };
        let began = Instant::now();
        let submitted = connection.send("POST", &format!("{path}/jobs"), &headers, Some(&json(&request)?));
        let answer = submitted.map_err(broken)?;
        if answer.status != 202 {
            return Err(refused(&answer));
        }
        let job = format!("{path}/jobs/{id}");
        if !wait(&mut connection, &job, &headers[..1], || own > 0 && stopped())? {
            return Ok(());
        }
        digested.lock().unwrap_or_else(PoisonError::into_inner).push(began.elapsed().as_secs_f64());
        own += 1;
        let result = connection.send("GET", &format!("{job}/result"), &headers[..1], None).map_err(broken)?;
        let found = reader.read(&account, &board, sizes.digest, &result.body)?;
        if let Some(missing) = places.iter().find(|place| !found.contains(place)) {
            return Err(BenchError::Wrong(format!("message {missing} is missing in a digest")));
        }
        connection.send("DELETE", &job, &headers[..1], None).map_err(broken)?;
    }
    Ok(())
}

/// Registers a detection key; gives its path at the relay and the authorization that its holder sends.
fn register(
    connection: &mut Connection,
    kind: DigestKind,
    parameters: Hex<8>,
    file: &[u8],
) -> Result<(String, String), BenchError> {
    let hash = restante_wire::merkle::Hash::of(file).into();
    let request = RegisterRequest { kind, parameters, bytes: file.len() as u64, hash };
    let headers = [("content-type", media::JSON)];
    let answer = connection.send("POST", "/v1/keys", &headers, Some(&json(&request)?)).map_err(broken)?;
    let registered: Registered = answer.json().map_err(broken)?;
    let authorization = format!("Bearer {}", registered.token.reveal());
    let path = format!("/v1/keys/{}", registered.key.key);
    for (index, part) in file.chunks(PART_BYTES).enumerate() {
        let offset = (index * PART_BYTES).to_string();
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", media::KEY_PART),
            ("upload-offset", offset.as_str()),
        ];
        let answer = connection.send("PATCH", &format!("{path}/content"), &headers, Some(part));
        let answer = answer.map_err(broken)?;
        if answer.status != 200 {
            return Err(refused(&answer));
        }
    }
    Ok((path, authorization))
}

/// Asks for a job until it is done; `false` if it is to stop before.
fn wait(
    connection: &mut Connection,
    job: &str,
    headers: &[(&str, &str)],
    stop: impl Fn() -> bool,
) -> Result<bool, BenchError> {
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let status: JobStatus =
            connection.send("GET", job, headers, None).and_then(|answer| answer.json()).map_err(broken)?;
        match status.state {
            JobState::Done => return Ok(true),
            JobState::Failed => return Err(BenchError::Wrong(status.error.unwrap_or_default())),
            _ if stop() => return Ok(false),
            _ => {}
        }
    }
}
