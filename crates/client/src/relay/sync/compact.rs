//! Mail by compact digests: one job after the other, each for a range, a capacity and a payload size that nothing found has a say in.
//!
//! A digest with more messages than it has room for does not decode, and nor does one that the relay has made up. Neither may show: not
//! by another request, nor by another capacity in a later one. Such ranges are noted, and nothing else; what looks there again are jobs
//! of a larger capacity that are ordered in any case, for one window of the board after the other ([`Again`](super::Again)).

use std::ops::Range;

use restante_omr::{
    OmrError,
    compact::{CompactDetectionKey, CompactDigest},
};
use restante_wire::{
    Encode,
    relay::{DigestInfo, DigestKind, Hex, JobId, JobRequest, JobState, JobStatus, media},
};

use super::{Ask, Compact, Delivery, Local, SyncMachine, Task, reading::Kept, state::Job};
use crate::{
    AnyDetection, CompactDetection, RelayError, digest_request,
    relay::{Method, Request, Response, Side, checks::check_digests},
};

/// A request about the job in the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobTask {
    Order {
        end: u64,
    },
    Poll {
        end: u64,
    },
    Result {
        end: u64,
        hash: Hex<32>,
    },
    /// The job is done with: the relay may forget it. Then, unless the round is over, comes the next.
    Forget {
        id: JobId,
        next: Option<u64>,
    },
}

/// How often in a round a job is ordered again that the relay has forgotten.
const MAX_RESTARTS: u32 = 3;

