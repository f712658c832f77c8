//! Compact digests: minutes of a core and more than a gigabyte for one job, so that one heavy thing goes on at a time.
//!
//! Phase 1 is done once for each block, where a standing order keeps its vectors, and phase 2 for each job.

mod pieces;
mod turns;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use restante_board::Board;
use restante_clue::ClueParameters;
use restante_letter::{RECORD_OVERHEAD_BYTES, digest_payload};
use restante_omr::OmrError;
use restante_omr::compact::{
    CompactContext, CompactDetectionKey, CompactDigest, CompactParameters, Detector, DigestRequest, Payload,
    PertinencyVector, PreparedKey,
};
use restante_ring::{Backend, sample::Seed};
use restante_scan::Runner;
use restante_wire::relay::{DigestInfo, DigestKind, JobId, RegistrationId};
use tokio::sync::Semaphore;

use self::pieces::{Piece, Sources};
pub(crate) use self::turns::{Turn, Turns};
use super::{Form, Interrupted, bound_clues};
use crate::ServerError;
use crate::config::CompactConfig;
use crate::files::read_limited;
use crate::randomness::random;
use crate::refusal::{Answer, Code, Refusal};
use crate::vectors::{Owner, Vectors};

/// The most payload bytes that a digest holds, without what else a record has.
const MAX_PAYLOAD_BYTES: usize = CompactParameters::MAX_PAYLOAD_BYTES - RECORD_OVERHEAD_BYTES;
/// Stages of a block in phase 1.
const STAGES: u64 = 3;

/// Detection for compact digests.
#[derive(Debug)]
pub(crate) struct Compact {
    context: CompactContext,
    detector: Detector,
    memory_bytes: u64,
    messages_max: u64,
    standing_blocks: u64,
    vectors: Arc<Vectors>,
    turns: Turns,
    /// Checking a key takes its file and its contents in memory: one at a time.
    checks: Arc<Semaphore>,
}

/// Whose digest a job makes, and what of it is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForJob {
    pub(crate) registration: RegistrationId,
    pub(crate) job: JobId,
    /// The first message of the key's standing order, if there is one.
    pub(crate) standing: Option<u64>,
}

impl Compact {
    pub(super) fn new(
        clue: ClueParameters,
        backend: Backend,
        config: &CompactConfig,
        vectors: Arc<Vectors>,
    ) -> Result<Self, ServerError> {
        let parameters = if config.insecure_for_tests {
            CompactParameters::insecure(clue)
        } else {
            CompactParameters::new(clue)
        };
        let parameters = parameters.map_err(|error| ServerError::Config(format!("compact: {error}")))?;
        let context = CompactContext::new(parameters, backend)?;
        let this = Self {
            detector: Detector::new(&context)?,
            context,
            memory_bytes: config.memory_bytes,
            messages_max: config.job_messages,
            standing_blocks: config.standing_blocks.into(),
            vectors,
            turns: Turns::default(),
            checks: Arc::new(Semaphore::new(1)),
        };
        let least = this.job_bytes(&DigestRequest { range: 0..1, capacity: 1, payload_bytes: 0 });
        if config.memory_bytes < least {
            let found = config.memory_bytes;
            return Err(ServerError::Config(format!(
                "compact.memory_bytes is {found}, expected at least {least}"
            )));
        }
        Ok(this)
    }

    pub(super) fn info(&self) -> DigestInfo {
        let largest = DigestRequest {
            range: 0..self.messages_max,
            capacity: CompactParameters::MAX_CAPACITY,
            payload_bytes: CompactParameters::MAX_PAYLOAD_BYTES,
        };
        DigestInfo {
            kind: DigestKind::Compact,
            parameters: self.context.id().into(),
            key_bytes: CompactDetectionKey::file_bytes(&self.context) as u64,
            block: self.context.degree() as u32,
            block_bytes: CompactDigest::file_bytes(&self.context, &largest) as u64,
            messages_max: self.messages_max,
            capacity_max: Some(CompactParameters::MAX_CAPACITY as u32),
            payload_bytes_max: Some(MAX_PAYLOAD_BYTES as u32),
        }
    }

    /// Who holds the permit may check a key.
    pub(crate) fn checks(&self) -> Arc<Semaphore> {
        self.checks.clone()
    }

    pub(super) fn read_key(&self, bytes: &[u8]) -> Result<CompactDetectionKey, OmrError> {
        CompactDetectionKey::from_file(&self.context, bytes)
    }

