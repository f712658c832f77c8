//! The state behind all routes, and the threads that work on it.

use std::fs::File;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

use restante_board::{Board, BoardConfig, BoardWriter};
use restante_clue::ClueParameters;
use restante_wire::binding::BoardId;
use restante_wire::relay::{
    BoardInfo, FetchInfo, Hex, LimitsInfo, PROTOCOL, RegistrationId, RelayInfo, RelayKey,
};
use tokio::sync::{Semaphore, watch};

use crate::board::BoardView;
use crate::clock::Clock;
use crate::detection::Detection;
use crate::directory::Directories;
use crate::epochs::{Epochs, Fetcher};
use crate::files::DataDirectory;
use crate::jobs::Jobs;
use crate::keys::{Keys, Removed};
use crate::limits::{BodyMemory, Buckets};
use crate::locks::{lock, read, write};
use crate::maintenance::Rations;
use crate::metrics::Metrics;
use crate::mirror::Following;
use crate::randomness::random;
use crate::refusal::{Answer, Code, Refusal};
use crate::registry::Registry;
use crate::searcher::Searcher;
use crate::standing::{CompactStanding, Standing};
use crate::vectors::Vectors;
use crate::writer::WriterHandle;
use crate::{Config, ServerError, credentials, identity, maintenance, mirror, writer};

/// Messages whose ids are compared with the board at the start.
const COMPARED: usize = 4096;

/// Bytes of the disk that must be free for a relay to be ready, whatever its reserve: a commit and its ids.
const LEAST_FREE_BYTES: u64 = 256 << 10;

/// A relay: open a data directory, then [`serve`](crate::serve) it.
#[derive(Debug)]
pub struct Relay {
    pub(crate) config: Config,
    pub(crate) data: DataDirectory,
    pub(crate) info: RelayInfo,
    pub(crate) view: Arc<BoardView>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) detection: Arc<Detection>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) standing: Arc<Standing>,
    pub(crate) compact_standing: Arc<CompactStanding>,
    pub(crate) vectors: Arc<Vectors>,
    pub(crate) epochs: Option<Arc<Epochs>>,
    pub(crate) directories: Option<Arc<Directories>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) memory: BodyMemory,
    pub(crate) clock: Arc<Clock>,
    /// How a mirror follows its origin.
    pub(crate) following: Following,
    pub(crate) backing_up: Arc<Semaphore>,
    pub(crate) by_address: Buckets<IpAddr>,
    pub(crate) by_key: Buckets<RegistrationId>,
    writer: RwLock<Option<WriterHandle>>,
    fetcher: RwLock<Option<Fetcher>>,
    searcher: RwLock<Option<Searcher>>,
    stopping: watch::Sender<bool>,
    maintenance_stop: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held until the relay is dropped.
    _lock: File,
}

