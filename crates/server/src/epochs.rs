//! Private fetch: epochs from the board, and queries answered together.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use restante_board::Board;
use restante_pir::fetch::{
    AnswerFile, Content, Epoch, EpochBuilder, EpochId, Part, Query, answer_files, scan_bytes,
};
use restante_wire::relay::{EpochList, EpochStatus, Hex};
use tokio::sync::oneshot;

use crate::detection::Detection;
use crate::files::DataDirectory;
use crate::limits::{Budget, Memory, Share, origin};
use crate::locks::{lock, read, write};
use crate::metrics::Metrics;
use crate::panics::{self, caught};
use crate::queue::{self, FairQueue, Waiting};
use crate::refusal::{Answer, Code, Refusal};
use crate::{FetchConfig, Limits, ServerError};

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
    /// Whether this relay mirrors another one, which decides where epochs end between multiples of `fetch.messages`.
    follows: bool,
    served: RwLock<Vec<Served>>,
    closing: Mutex<Closing>,
}

/// When epochs end, beside multiples of `fetch.messages`.
#[derive(Debug, Default)]
struct Closing {
    /// The last multiple of `fetch.seconds` that was attended to.
    attended: Option<u64>,
    /// The newest epoch that the origin lists, until it is made here.
    announced: Option<EpochStatus>,
    /// When one of those was made that does not end at a multiple of `fetch.messages`.
    followed: Option<u64>,
    /// How the origin's epochs differ from those that are made here.
    differs: Option<String>,
}

/// An origin has to leave a mirror at least so long between two epochs, in seconds, whatever the mirror's settings.
const FOLLOWED: u64 = 30;

