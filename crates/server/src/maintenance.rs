//! Regular work: epochs, retention, a directory that has changed, and things that expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::clock::Ration;
use crate::panics::{self, caught};
use crate::{Relay, ServerError, credentials};

const LOOK: Duration = Duration::from_millis(250);
/// How soon an operator's credentials can be used.
const COLLECT: Duration = Duration::from_secs(2);
const EXPIRE: Duration = Duration::from_secs(30);
/// Ids that one transaction forgets, and that a look does without asking whether that is right.
const IDS: usize = 10_000;
const IDS_USUAL: usize = 20 * IDS;
/// How often a full disk is told.
const FULL: Duration = Duration::from_secs(60);

/// The most that one look deletes. A wrong clock, or a wrong setting, must not delete everything at once.
#[derive(Debug, Default)]
pub(crate) struct Rations {
    segments: Ration,
    ids: Ration,
    jobs: Ration,
    uploads: Ration,
    registrations: Ration,
    credentials: Ration,
}

pub(crate) fn start(
    relay: &Arc<Relay>,
    stop: Arc<AtomicBool>,
    mut rations: Rations,
) -> Result<JoinHandle<()>, ServerError> {
    let (metrics, relay) = (relay.metrics.clone(), Arc::downgrade(relay));
    panics::thread("maintenance", metrics, move || {
        let (mut expired, mut collected) = (None::<(Instant, u64)>, None::<Instant>);
        let (mut refreshed, mut full) = (Instant::now(), None::<Instant>);
        while !stop.load(Ordering::Relaxed) {
            let Some(relay) = relay.upgrade() else { break };
            let metrics = relay.metrics.clone();
            let attend = |work: &mut dyn FnMut() -> Result<(), ServerError>| {
                report(caught(&metrics, "maintenance", work));
            };
            observe(&relay, &mut full);
            if let Some(epochs) = &relay.epochs {
                attend(&mut || epochs.build(&relay.view.board(), relay.clock.now()).map(drop));
            }
            if collected.is_none_or(|last| last.elapsed() >= COLLECT) {
                collected = Some(Instant::now());
                attend(&mut || credentials::collect(relay.data.root(), &relay.registry).map(drop));
            }
            let now = relay.clock.now();
            let is_due = |(last, time): (Instant, u64)| {
                last.elapsed() >= EXPIRE || now >= time.saturating_add(EXPIRE.as_secs())
            };
            if expired.is_none_or(is_due) {
                expired = Some((Instant::now(), now));
                attend(&mut || relay.keys.write_used());
                attend(&mut || expire(&relay, &mut rations));
                attend(&mut || retain(&relay, &mut rations));
                let retained_from = relay.view.board().retained_from();
                attend(&mut || relay.vectors.forget_before(retained_from));
                attend(&mut || relay.standing.forget_before(retained_from));
            }
            if let (Some(directories), Some(config)) = (&relay.directories, &relay.config.directory)
                && refreshed.elapsed() >= Duration::from_secs(config.seconds)
            {
                refreshed = Instant::now();
                attend(&mut || directories.refresh());
            }
            let is_last = stop.load(Ordering::Relaxed);
            if is_last {
                attend(&mut || relay.keys.write_used());
            }
            drop(relay);
            if !is_last {
                std::thread::sleep(LOOK);
            }
        }
    })
}

fn report(outcome: Result<(), ServerError>) {
    if let Err(error) = outcome {
        tracing::error!(%error, "maintenance");
    }
}

fn observe(relay: &Relay, full: &mut Option<Instant>) {
    let board = relay.view.board();
    relay.metrics.messages.set(board.len());
    relay.metrics.retained_from.set(board.retained_from());
    relay.metrics.pertinency_bytes.set(relay.vectors.bytes());
    relay.metrics.registrations.set(relay.keys.len() as u64);
    let (behind, lag) = relay.following.lag();
    relay.metrics.mirror_behind.set(behind);
    relay.metrics.mirror_lag.set(lag);
    if let Some(epochs) = &relay.epochs {
        relay.metrics.fetch_stopped.set(epochs.is_stopped().into());
    }
    relay.metrics.clock_trouble.set(relay.clock.trouble().is_some().into());
    if let Some(free) = relay.data.free_bytes() {
        relay.metrics.disk_free.set(free);
    }
    if relay.has_space() {
        *full = None;
    } else if full.is_none_or(|last| last.elapsed() >= FULL) {
        *full = Some(Instant::now());
        let (free, reserve) = (relay.data.free_bytes().unwrap_or(0), relay.config.limits.disk_reserve_bytes);
        tracing::error!(free, reserve, "the disk is full: what needs space is refused with 507");
    }
}

