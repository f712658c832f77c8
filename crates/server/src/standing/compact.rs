//! Standing orders of compact keys: phase 1 of every full block, so that a job has phase 2 left to do.
//!
//! A block counts when its vector is on disk, which no crash undoes; what is missing follows from the vectors that there are, not from what the registry has, which is
//! for the owner to see. Keys that wait for the same block share a pass, as many as their memory allows.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use restante_board::Board;
use restante_wire::relay::{DigestKind, Hex, RegistrationId, StandingStatus};

use super::{AGAIN, LOOK};
use crate::ServerError;
use crate::board::BoardView;
use crate::detection::{Compact, Detection, Turn};
use crate::files::DataDirectory;
use crate::keys::{Keys, Registration};
use crate::locks::lock;
use crate::metrics::Metrics;
use crate::panics::{self, caught};
use crate::vectors::{Owner, Vectors};

/// The longest pause after errors.
const PAUSE: Duration = Duration::from_secs(60);

/// The thread that works on standing orders of compact keys.
#[derive(Debug)]
pub(crate) struct CompactStanding {
    data: DataDirectory,
    keys: Arc<Keys>,
    detection: Arc<Detection>,
    view: Arc<BoardView>,
    vectors: Arc<Vectors>,
    metrics: Arc<Metrics>,
    reserve_bytes: u64,
    /// Keys that cannot be used, and since when.
    unusable: Mutex<HashMap<Hex<32>, Instant>>,
    stop: AtomicBool,
}

