//! Detection: the digests of one board. A kind of digest is an arm of [`Form`].

mod compact;
mod prepared;
mod wanted;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use restante_board::Board;
use restante_clue::{BoundClue, ClueParameters};
use restante_omr::OmrError;
use restante_omr::compact::DigestRequest;
use restante_omr::stream::{
    BLOCK, DetectionKey, DetectionScan, Detector, PreparedKey, PublicSeed, StreamContext, StreamDigest,
    StreamParameters,
};
use restante_ring::{Backend, sample::Seed};
use restante_scan::{Runner, Scan};
use restante_wire::ParameterId;
use restante_wire::relay::{DigestInfo, DigestKind, Hex, media};

pub(crate) use self::compact::{Compact, ForJob, Turn};
use self::prepared::PreparedKeys;
pub(crate) use self::wanted::{Form, Wanted};
use crate::ServerError;
use crate::config::{CompactConfig, Limits};
use crate::files::{DataDirectory, read_limited};
use crate::randomness::random;
use crate::refusal::{Answer, Code, Refusal};
use crate::vectors::Vectors;

/// Detection for one board.
#[derive(Debug)]
pub(crate) struct Detection {
    context: StreamContext,
    detector: Detector,
    compact: Option<Compact>,
    runner: Runner,
    data: DataDirectory,
    prepared: PreparedKeys,
    keys_per_pass: usize,
}

/// A digest's file for each key.
pub(crate) type Digests = Vec<Vec<u8>>;

/// The result of a pass.
#[derive(Debug)]
pub(crate) enum Outcome<T = Digests> {
    /// It has ended.
    Digests(T),
    /// It was told to stop.
    Stopped,
}

impl Detection {
    pub(crate) fn new(
        clue: ClueParameters,
        backend: &str,
        threads: usize,
        data: DataDirectory,
        limits: &Limits,
        compact: &CompactConfig,
        vectors: Arc<Vectors>,
    ) -> Result<Self, ServerError> {
        let backend = match backend {
            "" => Backend::best(),
            name => name.parse().map_err(|error| ServerError::Config(format!("backend: {error}")))?,
        };
        let context = StreamContext::new(StreamParameters::new(clue)?, backend)?;
        let runner = Runner::new(threads)
            .map_err(|error| ServerError::Environment(format!("cannot start threads: {error}")))?;
        // Whoever posts or asks does not wait for a pass. Where the system does not allow it, the threads stay as they are.
        runner.install(|| rayon::broadcast(|_| rustix::process::setpriority_process(None, 10).is_ok()));
        let detector = Detector::new(&context)?;
        let compact =
            if compact.enabled { Some(Compact::new(clue, backend, compact, vectors)?) } else { None };
        let keep = limits.prepared_key_bytes / PreparedKey::memory_bytes(&context) as u64;
        let (prepared, keys_per_pass) = (PreparedKeys::new(keep as usize), limits.keys_per_pass);
        Ok(Self { context, detector, compact, runner, data, prepared, keys_per_pass })
    }

    /// Recipients that share a pass of the stream digest.
    pub(crate) fn keys_per_pass(&self) -> usize {
        self.keys_per_pass
    }

    pub(crate) fn runner(&self) -> &Runner {
        &self.runner
    }

    /// The kinds of digests that there are.
    pub(crate) fn info(&self) -> Vec<DigestInfo> {
        let stream = DigestInfo {
            kind: DigestKind::Stream,
            parameters: self.context.id().into(),
            key_bytes: DetectionKey::file_bytes(&self.context) as u64,
            block: BLOCK as u32,
            block_bytes: self.block_bytes(),
            messages_max: StreamDigest::MAX_MESSAGES,
            capacity_max: None,
            payload_bytes_max: None,
        };
        std::iter::once(stream).chain(self.compact.as_ref().map(Compact::info)).collect()
    }

