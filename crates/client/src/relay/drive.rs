//! The loop around the machines: when a request leaves, and when what came is kept.
//!
//! It owns no socket, clock or file either; [`Host`] is what a caller has of those. `restante sync` and
//! `examples/wallet.rs` share it, so that what it promises holds for both:
//!
//! * **A request leaves at a time that is fixed when the answer before it has arrived**, before anything in that answer is
//!   looked at: the answer's arrival and [`Request::pace`](super::Request::pace). Time that the answer took to work on is
//!   not added to it. Between two requests of a [`SyncMachine`](super::SyncMachine) all work is the same for everybody. If it
//!   takes longer than the pace, the request leaves at the next multiple of the pace, so that small differences do not show.
//! * **What a machine has achieved is kept before the first request and after every answer**, and before an error is passed
//!   on. A [`SyncMachine`](super::SyncMachine) has nothing to keep until its round is over.
//! * **Rounds begin at fixed times** ([`Schedule`]), whatever the last one found.

use std::time::Duration;

use rand_core::CryptoRng;
use thiserror::Error;

use super::{RelayError, Reply, Request, Step};

/// A task with relays, one request after the other: posting, registering, a round of reading mail. All of
/// them have this one shape, so that one loop ([`Driver::run`]) serves all.
///
/// [`Driver`] runs it.
pub trait Machine {
    /// Says what to do next.
    fn step(&mut self) -> Step;

    /// Takes what became of the request of the last step. `now` is in seconds since 1970.
    ///
    /// # Errors
    ///
    /// [`RelayError`]: the task is over. What was achieved stays.
    fn respond(&mut self, reply: Reply, now: u64, rng: &mut impl CryptoRng) -> Result<(), RelayError>;
}

/// Connections and clocks: a machine's caller has them, and the machine lacks them.
///
/// [`Driver`] has an example.
pub trait Host {
    /// Why a request could not even be tried.
    type Error;

    /// Sends a request and reads the answer. A connection that fails is [`Reply::Broken`] and no error.
    ///
    /// # Errors
    ///
    /// For what is nothing about the relay: a part of a key's file that cannot be read.
    fn ask(&mut self, request: Request) -> Result<Reply, Self::Error>;

    /// Time that only goes forward, since any moment.
    fn clock(&mut self) -> Duration;

    /// Does nothing for this long.
    fn sleep(&mut self, time: Duration);

    /// Seconds since 1970.
    fn now(&mut self) -> u64;
}

/// Why a machine stopped before it was done.
#[derive(Debug, Error)]
pub enum Stopped<E> {
    /// The relay, or its answer.
    #[error(transparent)]
    Relay(RelayError),
    /// The caller: a request could not be tried, or something could not be kept.
    #[error(transparent)]
    Host(E),
}

/// Runs machines, and knows when the last answer came. One for all machines that share a connection.
///
/// ```
/// use std::{convert::Infallible, time::Duration};
/// use restante_client::{ClueParameters, relay::*};
///
/// /// A host without a network. `examples/simple.rs` has one over HTTP.
/// struct Offline(Duration);
///
/// impl Host for Offline {
///     type Error = Infallible;
///
///     fn ask(&mut self, _: Request) -> Result<Reply, Infallible> {
///         Ok(Reply::Broken(Cause::Unreachable))
///     }
///
///     fn clock(&mut self) -> Duration {
///         self.0
///     }
///
///     fn sleep(&mut self, time: Duration) {
///         self.0 += time;
///     }
///
///     fn now(&mut self) -> u64 {
///         1_800_000_000
///     }
/// }
///
/// # use rand_core::SeedableRng;
/// # let mut rng = chacha20::ChaCha20Rng::from_seed([1; 32]);
/// let mut machine = MeetMachine::new(ClueParameters::STANDARD, KnownRelay::default(), 3600,
/// Retries::default()); let mut host = Offline(Duration::ZERO);
/// let ended = Driver::new().run(&mut machine, &mut host, &mut rng, |_| Ok(()));
/// // It was tried several times, with waits in between.
/// assert!(matches!(ended, Err(Stopped::Relay(error)) if error.is_retryable()));
/// assert!(host.0 > Duration::from_secs(1));
/// ```
#[derive(Debug, Default)]
pub struct Driver {
    arrival: Option<Duration>,
}

impl Driver {
    /// A driver that has asked nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// When the last answer came, by [`Host::clock`]. The next round's time follows from it ([`Schedule::next`]).
    pub fn arrival(&self) -> Option<Duration> {
        self.arrival
    }

