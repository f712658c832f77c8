//! Standing orders: digests of all messages as they come, for everybody in one pass. Those of compact keys are in `standing/compact.rs`.
//!
//! The unit is a block of messages. The thread takes the blocks that the most backward orders wait for, some at once, so that a key
//! is prepared once for all of them; detects for all of those orders together, writes each digest into its registration's file,
//! and then notes how far they are. A block that is not full is done after a while, too, and again when it has grown.
//!
//! A registration's file has one slot of fixed size for each block. What the registry counts is durable there; a slot of a
//! partly filled block may be torn by a crash, so that a start counts full blocks only.

mod compact;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use restante_wire::relay::{DigestKind, Hex, RegistrationId, StandingStatus};

pub(crate) use self::compact::CompactStanding;
use crate::ServerError;
use crate::board::BoardView;
use crate::detection::{Detection, Outcome};
use crate::files::{DataDirectory, sync_directory};
use crate::keys::{Keys, Registration};
use crate::locks::lock;
use crate::metrics::Metrics;
use crate::panics::{self, caught};

/// The most blocks of a pass: preparing a key takes as long as detecting in two.
const BLOCKS: u64 = 16;

/// A key that cannot be used is tried again after so long.
const AGAIN: Duration = Duration::from_secs(600);

/// How often the thread looks for new messages.
const LOOK: Duration = Duration::from_millis(200);

/// The thread that works on standing orders.
#[derive(Debug)]
pub(crate) struct Standing {
    data: DataDirectory,
    keys: Arc<Keys>,
    detection: Arc<Detection>,
    view: Arc<BoardView>,
    metrics: Arc<Metrics>,
    partial: Duration,
    /// Keys that cannot be used, and since when: their orders are left out, lest they stop the others'.
    unusable: Mutex<HashMap<Hex<32>, Instant>>,
    reserve_bytes: u64,
    stop: AtomicBool,
}

/// A slot: the length of the digest (8 bytes), the digest, and what is left over.
const LENGTH_BYTES: u64 = 8;

impl Standing {
    pub(crate) fn new(
        data: DataDirectory,
        keys: Arc<Keys>,
        detection: Arc<Detection>,
        view: Arc<BoardView>,
        metrics: Arc<Metrics>,
        partial_seconds: u64,
        reserve_bytes: u64,
    ) -> Self {
        let (partial, unusable) = (Duration::from_secs(partial_seconds), Mutex::default());
        let stop = AtomicBool::new(false);
        Self { data, keys, detection, view, metrics, partial, unusable, reserve_bytes, stop }
    }