    /// The one kind with this name, if there is one.
    pub(crate) fn info_of(&self, kind: DigestKind) -> Option<DigestInfo> {
        self.info().into_iter().find(|info| info.kind == kind)
    }

    /// The parameters of standing digests.
    pub(crate) fn parameters(&self) -> ParameterId {
        self.context.id()
    }

    pub(crate) fn block(&self) -> u64 {
        BLOCK as u64
    }

    /// Bytes of the standing digest of a block.
    pub(crate) fn block_bytes(&self) -> u64 {
        StreamDigest::file_bytes(&self.context, BLOCK as u64) as u64
    }

    /// Memory that a job's stream digest takes besides what all have in common: its residues in 64-bit words, the file, and the body
    /// of the file; and the prepared key.
    pub(crate) fn digest_memory_bytes(&self, messages: u64) -> u64 {
        let (degree, blocks) = (self.context.bfv().degree() as u64, messages.div_ceil(BLOCK as u64) + 1);
        let residues = 2 * 2 * degree * size_of::<u64>() as u64;
        PreparedKey::memory_bytes(&self.context) as u64 + blocks * (residues + 2 * self.block_bytes())
    }

    /// Bytes of disk that a job may take, from above.
    pub(crate) fn result_bytes(&self, wanted: &Wanted) -> u64 {
        match (wanted.compact(), &self.compact) {
            (Some(request), Some(compact)) => {
                compact.file_bytes(&request) + compact.vector_bytes(&request.range)
            }
            // A digest takes about 13 bytes for each message of its blocks.
            _ => 16 * (wanted.range.end - wanted.range.start).next_multiple_of(self.block()),
        }
    }

    /// The form of a digest, from what a request says of it.
    pub(crate) fn form(
        &self,
        kind: DigestKind,
        capacity: Option<u32>,
        payload_bytes: Option<u32>,
    ) -> Answer<Form> {
        match (kind, &self.compact) {
            (DigestKind::Compact, Some(compact)) => compact.form(capacity, payload_bytes),
            (DigestKind::Stream, _) => {
                let sizes = [("capacity", capacity), ("payload_bytes", payload_bytes)];
                match sizes.into_iter().find(|(_, size)| size.is_some()) {
                    None => Ok(Form::Stream),
                    Some((name, _)) => {
                        let detail = format!("{kind} digests have no {name}");
                        Err(Refusal::new(Code::Invalid, detail).at(format!("body:{name}")))
                    }
                }
            }
            _ => {
                let detail = "this relay does not make such digests any more";
                Err(Refusal::new(Code::Invalid, detail).at("body:kind"))
            }
        }
    }

    /// Refuses a digest of more than `most` messages, or of more than its kind allows, or one that takes too much memory.
    pub(crate) fn check(&self, wanted: &Wanted, most: u64) -> Answer<()> {
        let messages = wanted.range.end - wanted.range.start;
        let own = self.info_of(wanted.form.kind()).map_or(0, |info| info.messages_max);
        let most = most.min(own);
        if messages > most {
            let detail = format!("{messages} messages, expected at most {most}");
            return Err(Refusal::new(Code::TooLarge, detail).at("body:end"));
        }
        match (wanted.compact(), &self.compact) {
            (Some(request), Some(compact)) => compact.check_memory(&request),
            _ => Ok(()),
        }
    }

    /// Compact digests, if the relay makes them.
    pub(crate) fn compact(&self) -> Option<&Compact> {
        self.compact.as_ref()
    }