    /// Runs a machine to its end. `keep` is called before the first request, so that what is to be sent is kept before it is
    /// sent, and after every answer, whatever came of it.
    ///
    /// # Errors
    ///
    /// [`Stopped::Relay`] as the machine says, [`Stopped::Host`] as the host and `keep` say.
    pub fn run<M: Machine, H: Host>(
        &mut self,
        machine: &mut M,
        host: &mut H,
        rng: &mut impl CryptoRng,
        mut keep: impl FnMut(&M) -> Result<(), H::Error>,
    ) -> Result<(), Stopped<H::Error>> {
        keep(machine).map_err(Stopped::Host)?;
        let (mut wait, mut is_first) = (Duration::ZERO, true);
        loop {
            match machine.step() {
                Step::Ask(request) => {
                    if let Some(arrival) = self.arrival {
                        let due = arrival.saturating_add(request.pace.max(wait));
                        // When a machine begins, its caller says.
                        let late = if is_first { Duration::ZERO } else { host.clock() };
                        wait_until(host, next_slot(due, request.pace, late));
                    }
                    is_first = false;
                    let reply = host.ask(request).map_err(Stopped::Host)?;
                    self.arrival = Some(host.clock());
                    wait = Duration::ZERO;
                    let result = machine.respond(reply, host.now(), rng);
                    keep(machine).map_err(Stopped::Host)?;
                    result.map_err(Stopped::Relay)?;
                }
                Step::Wait(time) => wait = wait.saturating_add(time),
                Step::Done => return Ok(()),
            }
        }
    }
}

/// Sleeps until a time of the host's clock.
pub fn wait_until<H: Host>(host: &mut H, time: Duration) {
    // A sleep may end early.
    loop {
        let left = time.saturating_sub(host.clock());
        if left.is_zero() {
            return;
        }
        host.sleep(left);
    }
}

/// The first of `due` and multiples of `step` behind it that is not over.
fn next_slot(due: Duration, step: Duration, now: Duration) -> Duration {
    let late = now.saturating_sub(due);
    if late.is_zero() || step.is_zero() {
        return due;
    }
    let steps = late.as_nanos().div_ceil(step.as_nanos());
    due.saturating_add(step.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX)))
}

/// When rounds begin: at fixed times, which follow from the configuration, from how long the relays took, and from whether a
/// round ended at its bounds ([`Outcome::unfinished`](super::Outcome::unfinished)), and from nothing that was found.
///
/// ```
/// use std::time::Duration;
/// use restante_client::relay::Schedule;
///
/// let seconds = Duration::from_secs;
/// let mut schedule = Schedule::every(seconds(0), seconds(60));
/// // The last answer of a round came in second 7. What it brought has no influence on the next.
/// assert_eq!(schedule.next(seconds(7), false), Some(seconds(60)));
/// // One that ended at its bounds goes on after a rest.
/// assert_eq!(schedule.next(seconds(63), true), Some(seconds(63) + Schedule::REST));
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    start: Duration,
    every: Option<Duration>,
    rest: Duration,
    in_a_row: u32,
}

impl Schedule {
    /// The most rounds that follow each other because the one before ended at its bounds: a relay that always has more
    /// cannot keep a client busy for ever.
    pub const IN_A_ROW_MAX: u32 = 64;

    /// The least time from the last answer of a round to the first request of the next. In it, what came is read: at most
    /// [`Bounds::messages`](super::Bounds::messages) messages and 1,024 records, whoever they are for. A device that may
    /// take longer needs smaller bounds, or its user's mail can be told from the delay.
    pub const REST: Duration = Duration::from_secs(10);

    /// One round, and those that follow because it ended at its bounds.
    pub fn once() -> Self {
        Self { start: Duration::ZERO, every: None, rest: Self::REST, in_a_row: 1 }
    }

    /// Rounds at `start`, a time of [`Host::clock`], and at multiples of `every` behind it. Where a quarter of `every` is
    /// shorter than [`Schedule::REST`], that much is left for reading.
    pub fn every(start: Duration, every: Duration) -> Self {
        let every = every.max(Duration::from_millis(1));
        Self { start, every: Some(every), rest: Self::REST.min(every / 4), in_a_row: 1 }
    }

    /// The least time from the last answer of a round to the first request of the next.
    pub fn rest(&self) -> Duration {
        self.rest
    }

    /// When the next round begins, by [`Host::clock`], if there is one. `arrival` is when the last answer came
    /// ([`Driver::arrival`]) or the round gave up, not when its answers were read; `unfinished` says whether the round ended
    /// at its bounds. A time that is over is left out, and the next one kept.
    pub fn next(&mut self, arrival: Duration, unfinished: bool) -> Option<Duration> {
        let least = arrival.saturating_add(self.rest);
        if unfinished && self.in_a_row < Self::IN_A_ROW_MAX {
            self.in_a_row += 1;
            return Some(least);
        }
        self.in_a_row = 1;
        let every = self.every?;
        let late = least.saturating_sub(self.start).as_nanos();
        let periods = late.div_ceil(every.as_nanos()).max(1);
        let offset = every.saturating_mul(u32::try_from(periods).unwrap_or(u32::MAX));
        Some(self.start.saturating_add(offset).max(least))
    }

