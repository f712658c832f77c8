//! Jobs: digests that somebody asked for.
//!
//! A job's stages are `queued`, `running`, and `done` or `failed`. Running is not written down: a relay that starts finds jobs that
//! are queued, and those that are not finished. A compact job that was interrupted goes on behind the last block whose pertinency
//! vector it kept. Each kind has a thread, so that none waits for a compact digest but another one. The result's file is there, whole
//! and durable, before the job is done.

mod order;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use restante_omr::compact::DigestRequest;
use restante_wire::relay::{DigestKind, Hex, JobId, JobState, JobStatus, RegistrationId};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

pub(crate) use self::order::JobOrder;
use crate::board::BoardView;
use crate::clock::Clock;
use crate::detection::{Detection, ForJob, Form, Outcome, Wanted};
use crate::files::{DataDirectory, remove, write_whole};
use crate::keys::Keys;
use crate::locks::lock;
use crate::metrics::Metrics;
use crate::panics::{self, caught};
use crate::queue::Lanes;
use crate::refusal::{Answer, Code, Refusal};
use crate::registry::{Change, Registry};
use crate::vectors::{Owner, Vectors};
use crate::{Limits, ServerError};

/// Progress is told at most so often.
const TELL: Duration = Duration::from_millis(500);

/// Whose job, and which.
pub(crate) type JobKey = (RegistrationId, JobId);

/// A job's entry in the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    registration: RegistrationId,
    id: JobId,
    kind: DigestKind,
    first: u64,
    end: u64,
    /// Whether the request named the end.
    end_given: bool,
    #[serde(default)]
    capacity: Option<u32>,
    #[serde(default)]
    payload_bytes: Option<u32>,
    created: u64,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    Queued,
    Done { bytes: u64, hash: Hex<32>, time: u64 },
    Failed { reason: String, time: u64 },
}

impl Record {
    fn key(&self) -> JobKey {
        (self.registration, self.id)
    }

    fn row(&self) -> [u8; 32] {
        let mut row = [0; 32];
        row[..16].copy_from_slice(&self.registration.0);
        row[16..].copy_from_slice(&self.id.0);
        row
    }

    fn status(&self) -> JobStatus {
        let (state, result, error, done) = match &self.stage {
            Stage::Queued => (JobState::Queued, None, None, 0),
            Stage::Done { bytes, hash, .. } => {
                (JobState::Done, Some((*bytes, *hash)), None, self.end - self.first)
            }
            Stage::Failed { reason, .. } => (JobState::Failed, None, Some(reason.clone()), 0),
        };
        JobStatus {
            id: self.id,
            kind: self.kind,
            first: self.first,
            complete_to: self.end,
            capacity: self.capacity,
            payload_bytes: self.payload_bytes,
            state,
            done,
            created: self.created,
            result_bytes: result.map(|(bytes, _)| bytes),
            result_hash: result.map(|(_, hash)| hash),
            error,
        }
    }

    fn new(registration: RegistrationId, order: &JobOrder, created: u64) -> Self {
        let Wanted { range, form } = &order.wanted;
        let (capacity, payload_bytes) = form.sizes();
        Self {
            registration,
            id: order.id,
            kind: form.kind(),
            first: range.start,
            end: range.end,
            end_given: order.end_given,
            capacity,
            payload_bytes,
            created,
            stage: Stage::Queued,
        }
    }

    /// The digest that this is for; `None` for what no relay has accepted.
    fn wanted(&self) -> Option<Wanted> {
        let form = Form::of_row(self.kind, self.capacity, self.payload_bytes)?;
        (self.first < self.end).then_some(Wanted { range: self.first..self.end, form })
    }

    /// Whether an order is this job's. One without an end has the end that the board had when it came first.
    fn is_for(&self, order: &JobOrder) -> bool {
        let is_same_end = self.end == order.wanted.range.end || !self.end_given;
        let asked = (order.wanted.form.kind(), order.wanted.range.start, order.wanted.form.sizes());
        let own = (self.kind, self.first, (self.capacity, self.payload_bytes));
        own == asked && self.end_given == order.end_given && is_same_end
    }