    /// The status of a new order.
    pub(crate) fn order(&self, first: u64) -> StandingStatus {
        let first = first - first % self.detection.block();
        StandingStatus { first, complete_to: first }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn start(self: &Arc<Self>) -> Result<JoinHandle<()>, ServerError> {
        // Before anybody asks how far an order is.
        if let Err(error) = self.count_full_blocks_only() {
            tracing::error!(%error, "standing orders");
        }
        let this = self.clone();
        panics::thread("standing", self.metrics.clone(), move || this.run())
    }

    fn run(&self) {
        let mut waited = Instant::now();
        // How far blocks that are not full are done, too. What comes after that waits for the next time, or each message would
        // have all of its block done again.
        let mut partial_to = 0;
        let mut newest = false;
        let mut pause = LOOK;
        while !self.stop.load(Ordering::Relaxed) {
            if waited.elapsed() >= self.partial {
                partial_to = self.view.board().len();
                waited = Instant::now();
            }
            match caught(&self.metrics, "a pass for standing orders", || self.pass(partial_to, newest)) {
                Ok(true) => {
                    (pause, newest) = (LOOK, !newest);
                    continue;
                }
                Ok(false) => pause = LOOK,
                Err(error) => {
                    tracing::error!(%error, "standing orders");
                    pause = (pause * 2).min(Duration::from_secs(60));
                }
            }
            let until = Instant::now() + pause;
            while Instant::now() < until && !self.stop.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK.min(pause));
            }
        }
    }

    fn count_full_blocks_only(&self) -> Result<(), ServerError> {
        let block = self.detection.block();
        let changed: Vec<(RegistrationId, StandingStatus, u64)> = self
            .keys
            .all()
            .into_iter()
            .filter(|one| one.kind == DigestKind::Stream)
            .filter_map(|one| {
                let standing = one.standing?;
                let full = standing.complete_to - standing.complete_to % block;
                // A backup has no digests: they are made again.
                let there = std::fs::metadata(self.data.standing(&one.id)).map_or(0, |file| file.len());
                let counted = if there < self.offset(&standing, full) { standing.first } else { full };
                (counted != standing.complete_to).then_some((one.id, standing, counted))
            })
            .collect();
        self.keys.advance(&changed)
    }

    /// Some blocks for all orders that wait for the first of them; false if none waits. The most backward orders have their turn, or
    /// with `newest` the least, so that one that begins far back does not keep new messages from everybody else.
    fn pass(&self, partial_to: u64, newest: bool) -> Result<bool, ServerError> {
        let board = self.view.board();
        let (block, count) = (self.detection.block(), board.len());
        let mut waiting = self.waiting(count, partial_to);
        let turn = if newest { waiting.pop_last() } else { waiting.pop_first() };
        let Some((start, mut orders)) = turn else { return Ok(false) };
        let retained = board.retained_from();
        if start + block <= retained {
            // The messages are gone before anybody looked at them.
            let skipped = advanced(&orders, retained - retained % block);
            self.keys.advance(&skipped)?;
            return Ok(true);
        }
        orders.sort_by_key(|one| one.id);
        // Not beyond the block that others wait for: from there on all go together. What is full goes before what is not.
        let next = waiting.keys().copied().find(|next| *next > start).unwrap_or(u64::MAX);
        let full = (count - count % block).min(start + BLOCKS * block).min(next);
        let end = if full > start { full } else { count };
        let blocks: Vec<Range<u64>> =
            (start..end).step_by(block as usize).map(|first| first..end.min(first + block)).collect();
        // Group by group, so that memory does not grow with the number of orders.
        for group in orders.chunks(self.detection.keys_per_pass()) {
            let hashes: Vec<Hex<32>> = group.iter().map(|one| one.hash).collect();
            let finished = |messages| {
                self.metrics.detected.inc_by(messages);
            };
            self.require_space((group.len() * blocks.len()) as u64 * self.slot_bytes())?;
            let made = caught(&self.metrics, "detection for standing orders", || {
                self.detection.detect_each(&hashes, &board, &blocks, &self.stop, finished)
            });
            let digests = match made {
                Ok(Outcome::Digests(digests)) => digests,
                Ok(Outcome::Stopped) => return Ok(false),
                // A key that cannot be read fails alone: the next pass goes without it.
                Err(_) if self.find_unusable(&hashes) > 0 => return Ok(true),
                Err(error) => return Err(error),
            };
            self.detection.runner().install(|| {
                let written = group.par_iter().enumerate();
                written.try_for_each(|(place, one)| {
                    self.write(one, start, digests.iter().map(|block| block[place].as_slice()))
                })
            })?;
            sync_directory(&self.data.root().join("standing"))?;
            self.keys.advance(&advanced(group, end))?;
            // Those that were deleted meanwhile.
            for one in group {
                self.keys.remove_orphans(&one.id)?;
            }
        }
        Ok(true)
    }

    /// The orders that wait, by the first message of the block that they wait for.
    fn waiting(&self, count: u64, partial_to: u64) -> BTreeMap<u64, Vec<Registration>> {
        let block = self.detection.block();
        let mut waiting: BTreeMap<u64, Vec<Registration>> = BTreeMap::new();
        let mut behind = 0;
        for one in self.keys.all().into_iter().filter(|one| one.kind == DigestKind::Stream) {
            let Some(standing) = one.standing.as_ref().filter(|_| one.ready) else { continue };
            if self.is_unusable(&one.hash) {
                continue;
            }
            behind = behind.max(count.saturating_sub(standing.complete_to));
            let start = standing.complete_to - standing.complete_to % block;
            let end = count.min(start + block);
            let is_full = end == start + block;
            if end > standing.complete_to && (is_full || standing.complete_to < partial_to) {
                waiting.entry(start).or_default().push(one);
            }
        }
        self.metrics.standing_behind.set(behind);
        waiting
    }

    fn is_unusable(&self, hash: &Hex<32>) -> bool {
        lock(&self.unusable).get(hash).is_some_and(|since| since.elapsed() < AGAIN)
    }

    /// Tries keys one by one, leaves out those that cannot be used for a while, and returns how many these are.
    fn find_unusable(&self, hashes: &[Hex<32>]) -> usize {
        let mut found = 0;
        for hash in hashes {
            if let Err(error) = caught(&self.metrics, "a detection key", || self.detection.try_key(hash)) {
                tracing::error!(%error, "a key with a standing order cannot be used; the others go on without it");
                lock(&self.unusable).insert(*hash, Instant::now());
                found += 1;
            }
        }
        lock(&self.unusable).retain(|_, since| since.elapsed() < AGAIN);
        found
    }

    fn require_space(&self, bytes: u64) -> Result<(), ServerError> {
        match self.data.free_bytes() {
            Some(free) if free < self.reserve_bytes.saturating_add(bytes) => {
                let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
                Err(ServerError::io("keep the reserve for digests in", self.data.root())(full))
            }
            _ => Ok(()),
        }
    }

    fn slot_bytes(&self) -> u64 {
        LENGTH_BYTES + self.detection.block_bytes()
    }

    fn offset(&self, standing: &StandingStatus, start: u64) -> u64 {
        (start - standing.first) / self.detection.block() * self.slot_bytes()
    }

    /// Writes the digests of consecutive blocks.
    fn write<'a>(
        &self,
        one: &Registration,
        start: u64,
        digests: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), ServerError> {
        let Some(standing) = &one.standing else { return Ok(()) };
        let path = self.data.standing(&one.id);
        let mut slots = Vec::new();
        for digest in digests {
            let end = slots.len() + self.slot_bytes() as usize;
            slots.extend_from_slice(&(digest.len() as u64).to_le_bytes());
            slots.extend_from_slice(digest);
            slots.resize(end, 0);
        }
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset(standing, start)))?;
            file.write_all(&slots)?;
            file.sync_data()
        });
        written.map_err(ServerError::io("write", &path))
    }

    /// Gives back the disk space of digests whose messages are forgotten. Where the file system cannot, they stay.
    pub(crate) fn forget_before(&self, retained_from: u64) -> Result<(), ServerError> {
        for one in self.keys.all() {
            let Some(standing) = one.standing.filter(|_| one.kind == DigestKind::Stream) else { continue };
            let whole = retained_from - retained_from % self.detection.block();
            let bytes = self.offset(&standing, whole.max(standing.first));
            let path = self.data.standing(&one.id);
            if bytes == 0 || !path.exists() {
                continue;
            }
            #[cfg(target_os = "linux")]
            {
                use rustix::fs::{FallocateFlags, fallocate};
                let file = File::options().write(true).open(&path).map_err(ServerError::io("open", &path))?;
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                match fallocate(&file, hole, 0, bytes) {
                    Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
                    Err(error) => return Err(ServerError::io("shorten", &path)(error.into())),
                }
            }
        }
        Ok(())
    }

    /// The digests of an order that reach beyond `first`, as many as fit, and the index up to which they are complete. At least one,
    /// if there is one.
    pub(crate) fn read(
        &self,
        one: &Registration,
        standing: &StandingStatus,
        first: u64,
        bytes: u64,
    ) -> Result<(Vec<Vec<u8>>, u64), ServerError> {
        let block = self.detection.block();
        let path = self.data.standing(&one.id);
        let (mut digests, mut next, mut size) = (Vec::new(), first, 0);
        while next < standing.complete_to && (size + self.slot_bytes() <= bytes || digests.is_empty()) {
            let start = next - next % block;
            let mut slot = vec![0; self.slot_bytes() as usize];
            let read = File::open(&path).and_then(|mut file| {
                file.seek(SeekFrom::Start(self.offset(standing, start)))?;
                file.read_exact(&mut slot)
            });
            read.map_err(ServerError::io("read", &path))?;
            let mut length = [0; 8];
            length.copy_from_slice(&slot[..8]);
            let length = u64::from_le_bytes(length);
            let Some(digest) = slot.get(8..8usize.saturating_add(length as usize)) else {
                let reason = std::io::Error::other("a slot with a wrong length");
                return Err(ServerError::io("read", &path)(reason));
            };
            digests.push(digest.to_vec());
            size += self.slot_bytes();
            next = standing.complete_to.min(start + block);
        }
        Ok((digests, next))
    }
}

fn advanced(orders: &[Registration], complete_to: u64) -> Vec<(RegistrationId, StandingStatus, u64)> {
    orders.iter().filter_map(|one| Some((one.id, one.standing.clone()?, complete_to))).collect()
}
