//! Time.
//!
//! The system's clock may jump: somebody sets it, or a machine starts without a battery. So a relay compares it with the
//! one that only counts, and with the newest time that it has written down. What it says never goes back, in particular
//! the time of signed heads; a jump forward counts when it has lasted for a while; and nothing is deleted because of its age
//! meanwhile ([`Clock::settled`]). Being started with a clock that is ahead of the last run's by more than a day is such a jump: a
//! machine may not have asked for the time yet.
//!
//! A jump by more than a week counts only with an operator's word, which is to remove the file that the time is written down in. A
//! message of a day far ahead would close the board for every day before it, for good.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::ServerError;
use crate::files::write_whole;
use crate::locks::lock;
use crate::metrics::Metrics;
use crate::panics;

/// Differences of so many seconds, up or down, are how clocks are.
const SLACK: u64 = 60;
/// A jump forward by more than so many seconds is not believed at once.
const LEAP: u64 = 3600;
/// It is believed when the clock has gone on from there for so long. Nothing is deleted because of its age before that.
const CONFIRM: Duration = Duration::from_secs(600);
/// A clock that is ahead of the last run's by more than so many seconds has jumped as well.
const ABSENCE: u64 = 24 * 3600;
/// A jump forward by more than so many seconds is never believed by itself.
const FAR: u64 = 7 * 24 * 3600;
/// The newest time is written down when it is so many seconds newer.
const WRITTEN: u64 = 15;
/// A relay may have signed a time that is at most so many seconds newer than what it has written down.
const LEAD: u64 = 60;
const LOOK: Duration = Duration::from_millis(250);

/// Seconds since 1970, as the system has them but for jumps: they never go back in one process.
pub(crate) fn now() -> u64 {
    static STEADY: LazyLock<Mutex<Steady>> =
        LazyLock::new(|| Mutex::new(Steady::new(wall(), Duration::ZERO, None)));
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let counted = START.elapsed();
    lock(&STEADY).tell(wall(), counted)
}

fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A fault of the system's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It is so many seconds behind what this relay has said or signed before.
    Behind(u64),
    /// It is ahead of the relay's own time by so many seconds.
    Ahead(u64),
    /// It is so far ahead that an operator has to say that it is right.
    Far(u64),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind(seconds) => write!(
                f,
                "the system's clock is {seconds} s behind the newest time that this relay has signed: until it has caught up, \
                 heads are signed with that time and nothing is deleted for its age; does the clock look right?"
            ),
            Self::Ahead(seconds) => write!(
                f,
                "the system's clock is {seconds} s ahead of the relay's own time, since it has jumped or the relay was not running for \
                 so long: the relay goes on with its own time and deletes nothing for its age until the clock has kept that for {} \
                 s; does it look right?",
                CONFIRM.as_secs()
            ),
            Self::Far(seconds) => write!(
                f,
                "the system's clock is {} days ahead of the relay's own time: that is not believed, since a message of such a day would \
                 close the board for all days before; if the clock is right, stop the relay, remove the file \"clock\" in its data \
                 directory, and start it",
                seconds / (24 * 3600)
            ),
        }
    }
}

/// Judges a clock by one that only counts.
#[derive(Debug)]
struct Steady {
    /// The newest time that was told.
    last: u64,
    /// The last reading of both clocks.
    seen: (u64, Duration),
    /// The last time that was believed, and when that was.
    believed: (u64, Duration),
    /// A jump that is not believed yet: the time that would be without it, and when that was.
    leap: Option<(u64, Duration)>,
}

impl Steady {
    /// `written` is the newest time that an earlier run has written down.
    fn new(wall: u64, counted: Duration, written: Option<u64>) -> Self {
        let mut this = Self { last: wall, seen: (wall, counted), believed: (wall, counted), leap: None };
        if let Some(written) = written {
            let signed = written.saturating_add(LEAD);
            let is_ahead = wall > written.saturating_add(ABSENCE);
            if wall < written || is_ahead {
                this.last = signed;
                this.believed.0 = signed;
            }
            if is_ahead {
                this.leap = Some((signed, counted));
            }
        }
        this
    }

