//! Compact digests: minutes of a core and more than a gigabyte for one job, so that there is one at a time.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use restante_board::Board;
use restante_client::{RECORD_OVERHEAD_BYTES, digest_payload};
use restante_clue::ClueParameters;
use restante_omr::OmrError;
use restante_omr::compact::{
    CompactContext, CompactDetectionKey, CompactDigest, CompactParameters, Detector, DigestRequest, Payload,
    PertinencyVector, PreparedKey,
};
use restante_ring::{Backend, sample::Seed};
use restante_scan::Runner;
use restante_wire::relay::{DigestInfo, DigestKind};
use tokio::sync::Semaphore;

use super::{Interrupted, go_on};
use crate::ServerError;
use crate::config::CompactConfig;
use crate::files::read_limited;
use crate::identity::random;
use crate::problem::{Answer, Code, Refusal};

/// The most payload bytes that a digest holds, without what else a record has.
const MAX_PAYLOAD_BYTES: usize = CompactParameters::MAX_PAYLOAD_BYTES - RECORD_OVERHEAD_BYTES;
/// Stages of a block: three of phase 1, one of phase 2.
const STAGES: u64 = 4;

/// Detection for compact digests.
#[derive(Debug)]
pub(crate) struct Compact {
    context: CompactContext,
    detector: Detector,
    memory_bytes: u64,
    messages_max: u64,
    /// Checking a key takes its file and its contents in memory: one at a time.
    checks: Arc<Semaphore>,
}

impl Compact {
    pub(super) fn new(
        clue: ClueParameters,
        backend: Backend,
        config: &CompactConfig,
    ) -> Result<Self, ServerError> {
        let parameters = match config.insecure_for_tests {
            true => CompactParameters::insecure(clue),
            false => CompactParameters::new(clue),
        };
        let parameters = parameters.map_err(|error| ServerError::Config(format!("compact: {error}")))?;
        let context = CompactContext::new(parameters, backend)?;
        let this = Self {
            detector: Detector::new(&context)?,
            context,
            memory_bytes: config.memory_bytes,
            messages_max: config.job_messages,
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

    /// Checks the sizes that a job asks for; without a size for payloads there are indices only.
    pub(crate) fn check_sizes(&self, capacity: Option<u32>, payload_bytes: Option<u32>) -> Answer<()> {
        let most = CompactParameters::MAX_CAPACITY as u32;
        if !capacity.is_some_and(|capacity| (1..=most).contains(&capacity)) {
            let found = capacity.map_or_else(|| "missing".into(), |capacity| capacity.to_string());
            let detail = format!("{found}, expected 1 to {most}");
            return Err(Refusal::new(Code::Invalid, detail).at("body:capacity"));
        }
        match payload_bytes {
            Some(found) if found as usize > MAX_PAYLOAD_BYTES => {
                let detail = format!("{found}, expected 0 to {MAX_PAYLOAD_BYTES}");
                Err(Refusal::new(Code::Invalid, detail).at("body:payload_bytes"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a job that would take more memory than a job may.
    pub(crate) fn check_memory(&self, request: &DigestRequest) -> Answer<()> {
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

    /// An upper estimate of the memory that a job takes: the prepared key, as much again for what phase 1 works in (2.9 GB were
    /// measured where this gives 3.4), the pertinency vector, and what phase 2 has of a block: twice its rows of two residues and
    /// two halves for each equation, its columns, its records.
    fn job_bytes(&self, request: &DigestRequest) -> u64 {
        let degree = self.context.degree() as u64;
        let count = request.range.end - request.range.start;
        let equations = (request.capacity as u64 + 1).next_power_of_two().max(16);
        let payload_bytes = request.payload_bytes as u64;
        let columns = payload_bytes * 8 / 19 + 2;
        let rows = 2 * equations * 2 * 2 * 8 * degree;
        2 * PreparedKey::memory_bytes(&self.context) as u64
            + PertinencyVector::file_bytes(&self.context, count) as u64
            + rows
            + degree * (4 * columns + payload_bytes + 4 * equations)
    }

    /// Both phases for one key. `finished` is told how many messages more are done, stage by stage; None if it was told to stop.
    ///
    /// A stage cannot be interrupted: with one core the longest, the affine step, takes 35 seconds for a full block.
    pub(super) fn digest(
        &self,
        runner: &Runner,
        key: &Path,
        board: &Board,
        request: &DigestRequest,
        stop: &AtomicBool,
        finished: impl Fn(u64) + Sync,
    ) -> Result<Option<Vec<u8>>, ServerError> {
        let bytes = read_limited(key, CompactDetectionKey::file_bytes(&self.context) as u64)?;
        let key = self.read_key(&bytes)?;
        drop(bytes);
        let range = request.range.clone();
        let (messages, blocks) =
            (range.end - range.start, (range.end - range.start).div_ceil(self.context.degree() as u64));
        let stages = AtomicU64::new(0);
        let reached = || {
            let stage = stages.fetch_add(1, Ordering::Relaxed);
            let done = |stages: u64| messages * stages / (blocks * STAGES).max(1);
            finished(done(stage + 1) - done(stage));
            go_on(stop)
        };
        let clues = board.clues(range.clone())?;
        let clues: Vec<&[u8]> = clues.iter().collect();
        // Whoever posts must not be able to foresee in which slot a message is.
        let mut seed = [0; 32];
        random(&mut seed)?;
        let seed = Seed::from(seed);
        let records = |range: Range<u64>| -> Result<Vec<Payload<'static>>, Interrupted> {
            go_on(stop)?;
            let record = |index| {
                let message = board.message(index).map_err(ServerError::from)?;
                Ok(digest_payload(request, message.clue, message.payload))
            };
            range.map(record).collect()
        };
        let made = runner.install(|| {
            let key = PreparedKey::new(key);
            go_on(stop)?;
            let vectors = self.detector.try_pertinency(&[&key], range.start, &clues, &seed, |_| reached())?;
            let vectors: Vec<&PertinencyVector> = vectors.iter().collect();
            self.detector.digests(&[key.key()], &vectors, request, records, |_| {
                // The next block's records are where phase 2 stops.
                let _ = reached();
            })
        });
        match made.map(|digests| digests.first().map(|digest| digest.to_file(&self.context))) {
            Ok(Some(file)) => Ok(Some(file)),
            Ok(None) => Err(OmrError::Inconsistent("one key, but no digest").into()),
            Err(Interrupted::Stopped) => Ok(None),
            Err(Interrupted::Failed(error)) => Err(error),
        }
    }
}