    fn finished(&self) -> Option<u64> {
        match self.stage {
            Stage::Queued => None,
            Stage::Done { time, .. } | Stage::Failed { time, .. } => Some(time),
        }
    }
}

#[derive(Debug)]
struct Job {
    record: Record,
    status: watch::Sender<JobStatus>,
    /// Which of the jobs with this id it is: after a deletion there may be another, while the first still runs.
    number: u64,
    /// Set when the job is deleted.
    cancelled: Arc<AtomicBool>,
}

/// A job that is to be done, or is being done.
#[derive(Debug, Clone)]
struct Run {
    record: Record,
    wanted: Wanted,
    number: u64,
    cancelled: Arc<AtomicBool>,
    /// The network that it was submitted from; not known of those from before a start.
    from: IpAddr,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<JobKey, Job>,
    next: u64,
    /// Each registration has a lane, for each kind.
    waiting: Vec<(DigestKind, Lanes<RegistrationId, Run>)>,
}

impl State {
    /// Adds a job, and puts it into the queue if it is not finished.
    fn add(&mut self, record: Record, from: IpAddr) {
        let number = self.next;
        self.next += 1;
        let job = Job::new(record, number);
        if job.record.stage == Stage::Queued
            && let Some(wanted) = job.record.wanted()
        {
            let (record, cancelled) = (job.record.clone(), job.cancelled.clone());
            let registration = record.registration;
            self.lanes(record.kind).push(registration, Run { record, wanted, number, cancelled, from });
        }
        self.jobs.insert(job.record.key(), job);
    }

    fn lanes(&mut self, kind: DigestKind) -> &mut Lanes<RegistrationId, Run> {
        let place = self.waiting.iter().position(|(of, _)| *of == kind).unwrap_or_else(|| {
            self.waiting.push((kind, Lanes::default()));
            self.waiting.len() - 1
        });
        &mut self.waiting[place].1
    }

    fn waiting(&self) -> usize {
        self.waiting.iter().map(|(_, lanes)| lanes.len()).sum()
    }

    /// Takes a job out of the queue for one of a registration in a network: the newest of the network that has the most, if that is two
    /// more than this one has; within a network, that of the registration with the most.
    fn make_room(&mut self, registration: &RegistrationId, from: IpAddr) -> Option<Run> {
        let mut of: HashMap<IpAddr, usize> = HashMap::new();
        let mut own = 0;
        for run in self.waiting.iter().flat_map(|(_, lanes)| lanes.iter()) {
            *of.entry(run.from).or_default() += 1;
            own += usize::from(run.record.registration == *registration);
        }
        let most = of.iter().max_by_key(|(_, count)| **count).map(|(network, count)| (*network, *count));
        if let Some((network, _)) =
            most.filter(|(_, count)| *count >= of.get(&from).copied().unwrap_or(0) + 2)
        {
            return self.take_newest(|run| run.from == network);
        }
        let mut each: HashMap<RegistrationId, usize> = HashMap::new();
        for run in self.waiting.iter().flat_map(|(_, lanes)| lanes.iter()).filter(|run| run.from == from) {
            *each.entry(run.record.registration).or_default() += 1;
        }
        let most = each.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count >= own + 2)?.0;
        self.take_newest(|run| run.record.registration == most)
    }

    fn take_newest(&mut self, is_such: impl Fn(&Run) -> bool) -> Option<Run> {
        let newest = |lanes: &Lanes<RegistrationId, Run>| lanes.iter().filter(|run| is_such(run)).count();
        let (_, lanes) = self.waiting.iter_mut().max_by_key(|(_, lanes)| newest(lanes))?;
        lanes.take_newest(&is_such)
    }

    /// Takes out of the queue what was deleted.
    fn forget_cancelled(&mut self) {
        for (_, lanes) in &mut self.waiting {
            lanes.retain(|run| !run.cancelled.load(Ordering::Relaxed));
        }
    }

    /// The job that a run is of, if it was not deleted.
    fn job(&mut self, run: &Run) -> Option<&mut Job> {
        self.jobs.get_mut(&run.record.key()).filter(|job| job.number == run.number)
    }
}