    /// The time, from what the two clocks show.
    fn tell(&mut self, wall: u64, counted: Duration) -> u64 {
        let (before, then) = self.seen;
        let expected = before.saturating_add(counted.saturating_sub(then).as_secs());
        // A clock that was set back and returns to where it was does not jump.
        let (base, then_believed) = self.believed;
        let without = base.saturating_add(counted.saturating_sub(then_believed).as_secs());
        if wall > without.saturating_add(LEAP) && self.leap.is_none() {
            self.leap = Some((without.max(self.last), counted));
        }
        // Rounded seconds must not add up to a jump.
        if wall != expected || counted.saturating_sub(then) >= Duration::from_secs(SLACK) {
            self.seen = (wall, counted);
        }
        if let Some((base, since)) = self.leap {
            let passed = counted.saturating_sub(since);
            let own = base.saturating_add(passed.as_secs());
            let is_far = wall > own.saturating_add(FAR);
            if wall <= own.saturating_add(SLACK) || passed >= CONFIRM && !is_far {
                // It was set back, or it has kept to that.
                self.leap = None;
            } else {
                if wall > expected.saturating_add(LEAP) && wall != expected {
                    // It jumps again: the time to wait begins anew.
                    self.leap = Some((own, counted));
                }
                self.last = self.last.max(own);
                return self.last;
            }
        }
        if wall >= self.last {
            self.believed = (wall, counted);
        }
        self.last = self.last.max(wall);
        self.last
    }

    fn trouble(&mut self, wall: u64, counted: Duration) -> Option<Trouble> {
        let told = self.tell(wall, counted);
        if self.leap.is_some() {
            let ahead = wall.saturating_sub(told);
            return Some(if ahead > FAR { Trouble::Far(ahead) } else { Trouble::Ahead(ahead) });
        }
        (told > wall.saturating_add(SLACK)).then(|| Trouble::Behind(told - wall))
    }
}

/// Clocks that a test moves.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct TestClock(Mutex<(u64, Duration)>);

impl TestClock {
    /// One that shows so many seconds since 1970 and stands still.
    pub fn new(wall: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new((wall, Duration::ZERO))))
    }

    /// Lets time pass.
    pub fn advance(&self, seconds: u64) {
        let mut now = lock(&self.0);
        now.0 += seconds;
        now.1 += Duration::from_secs(seconds);
    }

    /// Sets the clock of the system to something else.
    pub fn set(&self, wall: u64) {
        lock(&self.0).0 = wall;
    }
}

/// Where a relay's time comes from: the system, but in tests.
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct TimeSource(Option<Arc<TestClock>>);

impl TimeSource {
    /// A test's clock.
    pub fn test(clock: &Arc<TestClock>) -> Self {
        Self(Some(clock.clone()))
    }

    fn read(&self, start: Instant) -> (u64, Duration) {
        match &self.0 {
            Some(clock) => *lock(&clock.0),
            None => (wall(), start.elapsed()),
        }
    }
}

impl PartialEq for TimeSource {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(first), Some(second)) => Arc::ptr_eq(first, second),
            (None, None) => true,
            _ => false,
        }
    }
}

/// A relay's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    source: TimeSource,
    start: Instant,
    steady: Mutex<Steady>,
    path: PathBuf,
    written: Mutex<Option<u64>>,
}

/// The file: the time, and a checksum.
const FILE_BYTES: usize = 16;

impl Clock {
    /// A clock that knows what the file has.
    pub(crate) fn open(path: &Path, source: TimeSource) -> Result<Self, ServerError> {
        let written = match std::fs::read(path) {
            Ok(bytes) => read_file(&bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(ServerError::io("read", path)(error)),
        };
        let start = Instant::now();
        let (wall, counted) = source.read(start);
        let steady = Steady::new(wall, counted, written);
        if written.is_none() {
            write_whole(path, &to_file(steady.last))?;
        }
        let written = Mutex::new(Some(written.unwrap_or(steady.last)));
        let this = Self { source, start, steady: Mutex::new(steady), path: path.into(), written };
        if let Some(trouble) = this.trouble() {
            tracing::warn!("{trouble}");
        }
        this.write_down()?;
        Ok(this)
    }

    /// Seconds since 1970. They never go back, not even from one run to the next, and follow no jump.
    pub(crate) fn now(&self) -> u64 {
        let (wall, counted) = self.source.read(self.start);
        lock(&self.steady).tell(wall, counted)
    }

    /// A fault of the system's clock.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let (wall, counted) = self.source.read(self.start);
        lock(&self.steady).trouble(wall, counted)
    }

    /// Tells an operator, whose word is needed, why this relay's time is not right.
    pub(crate) fn is_far(&self) -> Option<String> {
        self.trouble().filter(|trouble| matches!(trouble, Trouble::Far(_))).map(|trouble| trouble.to_string())
    }

    /// The time, if things may be deleted for their age.
    pub(crate) fn settled(&self) -> Option<u64> {
        match self.trouble() {
            None => Some(self.now()),
            Some(_) => None,
        }
    }

    /// Makes the newest time durable, if it has changed much. The file keeps its place, so that a full disk does not matter.
    pub(crate) fn write_down(&self) -> Result<(), ServerError> {
        let mut written = lock(&self.written);
        let now = self.now();
        if written.is_some_and(|written| now < written.saturating_add(WRITTEN)) {
            return Ok(());
        }
        let file = File::options().write(true).open(&self.path);
        let done = file.and_then(|file| {
            file.write_all_at(&to_file(now), 0)?;
            file.sync_data()
        });
        done.map_err(ServerError::io("write", &self.path))?;
        *written = Some(now);
        Ok(())
    }