    /// The form of a digest with the sizes that a request asks for; without a size for payloads there are indices only.
    pub(super) fn form(&self, capacity: Option<u32>, payload_bytes: Option<u32>) -> Answer<Form> {
        let most = CompactParameters::MAX_CAPACITY as u32;
        let Some(capacity) = capacity.filter(|capacity| (1..=most).contains(capacity)) else {
            let found = capacity.map_or_else(|| "missing".into(), |capacity| capacity.to_string());
            let detail = format!("{found}, expected 1 to {most}");
            return Err(Refusal::new(Code::Invalid, detail).at("body:capacity"));
        };
        let payload_bytes = payload_bytes.unwrap_or(0);
        if payload_bytes as usize > MAX_PAYLOAD_BYTES {
            let detail = format!("{payload_bytes}, expected 0 to {MAX_PAYLOAD_BYTES}");
            return Err(Refusal::new(Code::Invalid, detail).at("body:payload_bytes"));
        }
        Ok(Form::Compact { capacity, payload_bytes })
    }

    /// Refuses a job that would take more memory than a job may.
    pub(super) fn check_memory(&self, request: &DigestRequest) -> Answer<()> {
        let (found, most) = (self.job_bytes(request), self.memory_bytes);
        if found <= most {
            return Ok(());
        }
        let detail = format!("a job of about {found} bytes of memory, expected at most {most}");
        let field = if request.payload_bytes > 0 { "body:payload_bytes" } else { "body:capacity" };
        Err(Refusal::new(Code::TooLarge, detail).at(field))
    }

    /// Bytes of a digest's file.
    pub(crate) fn file_bytes(&self, request: &DigestRequest) -> u64 {
        CompactDigest::file_bytes(&self.context, request) as u64
    }

    /// Bytes of the vectors that a job may keep until it is done.
    pub(crate) fn vector_bytes(&self, range: &Range<u64>) -> u64 {
        let blocks = (range.end - range.start) / self.block() + 2;
        blocks * self.block_vector_bytes()
    }

    /// N.
    pub(crate) fn block(&self) -> u64 {
        self.context.degree() as u64
    }

    /// Bytes of the vector of a whole block.
    pub(crate) fn block_vector_bytes(&self) -> u64 {
        PertinencyVector::file_bytes(&self.context, self.block()) as u64
    }

    /// Whether the relay takes standing orders.
    pub(crate) fn takes_orders(&self) -> bool {
        self.standing_blocks > 0
    }

    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// The first block of which a standing order from `first` on keeps a vector: the board has all its messages, and there are not more
    /// than so many behind it.
    pub(crate) fn kept_from(&self, first: u64, board: &Board) -> u64 {
        let block = self.block();
        let full = board.len() / block;
        let newest = full.saturating_sub(self.standing_blocks) * block;
        first.max(board.retained_from().next_multiple_of(block)).max(newest)
    }

    /// Keys that share a pass of phase 1, as many as their memory allows: at least one.
    pub(crate) fn keys_per_pass(&self) -> usize {
        let key = PreparedKey::memory_bytes(&self.context) as u64;
        // One part is what the pass works in, whatever the number of keys; each has two distances of as many residues as a ciphertext.
        let limbs = self.context.circuit().basis(0).limbs() as u64;
        let own = key + 2 * 2 * limbs * self.block() * 8;
        (self.memory_bytes.saturating_sub(key) / own).max(1) as usize
    }

    /// An upper estimate of the memory that a job takes: what there is whatever the request (the key's file and what is read from it,
    /// buffers), the prepared key, as much again for what phase 1 works in (2.9 GB were measured for a capacity of 1 and indices alone),
    /// the pertinency vectors, and what phase 2 has of a block: twice its rows of two residues and two halves for each equation, its
    /// columns, its records.
    fn job_bytes(&self, request: &DigestRequest) -> u64 {
        let degree = self.block();
        let count = request.range.end - request.range.start;
        let equations = (request.capacity as u64 + 1).next_power_of_two().max(16);
        let payload_bytes = request.payload_bytes as u64;
        let columns = payload_bytes * 8 / 19 + 2;
        let rows = 2 * equations * 2 * 2 * 8 * degree;
        let always = CompactDetectionKey::file_bytes(&self.context) as u64 * 2;
        always
            + 2 * PreparedKey::memory_bytes(&self.context) as u64
            + (count / degree + 2) * PertinencyVector::block_memory_bytes(&self.context) as u64
            + rows
            + degree * (4 * columns + payload_bytes + 4 * equations)
    }

    fn load_key(&self, path: &Path) -> Result<CompactDetectionKey, ServerError> {
        let bytes = read_limited(path, CompactDetectionKey::file_bytes(&self.context) as u64)?;
        Ok(self.read_key(&bytes)?)
    }