/// All jobs, and the threads that do them.
#[derive(Debug)]
pub(crate) struct Jobs {
    data: DataDirectory,
    registry: Arc<Registry>,
    metrics: Arc<Metrics>,
    vectors: Arc<Vectors>,
    /// Held while the registry changes: one change at a time, and whoever only looks does not wait for the disk.
    changes: Mutex<()>,
    state: Mutex<State>,
    wake: Condvar,
    stop: AtomicBool,
    clock: Arc<Clock>,
    waiting_limit: usize,
    per_key_limit: usize,
    keys_per_pass: usize,
    memory_bytes: u64,
    reserve_bytes: u64,
}

impl Jobs {
    /// Reads the jobs that there are. Those that are not finished, or whose result is missing, wait again.
    pub(crate) fn load(
        data: DataDirectory,
        registry: Arc<Registry>,
        metrics: Arc<Metrics>,
        vectors: Arc<Vectors>,
        clock: Arc<Clock>,
        limits: &Limits,
    ) -> Result<Self, ServerError> {
        let mut records: Vec<Record> = registry.jobs()?;
        records.sort_by_key(|record| record.created);
        let mut state = State::default();
        for mut record in records {
            if let Stage::Done { bytes, .. } = record.stage {
                let path = data.result(&record.registration, &record.id);
                if std::fs::metadata(path).map_or(0, |file| file.len()) != bytes {
                    record.stage = Stage::Queued;
                }
            }
            if record.stage == Stage::Queued && record.wanted().is_none() {
                let (reason, time) = ("this relay does not know such digests".into(), record.created);
                record.stage = Stage::Failed { reason, time };
            }
            state.add(record, IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        }
        let this = Self {
            data,
            registry,
            metrics,
            vectors,
            changes: Mutex::default(),
            state: Mutex::new(state),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
            clock,
            waiting_limit: limits.jobs_waiting,
            per_key_limit: limits.jobs as usize,
            keys_per_pass: limits.keys_per_pass,
            memory_bytes: limits.job_memory_bytes,
            reserve_bytes: limits.disk_reserve_bytes,
        };
        this.remove_strays()?;
        Ok(this)
    }

    fn remove_strays(&self) -> Result<(), ServerError> {
        let state = lock(&self.state);
        let known: std::collections::HashSet<_> = state
            .jobs
            .values()
            .filter(|job| matches!(job.record.stage, Stage::Done { .. }))
            .map(|job| self.data.result(&job.record.registration, &job.record.id))
            .collect();
        let folder = self.data.root().join("results");
        for entry in std::fs::read_dir(&folder).map_err(ServerError::io("list", &folder))? {
            let path = entry.map_err(ServerError::io("list", &folder))?.path();
            if !known.contains(&path) {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// Accepts a job, submitted from a network. The second value says whether it is new.
    ///
    /// When as many jobs wait as may, one of whoever has the most fails for it.
    pub(crate) fn submit(
        &self,
        registration: RegistrationId,
        order: &JobOrder,
        from: IpAddr,
    ) -> Answer<(JobStatus, bool)> {
        let _one_at_a_time = lock(&self.changes);
        let gone = {
            let mut state = lock(&self.state);
            if let Some(job) = state.jobs.get(&(registration, order.id)) {
                return if job.record.is_for(order) {
                    Ok((job.status.borrow().clone(), false))
                } else {
                    let detail = "this id was used for another job, expected 16 new random bytes";
                    Err(Refusal::new(Code::Conflict, detail).at("body:id"))
                };
            }
            let own =
                state.jobs.range((registration, JobId([0; 16]))..=(registration, JobId([255; 16]))).count();
            if own >= self.per_key_limit {
                let detail = format!("expected at most {} jobs of a key: delete some", self.per_key_limit);
                return Err(Refusal::new(Code::Rate, detail).retry_after(30));
            }
            let is_full = state.waiting() >= self.waiting_limit;
            let gone = if is_full { state.make_room(&registration, from) } else { None };
            if is_full && gone.is_none() {
                return Err(Refusal::new(Code::Busy, "too many jobs are waiting").retry_after(30));
            }
            gone
        };
        if let Some(run) = gone {
            self.fail(&run, "given up for others, as too many jobs waited and most of them came from there: submit it later");
        }
        let record = Record::new(registration, order, self.clock.now());
        self.registry.change_jobs(&[(record.row(), Change::Put(&record))])?;
        let status = record.status();
        let mut state = lock(&self.state);
        state.add(record, from);
        self.metrics.jobs_waiting.set(state.waiting() as u64);
        self.wake.notify_all();
        Ok((status, true))
    }

    /// Notes that a job will not be done.
    fn fail(&self, run: &Run, reason: &str) {
        let stage = Stage::Failed { reason: reason.into(), time: self.clock.now() };
        let record = Record { stage, ..run.record.clone() };
        if let Err(error) = self.registry.change_jobs(&[(record.row(), Change::Put(&record))]) {
            // After the next start it is queued again.
            tracing::error!(%error, "the end of a job was not noted");
        }
        self.metrics.jobs_failed.inc();
        if let Some(job) = lock(&self.state).job(run) {
            job.record = record;
            job.status.send_replace(job.record.status());
        }
    }

    /// A job's status as it changes.
    pub(crate) fn watch(&self, key: &JobKey) -> Answer<watch::Receiver<JobStatus>> {
        lock(&self.state).jobs.get(key).map(|job| job.status.subscribe()).ok_or_else(no_job)
    }

    /// The jobs of a registration, the oldest first.
    pub(crate) fn list(&self, registration: RegistrationId) -> Vec<JobStatus> {
        let state = lock(&self.state);
        let own = state.jobs.range((registration, JobId([0; 16]))..=(registration, JobId([255; 16])));
        let mut all: Vec<JobStatus> = own.map(|(_, job)| job.status.borrow().clone()).collect();
        all.sort_by_key(|job| job.created);
        all
    }

    /// Forgets a job and cancels it.
    pub(crate) fn remove(&self, key: &JobKey) -> Answer<()> {
        let _one_at_a_time = lock(&self.changes);
        let row = lock(&self.state).jobs.get(key).map(|job| job.record.row()).ok_or_else(no_job)?;
        self.registry.change_jobs::<Record>(&[(row, Change::Remove)])?;
        self.drop_jobs(&[*key]);
        remove(&self.data.result(&key.0, &key.1))?;
        self.forget_vectors(key)?;
        Ok(())
    }

    /// Takes jobs out of memory, and cancels those that run.
    fn drop_jobs(&self, keys: &[JobKey]) {
        let mut state = lock(&self.state);
        for key in keys {
            if let Some(job) = state.jobs.remove(key) {
                job.cancelled.store(true, Ordering::Relaxed);
            }
        }
        state.forget_cancelled();
        self.metrics.jobs_waiting.set(state.waiting() as u64);
    }

    /// Whether a job is not done.
    pub(crate) fn is_unfinished(&self, key: &JobKey) -> bool {
        lock(&self.state).jobs.get(key).is_some_and(|job| job.record.stage == Stage::Queued)
    }

    /// Removes the pertinency vectors that a job has kept for itself.
    fn forget_vectors(&self, key: &JobKey) -> Result<(), ServerError> {
        self.vectors.keep_of(&Owner::job(*key), |_| false)
    }

    /// Forgets the jobs of a registration that the registry has forgotten.
    pub(crate) fn remove_all(&self, registration: RegistrationId) -> Result<(), ServerError> {
        let _one_at_a_time = lock(&self.changes);
        let keys: Vec<JobKey> = {
            let state = lock(&self.state);
            let own = state.jobs.range((registration, JobId([0; 16]))..=(registration, JobId([255; 16])));
            own.map(|(key, _)| *key).collect()
        };
        self.drop_jobs(&keys);
        keys.iter().try_for_each(|key| remove(&self.data.result(&key.0, &key.1)))?;
        self.vectors.remove_registration(&registration)
    }

    /// The jobs of all registrations: how many each has.
    pub(crate) fn counts(&self) -> BTreeMap<RegistrationId, usize> {
        let mut counts = BTreeMap::new();
        for (registration, _) in lock(&self.state).jobs.keys() {
            *counts.entry(*registration).or_default() += 1;
        }
        counts
    }

    /// The jobs that were finished before `time`.
    pub(crate) fn finished_before(&self, time: u64) -> Vec<JobKey> {
        let state = lock(&self.state);
        let old = state.jobs.values().filter(|job| job.record.finished().is_some_and(|done| done < time));
        old.map(|job| job.record.key()).collect()
    }

    /// Stops the threads; what they were doing is done again after the next start.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let _state = lock(&self.state);
        self.wake.notify_all();
    }

    pub(crate) fn start(
        self: &Arc<Self>,
        keys: &Arc<Keys>,
        detection: &Arc<Detection>,
        view: &Arc<BoardView>,
    ) -> Result<Vec<JoinHandle<()>>, ServerError> {
        let start = |kind: DigestKind| {
            let (this, keys) = (self.clone(), keys.clone());
            let (detection, view) = (detection.clone(), view.clone());
            panics::thread(format!("{kind} jobs"), self.metrics.clone(), move || {
                while let Some(group) = this.next(kind, &detection) {
                    let done = caught(&this.metrics, "a job", || {
                        this.run(&group, &keys, &detection, &view);
                        Ok(())
                    });
                    if done.is_err() {
                        let failed = || Err("the relay failed; its log says why".to_owned());
                        group.iter().for_each(|run| this.finish(run, failed()));
                    }
                }
            })
        };
        [DigestKind::Stream, DigestKind::Compact].into_iter().map(start).collect()
    }

    /// Waits for the next job of a kind, and takes those along that ask for the same range: they share the pass, as far as the memory
    /// for their digests goes. A compact job goes alone. Registrations have turns.
    fn next(&self, kind: DigestKind, detection: &Detection) -> Option<Vec<Run>> {
        let mut state = lock(&self.state);
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(first) = state.lanes(kind).pop(|_| true) {
                let range = first.wanted.range.clone();
                let each = detection.digest_memory_bytes(range.end - range.start);
                let most = match kind {
                    DigestKind::Compact => 1,
                    _ => self.keys_per_pass.min((self.memory_bytes / each.max(1)) as usize).max(1),
                };
                let mut group = vec![first];
                while group.len() < most
                    && let Some(run) = state.lanes(kind).pop(|run| run.wanted.range == range)
                {
                    group.push(run);
                }
                self.metrics.jobs_waiting.set(state.waiting() as u64);
                return Some(group);
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, group: &[Run], keys: &Keys, detection: &Detection, view: &BoardView) {
        self.tell(group, |status| status.state = JobState::Running);
        let made = caught(&self.metrics, "a job", || {
            self.require_space(group, detection)?;
            self.detect(group, keys, detection, view)
        });
        match made {
            Ok(Some(results)) => {
                for (run, result) in group.iter().zip(results) {
                    self.finish(run, result);
                }
            }
            // Stopped: the registry has them as queued, unless they were deleted. What they kept before that is gone, what came after is not.
            Ok(None) => group.iter().filter(|run| !self.is_running(run)).for_each(|run| self.clear(run)),
            // One key that was deleted just now, or cannot be read: the others are not to blame.
            Err(_) if group.len() > 1 => {
                group.chunks(1).for_each(|one| self.run(one, keys, detection, view));
            }
            Err(error) => {
                tracing::error!(%error, "a job failed");
                let full = error.is_full();
                let gone = matches!(&error, ServerError::Board(restante_board::BoardError::Forgotten { .. }));
                let reason = match (full, gone) {
                    (true, _) => "no space left on the relay's disk",
                    (_, true) => "the relay no longer has these messages",
                    _ => "the relay failed; its log says why",
                };
                group.iter().for_each(|run| self.finish(run, Err(reason.into())));
            }
        }
    }

    /// The space may have gone since the job was taken.
    fn require_space(&self, group: &[Run], detection: &Detection) -> Result<(), ServerError> {
        let bytes = group.iter().map(|run| detection.result_bytes(&run.wanted));
        let needed = self.reserve_bytes.saturating_add(bytes.sum());
        match self.data.free_bytes() {
            Some(free) if free < needed => {
                let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
                Err(ServerError::io("keep the reserve for a digest in", self.data.root())(full))
            }
            _ => Ok(()),
        }
    }

    /// Whether a run's job was not deleted, and is not done.
    fn is_running(&self, run: &Run) -> bool {
        lock(&self.state).job(run).is_some_and(|job| job.record.stage == Stage::Queued)
    }

    /// Removes what a run has left whose job was deleted, unless there is another with its id, to which it would belong.
    fn clear(&self, run: &Run) {
        let _one_at_a_time = lock(&self.changes);
        let key = run.record.key();
        if !lock(&self.state).jobs.contains_key(&key) {
            let _ = remove(&self.data.result(&key.0, &key.1));
            report(self.forget_vectors(&key));
        }
    }

    /// The digests of a group's jobs, or why there is none; None if the relay stops.
    #[allow(clippy::type_complexity)]
    fn detect(
        &self,
        group: &[Run],
        keys: &Keys,
        detection: &Detection,
        view: &BoardView,
    ) -> Result<Option<Vec<Result<Vec<u8>, String>>>, ServerError> {
        let registrations: Vec<_> = group.iter().map(|run| keys.get(&run.record.registration)).collect();
        let hashes: Vec<Hex<32>> = registrations.iter().flatten().map(|one| one.hash).collect();
        let Some(first) = group.first() else { return Ok(Some(Vec::new())) };
        let interrupt = AtomicBool::new(false);
        let (done, told) = (AtomicU64::new(0), Mutex::new(Instant::now()));
        let finished = |messages: u64| {
            // A group goes on for the others.
            let is_cancelled = group.iter().all(|run| run.cancelled.load(Ordering::Relaxed));
            if is_cancelled || self.stop.load(Ordering::Relaxed) {
                interrupt.store(true, Ordering::Relaxed);
            }
            self.metrics.detected.inc_by(messages);
            let done = done.fetch_add(messages, Ordering::Relaxed) + messages;
            let mut told = lock(&told);
            if told.elapsed() >= TELL {
                *told = Instant::now();
                let each = done / hashes.len().max(1) as u64;
                self.tell(group, |status| status.done = each);
            }
        };
        let board = view.board();
        let outcome = match (first.wanted.compact(), hashes.as_slice()) {
            (Some(request), [hash]) => {
                let standing = registrations.first().and_then(|one| one.as_ref()?.standing.as_ref());
                let standing = standing.map(|standing| standing.first);
                let Record { registration, id, .. } = first.record;
                let job = ForJob { registration, job: id, standing };
                let compact = |request: &DigestRequest| {
                    detection.detect_compact(hash, &board, request, &job, &interrupt, finished)
                };
                match self.detect_compact(registration, &request, keys, compact)? {
                    Some(outcome) => outcome,
                    None => {
                        let reason = "this relay does not make such digests any more";
                        return Ok(Some(vec![Err(reason.to_owned())]));
                    }
                }
            }
            _ => detection.detect(&hashes, &board, first.wanted.range.clone(), &interrupt, finished)?,
        };
        let digests = match outcome {
            Outcome::Stopped => return Ok(None),
            Outcome::Digests(digests) => digests,
        };
        let mut digests = digests.into_iter();
        let results = registrations.iter().map(|registration| {
            let digest = registration.as_ref().and_then(|_| digests.next());
            digest.ok_or_else(|| "the key was deleted".to_owned())
        });
        Ok(Some(results.collect()))
    }

    /// A compact job, whose vectors are forgotten if its order is.
    fn detect_compact(
        &self,
        registration: RegistrationId,
        request: &DigestRequest,
        keys: &Keys,
        detect: impl FnOnce(&DigestRequest) -> Result<Option<Outcome>, ServerError>,
    ) -> Result<Option<Outcome>, ServerError> {
        let outcome = detect(request);
        // The order may have been deleted while vectors were made for it.
        if keys.get(&registration).is_none_or(|one| one.standing.is_none()) {
            self.vectors.keep_of(&Owner::order(registration), |_| false)?;
        }
        outcome
    }

    fn tell(&self, group: &[Run], change: impl Fn(&mut JobStatus)) {
        let mut state = lock(&self.state);
        for run in group {
            if let Some(job) = state.job(run) {
                job.status.send_modify(&change);
            }
        }
    }

    /// Writes the result, then that there is one, then says so.
    fn finish(&self, run: &Run, result: Result<Vec<u8>, String>) {
        let _one_at_a_time = lock(&self.changes);
        let (record, key) = (&run.record, run.record.key());
        if lock(&self.state).job(run).is_none() {
            // Deleted meanwhile. What there is under its id belongs to another job with that id, if there is one.
            if !lock(&self.state).jobs.contains_key(&key) {
                report(self.forget_vectors(&key));
            }
            return;
        }
        let path = self.data.result(&record.registration, &record.id);
        let written = result.and_then(|bytes| match write_whole(&path, &bytes) {
            Ok(()) => Ok((bytes.len() as u64, Hex(*blake3::hash(&bytes).as_bytes()))),
            Err(error) => {
                tracing::error!(%error, "a result was not written");
                Err(if error.is_full() {
                    "no space left on the relay's disk".into()
                } else {
                    "the relay failed; its log says why".into()
                })
            }
        });
        let time = self.clock.now();
        let stage = match written {
            Ok((bytes, hash)) => Stage::Done { bytes, hash, time },
            Err(reason) => Stage::Failed { reason, time },
        };
        match stage {
            Stage::Done { .. } => self.metrics.jobs_done.inc(),
            _ => self.metrics.jobs_failed.inc(),
        };
        let record = Record { stage, ..record.clone() };
        if let Err(error) = self.registry.change_jobs(&[(record.row(), Change::Put(&record))]) {
            // After the next start it is queued again.
            tracing::error!(%error, "the end of a job was not noted");
        } else {
            report(self.forget_vectors(&key));
        }
        if let Some(job) = lock(&self.state).job(run) {
            job.record = record;
            job.status.send_replace(job.record.status());
        }
    }
}

impl Job {
    fn new(record: Record, number: u64) -> Self {
        let status = watch::Sender::new(record.status());
        Self { record, status, number, cancelled: Arc::new(AtomicBool::new(false)) }
    }
}

/// Files that stay are removed at the next start.
fn report(outcome: Result<(), ServerError>) {
    if let Err(error) = outcome {
        tracing::error!(%error, "pertinency vectors of a job were not removed");
    }
}

fn no_job() -> Refusal {
    Refusal::new(Code::NotFound, "this key has no such job").at("path:job")
}
