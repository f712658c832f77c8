//! Private fetch: epochs from the board, and queries answered together.

use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;

use restante_board::Board;
use restante_pir::fetch::{Content, Epoch, EpochBuilder, EpochId, Part, Query, answer_all};
use restante_wire::relay::{EpochList, EpochStatus, Hex};
use tokio::sync::{mpsc, oneshot};

use crate::clock::{read, write};
use crate::detection::Detection;
use crate::files::DataDirectory;
use crate::metrics::Metrics;
use crate::problem::{Answer, Code, Refusal};
use crate::{FetchConfig, ServerError};

/// The newest epochs that are kept: a client has time to finish with one while the next one is there.
const KEPT: usize = 2;
/// Queries that share a pass.
const QUERIES: usize = 64;

#[derive(Debug)]
struct Served {
    status: EpochStatus,
    epoch: Arc<Epoch>,
}

/// The epochs that can be asked.
#[derive(Debug)]
pub(crate) struct Epochs {
    data: DataDirectory,
    config: FetchConfig,
    part: Part,
    served: RwLock<Vec<Served>>,
}

impl Epochs {
    /// Opens the epochs that there are.
    pub(crate) fn load(data: DataDirectory, config: FetchConfig) -> Result<Self, ServerError> {
        let part = match config.part.as_str() {
            "clue" => Part::Clue,
            "payload" => Part::Payload,
            _ => Part::Message,
        };
        let mut served = Vec::new();
        let folder = data.epochs();
        for entry in std::fs::read_dir(&folder).map_err(ServerError::io("list", &folder))? {
            let path = entry.map_err(ServerError::io("list", &folder))?.path();
            let range = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('-'));
            let range = range.and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
            match range {
                Some((first, end)) => served.push(Served::open(&path, first, end)?),
                // A draft that a crash has left.
                None => std::fs::remove_dir_all(&path).map_err(ServerError::io("remove", &path))?,
            }
        }
        served.sort_by_key(|one| std::cmp::Reverse(one.status.complete_to));
        Ok(Self { data, config, part, served: RwLock::new(served) })
    }

    pub(crate) fn config(&self) -> &FetchConfig {
        &self.config
    }

    pub(crate) fn list(&self) -> EpochList {
        EpochList { epochs: read(&self.served).iter().map(|one| one.status.clone()).collect() }
    }

    pub(crate) fn get(&self, id: &Hex<32>) -> Answer<Arc<Epoch>> {
        let served = read(&self.served);
        let found = served.iter().find(|one| one.status.epoch == *id).map(|one| one.epoch.clone());
        found.ok_or_else(|| {
            Refusal::new(Code::NotFound, "no such epoch; GET /v1/epochs lists them").at("path:epoch")
        })
    }

    /// The path of an epoch's table of hashes.
    pub(crate) fn hashes(epoch: &Epoch) -> PathBuf {
        epoch.path().join("hashes")
    }

    /// Makes the epoch that the board is ready for, if it is not there yet. It depends on the messages and the configuration
    /// alone, so that two relays make the same.
    pub(crate) fn build(&self, board: &Board) -> Result<bool, ServerError> {
        let end = board.len() - board.len() % self.config.messages;
        let newest = read(&self.served).first().map_or(0, |one| one.status.complete_to);
        let first = end.saturating_sub(self.config.window);
        if end <= newest || first < board.retained_from() {
            return Ok(false);
        }
        let path = self.data.epochs().join(format!("{first}-{end}"));
        let mut builder = EpochBuilder::create(&path, self.config.record_bytes as usize, Content::Padded)?;
        let space = self.config.record_bytes as usize - 4;
        for index in first..end {
            let message = board.message(index)?;
            let record = match self.part {
                Part::Clue => message.clue.to_vec(),
                Part::Payload => message.payload.to_vec(),
                Part::Message => [message.clue, message.payload].concat(),
            };
            // What does not fit has an empty record: its owner sees that it has to read the message another way.
            builder.push(if record.len() <= space { &record } else { &[] })?;
        }
        builder.seal()?;
        let mut served = write(&self.served);
        served.insert(0, Served::open(&path, first, end)?);
        let kept = KEPT.min(served.len());
        for old in served.drain(kept..) {
            // Whoever is being answered from it has it mapped.
            let path = old.epoch.path();
            std::fs::remove_dir_all(path).map_err(ServerError::io("remove", path))?;
        }
        Ok(true)
    }
}