impl Relay {
    /// Opens a data directory, or makes one, repairs what a crash has left, and starts the threads.
    ///
    /// # Errors
    ///
    /// [`ServerError`]: another relay uses it, another version wrote it, something in it is damaged.
    pub fn open(config: Config) -> Result<Arc<Self>, ServerError> {
        config.validate()?;
        let (data, directory_lock) = DataDirectory::open(&config.data)?;
        let signer = identity::load(&data)?;
        let clock = Arc::new(Clock::open(&data.clock(), config.time.clone())?);
        let (board_writer, board) = open_board(&data, &config)?;
        let parameters = board.config().parameters;
        let clue = ClueParameters::by_id(parameters).ok_or_else(|| ServerError::Format {
            path: data.board(),
            found: format!("for clue parameters {parameters}"),
            expected: "a board for clues that this program knows".into(),
        })?;
        let registry = Arc::new(Registry::open(&data.registry())?);
        reconcile(&registry, &board)?;
        credentials::collect(data.root(), &registry)?;

        let limits = &config.limits;
        let metrics = Arc::new(Metrics::new());
        let vectors = Arc::new(Vectors::load(data.clone())?);
        let detection = Arc::new(Detection::new(
            clue,
            &config.backend,
            config.threads,
            data.clone(),
            limits,
            &config.compact,
            vectors.clone(),
        )?);
        let keys = Arc::new(Keys::load(
            data.clone(),
            registry.clone(),
            vectors.clone(),
            clock.clone(),
            limits,
            config.compact.keys,
        )?);
        let jobs = Arc::new(Jobs::load(
            data.clone(),
            registry.clone(),
            metrics.clone(),
            vectors.clone(),
            clock.clone(),
            limits,
        )?);
        vectors.keep_owners(|owner| match owner.job {
            Some(job) => jobs.is_unfinished(&(owner.registration, job)),
            None => keys.get(&owner.registration).is_some_and(|one| one.standing.is_some()),
        })?;
        let board_parameters = board.config().parameters;
        let view = Arc::new(BoardView::new(board, signer, clock.clone()));
        let epochs = match &config.fetch {
            Some(fetch) => {
                Some(Arc::new(Epochs::load(data.clone(), fetch.clone(), config.mirror.is_some())?))
            }
            None => None,
        };
        let directories = match &config.directory {
            Some(directory) => {
                let (backend, threads) = (&config.backend, detection.runner().threads());
                let memory = limits.search_memory_bytes;
                Some(Arc::new(Directories::load(directory, board_parameters, backend, threads, memory)?))
            }
            None => None,
        };
        let standing = Arc::new(Standing::new(
            data.clone(),
            keys.clone(),
            detection.clone(),
            view.clone(),
            metrics.clone(),
            config.standing_seconds,
            limits.disk_reserve_bytes,
        ));
        let compact_standing = Arc::new(CompactStanding::new(
            data.clone(),
            keys.clone(),
            detection.clone(),
            view.clone(),
            vectors.clone(),
            metrics.clone(),
            limits.disk_reserve_bytes,
        ));
        let (writer, writer_thread) = writer::start(
            board_writer,
            registry.clone(),
            view.clone(),
            metrics.clone(),
            limits.posts_waiting,
            config.period_for_tests,
        )?;
        let (fetcher, fetch_thread) = Fetcher::start(detection.clone(), metrics.clone(), limits)?;
        let (searcher, search_thread) = Searcher::start(
            directories.clone(),
            detection.clone(),
            metrics.clone(),
            limits.searches_waiting,
        )?;
        let mut threads = vec![writer_thread, fetch_thread, search_thread, standing.start()?];
        threads.extend(compact_standing.start()?);
        threads.extend(jobs.start(&keys, &detection, &view)?);
        let maintenance_stop: Arc<AtomicBool> = Arc::default();
        threads.push(clock.start(maintenance_stop.clone(), metrics.clone())?);
        announce(&config);
        let relay = Arc::new(Self {
            info: info(&config, &view, &detection),
            memory: BodyMemory::new(limits.body_memory_bytes),
            clock,
            following: Following::new(config.mirror.is_some()),
            backing_up: Arc::new(Semaphore::new(1)),
            by_address: Buckets::new(limits.requests_per_address),
            by_key: Buckets::new(limits.requests_per_key),
            config,
            data,
            view,
            registry,
            keys,
            detection,
            jobs,
            standing,
            compact_standing,
            vectors,
            epochs,
            directories,
            metrics,
            writer: RwLock::new(Some(writer)),
            fetcher: RwLock::new(Some(fetcher)),
            searcher: RwLock::new(Some(searcher)),
            stopping: watch::Sender::new(false),
            maintenance_stop,
            threads: Mutex::new(threads),
            _lock: directory_lock,
        });
        let rations = Rations::default();
        let thread = maintenance::start(&relay, relay.maintenance_stop.clone(), rations)?;
        lock(&relay.threads).push(thread);
        tracing::info!(messages = relay.view.board().len(), relay = %relay.view.relay(), "open");
        Ok(relay)
    }

    /// The key that signs this relay's heads.
    pub fn key(&self) -> RelayKey {
        self.view.relay()
    }

    /// The number of messages on the board.
    pub fn messages(&self) -> u64 {
        self.view.board().len()
    }

    pub(crate) fn writer(&self) -> Answer<WriterHandle> {
        read(&self.writer).clone().ok_or_else(Refusal::stopping)
    }

    pub(crate) fn fetcher(&self) -> Answer<Fetcher> {
        read(&self.fetcher).clone().ok_or_else(Refusal::stopping)
    }

    pub(crate) fn searcher(&self) -> Answer<Searcher> {
        read(&self.searcher).clone().ok_or_else(Refusal::stopping)
    }

    /// Whether the relay stops, and when it begins to.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    pub(crate) fn begin_stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Forgets the jobs of a registration that is gone, and its key.
    pub(crate) fn forget(&self, removed: Removed) -> Result<(), ServerError> {
        if let Some(hash) = removed.key {
            self.detection.forget(&hash);
        }
        self.jobs.remove_all(removed.id)
    }

    /// Whether the disk has room for anything. Without a reserve it must have a little at least.
    pub(crate) fn has_space(&self) -> bool {
        let least = self.config.limits.disk_reserve_bytes.max(LEAST_FREE_BYTES);
        self.data.free_bytes().is_none_or(|free| free >= least)
    }

    /// Refuses a request that needs `bytes` of disk when the reserve would be touched.
    pub(crate) fn require_space(&self, bytes: u64) -> Answer<()> {
        let reserve = self.config.limits.disk_reserve_bytes;
        match self.data.free_bytes() {
            Some(free) if free < reserve.saturating_add(bytes) => {
                Err(Refusal::new(Code::Storage, "no space left on the relay's disk"))
            }
            _ => Ok(()),
        }
    }

