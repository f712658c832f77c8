//! One heavy thing at a time: whose turn it is.
//!
//! A job, for which a client waits, goes before the work on standing orders, which asks at the border of every stage whether to give way. What it was at is lost then, since keeping it would
//! take its memory besides the job's. So that jobs that come often do not undo it again and again, work that gave way goes before
//! the job after the next, and does not give way a second time.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::locks::lock;

/// How often somebody who waits looks whether it still should.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    busy: bool,
    /// Jobs that wait.
    jobs: usize,
    /// Whether work on standing orders gave way, and how many jobs go before it still.
    owed: Option<usize>,
}

/// The right to take memory and processors, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    gives_way: bool,
}

impl Turns {
    /// Waits for the turn of a job; none if `goes_on`, which is asked now and then, no longer holds.
    pub(crate) fn job(&self, goes_on: impl Fn() -> bool) -> Option<Turn<'_>> {
        lock(&self.state).jobs += 1;
        let turn = self.wait(goes_on, |state| {
            let may = !state.busy && state.owed != Some(0);
            if may && let Some(before) = &mut state.owed {
                *before -= 1;
            }
            may.then_some(false)
        });
        lock(&self.state).jobs -= 1;
        self.changed.notify_all();
        turn
    }

    /// Waits for the turn of work on standing orders.
    pub(crate) fn standing(&self, goes_on: impl Fn() -> bool) -> Option<Turn<'_>> {
        self.wait(goes_on, |state| {
            let may = !state.busy && (state.jobs == 0 || state.owed == Some(0));
            may.then(|| state.owed.take().is_none())
        })
    }

    /// There is no work on standing orders: nothing is owed to it.
    pub(crate) fn no_standing(&self) {
        lock(&self.state).owed = None;
        self.changed.notify_all();
    }

    /// Waits until `take` takes the turn and says whether it gives way to jobs.
    fn wait(
        &self,
        goes_on: impl Fn() -> bool,
        take: impl Fn(&mut State) -> Option<bool>,
    ) -> Option<Turn<'_>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(gives_way) = take(&mut state) {
                state.busy = true;
                return Some(Turn { turns: self, gives_way });
            }
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            drop(state);
            if !goes_on() {
                return None;
            }
            state = lock(&self.state);
        }
    }
}

impl Turn<'_> {
    /// Whether a job waits that this work should give way to.
    pub(crate) fn is_wanted(&self) -> bool {
        self.gives_way && lock(&self.turns.state).jobs > 0
    }

    /// Whether a job waits, now that nothing is lost by letting it go first.
    pub(crate) fn is_waited_for(&self) -> bool {
        lock(&self.turns.state).jobs > 0
    }

    /// Gives way to one job, in the middle of something.
    pub(crate) fn give_way(self) {
        lock(&self.turns.state).owed = Some(1);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.turns.state).busy = false;
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use std::cell::Cell;

    use super::*;

    /// Asks once and goes away.
    fn once() -> impl Fn() -> bool {
        || false
    }

    #[test]
    fn a_job_goes_first_and_what_gave_way_goes_before_the_job_after_it() {
        let turns = Turns::default();
        let standing = turns.standing(once()).unwrap();
        assert!(turns.job(once()).is_none() && turns.standing(once()).is_none());
        assert!(!standing.is_wanted());
        std::thread::scope(|scope| {
            let job = scope.spawn(|| turns.job(|| true).unwrap());
            while !standing.is_wanted() {
                std::thread::yield_now();
            }
            standing.give_way();
            drop(job.join().unwrap());
        });
        // The job that was given way to is done: another one has to wait for the work that is owed.
        assert!(turns.job(once()).is_none());
        std::thread::scope(|scope| {
            let wanted = Cell::new(true);
            let job = scope.spawn(|| turns.job(|| true).unwrap());
            while lock(&turns.state).jobs == 0 {
                std::thread::yield_now();
            }
            let standing = turns.standing(|| wanted.get()).unwrap();
            assert!(!standing.is_wanted() && standing.is_waited_for());
            drop(standing);
            let job = job.join().unwrap();
            // Nothing is owed any more.
            assert!(turns.standing(once()).is_none());
            drop(job);
        });
        assert!(turns.standing(once()).is_some());
    }

    #[test]
    fn nothing_is_owed_to_work_that_there_is_none_of() {
        let turns = Turns::default();
        turns.standing(once()).unwrap().give_way();
        drop(turns.job(once()).unwrap());
        assert!(turns.job(once()).is_none());
        turns.no_standing();
        assert!(turns.job(once()).is_some());
    }
}