    /// Keys for passes of phase 1; none if `goes_on` no longer holds. An error says which key cannot be used.
    pub(crate) fn prepare(
        &self,
        runner: &Runner,
        paths: &[PathBuf],
        goes_on: impl Fn() -> bool,
    ) -> Result<Option<Vec<PreparedKey>>, (usize, ServerError)> {
        let mut keys = Vec::with_capacity(paths.len());
        for (place, path) in paths.iter().enumerate() {
            if !goes_on() {
                return Ok(None);
            }
            let key = self.load_key(path).map_err(|error| (place, error))?;
            keys.push(runner.install(|| PreparedKey::new(key)));
        }
        Ok(Some(keys))
    }

    /// Phase 1 of at most one block: each key's vector, with slots that nobody could foresee; none if `goes_on`, which is asked at the
    /// border of every stage, no longer holds.
    ///
    /// A stage cannot be interrupted: with one core the longest, the affine step, takes 35 seconds for a full block.
    pub(crate) fn phase1(
        &self,
        runner: &Runner,
        keys: &[PreparedKey],
        board: &Board,
        range: Range<u64>,
        goes_on: impl Fn() -> bool + Sync,
    ) -> Result<Option<Vec<PertinencyVector>>, ServerError> {
        let clues = runner.install(|| bound_clues(board, range.clone()))?;
        let keys: Vec<&PreparedKey> = keys.iter().collect();
        // Drawn when the messages are there: whoever posts must not be able to foresee in which slot one is.
        let mut seed = [0; 32];
        random(&mut seed)?;
        let made = runner.install(|| {
            self.detector.try_pertinency(&keys, range.start, &clues, &Seed::from(seed), |_| {
                if goes_on() { Ok(()) } else { Err(Interrupted::Stopped) }
            })
        });
        uninterrupted(made)
    }

    pub(crate) fn vector_file(&self, vector: &PertinencyVector) -> Vec<u8> {
        vector.to_file(&self.context)
    }

    /// Both phases for one key. `finished` is told how many messages more are done, stage by stage; None if it was told to stop.
    ///
    /// Phase 1 is left out where there are vectors, and what it makes is kept: whole blocks for the key's standing order, others until the job is
    /// done, so that one that is interrupted goes on behind them.
    pub(super) fn digest(
        &self,
        runner: &Runner,
        key: &Path,
        board: &Board,
        (request, job): (&DigestRequest, &ForJob),
        stop: &AtomicBool,
        finished: impl Fn(u64) + Sync,
    ) -> Result<Option<Vec<u8>>, ServerError> {
        let goes_on = || !stop.load(Ordering::Relaxed);
        let waiting = || {
            finished(0);
            goes_on()
        };
        let Some(_turn) = self.turns.job(waiting) else { return Ok(None) };
        let key = self.load_key(key)?;
        let (pieces, mut vectors) = self.sequence(job, &key, board, &request.range)?;
        let (messages, missing) = (
            request.range.end - request.range.start,
            vectors.iter().filter(|vector| vector.is_none()).count(),
        );
        let (all, stages) = (pieces.len() as u64 + STAGES * missing as u64, AtomicU64::new(0));
        let reached = || {
            let stage = stages.fetch_add(1, Ordering::Relaxed);
            let done = |stages: u64| messages * stages / all.max(1);
            finished(done(stage + 1) - done(stage));
            goes_on()
        };
        let Some(key) = self.complete(runner, key, board, (&pieces, &mut vectors), &goes_on, &reached)?
        else {
            return Ok(None);
        };
        let records = |range: Range<u64>| -> Result<Vec<Payload<'static>>, Interrupted> {
            if !goes_on() {
                return Err(Interrupted::Stopped);
            }
            let record = |index| {
                let message = board.message(index).map_err(ServerError::from)?;
                Ok(digest_payload(request, message.clue, message.payload))
            };
            range.map(record).collect()
        };
        let vectors: Vec<&PertinencyVector> = vectors.iter().flatten().collect();
        let made = runner.install(|| {
            self.detector.digests_of_sequences(&[&key], &[&vectors], request, records, |_| {
                // The next block's records are where phase 2 stops.
                let _ = reached();
            })
        });
        let Some(digests) = uninterrupted(made)? else { return Ok(None) };
        match digests.first() {
            Some(digest) => Ok(Some(digest.to_file(&self.context))),
            None => Err(OmrError::Inconsistent("one key, but no digest").into()),
        }
    }

    /// Makes the vectors that are missing, and keeps them. The key comes back; none if it was told to stop.
    fn complete(
        &self,
        runner: &Runner,
        key: CompactDetectionKey,
        board: &Board,
        (pieces, vectors): (&[Piece], &mut [Option<PertinencyVector>]),
        goes_on: &dyn Fn() -> bool,
        reached: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<CompactDetectionKey>, ServerError> {
        if vectors.iter().all(Option::is_some) {
            return Ok(Some(key));
        }
        let prepared = [runner.install(|| PreparedKey::new(key))];
        for (piece, vector) in pieces.iter().zip(vectors).filter(|(_, vector)| vector.is_none()) {
            if !goes_on() {
                return Ok(None);
            }
            let made = self.phase1(runner, &prepared, board, piece.range.clone(), reached)?;
            let Some(made) = made.and_then(|made| made.into_iter().next()) else { return Ok(None) };
            if let Err(error) = self.vectors.put(piece.owner, &piece.range, &self.vector_file(&made)) {
                // The job does not need it.
                tracing::warn!(%error, "a pertinency vector was not kept");
            }
            *vector = Some(made);
        }
        let [prepared] = prepared;
        Ok(Some(prepared.into_key()))
    }

    /// The pieces that cover a job's range, and the vectors that exist.
    fn sequence(
        &self,
        job: &ForJob,
        key: &CompactDetectionKey,
        board: &Board,
        range: &Range<u64>,
    ) -> Result<(Vec<Piece>, Vec<Option<PertinencyVector>>), ServerError> {
        let (own, order) = (Owner::job((job.registration, job.job)), Owner::order(job.registration));
        'again: loop {
            let (of_job, of_order) = (self.vectors.ranges(&own), self.vectors.ranges(&order));
            let from = job.standing.filter(|_| self.takes_orders()).map(|first| self.kept_from(first, board));
            let sources = Sources {
                job: (own, &of_job),
                order: from.map(|from| (order, of_order.as_slice(), from)),
                messages: board.retained_from()..board.len(),
                block: self.block(),
            };
            let pieces = sources.cover(range);
            let mut vectors = Vec::with_capacity(pieces.len());
            for piece in &pieces {
                if !piece.is_stored {
                    vectors.push(None);
                    continue;
                }
                match self.load_vector(piece, key) {
                    Ok(vector) => vectors.push(Some(vector)),
                    Err(error) => {
                        tracing::warn!(%error, "a pertinency vector cannot be used and is made again");
                        self.vectors.remove(&piece.owner, &piece.range)?;
                        continue 'again;
                    }
                }
            }
            return Ok((pieces, vectors));
        }
    }

    fn load_vector(&self, piece: &Piece, key: &CompactDetectionKey) -> Result<PertinencyVector, ServerError> {
        let bytes = self.vectors.read(&piece.owner, &piece.range, self.block_vector_bytes())?;
        let vector = PertinencyVector::from_file(&self.context, &bytes)?;
        if (vector.first()..vector.end(), vector.key()) == (piece.range.clone(), key.id()) {
            Ok(vector)
        } else {
            Err(OmrError::Inconsistent("a pertinency vector of another range or key").into())
        }
    }
}

