//! The state behind all routes, and the threads that work on it.

use std::fs::File;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

use restante_wire::relay::{RegistrationId, RelayInfo, RelayKey};
use tokio::sync::{Semaphore, watch};

use crate::board::BoardView;
use crate::clock::Clock;
use crate::detection::Detection;
use crate::directory::Directories;
use crate::epochs::Epochs;
use crate::fetcher::Fetcher;
use crate::files::DataDirectory;
use crate::following::Following;
use crate::jobs::Jobs;
use crate::keys::{Keys, Removed};
use crate::limits::{BodyMemory, Buckets};
use crate::locks::{lock, read, write};
use crate::metrics::Metrics;
use crate::refusal::{Answer, Code, Refusal};
use crate::registry::Registry;
use crate::searcher::Searcher;
use crate::standing::{CompactStanding, Standing};
use crate::vectors::Vectors;
use crate::writer::WriterHandle;
use crate::{Config, ServerError};

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
    /// None when the relay stops.
    pub(crate) queues: RwLock<Option<Queues>>,
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) maintenance_stop: Arc<AtomicBool>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held until the relay is dropped.
    pub(crate) _lock: File,
}

/// The ways to the threads that answer requests.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) writer: WriterHandle,
    pub(crate) fetcher: Fetcher,
    /// None without a directory.
    pub(crate) searcher: Option<Searcher>,
}

impl Queues {
    fn close(&self) {
        self.writer.close();
        self.fetcher.close();
        if let Some(searcher) = &self.searcher {
            searcher.close();
        }
    }
}

impl Relay {
    /// The key that signs this relay's heads.
    pub fn key(&self) -> RelayKey {
        self.view.relay()
    }

    /// The number of messages on the board.
    pub fn messages(&self) -> u64 {
        self.view.board().len()
    }

    pub(crate) fn writer(&self) -> Answer<WriterHandle> {
        let queues = read(&self.queues);
        Ok(queues.as_ref().ok_or_else(Refusal::stopping)?.writer.clone())
    }

    pub(crate) fn fetcher(&self) -> Answer<Fetcher> {
        let queues = read(&self.queues);
        Ok(queues.as_ref().ok_or_else(Refusal::stopping)?.fetcher.clone())
    }

    pub(crate) fn searcher(&self) -> Answer<Searcher> {
        let queues = read(&self.queues);
        queues.as_ref().and_then(|queues| queues.searcher.clone()).ok_or_else(Refusal::stopping)
    }

    /// Why this mirror does not follow its origin; none if it does, or if this relay is no mirror.
    pub(crate) fn not_following(&self) -> Option<String> {
        let config = self.config.mirror.as_ref()?;
        self.following.trouble(config).or_else(|| self.epochs.as_ref()?.differs())
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
        if let Some(queues) = write(&self.queues).take() {
            queues.close();
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread panicked");
            }
        }
    }
}