    pub(crate) fn media_type(&self, kind: DigestKind) -> &'static str {
        match kind {
            DigestKind::Compact => media::COMPACT_DIGEST,
            DigestKind::Stream => media::STREAM_DIGEST,
        }
    }

    /// Checks a key's file.
    pub(crate) fn check_key(&self, kind: DigestKind, bytes: &[u8]) -> Result<(), OmrError> {
        match (kind, &self.compact) {
            (DigestKind::Stream, _) => {
                // Each public seed is work of its own in every pass.
                match DetectionKey::from_file(&self.context, bytes)?.public_seed() {
                    PublicSeed::COMMON => Ok(()),
                    _ => Err(OmrError::PublicSeed),
                }
            }
            (DigestKind::Compact, Some(compact)) => compact.read_key(bytes).map(drop),
            _ => Err(OmrError::Inconsistent("this relay does not make digests of this kind")),
        }
    }

    /// Detects for the keys with these hashes in a range of the board. `finished` is told how many messages, times keys, are
    /// done. The memory is that of `keys_per_pass` prepared keys, those that are kept, and the digests.
    pub(crate) fn detect(
        &self,
        keys: &[Hex<32>],
        board: &Board,
        range: Range<u64>,
        stop: &AtomicBool,
        finished: impl Fn(u64) + Sync,
    ) -> Result<Outcome, ServerError> {
        let mut digests = Vec::with_capacity(keys.len());
        for group in keys.chunks(self.keys_per_pass) {
            match self.detect_each(group, board, std::slice::from_ref(&range), stop, &finished)? {
                Outcome::Digests(ranges) => digests.extend(ranges.into_iter().flatten()),
                Outcome::Stopped => return Ok(Outcome::Stopped),
            }
        }
        Ok(Outcome::Digests(digests))
    }

    /// Digests of each of some ranges, for keys that are all prepared at once: at most `keys_per_pass`.
    pub(crate) fn detect_each(
        &self,
        keys: &[Hex<32>],
        board: &Board,
        ranges: &[Range<u64>],
        stop: &AtomicBool,
        finished: impl Fn(u64) + Sync,
    ) -> Result<Outcome<Vec<Digests>>, ServerError> {
        let prepared = self.prepare(keys)?;
        // Where there are fewer blocks than threads, the keys are shared out, though each share encodes the clues anew.
        let blocks: u64 = ranges.iter().map(|range| (range.end - range.start).div_ceil(BLOCK as u64)).sum();
        let shares = self.runner.threads().div_ceil(blocks.max(1) as usize).min(prepared.len()).max(1);
        let share = prepared.len().div_ceil(shares).max(1);
        let made = self.runner.install(|| {
            let each = ranges.par_iter().with_max_len(1).map(|range| {
                let shares = prepared.par_chunks(share).with_max_len(1);
                let made = shares.map(|keys| self.detect_prepared(keys, board, range, stop, &finished));
                Ok(made.collect::<Result<Vec<_>, Interrupted>>()?.into_iter().flatten().collect())
            });
            each.collect::<Result<Vec<Digests>, Interrupted>>()
        });
        match made {
            Ok(made) => Ok(Outcome::Digests(made)),
            Err(Interrupted::Stopped) => Ok(Outcome::Stopped),
            Err(Interrupted::Failed(error)) => Err(error),
        }
    }

    fn detect_prepared(
        &self,
        keys: &[Arc<PreparedKey>],
        board: &Board,
        range: &Range<u64>,
        stop: &AtomicBool,
        finished: &(impl Fn(u64) + Sync),
    ) -> Result<Digests, Interrupted> {
        let clues = bound_clues(board, range.clone())?;
        let mut seed = [0; 32];
        random(&mut seed)?;
        let (scan, shards) = self.detector.scan(keys, range.start, &clues, &Seed::from(seed))?;
        let scan = Stoppable { scan, stop };
        let told = |block: &<Stoppable<'_> as Scan>::Shard| finished((block.messages() * keys.len()) as u64);
        let digests = self.runner.run(&scan, &shards, told)?;
        Ok(digests.iter().map(|digest| digest.to_file(&self.context)).collect())
    }

    /// A compact digest for the key with this hash; none if the relay does not make them. `finished` as for `detect`.
    pub(crate) fn detect_compact(
        &self,
        hash: &Hex<32>,
        board: &Board,
        request: &DigestRequest,
        job: &ForJob,
        stop: &AtomicBool,
        finished: impl Fn(u64) + Sync,
    ) -> Result<Option<Outcome>, ServerError> {
        let Some(compact) = &self.compact else { return Ok(None) };
        let file =
            compact.digest(&self.runner, &self.data.key(hash), board, (request, job), stop, finished)?;
        Ok(Some(file.map_or(Outcome::Stopped, |file| Outcome::Digests(vec![file]))))
    }

    fn prepare(&self, keys: &[Hex<32>]) -> Result<Vec<Arc<PreparedKey>>, ServerError> {
        self.runner.install(|| keys.par_iter().with_max_len(1).map(|hash| self.prepare_one(hash)).collect())
    }

    fn prepare_one(&self, hash: &Hex<32>) -> Result<Arc<PreparedKey>, ServerError> {
        if let Some(key) = self.prepared.get(hash) {
            return Ok(key);
        }
        let limit = DetectionKey::file_bytes(&self.context) as u64;
        let bytes = read_limited(&self.data.key(hash), limit)?;
        let key = Arc::new(PreparedKey::new(&DetectionKey::from_file(&self.context, &bytes)?));
        self.prepared.put(*hash, &key);
        Ok(key)
    }

    /// Why a stream key cannot be used, if it cannot.
    pub(crate) fn try_key(&self, hash: &Hex<32>) -> Result<(), ServerError> {
        self.prepare_one(hash).map(drop)
    }

    /// Memory that the check of a stream key takes: its file, and what is read from it.
    pub(crate) fn check_bytes(&self) -> u64 {
        DetectionKey::file_bytes(&self.context) as u64 + PreparedKey::memory_bytes(&self.context) as u64
    }

    /// Forgets a key that was deleted.
    pub(crate) fn forget(&self, hash: &Hex<32>) {
        self.prepared.forget(hash);
    }
}