/// None if it was interrupted.
fn uninterrupted<T>(made: Result<T, Interrupted>) -> Result<Option<T>, ServerError> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(Interrupted::Stopped) => Ok(None),
        Err(Interrupted::Failed(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;
    use crate::files::DataDirectory;

    /// Full size, Zen 3 and a machine with AVX-512, 2 threads: capacity, payload bytes, and the largest resident size of a process
    /// that did nothing else (`restante bench detect-compact --messages 65536`, `peak_rss_bytes`; with it are 168 MB of clues, which
    /// a relay has mapped).
    const MEASURED: [(usize, usize, u64); 2] = [(1, 0, 2_911_592_448), (50, 612, 2_900_000_000)];

    #[test]
    fn a_job_of_any_size_takes_no_more_than_is_estimated() {
        let scratch = tempfile::tempdir().unwrap();
        let (data, _lock) = DataDirectory::open(scratch.path()).unwrap();
        let vectors = Arc::new(Vectors::load(data).unwrap());
        let config = CompactConfig { enabled: true, ..CompactConfig::default() };
        let compact = Compact::new(ClueParameters::STANDARD, Backend::best(), &config, vectors).unwrap();
        let estimate = |capacity, payload_bytes| {
            compact.job_bytes(&DigestRequest { range: 0..65_536, capacity, payload_bytes })
        };
        for (capacity, payload_bytes, measured) in MEASURED {
            let found = estimate(capacity, payload_bytes);
            // And the 200 MB that a job with a small capacity was found to take more than was thought.
            assert!(found > measured + (200 << 20), "{found} for {capacity}, {payload_bytes}");
        }
        // The largest job fits the default.
        let largest = DigestRequest {
            range: 0..CompactParameters::MAX_MESSAGES,
            capacity: CompactParameters::MAX_CAPACITY,
            payload_bytes: CompactParameters::MAX_PAYLOAD_BYTES,
        };
        assert!(compact.job_bytes(&largest) <= config.memory_bytes);
    }
}