    /// The same time, or a later one if reading and keeping what the last round has brought took until `now`, which is then over: a
    /// whole number of rests behind it, so that it does not show how much there was to read but for that number.
    pub fn put_off(&self, next: Duration, now: Duration) -> Duration {
        next_slot(next, self.rest, now)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn rounds_begin_at_multiples_that_leave_time_for_reading() {
        let mut schedule = Schedule::every(seconds(5.0), seconds(60.0));
        for (arrival, next) in
            [(6.0, 65.0), (54.9, 65.0), (55.0, 65.0), (55.1, 125.0), (300.0, 365.0), (0.0, 65.0)]
        {
            assert_eq!(schedule.next(seconds(arrival), false), Some(seconds(next)), "{arrival}");
        }
        // A short period is kept as far as it goes.
        let mut schedule = Schedule::every(Duration::ZERO, seconds(1.0));
        assert_eq!(schedule.next(seconds(0.7), false), Some(seconds(1.0)));
        assert_eq!(schedule.next(seconds(0.8), false), Some(seconds(2.0)));
        assert_eq!(Schedule::once().next(seconds(3.0), false), None);
    }

    #[test]
    fn a_round_that_was_read_too_late_puts_the_next_off_by_whole_rests() {
        let schedule = Schedule::every(seconds(0.0), seconds(60.0));
        for (now, begins) in [(59.0, 60.0), (60.0, 60.0), (60.001, 70.0), (70.0, 70.0), (75.0, 80.0)] {
            assert_eq!(schedule.put_off(seconds(60.0), seconds(now)), seconds(begins), "{now}");
        }
        let schedule = Schedule::every(seconds(0.0), seconds(4.0));
        assert_eq!(schedule.put_off(seconds(4.0), seconds(4.5)), seconds(5.0));
        // Without a rest nothing can be hidden.
        let schedule = Schedule { rest: Duration::ZERO, ..schedule };
        assert_eq!(schedule.put_off(seconds(4.0), seconds(4.5)), seconds(4.0));
    }

    /// A host whose clock is moved by the work that a machine does.
    struct Busy {
        clock: std::rc::Rc<std::cell::Cell<Duration>>,
        asked: Vec<Duration>,
    }

    impl Host for Busy {
        type Error = std::convert::Infallible;

        fn ask(&mut self, _: Request) -> Result<Reply, Self::Error> {
            self.asked.push(self.clock.get());
            Ok(Reply::Broken(super::super::Cause::default()))
        }

        fn clock(&mut self) -> Duration {
            self.clock.get()
        }

        fn sleep(&mut self, time: Duration) {
            self.clock.set(self.clock.get() + time);
        }

        fn now(&mut self) -> u64 {
            0
        }
    }

    struct Worker {
        clock: std::rc::Rc<std::cell::Cell<Duration>>,
        work: Vec<f64>,
    }

    impl Machine for Worker {
        fn step(&mut self) -> Step {
            if self.work.is_empty() {
                Step::Done
            } else {
                let request = Request::new(crate::relay::Side::First, crate::relay::Method::Get, "/v1/head");
                Step::Ask(Request { pace: seconds(0.05), ..request })
            }
        }

        fn respond(&mut self, _: Reply, _: u64, _: &mut impl CryptoRng) -> Result<(), RelayError> {
            let work = self.work.remove(0);
            self.clock.set(self.clock.get() + seconds(work));
            Ok(())
        }
    }

    #[test]
    fn work_that_is_longer_than_the_pace_shows_by_whole_paces_only() {
        use rand_core::SeedableRng;
        let asked = |work: &[f64]| {
            let clock = std::rc::Rc::new(std::cell::Cell::new(Duration::ZERO));
            let mut host = Busy { clock: clock.clone(), asked: vec![] };
            let mut machine = Worker { clock, work: work.to_vec() };
            let mut rng = chacha20::ChaCha20Rng::from_seed([1; 32]);
            let Ok(()) = Driver::new().run(&mut machine, &mut host, &mut rng, |_| Ok(())) else { panic!() };
            host.asked
        };
        let expected = [0.0, 0.05, 0.2].map(seconds);
        assert_eq!(asked(&[0.001, 0.101, 0.0]), expected);
        assert_eq!(asked(&[0.049, 0.149, 0.0]), expected);
    }

    #[test]
    fn a_relay_that_always_has_more_is_left_alone_after_some_rounds() {
        for (mut schedule, after) in [
            (Schedule::once(), None),
            (Schedule::every(Duration::ZERO, seconds(3600.0)), Some(seconds(3600.0))),
        ] {
            let mut arrival = Duration::ZERO;
            for _ in 1..Schedule::IN_A_ROW_MAX {
                let next = schedule.next(arrival, true).unwrap();
                assert_eq!(next, arrival + Schedule::REST);
                arrival = next;
            }
            assert_eq!(schedule.next(arrival, true), after);
        }
    }
}