/// Forgets what is too old, unless the clock looks wrong, and not much at once.
fn expire(relay: &Relay, rations: &mut Rations) -> Result<(), ServerError> {
    let limits = &relay.config.limits;
    let Some(now) = relay.clock.settled() else { return Ok(()) };
    let before = |seconds: u64| now.saturating_sub(seconds);
    let mut left = rations.ids.take(usize::MAX, IDS_USUAL, "ids of messages");
    while left > 0 {
        let forgotten = relay.registry.expire_ids(before(limits.id_seconds), IDS.min(left))?;
        left -= forgotten;
        if forgotten < IDS {
            // There are no more.
            rations.ids = Ration::default();
            break;
        }
    }
    let jobs = relay.jobs.finished_before(before(limits.job_seconds));
    let most = rations.jobs.take(jobs.len(), 1000, "jobs");
    for job in jobs.iter().take(most) {
        // That it is gone already is as good.
        let _ = relay.jobs.remove(job);
    }
    let uploads = relay.keys.unfinished(before(limits.upload_seconds));
    let most = rations.uploads.take(uploads.len(), 50, "uploads that were not finished");
    for id in uploads.iter().take(most) {
        if let Some(removed) = relay.keys.remove(id)? {
            relay.forget(removed)?;
        }
    }
    if limits.registration_seconds > 0 {
        let unused = relay.keys.unused(now, limits.registration_seconds);
        let usual = (relay.keys.len() / 100).max(10);
        let most = rations.registrations.take(unused.len(), usual, "registrations that were not used");
        for id in unused.iter().take(most) {
            if let Some(removed) = relay.keys.remove(id)? {
                relay.forget(removed)?;
            }
        }
        if most > 0 {
            tracing::info!(registrations = most, "registrations that were not used are forgotten");
        }
    }
    credentials::expire(&relay.registry, now, &mut rations.credentials)
}

/// Forgets what is too old or too much, in whole segments.
fn retain(relay: &Relay, rations: &mut Rations) -> Result<(), ServerError> {
    let (retention, board) = (&relay.config.retention, relay.view.board());
    let capacity = u64::from(board.config().segment_capacity);
    let full = board.len() - board.len() % capacity;
    let kept_from = board.retained_from();
    let mut forget_before = kept_from;
    if let Some(seconds) = retention.seconds
        && let Some(now) = relay.clock.settled()
    {
        let times = relay.registry.segment_times()?;
        let old =
            times.iter().filter(|(_, time)| *time < now.saturating_sub(seconds)).map(|(segment, _)| segment);
        let old = old.max().map_or(0, |segment| (segment + 1) * capacity).min(full);
        // A hundredth of the board, and one segment at least: a clock that is wrong must not delete everything at once.
        let due = old.saturating_sub(kept_from).div_ceil(capacity);
        let usual = ((board.len() - kept_from) / capacity / 100).max(1);
        let segments = rations.segments.take(due as usize, usual as usize, "segments of the board") as u64;
        forget_before = forget_before.max(old.min(kept_from - kept_from % capacity + segments * capacity));
    }
    if let Some(bytes) = retention.bytes {
        let stats = board.stats();
        let kept = stats.messages - kept_from;
        if stats.bytes > bytes && kept > 0 {
            let each = stats.bytes / kept;
            let messages = (stats.bytes - bytes).div_ceil(each.max(1));
            forget_before = forget_before.max((kept_from + messages).next_multiple_of(capacity).min(full));
        }
    }
    if forget_before > board.retained_from()
        && let Ok(writer) = relay.writer()
    {
        let retained = writer.forget(forget_before)?;
        tracing::info!(retained_from = retained, "messages forgotten");
    }
    Ok(())
}