    /// Stops the threads and waits for them. Posts that were accepted are durable; jobs that were running are queued and start
    /// again with the next relay.
    pub fn stop(&self) {
        self.begin_stop();
        self.jobs.stop();
        self.standing.stop();
        self.compact_standing.stop();
        self.maintenance_stop.store(true, Ordering::Relaxed);
        if let Some(writer) = write(&self.writer).take() {
            writer.close();
        }
        if let Some(fetcher) = write(&self.fetcher).take() {
            fetcher.close();
        }
        if let Some(searcher) = write(&self.searcher).take() {
            searcher.close();
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread panicked");
            }
        }
    }
}

fn open_board(data: &DataDirectory, config: &Config) -> Result<(BoardWriter, Board), ServerError> {
    let path = data.board();
    if !path.join("manifest").exists() {
        let clue = ClueParameters::by_name(&config.clue)
            .map_err(|error| ServerError::Config(format!("clue: {error}")))?;
        let id = match (&config.mirror, config.board_id_for_tests) {
            (Some(mirror), _) => mirror::board_of_origin(mirror, clue.id())?,
            (None, Some(id)) => id,
            (None, None) => {
                let mut id = BoardId([0; 16]);
                random(&mut id.0)?;
                id
            }
        };
        let board = BoardConfig {
            segment_capacity: config.segment_capacity,
            ..BoardConfig::new(id, clue.id(), clue.clue_bytes() as u32)
        };
        Board::create(&path, &board)?;
    }
    let writer = BoardWriter::open(&path)?;
    Ok((writer, Board::open(&path)?))
}

/// Says what others can do that an operator may not have meant.
fn announce(config: &Config) {
    let listens = |address: std::net::SocketAddr| !address.ip().is_loopback();
    if listens(config.listen) {
        match config.needs_credential() {
            true => tracing::info!("whoever registers a key needs a credential: restante credentials new"),
            false => tracing::warn!(
                "registration.policy is open and listen is no address of this machine alone: anybody can register keys, which cost \
                 processor time and disk"
            ),
        }
        if config.tls.is_none() {
            tracing::warn!(
                "listen is no address of this machine alone, and there is no [tls]: tokens can be read on the way"
            );
        }
    }
    if let Some(seconds) = config.retention.seconds {
        tracing::info!(
            seconds,
            segment_messages = config.segment_capacity,
            "a message is forgotten when its whole segment is full and older than retention.seconds"
        );
    }
    if listens(config.operations) {
        tracing::warn!(
            "operations is no address of this machine alone: whoever reaches it may do everything there"
        );
    }
}

/// Takes from the registry the ids of messages that were never committed, and checks the last ids against the board.
fn reconcile(registry: &Registry, board: &Board) -> Result<(), ServerError> {
    let (beyond, last) = registry.reconcile(board.len(), COMPARED)?;
    if beyond > 0 {
        tracing::info!(beyond, "ids of messages that were not committed are forgotten");
    }
    for entry in last.iter().filter(|entry| entry.index >= board.retained_from()) {
        if board.leaf(entry.index)? != entry.leaf {
            // It was written for a commit that failed, and the index went to another relay's message since; harmless.
            tracing::warn!(index = entry.index, "an id names another message than the board has");
        }
    }
    Ok(())
}

fn info(config: &Config, view: &BoardView, detection: &Detection) -> RelayInfo {
    let (limits, board) = (&config.limits, view.board());
    RelayInfo {
        protocol: PROTOCOL,
        relay: view.relay(),
        board: BoardInfo {
            id: Hex(board.config().id.0),
            parameters: board.config().parameters.into(),
            clue_bytes: board.config().clue_bytes,
            payload_bytes_max: board.config().payload_bytes_max,
            segment_capacity: board.config().segment_capacity,
        },
        digests: detection.info(),
        fetch: config.fetch.as_ref().map(|fetch| FetchInfo {
            record_bytes: fetch.record_bytes,
            part: fetch.part.clone(),
            messages: fetch.messages,
            seconds: (fetch.seconds > 0).then_some(fetch.seconds),
            server: fetch.server,
        }),
        limits: LimitsInfo {
            batch_messages: limits.batch_messages,
            batch_bytes: limits.batch_bytes,
            page_messages: limits.page_messages,
            page_bytes: limits.page_bytes,
            upload_part_bytes: limits.upload_part_bytes,
            job_messages: limits.job_messages,
            jobs: limits.jobs,
            id_seconds: limits.id_seconds,
            job_seconds: limits.job_seconds,
        },
    }
}
