//! The public rule about clues: a board takes each bound part once, and its periods only move on.
//!
//! A clue's tag depends on its bound part and its payload, but for the tail, which whoever sees a clue can change at will. One
//! message for each bound part leaves nothing to gain by that. A bound part names its period, and a message of a closed
//! period is refused whatever it is, so that bound parts need to be known for the open periods only.
//!
//! Memory: 19 bytes for a slot of a table that is 44 to 88 % full, so 22 to 43 bytes for each message of an open period, and twice that for
//! a moment when a table grows. With a million messages a day and three open days that is 120 MB.

use std::collections::{BTreeMap, HashMap};

use restante_wire::binding::Period;

use crate::board::Board;
use crate::segment::{Row, Rows};
use crate::{BoardError, Hash};

/// Enough of a bound hash to tell messages apart: two that agree take 2^48 trials, and whoever makes them harms only the second.
type Key = [u8; 12];

/// An index below 2^48.
type Place = [u8; 6];

/// The clues of a board's open periods.
#[derive(Debug, Default)]
pub(crate) struct Rule {
    /// The latest period, and that of the last commit.
    latest: Option<Period>,
    committed: Option<Period>,
    taken: BTreeMap<Period, HashMap<Key, Place>>,
    /// The clues that were taken since the last commit.
    staged: Vec<(Period, Key)>,
}

impl Rule {
    /// The rule for the committed messages of a board, read from the last one back to where all periods are closed.
    pub(crate) fn of_board(board: &Board) -> Result<Self, BoardError> {
        let mut rule = Self::default();
        let capacity = u64::from(board.config.segment_capacity);
        for (number, segment) in board.segments.iter().enumerate().rev() {
            let kept;
            let rows = if (number as u64) < board.forgotten {
                match segment.kept_index()? {
                    // Its periods were closed when the index was removed.
                    None => break,
                    Some(index) => kept = index,
                }
                Rows::new(&board.config, kept.bytes())
            } else {
                segment.rows()
            };
            let mut all_closed = false;
            for place in (0..segment.messages()).rev() {
                let row = rows.get(place);
                // Before this message no period was more than two days later than its own.
                all_closed = rule.latest.is_some_and(|latest| is_long_closed(row.period, latest));
                if all_closed {
                    break;
                }
                rule.take(&row, number as u64 * capacity + place);
            }
            if all_closed {
                break;
            }
        }
        rule.commit();
        Ok(rule)
    }

    /// Refuses a message that the board must not take.
    pub(crate) fn check(&self, period: Period, bound: &Hash) -> Result<(), BoardError> {
        if let Some(latest) = self.latest.filter(|latest| !period.is_open_after(*latest)) {
            return Err(BoardError::ClosedPeriod { found: period.0, least: latest.oldest_open().0 });
        }
        let taken = self.taken.get(&period).and_then(|taken| taken.get(&key(bound)));
        match taken {
            Some(place) => Err(BoardError::Duplicate { first: index(*place) }),
            None => Ok(()),
        }
    }

    /// Notes a message; of two with one bound part, which a board that obeys the rule does not have, the earlier.
    pub(crate) fn take(&mut self, row: &Row<'_>, index: u64) {
        let (key, place) = (key(&row.hashes.bound), place(index));
        self.taken.entry(row.period).or_default().insert(key, place);
        self.staged.push((row.period, key));
        self.latest = self.latest.max(Some(row.period));
    }

    /// Forgets what is closed. There is no way back from here.
    pub(crate) fn commit(&mut self) {
        self.staged.clear();
        self.committed = self.latest;
        if let Some(latest) = self.latest {
            self.taken.retain(|period, _| period.is_open_after(latest));
        }
    }

    /// Takes back what was staged.
    pub(crate) fn rollback(&mut self) {
        for (period, key) in self.staged.drain(..) {
            if let Some(taken) = self.taken.get_mut(&period) {
                taken.remove(&key);
            }
        }
        self.taken.retain(|_, taken| !taken.is_empty());
        self.latest = self.committed;
    }

    /// Whether no message before one of this period can be of an open one.
    pub(crate) fn is_long_closed(&self, period: Period) -> bool {
        self.committed.is_some_and(|latest| is_long_closed(period, latest))
    }
}

fn is_long_closed(period: Period, latest: Period) -> bool {
    Period(period.0.saturating_add(2)) < latest.oldest_open()
}

fn key(bound: &Hash) -> Key {
    let mut key = [0; 12];
    key.copy_from_slice(&bound.0[..12]);
    key
}

fn place(index: u64) -> Place {
    let [a, b, c, d, e, f, ..] = index.min((1 << 48) - 1).to_le_bytes();
    [a, b, c, d, e, f]
}

fn index([a, b, c, d, e, f]: Place) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}