impl Epochs {
    /// Opens the epochs that there are. `follows` says that this relay is a mirror.
    pub(crate) fn load(data: DataDirectory, config: FetchConfig, follows: bool) -> Result<Self, ServerError> {
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
        let attended =
            served.first().and_then(Served::made).and_then(|time| time.checked_div(config.seconds));
        let closing = Mutex::new(Closing { attended, ..Closing::default() });
        Ok(Self { data, config, part, follows, served: RwLock::new(served), closing })
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

    fn newest(&self) -> u64 {
        read(&self.served).first().map_or(0, |one| one.status.complete_to)
    }

    /// Takes note of the epochs that the origin lists: the newest one is made when its messages are there.
    pub(crate) fn announce(&self, list: EpochList) {
        let newest = self.newest();
        let announced = list.epochs.into_iter().max_by_key(|one| one.complete_to);
        lock(&self.closing).announced = announced.filter(|one| one.complete_to > newest);
    }

    /// How the origin's epochs differ from those of this mirror: no client can fetch then.
    pub(crate) fn differs(&self) -> Option<String> {
        lock(&self.closing).differs.clone()
    }

    /// Makes an epoch if one is due: at a multiple of `fetch.messages`, and of `fetch.seconds` by the clock of the relay that takes the
    /// posts; `now` is its time. A mirror makes those that its origin lists. What is in an epoch depends on the messages, on where it
    /// ends and on the configuration alone, so that two relays make the same.
    pub(crate) fn build(&self, board: &Board, now: u64) -> Result<bool, ServerError> {
        let (count, newest) = (board.len(), self.newest());
        if let Some(status) = self.followed(count, newest, now) {
            return self.follow(board, &status, now);
        }
        let by_number = count - count % self.config.messages;
        let passed = if self.follows { None } else { self.passed(now) };
        let end = if passed.is_some() { count } else { by_number };
        let made = end > newest && self.make(board, end)?;
        if passed.is_some() {
            lock(&self.closing).attended = passed;
        }
        Ok(made)
    }

    /// The multiple of `fetch.seconds` that the clock has passed since the last look.
    fn passed(&self, now: u64) -> Option<u64> {
        let current = now.checked_div(self.config.seconds)?;
        let mut closing = lock(&self.closing);
        // The system's clock, by which files are dated, may be another one.
        let attended = closing.attended.unwrap_or(current).min(current);
        closing.attended = Some(attended);
        (current > attended).then_some(current)
    }

    /// The origin's newest epoch, if it can be made. One that ends between multiples is not taken too soon behind the last: an origin
    /// must not keep a mirror busy.
    fn followed(&self, count: u64, newest: u64, now: u64) -> Option<EpochStatus> {
        let mut closing = lock(&self.closing);
        let status = closing.announced.as_ref()?;
        if status.complete_to <= newest {
            closing.announced = None;
            return None;
        }
        let pause = (self.config.seconds / 2).max(FOLLOWED);
        let is_soon = status.complete_to % self.config.messages != 0
            && closing.followed.is_some_and(|last| now < last.saturating_add(pause));
        (status.complete_to <= count && !is_soon).then(|| status.clone())
    }

    /// Makes an epoch that the origin lists, and sees whether it is the same.
    fn follow(&self, board: &Board, status: &EpochStatus, now: u64) -> Result<bool, ServerError> {
        let end = status.complete_to;
        let (first, record_bytes) = (self.first(end), self.config.record_bytes);
        let is_like = (first, record_bytes) == (status.first, status.record_bytes);
        let made = is_like && self.make(board, end)?;
        let mine = read(&self.served).first().map(|one| one.status.clone()).filter(|_| made);
        let differs = match mine {
            _ if !is_like => Some(format!(
                "messages {}..{end} in records of {} bytes, and here {first}..{end} and {record_bytes}",
                status.first, status.record_bytes
            )),
            Some(mine) if mine.epoch != status.epoch => {
                Some(format!("{} for messages {first}..{end}, and here {}", status.epoch, mine.epoch))
            }
            _ => None,
        };
        let differs = differs.map(|how| {
            format!("the origin has another epoch, {how}: [fetch] must be the same on both, but for server and seconds")
        });
        if let Some(differs) = &differs {
            tracing::error!(%differs, "private fetch");
        }
        let mut closing = lock(&self.closing);
        closing.announced = None;
        closing.followed = Some(now);
        closing.differs = differs;
        Ok(made)
    }

    /// The first message of an epoch that ends at `end`: that of the last one that ended at a multiple of `fetch.messages`, so that an
    /// epoch in between takes nothing away that a client has not fetched yet.
    fn first(&self, end: u64) -> u64 {
        (end - end % self.config.messages).saturating_sub(self.config.window)
    }

    fn make(&self, board: &Board, end: u64) -> Result<bool, ServerError> {
        let first = self.first(end);
        if first < board.retained_from() {
            return Ok(false);
        }
        let path = self.data.epochs().join(format!("{first}-{end}"));
        let old = read(&self.served)
            .first()
            .filter(|one| one.status.first == first)
            .map(|one| (one.epoch.clone(), one.status.complete_to));
        let (mut builder, next) = match &old {
            Some((old, next)) => (EpochBuilder::extend(&path, old)?, *next),
            None => {
                let record_bytes = self.config.record_bytes as usize;
                (EpochBuilder::create(&path, record_bytes, Content::Padded)?, first)
            }
        };
        let space = self.config.record_bytes as usize - Content::LENGTH_BYTES;
        for index in next..end {
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

    /// When it was made, by the file system.
    fn made(&self) -> Option<u64> {
        let time = std::fs::metadata(self.epoch.path()).and_then(|folder| folder.modified()).ok()?;
        Some(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs())
    }
}

struct Asked {
    epoch: Arc<Epoch>,
    query: Query,
    /// The right to the query's memory.
    _memory: Memory,
    answer: oneshot::Sender<Answer<(AnswerFile, Share)>>,
}

impl Waiting for Asked {
    fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    fn refuse(self, refusal: Refusal) {
        drop(self.answer.send(Err(refusal)));
    }
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

/// The way to the thread that answers queries.
#[derive(Debug, Clone)]
pub(crate) struct Fetcher {
    queue: FairQueue<IpAddr, Asked>,
    budget: Budget,
    threads: usize,
}

impl Fetcher {
    /// Starts the thread. It stops when the queue is closed and empty.
    pub(crate) fn start(
        detection: Arc<Detection>,
        metrics: Arc<Metrics>,
        limits: &Limits,
    ) -> Result<(Self, JoinHandle<()>), ServerError> {
        let this = Self {
            queue: FairQueue::new(limits.fetches_waiting),
            budget: Budget::new(limits.fetch_memory_bytes, Duration::from_secs(limits.idle_seconds)),
            threads: detection.runner().threads(),
        };
        let worker = this.clone();
        let thread = panics::thread("fetch", metrics.clone(), move || {
            while let Some(first) = worker.queue.pop() {
                worker.work(first, &detection, &metrics);
            }
        })?;
        Ok((this, thread))
    }

    /// Takes no more queries.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Refuses a number of fetches for which there is never enough memory.
    pub(crate) fn check(&self, epoch: &Epoch, fetches: usize) -> Answer<()> {
        let (found, most) = (scan_bytes(epoch.info(), &[fetches], self.threads), self.budget.bytes());
        if found <= most {
            return Ok(());
        }
        let detail = format!(
            "{fetches} fetches take about {found} bytes of memory, and limits.fetch_memory_bytes is {most}: ask for fewer at a time"
        );
        Err(Refusal::new(Code::TooLarge, detail).at("body:fetches"))
    }

    /// Answers a query, and others to the same epoch that wait and fit the memory.
    fn work(&self, first: Asked, detection: &Detection, metrics: &Metrics) {
        let epoch = first.epoch.clone();
        let need = |fetches: &[usize]| scan_bytes(epoch.info(), fetches, self.threads);
        let mut fetches = vec![first.query.fetches()];
        // Before anything is allocated.
        let goes_on = || !first.is_abandoned() && !self.queue.is_closed();
        let Some(mut share) = self.budget.wait(need(&fetches), goes_on) else {
            let refusal = queue::busy("the memory for answers is taken", 2);
            return first.refuse(refusal);
        };
        let mut now = vec![first];
        while now.len() < QUERIES {
            let with = |asked: &Asked| {
                let all: Vec<usize> = fetches.iter().copied().chain([asked.query.fetches()]).collect();
                need(&all)
            };
            let fits = |asked: &Asked| asked.epoch.id() == epoch.id() && share.could_grow(with(asked));
            let Some(asked) = self.queue.try_pop(fits) else { break };
            // This thread alone takes memory, so that what could be had is there.
            if !share.grow(with(&asked)) {
                asked.refuse(queue::busy("the memory for answers is taken", 2));
                break;
            }
            fetches.push(asked.query.fetches());
            now.push(asked);
        }
        let queries: Vec<&Query> = now.iter().map(|asked| &asked.query).collect();
        let goes_on = || now.iter().any(|asked| !asked.is_abandoned());
        let pass = |queries: &[&Query]| {
            caught(metrics, "a pass for fetch queries", || {
                Ok(answer_files(&epoch, queries, detection.runner(), |_| goes_on())?)
            })
        };
        match pass(&queries) {
            Ok(Some(files)) => {
                metrics.fetches.inc_by(files.len() as u64);
                for (asked, file) in now.into_iter().zip(files) {
                    let own = share.split(file.bytes() as u64);
                    drop(asked.answer.send(Ok((file, own))));
                }
            }
            // Nobody waits.
            Ok(None) => {}
            Err(error) if now.len() == 1 => {
                now.into_iter().for_each(|asked| asked.refuse(refuse(&error)));
            }
            // One of them is for another number of records, or so: the others are not to blame.
            Err(_) => {
                now.into_iter().for_each(|asked| answer_alone(asked, &epoch, &mut share, detection, metrics))
            }
        }
    }

    /// Answers a query that was checked against its epoch. The memory of the query moves with it.
    pub(crate) async fn answer(
        &self,
        epoch: Arc<Epoch>,
        query: Query,
        memory: Memory,
    ) -> Answer<(AnswerFile, Share)> {
        let (answer, found) = oneshot::channel();
        let asked = Asked { epoch, query, _memory: memory, answer };
        self.queue.push(origin(), asked, &queue::busy("too many queries are waiting", 2))?;
        found.await.map_err(|_| Refusal::stopping())?
    }
}

fn refuse(error: &ServerError) -> Refusal {
    match error {
        ServerError::Pir(error) => Refusal::new(Code::Invalid, error.to_string()).at("body"),
        error => Refusal::internal(error),
    }
}
/// Answers one query in a pass of its own.
fn answer_alone(asked: Asked, epoch: &Epoch, share: &mut Share, detection: &Detection, metrics: &Metrics) {
    let files = caught(metrics, "a pass for a fetch query", || {
        let goes_on = |_| !asked.is_abandoned();
        Ok(answer_files(epoch, &[&asked.query], detection.runner(), goes_on)?)
    });
    match files {
        Ok(files) => {
            if let Some(file) = files.and_then(|files| files.into_iter().next()) {
                metrics.fetches.inc();
                let own = share.split(file.bytes() as u64);
                drop(asked.answer.send(Ok((file, own))));
            }
        }
        Err(error) => asked.refuse(refuse(&error)),
    }
}
