//! What a clue is bound to: the board, the day, the clue's own random part, and the message's payload.
//!
//! An encoded clue is its *bound part*, which the sender fixes first, and its *tail*, which follows from the payload:
//!
//! ```text
//! offset  bytes  field
//!      0      4  period: days since 1970-01-01 UTC, little-endian
//!      4      …  a', packed
//!      …      5  tail: b', packed
//! ```
//!
//! The recipient's secret tag is multiplied by a hash of the [`Binding`], so that a clue that somebody has changed, moved to
//! another payload, or copied to another board or day is pertinent to nobody. What that leaves is the same bound part with
//! another tail, and therefore **a board takes each bound part once** and closes its periods one after the other
//! ([`Period::is_open_after`]).

use std::fmt;
use std::str::FromStr;

use crate::merkle::Hash;

/// Bytes of an encoded clue's tail.
pub const TAIL_BYTES: usize = 5;

/// The bound part of an encoded clue, and its tail. Of what is shorter than a tail everything is tail.
pub fn split_clue(clue: &[u8]) -> (&[u8], &[u8]) {
    clue.split_at(clue.len().saturating_sub(TAIL_BYTES))
}

/// Names a board: 16 bytes, random when it is made. A mirror has the id of its origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoardId(pub [u8; 16]);

impl fmt::Display for BoardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BoardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoardId({self})")
    }
}

impl FromStr for BoardId {
    type Err = String;

    /// Reads 32 lower-case hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, String> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let read = || {
            let mut bytes = [0; 16];
            let (pairs, rest) = text.as_bytes().as_chunks::<2>();
            if pairs.len() != bytes.len() || !rest.is_empty() {
                return None;
            }
            for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
                *byte = digit(high)? << 4 | digit(low)?;
            }
            Some(Self(bytes))
        };
        read().ok_or_else(|| "expected 32 lower-case hexadecimal digits".into())
    }
}

/// A day, as the number of days since 1970-01-01 UTC: when a clue was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(pub u32);

impl Period {
    /// Bytes at the start of an encoded clue.
    pub const BYTES: usize = 4;
    /// Seconds of a period.
    pub const SECONDS: u64 = 24 * 3600;

    /// The period of a time in seconds since 1970. Times that no 32 bits of days reach are in the last period.
    pub fn at(seconds: u64) -> Self {
        Self(u32::try_from(seconds / Self::SECONDS).unwrap_or(u32::MAX))
    }

    /// The period that an encoded clue names; `None` if that is shorter.
    pub fn of_clue(clue: &[u8]) -> Option<Self> {
        clue.first_chunk().map(|bytes| Self(u32::from_le_bytes(*bytes)))
    }

    /// Whether a board whose clock shows `now` takes a message of this period: it is the present one or one of its neighbours.
    pub fn is_current(self, now: Self) -> bool {
        self.0.abs_diff(now.0) <= 1
    }

    /// Whether a board whose latest period is `latest` may still take a message of this period. It is the rule for whoever copies
    /// or reads a board, and has no clock: periods move on, and two days behind the latest they are closed for good.
    pub fn is_open_after(self, latest: Self) -> bool {
        self >= latest.oldest_open()
    }

    /// The oldest period that is open on a board whose latest is this one.
    pub fn oldest_open(self) -> Self {
        Self(self.0.saturating_sub(2))
    }
}

/// The hashes of a message's two parts: of the bound part of its clue, and of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageHashes {
    /// The hash of the clue without its tail. A board has no two messages with the same.
    pub bound: Hash,
    /// The hash of the payload.
    pub payload: Hash,
}

impl MessageHashes {
    /// Hashes both parts.
    pub fn of(bound: &[u8], payload: &[u8]) -> Self {
        Self { bound: Hash::of(bound), payload: Hash::of(payload) }
    }

    /// What the message's clue is bound to on a board.
    pub fn binding(&self, board: &BoardId) -> Binding {
        Binding::new(board, &self.bound, &self.payload)
    }
}

/// What a clue is bound to, as the hash that its tag is multiplied by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Binding(pub [u8; 32]);

impl Binding {
    const CONTEXT: &'static str = "restante/2/clue/binding";

    /// The binding of a message of a board, from the hash of its clue's bound part and that of its payload.
    pub fn new(board: &BoardId, bound_hash: &Hash, payload_hash: &Hash) -> Self {
        let mut bytes = [0; 16 + 32 + 32];
        bytes[..16].copy_from_slice(&board.0);
        bytes[16..48].copy_from_slice(&bound_hash.0);
        bytes[48..].copy_from_slice(&payload_hash.0);
        Self(blake3::derive_key(Self::CONTEXT, &bytes))
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Binding({})", Hash(self.0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn everything_that_a_clue_is_bound_to_changes_its_binding() {
        let (board, hashes) = (BoardId([1; 16]), MessageHashes::of(b"bound", b"payload"));
        let binding = hashes.binding(&board);
        assert_eq!(binding, Binding::new(&board, &Hash::of(b"bound"), &Hash::of(b"payload")));
        for other in [
            hashes.binding(&BoardId([2; 16])),
            MessageHashes::of(b"found", b"payload").binding(&board),
            MessageHashes::of(b"bound", b"payloads").binding(&board),
            MessageHashes::of(b"payload", b"bound").binding(&board),
        ] {
            assert_ne!(other, binding);
        }
    }

    #[test]
    fn periods_are_days_and_close_two_days_behind_the_latest() {
        assert_eq!(Period::at(86_399), Period(0));
        assert_eq!(Period::at(86_400), Period(1));
        assert_eq!(Period::at(u64::MAX), Period(u32::MAX));
        assert_eq!(Period::of_clue(&[1, 2, 0, 0, 9]), Some(Period(513)));
        assert_eq!(Period::of_clue(&[1, 2, 0]), None);
        let current: Vec<u32> = (0..9).filter(|&day| Period(day).is_current(Period(5))).collect();
        assert_eq!(current, [4, 5, 6]);
        let open: Vec<u32> = (0..9).filter(|&day| Period(day).is_open_after(Period(5))).collect();
        assert_eq!(open, [3, 4, 5, 6, 7, 8]);
        assert!(Period(0).is_open_after(Period(1)) && Period(0).is_current(Period(0)));
        assert!(!Period(0).is_current(Period(u32::MAX)) && !Period(0).is_open_after(Period(u32::MAX)));
    }

    #[test]
    fn ids_read_back() {
        let id = BoardId([0xa5; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "a5", &"A5".repeat(16), &"a5".repeat(17), &"g5".repeat(16), "ääääääääääääääää"] {
            assert!(wrong.parse::<BoardId>().is_err(), "{wrong}");
        }
    }
}