    /// The thread that writes the time down and says what is wrong with it.
    pub(crate) fn start(
        self: &Arc<Self>,
        stop: Arc<AtomicBool>,
        metrics: Arc<Metrics>,
    ) -> Result<JoinHandle<()>, ServerError> {
        let this = self.clone();
        panics::thread("clock", metrics, move || {
            let mut said: Option<(std::mem::Discriminant<Trouble>, Instant)> = None;
            let mut failed = None::<Instant>;
            let long_ago = |time: Instant| time.elapsed() >= CONFIRM;
            while !stop.load(Ordering::Relaxed) {
                if let Err(error) = this.write_down()
                    && failed.is_none_or(long_ago)
                {
                    failed = Some(Instant::now());
                    tracing::error!(%error, "the newest time was not written down");
                }
                match this.trouble() {
                    Some(trouble) => {
                        let kind = std::mem::discriminant(&trouble);
                        if said.is_none_or(|(before, time)| before != kind || long_ago(time)) {
                            said = Some((kind, Instant::now()));
                            tracing::warn!("{trouble}");
                        }
                    }
                    None if said.take().is_some() => {
                        tracing::warn!("the system's clock is followed again")
                    }
                    None => {}
                }
                std::thread::sleep(LOOK);
            }
            // The last word.
            let _ = this.write_down();
        })
    }
}

fn to_file(time: u64) -> [u8; FILE_BYTES] {
    let mut file = [0; FILE_BYTES];
    file[..8].copy_from_slice(&time.to_le_bytes());
    let checksum = blake3::hash(&file[..8]);
    file[8..].copy_from_slice(&checksum.as_bytes()[..8]);
    file
}

/// None for what no clock has written, or only half.
fn read_file(bytes: &[u8]) -> Option<u64> {
    let time = bytes.first_chunk().map(|time| u64::from_le_bytes(*time))?;
    (bytes == to_file(time)).then_some(time)
}

/// How much may be deleted at a look. It grows from look to look while there is more to delete than that, and falls back when
/// there is not: what a wrong clock or a wrong setting deletes, somebody can still stop.
#[derive(Debug, Default)]
pub(crate) struct Ration {
    step: u32,
}

