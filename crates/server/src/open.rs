//! Opening a data directory: what is there is repaired and checked, and the threads are started.

use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

use restante_board::{Board, BoardConfig, BoardWriter};
use restante_clue::ClueParameters;
use restante_wire::binding::BoardId;
use restante_wire::relay::{BoardInfo, FetchInfo, Hex, LimitsInfo, PROTOCOL, RelayInfo};
use tokio::sync::{Semaphore, watch};

use crate::batches::Batches;
use crate::board::BoardView;
use crate::clock::Clock;
use crate::detection::Detection;
use crate::directory::Directories;
use crate::epochs::Epochs;
use crate::fetcher::FetchPass;
use crate::files::DataDirectory;
use crate::following::Following;
use crate::jobs::Jobs;
use crate::keys::Keys;
use crate::limits::{BodyMemory, Buckets};
use crate::locks::lock;
use crate::maintenance::Rations;
use crate::metrics::Metrics;
use crate::randomness::random;
use crate::registry::Registry;
use crate::relay::Queues;
use crate::searcher::SearchPass;
use crate::standing::{CompactStanding, Standing};
use crate::vectors::Vectors;
use crate::{Config, Relay, ServerError, credentials, identity, maintenance, mirror, writer};

/// Messages whose ids are compared with the board at the start.
const COMPARED: usize = 4096;

impl Relay {
    /// Opens a data directory, or makes one, repairs what a crash has left, and starts the threads.
    ///
    /// # Errors
    ///
    /// [`ServerError`]: another relay uses it, another version wrote it, something in it is damaged.
    pub fn open(config: Config) -> Result<Arc<Self>, ServerError> {
        config.validate()?;
        let (opened, writer) = Stores::open(&config)?;
        let Stores { data, clock, view, detection, keys, jobs, vectors, metrics, .. } = &opened;
        let limits = &config.limits;
        let directories = directories(&config, view, detection)?;
        let epochs = match &config.fetch {
            Some(fetch) => {
                Some(Arc::new(Epochs::load(data.clone(), fetch.clone(), config.mirror.is_some())?))
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
        let stop: Arc<AtomicBool> = Arc::default();
        let (queues, mut threads) = opened.start_queues(writer, &config, directories.clone())?;
        threads.push(standing.start()?);
        threads.extend(compact_standing.start()?);
        threads.extend(jobs.start(keys, detection, view)?);
        threads.push(clock.start(stop.clone(), metrics.clone())?);
        announce(&config);
        let relay = Arc::new(Self {
            info: info(&config, view, detection),
            memory: BodyMemory::new(limits.body_memory_bytes),
            following: Following::new(config.mirror.is_some()),
            backing_up: Arc::new(Semaphore::new(1)),
            by_address: Buckets::new(limits.requests_per_address),
            by_key: Buckets::new(limits.requests_per_key),
            config,
            data: opened.data,
            clock: opened.clock,
            view: opened.view,
            registry: opened.registry,
            keys: opened.keys,
            detection: opened.detection,
            jobs: opened.jobs,
            standing,
            compact_standing,
            vectors: opened.vectors,
            epochs,
            directories,
            metrics: opened.metrics,
            queues: RwLock::new(Some(queues)),
            stopping: watch::Sender::new(false),
            maintenance_stop: stop,
            threads: Mutex::new(threads),
            _lock: opened.directory_lock,
        });
        let thread = maintenance::start(&relay, relay.maintenance_stop.clone(), Rations::default())?;
        lock(&relay.threads).push(thread);
        tracing::info!(messages = relay.view.board().len(), relay = %relay.view.relay(), "open");
        Ok(relay)
    }
}

/// The contents of a data directory, repaired and checked.
struct Stores {
    data: DataDirectory,
    directory_lock: File,
    clock: Arc<Clock>,
    registry: Arc<Registry>,
    view: Arc<BoardView>,
    detection: Arc<Detection>,
    keys: Arc<Keys>,
    jobs: Arc<Jobs>,
    vectors: Arc<Vectors>,
    metrics: Arc<Metrics>,
}

impl Stores {
    fn open(config: &Config) -> Result<(Self, BoardWriter), ServerError> {
        let limits = &config.limits;
        let (data, directory_lock) = DataDirectory::open(&config.data)?;
        let signer = identity::load(&data)?;
        let clock = Arc::new(Clock::open(&data.clock(), config.time.clone())?);
        let (writer, board) = open_board(&data, config)?;
        let parameters = board.config().parameters;
        let clue = ClueParameters::by_id(parameters).ok_or_else(|| ServerError::Format {
            path: data.board(),
            found: format!("for clue parameters {parameters}"),
            expected: "a board for clues that this program knows".into(),
        })?;
        let registry = Arc::new(Registry::open(&data.registry())?);
        reconcile(&registry, &board)?;
        credentials::collect(data.root(), &registry)?;

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
        let view = Arc::new(BoardView::new(board, signer, clock.clone()));
        let this =
            Self { data, directory_lock, clock, registry, view, detection, keys, jobs, vectors, metrics };
        Ok((this, writer))
    }

    /// Starts the threads that answer requests.
    fn start_queues(
        &self,
        writer: BoardWriter,
        config: &Config,
        directories: Option<Arc<Directories>>,
    ) -> Result<(Queues, Vec<JoinHandle<()>>), ServerError> {
        let (limits, metrics) = (&config.limits, &self.metrics);
        let (writer, thread) = writer::start(
            writer,
            self.registry.clone(),
            self.view.clone(),
            metrics.clone(),
            limits.posts_waiting,
            config.period_for_tests,
        )?;
        let mut threads = vec![thread];
        let pass = FetchPass::new(self.detection.clone(), limits);
        let (fetcher, thread) = Batches::start(pass, metrics.clone(), limits.fetches_waiting)?;
        threads.push(thread);
        let mut searcher = None;
        if let Some(directories) = directories {
            let pass = SearchPass::new(directories, self.detection.clone());
            let (queue, thread) = Batches::start(pass, metrics.clone(), limits.searches_waiting)?;
            searcher = Some(queue);
            threads.push(thread);
        }
        Ok((Queues { writer, fetcher, searcher }, threads))
    }
}

fn directories(
    config: &Config,
    view: &BoardView,
    detection: &Detection,
) -> Result<Option<Arc<Directories>>, ServerError> {
    let Some(directory) = &config.directory else { return Ok(None) };
    let parameters = view.board().config().parameters;
    let (backend, threads) = (&config.backend, detection.runner().threads());
    let memory = config.limits.search_memory_bytes;
    Ok(Some(Arc::new(Directories::load(directory, parameters, backend, threads, memory)?)))
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
        if config.needs_credential() {
            tracing::info!("whoever registers a key needs a credential: restante credentials new")
        } else {
            tracing::warn!(
                "registration.policy is open and listen is no address of this machine alone: anybody can register keys, which cost \
             processor time and disk"
            )
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