impl CompactStanding {
    pub(crate) fn new(
        data: DataDirectory,
        keys: Arc<Keys>,
        detection: Arc<Detection>,
        view: Arc<BoardView>,
        vectors: Arc<Vectors>,
        metrics: Arc<Metrics>,
        reserve_bytes: u64,
    ) -> Self {
        let (unusable, stop) = (Mutex::default(), AtomicBool::new(false));
        Self { data, keys, detection, view, vectors, metrics, reserve_bytes, unusable, stop }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The thread, if the relay makes compact digests.
    pub(crate) fn start(self: &Arc<Self>) -> Result<Option<JoinHandle<()>>, ServerError> {
        if self.detection.compact().is_none() {
            return Ok(None);
        }
        let this = self.clone();
        let thread = panics::thread("compact standing", self.metrics.clone(), move || this.run());
        thread.map(Some)
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn run(&self) {
        let Some(compact) = self.detection.compact() else { return };
        let mut pause = LOOK;
        while self.goes_on() {
            match caught(&self.metrics, "a pass for standing orders of compact keys", || self.pass(compact)) {
                Ok(true) => {
                    pause = LOOK;
                    continue;
                }
                Ok(false) => pause = LOOK,
                Err(error) => {
                    tracing::error!(%error, "standing orders of compact keys");
                    pause = (pause * 2).min(PAUSE);
                }
            }
            // Jobs do not wait for what is not going on.
            compact.turns().no_standing();
            let until = Instant::now() + pause;
            while Instant::now() < until && self.goes_on() {
                std::thread::sleep(LOOK.min(pause));
            }
        }
        compact.turns().no_standing();
    }

    /// The next blocks of the orders that are behind the most; false if none is.
    fn pass(&self, compact: &Compact) -> Result<bool, ServerError> {
        if self.next(compact, &self.view.board())?.is_none() {
            return Ok(false);
        }
        let Some(turn) = compact.turns().standing(|| self.goes_on()) else { return Ok(false) };
        // Again, now that nobody else makes vectors: a job may have made those that were missing.
        let board = self.view.board();
        if let Some((start, orders)) = self.next(compact, &board)?
            && !self.blocks(compact, &board, &orders, start, &turn)?
        {
            turn.give_way();
        }
        Ok(true)
    }

    /// The first block that an order waits for, and the orders that share a pass over it.
    fn next(
        &self,
        compact: &Compact,
        board: &Board,
    ) -> Result<Option<(u64, Vec<Registration>)>, ServerError> {
        let mut waiting: BTreeMap<u64, Vec<Registration>> = BTreeMap::new();
        let full = full(board, compact);
        for (one, next) in self.look(compact, board)? {
            if next < full {
                waiting.entry(next).or_default().push(one);
            }
        }
        let first = waiting.pop_first();
        self.metrics.compact_standing_behind.set(first.as_ref().map_or(0, |(next, _)| full - next));
        Ok(first.map(|(start, mut orders)| {
            orders.sort_by_key(|one| one.id);
            orders.truncate(compact.keys_per_pass());
            (start, orders)
        }))
    }

    /// All orders, and the first block that each has no vector of. Vectors that an order no longer keeps are removed, and the registry is told how far it is.
    fn look(&self, compact: &Compact, board: &Board) -> Result<Vec<(Registration, u64)>, ServerError> {
        let block = compact.block();
        let (mut all, mut changed) = (Vec::new(), Vec::<(RegistrationId, StandingStatus, u64)>::new());
        for one in self.keys.all() {
            let Some(standing) =
                one.standing.clone().filter(|_| one.ready && one.kind == DigestKind::Compact)
            else {
                continue;
            };
            // A key that cannot be read fails alone.
            if lock(&self.unusable).get(&one.hash).is_some_and(|since| since.elapsed() < AGAIN) {
                continue;
            }
            let (owner, from) = (Owner::order(one.id), compact.kept_from(standing.first, board));
            let mut next = from;
            let mut is_over = false;
            for range in self.vectors.ranges(&owner) {
                is_over |= range.start < from;
                if range == (next..next + block) {
                    next = range.end;
                }
            }
            if is_over {
                self.vectors.keep_of(&owner, |range| range.start >= from)?;
            }
            if next != standing.complete_to {
                changed.push((one.id, standing, next));
            }
            all.push((one, next));
        }
        if !changed.is_empty() {
            self.keys.advance(&changed)?;
        }
        Ok(all)
    }

    /// Blocks from `start` on for some orders that wait for it, until there is no full one, one of the orders is gone, or a job waits; false if one was given up for a job.
    fn blocks(
        &self,
        compact: &Compact,
        board: &Board,
        orders: &[Registration],
        start: u64,
        turn: &Turn<'_>,
    ) -> Result<bool, ServerError> {
        let paths: Vec<PathBuf> = orders.iter().map(|one| self.data.key(&one.hash)).collect();
        let runner = self.detection.runner();
        let goes_on = || self.goes_on() && !turn.is_wanted();
        let prepared = match compact.prepare(runner, &paths, goes_on) {
            Ok(prepared) => prepared,
            Err((place, error)) => {
                tracing::error!(%error, "a key with a standing order cannot be used; the others go on without it");
                lock(&self.unusable).insert(orders[place].hash, Instant::now());
                return Ok(true);
            }
        };
        let Some(keys) = prepared else { return Ok(!turn.is_wanted()) };
        let mut start = start;
        while start < full(board, compact) {
            self.require_space(compact.block_vector_bytes().saturating_mul(orders.len() as u64))?;
            let range = start..start + compact.block();
            let Some(made) = compact.phase1(runner, &keys, board, range.clone(), goes_on)? else {
                return Ok(!turn.is_wanted());
            };
            for (one, vector) in orders.iter().zip(&made) {
                let owner = Owner::order(one.id);
                self.vectors.put(owner, &range, &compact.vector_file(vector))?;
                self.metrics.pertinency_blocks.inc();
                // Deleted meanwhile, with the vectors that were there.
                if self.keys.get(&one.id).is_none_or(|one| one.standing.is_none()) {
                    self.vectors.keep_of(&owner, |_| false)?;
                }
            }
            self.metrics.detected.inc_by(compact.block().saturating_mul(orders.len() as u64));
            start = range.end;
            // Tells the registry, too.
            let now = self.look(compact, board)?;
            let go_on_together =
                orders.iter().all(|order| now.iter().any(|(one, next)| one.id == order.id && *next == start));
            if !go_on_together || turn.is_waited_for() || !self.goes_on() {
                break;
            }
        }
        Ok(true)
    }

    fn require_space(&self, bytes: u64) -> Result<(), ServerError> {
        match self.data.free_bytes() {
            Some(free) if free < self.reserve_bytes.saturating_add(bytes) => {
                Err(ServerError::Environment("no space left for pertinency vectors".into()))
            }
            _ => Ok(()),
        }
    }
}

/// Where the last full block ends.
fn full(board: &Board, compact: &Compact) -> u64 {
    board.len() - board.len() % compact.block()
}