impl Served {
    fn open(path: &std::path::Path, first: u64, complete_to: u64) -> Result<Self, ServerError> {
        let epoch = Epoch::open(path)?;
        let EpochId(id) = epoch.id();
        let status = EpochStatus {
            epoch: Hex(id),
            first,
            complete_to,
            record_bytes: epoch.info().record_bytes() as u32,
        };
        Ok(Self { status, epoch: Arc::new(epoch) })
    }
}

struct Asked {
    epoch: Arc<Epoch>,
    query: Query,
    answer: oneshot::Sender<Answer<Vec<u8>>>,
}

/// The way to the thread that answers queries.
#[derive(Debug, Clone)]
pub(crate) struct Fetcher(mpsc::Sender<Asked>);

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

impl Fetcher {
    /// Starts the thread. It stops when every handle is gone.
    pub(crate) fn start(
        detection: Arc<Detection>,
        metrics: Arc<Metrics>,
        waiting: usize,
    ) -> Result<(Self, JoinHandle<()>), ServerError> {
        let (sender, mut receiver) = mpsc::channel::<Asked>(waiting);
        let thread = std::thread::Builder::new()
            .name("fetch".into())
            .spawn(move || {
                let mut left: Vec<Asked> = Vec::new();
                loop {
                    if left.is_empty() {
                        match receiver.blocking_recv() {
                            Some(asked) => left.push(asked),
                            None => break,
                        }
                    }
                    while left.len() < QUERIES
                        && let Ok(asked) = receiver.try_recv()
                    {
                        left.push(asked);
                    }
                    let epoch = left[0].epoch.clone();
                    let (now, later): (Vec<_>, Vec<_>) =
                        left.into_iter().partition(|asked| asked.epoch.id() == epoch.id());
                    left = later;
                    let queries: Vec<&Query> = now.iter().map(|asked| &asked.query).collect();
                    let answers = answer_all(&epoch, &queries, detection.runner());
                    metrics.fetches.inc_by(queries.len() as u64);
                    match answers {
                        Ok(answers) => {
                            for (asked, answer) in now.into_iter().zip(answers) {
                                drop(asked.answer.send(Ok(answer.to_file())));
                            }
                        }
                        // One of them is for another number of records, or so: the others are not to blame.
                        Err(_) => {
                            for asked in now {
                                let answer = answer_all(&epoch, &[&asked.query], detection.runner());
                                let answer = answer.map_err(|error| {
                                    Refusal::new(Code::Invalid, error.to_string()).at("body")
                                });
                                let file =
                                    answer.map(|all| all.iter().flat_map(|one| one.to_file()).collect());
                                drop(asked.answer.send(file));
                            }
                        }
                    }
                }
            })
            .map_err(|error| ServerError::Environment(format!("cannot start a thread: {error}")))?;
        Ok((Self(sender), thread))
    }

    /// Answers a query that was checked against its epoch.
    pub(crate) async fn answer(&self, epoch: Arc<Epoch>, query: Query) -> Answer<Vec<u8>> {
        let (answer, found) = oneshot::channel();
        match self.0.try_send(Asked { epoch, query, answer }) {
            Ok(()) => found.await.map_err(|_| Refusal::stopping())?,
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(Refusal::new(Code::Busy, "too many queries are waiting").retry_after(2))
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Refusal::stopping()),
        }
    }
}