impl SyncMachine<'_> {
    fn compact(&self) -> Result<(Compact, &CompactDetection, &DigestInfo), RelayError> {
        let (Delivery::Compact(compact), AnyDetection::Compact(detection), Some(info)) =
            (self.config.delivery, self.detection, &self.infos[0])
        else {
            return Err(RelayError::Configuration("compact delivery needs a relay and a detection key"));
        };
        let (kind, context) = (DigestKind::Compact, detection.context());
        let key_bytes = CompactDetectionKey::file_bytes(context) as u64;
        Ok((compact, detection, check_digests(Side::First, info, kind, context.id(), key_bytes)?))
    }

    /// Decides on the next digest: the rest of an earlier round first, then new messages up to `end`, then windows for a second look.
    pub(super) fn next_job(&mut self, end: u64) -> Result<(), RelayError> {
        let (compact, _, info) = self.compact()?;
        let capacity = compact.again.map_or(0, |again| again.capacity).max(compact.capacity);
        let sizes = [
            ("capacity", capacity, info.capacity_max),
            ("payload size", compact.payload_bytes, info.payload_bytes_max),
        ];
        for (what, wanted, most) in sizes {
            let most = most.unwrap_or(0);
            if wanted > most {
                let (found, expected) = (format!("at most {most}"), format!("at least {wanted}"));
                return Err(RelayError::unexpected(Side::First, what, found, expected));
            }
        }
        let limits = self.infos[0].as_ref().map_or(0, |info| info.limits.job_messages);
        let limit = limits.min(info.messages_max).max(1);
        self.choose_job(compact, end, limit);
        let is_full = self.is_full() || self.jobs == Compact::JOBS_MAX;
        if self.state.job.is_some() && is_full {
            (self.outcome.waiting, self.outcome.unfinished) = (true, true);
        } else if self.state.job.is_some() {
            self.jobs += 1;
            self.tasks.push_front(Ask::Job(JobTask::Order { end }).into());
        }
        Ok(())
    }

    /// Keeps the state's job if it still is one to do, and takes another if not: of messages before `end`, at
    /// most `limit`.
    fn choose_job(&mut self, compact: Compact, end: u64, limit: u64) {
        let state = &mut self.state;
        let retained_from = self.retained_from;
        if state.looked_to < retained_from && compact.again.is_some() {
            self.kept.push(Kept::Forgotten(state.looked_to..retained_from));
            state.looked_to = retained_from;
        }
        let stands = |job: &Job| {
            if job.again {
                job.range.start >= retained_from && job.range.end > state.looked_to
            } else {
                job.range.start == state.complete_to && job.range.end <= end
            }
        };
        if !state.job.as_ref().is_some_and(stands) {
            let fresh =
                state.complete_to..end.min(state.complete_to.saturating_add(limit.min(compact.messages)));
            let window = compact.again.map(|again| {
                let messages = again.messages.min(limit);
                let start = state.looked_to;
                (start..(start / messages).saturating_add(1).saturating_mul(messages), again.capacity)
            });
            let wanted = match window {
                _ if !fresh.is_empty() => Some((fresh, compact.capacity, false)),
                Some((range, capacity)) if range.end <= end => Some((range, capacity, true)),
                Some(_) => None,
                None => {
                    state.looked_to = state.complete_to;
                    None
                }
            };
            state.job = wanted.zip(state.registration(DigestKind::Compact)).map(
                |((range, capacity, again), registration)| {
                    let (payload_bytes, id) = (compact.payload_bytes, JobId([0; 16]));
                    let job = Job { id, range, capacity, payload_bytes, again };
                    let id = self.account.job_id(registration.token(), state.rounds, &job.to_bytes());
                    Job { id, ..job }
                },
            );
        }
    }

    pub(super) fn ask_for_job(&self, task: &JobTask) -> Option<Request> {
        let registration = self.state.registration(DigestKind::Compact)?;
        let ask = |method, id: &JobId, rest: &str| {
            let path = registration.path(&format!("/jobs/{id}{rest}"));
            Request::new(Side::First, method, path).token(registration.token())
        };
        if let JobTask::Forget { id, .. } = task {
            return Some(ask(Method::Delete, id, "").accept(media::JSON));
        }
        let Job { id, range, capacity, payload_bytes, .. } = self.state.job.as_ref()?;
        Some(match task {
            JobTask::Order { .. } => {
                let request = JobRequest {
                    id: *id,
                    kind: DigestKind::Compact,
                    first: range.start,
                    end: Some(range.end),
                    capacity: Some(*capacity),
                    payload_bytes: Some(*payload_bytes),
                };
                // Plain numbers: there is nothing that could fail.
                let body = serde_json::to_vec(&request).unwrap_or_default();
                Request::new(Side::First, Method::Post, registration.path("/jobs"))
                    .accept(media::JSON)
                    .token(registration.token())
                    .body(media::JSON, body)
            }
            JobTask::Poll { .. } => ask(Method::Get, id, "").accept(media::JSON),
            JobTask::Result { .. } => {
                let AnyDetection::Compact(detection) = self.detection else { return None };
                let wanted = digest_request(range.clone(), *capacity as usize, *payload_bytes as usize);
                let bytes = CompactDigest::file_bytes(detection.context(), &wanted) as u64;
                ask(Method::Get, id, "/result")
                    .accept(media::COMPACT_DIGEST)
                    .at_most(bytes.min(self.config.answer_bytes_max))
            }
            JobTask::Forget { .. } => return None,
        })
    }

    /// Takes the answer to a job's request. After an error there is another job the next time, lest the client ask for this one for
    /// ever.
    pub(super) fn take_job(&mut self, task: JobTask, response: &Response) -> Result<(), RelayError> {
        let taken = self.follow_up(task, response);
        if taken.is_err() {
            self.state.job = None;
        }
        taken
    }

    fn follow_up(&mut self, task: JobTask, response: &Response) -> Result<(), RelayError> {
        match (task, response.status) {
            (JobTask::Order { end }, 200 | 202) | (JobTask::Poll { end }, 200) => {
                let status = response.json("the job's status");
                self.follow(status?, end)
            }
            // It was forgotten, or is not done any more: a relay may have restarted from an older copy.
            (JobTask::Poll { end } | JobTask::Result { end, .. }, 404 | 409)
                if self.restarts < MAX_RESTARTS =>
            {
                self.restarts += 1;
                self.tasks.push_front(Ask::Job(JobTask::Order { end }).into());
                Ok(())
            }
            (JobTask::Result { end, hash }, 200) => self.take_result(end, hash, response),
            (JobTask::Forget { next, .. }, 200 | 204 | 404) => {
                self.tasks.extend(next.map(|end| Task::from(Local::NextJob { end })));
                Ok(())
            }
            _ => Err(response.refusal_of_token()),
        }
    }

    /// Decides what comes next for a job with this status.
    fn follow(&mut self, status: JobStatus, end: u64) -> Result<(), RelayError> {
        let Some(job) = &self.state.job else { return Ok(()) };
        let (found, expected) = ((status.id, status.first..status.complete_to), (job.id, job.range.clone()));
        if found != expected {
            let show = |(id, range): (JobId, Range<u64>)| format!("{id} for {}..{}", range.start, range.end);
            return Err(RelayError::unexpected(Side::First, "job", show(found), show(expected)));
        }
        let next = match (status.state, status.result_hash) {
            (JobState::Done, Some(hash)) => JobTask::Result { end, hash },
            (JobState::Done, None) => {
                return Err(RelayError::unexpected(Side::First, "hash of a digest", "missing", "there"));
            }
            (JobState::Failed, _) => {
                let reason = status.error.unwrap_or_default();
                let reason = reason.chars().filter(|c| !c.is_control()).take(300).collect();
                self.outcome.failed = Some(reason);
                self.state.job = None;
                JobTask::Forget { id: status.id, next: None }
            }
            (JobState::Queued | JobState::Running, _) => {
                let Delivery::Compact(compact) = self.config.delivery else { return Ok(()) };
                if self.polls >= compact.polls {
                    self.outcome.waiting = true;
                    return Ok(());
                }
                self.polls += 1;
                self.pause = Some(compact.poll);
                JobTask::Poll { end }
            }
        };
        self.tasks.push_front(Ask::Job(next).into());
        Ok(())
    }

    /// Keeps a digest. Errors are those that do not depend on what only the client can decrypt.
    fn take_result(&mut self, end: u64, hash: Hex<32>, response: &Response) -> Result<(), RelayError> {
        // Whatever is wrong with it, the next round orders another.
        let Some(job) = self.state.job.take() else { return Ok(()) };
        let found = Hex(*blake3::hash(&response.body).as_bytes());
        if found != hash {
            let Range { start: first, end } = job.range;
            return Err(RelayError::DigestHash { first, end, found, announced: hash });
        }
        let (_, detection, _) = self.compact()?;
        let digest = CompactDigest::from_file(detection.context(), &response.body)?;
        if digest.key() != detection.key_id() {
            let (found, expected) = (digest.key().to_string(), detection.key_id().to_string());
            return Err(OmrError::ForeignDigest { found, expected }.into());
        }
        let wanted = digest_request(job.range.clone(), job.capacity as usize, job.payload_bytes as usize);
        if *digest.request() != wanted {
            let (found, expected) = (format!("{:?}", digest.request()), format!("{wanted:?}"));
            return Err(RelayError::unexpected(Side::First, "digest", found, expected));
        }
        let state = &mut self.state;
        if job.again {
            state.looked_to = job.range.end;
        } else {
            // Private delivery has nothing left to read before here. What waits in the backlog has no say, as requests follow
            // from this.
            if state.fetched_to == state.complete_to {
                state.fetched_to = job.range.end;
            }
            state.complete_to = job.range.end;
        }
        self.tasks.push_front(Ask::Job(JobTask::Forget { id: job.id, next: Some(end) }).into());
        // Decoding takes time with the square of what a digest holds.
        self.count(u64::from(job.capacity) * u64::from(job.capacity.div_ceil(64)), response);
        self.kept.push(Kept::Compact { job, digest });
        Ok(())
    }
}