impl Ration {
    /// How many of `due` things may go now, when `usual` are never too many.
    pub(crate) fn take(&mut self, due: usize, usual: usize, what: &'static str) -> usize {
        let allowed = usual.max(1).saturating_mul(1usize.checked_shl(self.step).unwrap_or(usize::MAX));
        if due <= allowed {
            self.step = 0;
            return due;
        }
        // Each look may delete twice as much as the one before.
        self.step = (self.step + 1).min(40);
        if due == usize::MAX {
            // Nobody has counted.
            return allowed;
        }
        tracing::warn!(
            due,
            now = allowed,
            "{what}: more than usual is to be deleted, so not all at once; does the clock look right?"
        );
        allowed
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    const DAY: u64 = 24 * 3600;
    const START: u64 = 20_000 * DAY;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn time_never_goes_back_and_goes_on_when_the_clock_has_caught_up() {
        let mut steady = Steady::new(START, seconds(0), None);
        assert_eq!(steady.tell(START + 100, seconds(100)), START + 100);
        // Two hours back.
        assert_eq!(steady.trouble(START + 110 - 7200, seconds(110)), Some(Trouble::Behind(7190)));
        assert_eq!(steady.tell(START + 200 - 7200, seconds(200)), START + 100);
        assert_eq!(steady.tell(START + 99, seconds(7299)), START + 100);
        assert_eq!(steady.tell(START + 101, seconds(7301)), START + 101);
        assert_eq!(steady.trouble(START + 101, seconds(7301)), None);
        // A second back is how clocks are.
        assert_eq!(steady.trouble(START + 100, seconds(7302)), None);
        assert_eq!(steady.tell(START + 100, seconds(7302)), START + 101);
        // Set back by a day and to rights again, which is no jump ahead.
        assert_eq!(steady.tell(START - DAY, seconds(7303)), START + 101);
        assert_eq!(steady.tell(START + 104, seconds(7304)), START + 104);
        assert_eq!(steady.trouble(START + 104, seconds(7304)), None);
    }

    #[test]
    fn a_jump_of_days_counts_when_it_has_lasted() {
        let mut steady = Steady::new(START, seconds(0), None);
        let month = 6 * DAY;
        assert_eq!(steady.tell(START + 10 + month, seconds(10)), START + 10);
        assert_eq!(steady.trouble(START + 400 + month, seconds(400)), Some(Trouble::Ahead(month)));
        assert_eq!(steady.tell(START + 400 + month, seconds(400)), START + 400);
        // Corrected in time: nothing has happened.
        assert_eq!(steady.tell(START + 500, seconds(500)), START + 500);
        assert_eq!(steady.trouble(START + 500, seconds(500)), None);
        // Once more, and it lasts.
        assert_eq!(steady.tell(START + 600 + month, seconds(600)), START + 600);
        for passed in (0..600).step_by(50) {
            assert_eq!(
                steady.tell(START + 600 + passed + month, seconds(600 + passed)),
                START + 600 + passed
            );
        }
        assert_eq!(steady.tell(START + 1200 + month, seconds(1200)), START + 1200 + month);
        assert_eq!(steady.trouble(START + 1200 + month, seconds(1200)), None);
        // Half an hour is not much of a jump.
        assert_eq!(steady.tell(START + 3000 + month, seconds(1200)), START + 3000 + month);
    }

    #[test]
    fn jumps_one_after_the_other_do_not_add_up_to_one_that_is_believed() {
        let mut steady = Steady::new(START, seconds(0), None);
        for jump in 1..20 {
            let counted = jump * 300;
            assert_eq!(steady.tell(START + counted + jump * DAY, seconds(counted)), START + counted);
        }
    }

    #[test]
    fn what_was_written_down_is_not_gone_behind_and_a_long_absence_deletes_nothing_at_first() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("clock");
        let system = TestClock::new(START);
        let open = || Clock::open(&path, TimeSource::test(&system)).unwrap();
        let clock = open();
        assert_eq!((clock.now(), clock.settled()), (START, Some(START)));
        system.advance(14);
        clock.write_down().unwrap();
        assert_eq!(read_file(&std::fs::read(&path).unwrap()), Some(START));
        system.advance(1);
        clock.write_down().unwrap();
        assert_eq!(read_file(&std::fs::read(&path).unwrap()), Some(START + 15));
        // It may have signed later times than it has written down.
        let signed = {
            system.advance(14);
            clock.now()
        };
        drop(clock);
        system.set(START - 5 * DAY);
        let clock = open();
        assert!(clock.now() >= signed && clock.now() <= signed + LEAD);
        assert!(matches!(clock.trouble(), Some(Trouble::Behind(_))) && clock.settled().is_none());
        drop(clock);
        system.set(START + 5 * DAY);
        let clock = open();
        // The clock may not be right yet: the relay's own time goes on, and is what is written down.
        assert!(clock.now() < START + DAY);
        assert!(matches!(clock.trouble(), Some(Trouble::Ahead(_))) && clock.settled().is_none());
        system.advance(300);
        clock.write_down().unwrap();
        assert!(read_file(&std::fs::read(&path).unwrap()).unwrap() < START + DAY);
        system.advance(300);
        assert_eq!(clock.settled(), Some(START + 5 * DAY + 600));
        // What is no time counts for nothing.
        std::fs::write(&path, b"half").unwrap();
        assert_eq!(open().now(), START + 5 * DAY + 600);
    }

    #[test]
    fn a_clock_that_is_weeks_ahead_is_believed_on_an_operators_word_only() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("clock");
        let system = TestClock::new(START);
        let open = || Clock::open(&path, TimeSource::test(&system)).unwrap();
        drop(open());
        for ahead in [8 * DAY, 3650 * DAY] {
            system.set(START + ahead);
            let clock = open();
            for _ in 0..100 {
                system.advance(60);
                assert!(clock.now() < START + DAY, "{ahead}");
            }
            assert!(matches!(clock.trouble(), Some(Trouble::Far(_))) && clock.settled().is_none());
            clock.write_down().unwrap();
        }
        // It is put right: nothing has happened.
        system.set(START + 20_000);
        assert_eq!(open().settled(), Some(START + 20_000));
        // While it runs, too.
        let clock = open();
        system.set(START + 20_000 + 30 * DAY);
        for _ in 0..100 {
            system.advance(60);
            assert!(clock.now() < START + DAY);
        }
        drop(clock);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(open().settled(), Some(START + 20_000 + 30 * DAY + 6000));
    }

    #[test]
    fn a_look_deletes_little_and_the_next_one_more() {
        let mut ration = Ration::default();
        let mut due = 100;
        let mut looks = Vec::new();
        while due > 0 {
            let gone = ration.take(due, 2, "things");
            looks.push(gone);
            due -= gone;
        }
        assert_eq!(looks, [2, 4, 8, 16, 32, 38]);
        assert_eq!((ration.take(3, 2, "things"), ration.take(2, 2, "things")), (2, 2));
        assert_eq!(ration.take(3, 2, "things"), 2);
    }
}
