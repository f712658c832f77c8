//! What is done from time to time: epochs, retention, a directory that has changed, and forgetting what has expired.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::clock::now;
use crate::{Relay, ServerError, credentials};

const LOOK: Duration = Duration::from_millis(250);
/// How soon an operator's credentials can be used.
const COLLECT: Duration = Duration::from_secs(2);
const EXPIRE: Duration = Duration::from_secs(30);
/// Ids that one transaction forgets.
const IDS: usize = 10_000;

pub(crate) fn start(relay: Weak<Relay>, stop: Arc<AtomicBool>) -> Result<JoinHandle<()>, ServerError> {
    std::thread::Builder::new()
        .name("maintenance".into())
        .spawn(move || {
            let (mut expired, mut collected) = (None::<Instant>, None::<Instant>);
            let mut refreshed = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                let Some(relay) = relay.upgrade() else { break };
                observe(&relay);
                if let Some(epochs) = &relay.epochs {
                    report(epochs.build(&relay.view.board()).map(drop));
                }
                if collected.is_none_or(|last| last.elapsed() >= COLLECT) {
                    collected = Some(Instant::now());
                    report(credentials::collect(relay.data.root(), &relay.registry).map(drop));
                }
                if expired.is_none_or(|last| last.elapsed() >= EXPIRE) {
                    expired = Some(Instant::now());
                    report(expire(&relay));
                    report(retain(&relay));
                    let retained_from = relay.view.board().retained_from();
                    report(relay.vectors.forget_before(retained_from));
                    report(relay.standing.forget_before(retained_from));
                }
                if let (Some(directories), Some(config)) = (&relay.directories, &relay.config.directory)
                    && refreshed.elapsed() >= Duration::from_secs(config.seconds)
                {
                    refreshed = Instant::now();
                    report(directories.refresh());
                }
                drop(relay);
                std::thread::sleep(LOOK);
            }
        })
        .map_err(|error| ServerError::Environment(format!("cannot start a thread: {error}")))
}

fn report(outcome: Result<(), ServerError>) {
    if let Err(error) = outcome {
        tracing::error!(%error, "maintenance");
    }
}

fn observe(relay: &Relay) {
    let board = relay.view.board();
    relay.metrics.messages.set(board.len());
    relay.metrics.retained_from.set(board.retained_from());
    relay.metrics.pertinency_bytes.set(relay.vectors.bytes());
    relay.metrics.registrations.set(relay.keys.len() as u64);
    if let Some(free) = relay.data.free_bytes() {
        relay.metrics.disk_free.set(free);
    }
}

fn expire(relay: &Relay) -> Result<(), ServerError> {
    let limits = &relay.config.limits;
    let before = |seconds: u64| now().saturating_sub(seconds);
    while relay.registry.expire_ids(before(limits.id_seconds), IDS)? == IDS {}
    relay.jobs.expire(before(limits.job_seconds))?;
    credentials::expire(&relay.registry)?;
    let late = relay.keys.all().into_iter();
    for one in late.filter(|one| !one.ready && one.registered < before(limits.upload_seconds)) {
        relay.keys.remove(&one.id)?;
    }
    Ok(())
}

/// Forgets what is too old or too much, in whole segments.
fn retain(relay: &Relay) -> Result<(), ServerError> {
    let (retention, board) = (&relay.config.retention, relay.view.board());
    let capacity = u64::from(board.config().segment_capacity);
    let mut forget_before = board.retained_from();
    if let Some(seconds) = retention.seconds {
        let times = relay.registry.segment_times()?;
        let old = times
            .iter()
            .filter(|(_, time)| *time < now().saturating_sub(seconds))
            .map(|(segment, _)| segment);
        forget_before = forget_before.max(old.max().map_or(0, |segment| (segment + 1) * capacity));
    }
    if let Some(bytes) = retention.bytes {
        let stats = board.stats();
        let kept = stats.messages - board.retained_from();
        if stats.bytes > bytes && kept > 0 {
            let each = stats.bytes / kept;
            let messages = (stats.bytes - bytes).div_ceil(each.max(1));
            forget_before = forget_before.max((board.retained_from() + messages).next_multiple_of(capacity));
        }
    }
    let full = board.len() - board.len() % capacity;
    let forget_before = forget_before.min(full);
    if forget_before > board.retained_from()
        && let Ok(writer) = relay.writer()
    {
        let retained = writer.forget(forget_before)?;
        tracing::info!(retained_from = retained, "messages forgotten");
    }
    Ok(())
}