/// The clues of a range with what they are bound to.
fn bound_clues(board: &Board, range: Range<u64>) -> Result<Vec<BoundClue<'_>>, ServerError> {
    let clues = board.clues(range)?;
    let bound = (0..clues.len()).into_par_iter().with_min_len(1024);
    let bound = bound.filter_map(|position| clues.bound(position));
    Ok(bound.map(|(bytes, binding)| BoundClue { bytes, binding }).collect())
}

/// A scan that ends early when it is told to.
struct Stoppable<'a> {
    scan: DetectionScan<'a>,
    stop: &'a AtomicBool,
}

/// Why a pass gave no digests.
enum Interrupted {
    Stopped,
    Failed(ServerError),
}

impl From<OmrError> for Interrupted {
    fn from(error: OmrError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<ServerError> for Interrupted {
    fn from(error: ServerError) -> Self {
        Self::Failed(error)
    }
}

/// An error at a point where it is time to stop.
fn go_on(stop: &AtomicBool) -> Result<(), Interrupted> {
    if stop.load(Ordering::Relaxed) { Err(Interrupted::Stopped) } else { Ok(()) }
}

impl<'a> Scan for Stoppable<'a> {
    type Shard = <DetectionScan<'a> as Scan>::Shard;
    type Partial = <DetectionScan<'a> as Scan>::Partial;
    type Answer = <DetectionScan<'a> as Scan>::Answer;
    type Error = Interrupted;

    fn empty(&self) -> Self::Partial {
        self.scan.empty()
    }

    fn scan(&self, shard: &Self::Shard) -> Result<Self::Partial, Interrupted> {
        go_on(self.stop)?;
        Ok(self.scan.scan(shard)?)
    }

    fn merge(&self, sum: &mut Self::Partial, partial: Self::Partial) {
        self.scan.merge(sum, partial);
    }

    fn finish(&self, sum: Self::Partial) -> Self::Answer {
        self.scan.finish(sum)
    }
}
