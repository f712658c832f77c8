//! How a mirror follows its origin, as readiness and metrics show it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::MirrorConfig;
use crate::locks::lock;

/// A look that ended longer ago than this, beside the pauses between looks, is too old to say that a mirror follows.
const STALE: Duration = Duration::from_secs(60);

/// How a mirror follows its origin; nothing on a relay that is no mirror.
#[derive(Debug)]
pub(crate) struct Following(Option<Mutex<State>>);

#[derive(Debug)]
struct State {
    start: Instant,
    /// When everything was here that the origin had.
    caught_up: Option<Instant>,
    /// Messages that the origin has signed for and that are not here.
    behind: u64,
    /// A fault of the origin, or of the way to it.
    trouble: Option<String>,
}

impl Following {
    pub(crate) fn new(is_mirror: bool) -> Self {
        let start = Instant::now();
        let state = State { start, caught_up: None, behind: 0, trouble: None };
        Self(is_mirror.then(|| Mutex::new(state)))
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        if let Some(state) = &self.0 {
            change(&mut lock(state));
        }
    }

    /// Everything is here that the origin has.
    pub(crate) fn caught_up(&self) {
        self.set(|state| (state.caught_up, state.behind, state.trouble) = (Some(Instant::now()), 0, None));
    }

    /// So many messages are missing.
    pub(crate) fn is_behind(&self, messages: u64) {
        self.set(|state| state.behind = messages);
    }

    /// A look at the origin failed.
    pub(crate) fn failed(&self, reason: String) {
        self.set(|state| state.trouble = Some(reason));
    }

    /// Messages that are missing, and seconds since none was.
    pub(crate) fn lag(&self) -> (u64, u64) {
        let Some(state) = &self.0 else { return (0, 0) };
        let state = lock(state);
        (state.behind, state.caught_up.unwrap_or(state.start).elapsed().as_secs())
    }

    /// Why the mirror does not follow; none if it does.
    pub(crate) fn trouble(&self, config: &MirrorConfig) -> Option<String> {
        let state = lock(self.0.as_ref()?);
        if state.trouble.is_some() {
            return state.trouble.clone();
        }
        let Some(caught_up) = state.caught_up else {
            return Some(format!("{} messages of {} are not here yet", state.behind, config.url));
        };
        let age = caught_up.elapsed();
        (age > STALE + 3 * Duration::from_secs(config.seconds)).then(|| {
            format!("{} messages of {} are missing, since {} s", state.behind, config.url, age.as_secs())
        })
    }
}
