//! The things a clue is bound to: its board, its period, its own a' and its payload.
//!
//! ```text
//! bound part   the encoded clue without b': period, a'
//! bound hash   BLAKE3(bound part)
//! binding      BLAKE3 derive-key, context "restante/2/clue/binding", of board id || bound hash || BLAKE3(payload)
//! words        BLAKE3 keyed with the binding, of "restante/2/clue/binding-vector": 56 bytes, seven integers
//! ```
//!
//! Senders add to b' a tag that is a secret linear function of the words, and recipients take it off again: a
//! clue that was copied to another message, or changed or summed up from others, carries a tag that does not
//! fit. Anyone who has the message can compute its binding; the secret is in the address. The argument is in
//! docs/detect.md.
//!
//! A board takes each bound hash once. Without that rule, b' alone could be varied. And it closes its periods one after the other
//! ([`Period::is_open_after`]), so that bound hashes need to be known for the open ones only.

use std::{fmt, str::FromStr, time::Duration};

use crate::hash::Hash;

/// Separates bindings from every other use of the hash.
const CONTEXT: &str = "restante/2/clue/binding";
/// Separates a binding's words from every other use of it.
const WORDS: &[u8] = b"restante/2/clue/binding-vector";

/// Bytes at the end of an encoded clue that are not bound: b'.
pub const TAIL_BYTES: usize = 5;

/// The bound part of an encoded clue, and its tail. If there are fewer bytes than a tail has, all of them are
/// tail.
pub fn split_clue(clue: &[u8]) -> (&[u8], &[u8]) {
    clue.split_at(clue.len().saturating_sub(TAIL_BYTES))
}

/// Names a board: random when the board is made. A mirror has the id of its origin.
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

/// The day that a clue is made for: days since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(pub u32);

impl Period {
    /// Bytes at the start of an encoded clue.
    pub const BYTES: usize = 4;

    /// The length of a period.
    pub const LENGTH: Duration = Duration::from_secs(86_400);

    /// The period of a moment, in seconds since 1970-01-01 UTC.
    pub fn of(unix_seconds: u64) -> Self {
        Self(u32::try_from(unix_seconds / Self::LENGTH.as_secs()).unwrap_or(u32::MAX))
    }

    /// The period that an encoded clue names; `None` if that is shorter.
    pub fn of_clue(clue: &[u8]) -> Option<Self> {
        clue.first_chunk().map(|bytes| Self(u32::from_le_bytes(*bytes)))
    }

    /// Whether a board whose latest period is `latest` may still take a message of this one. It is the rule for whoever copies
    /// or reads a board, and has no clock: periods move on, and what is more than two days behind the latest is closed for good.
    pub fn is_open_after(self, latest: Self) -> bool {
        self >= latest.oldest_open()
    }

    /// The oldest period that is open on a board whose latest is this one.
    pub fn oldest_open(self) -> Self {
        Self(self.0.saturating_sub(2))
    }

    /// The latest period that a message can be of that a head counts which was signed at this time, in seconds since 1970-01-01 UTC.
    pub fn latest_at(unix_seconds: u64) -> Self {
        Self(Self::of(unix_seconds).0.saturating_add(1))
    }

    /// Whether it is `present` or next to it: what a board with a clock takes.
    pub fn is_near(self, present: Self) -> bool {
        self.0.abs_diff(present.0) <= 1
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The hashes of a message's two parts: of the bound part of its clue, and of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageHashes {
    /// The bound hash. A board has no two messages with the same.
    pub bound: Hash,
    /// The hash of the payload.
    pub payload: Hash,
}

impl MessageHashes {
    /// Hashes both parts.
    pub fn of(bound: &[u8], payload: &[u8]) -> Self {
        Self { bound: Hash::of(bound), payload: Hash::of(payload) }
    }

    /// The binding of the message on a board.
    pub fn binding(&self, board: &BoardId) -> Binding {
        Binding::new(board, &self.bound, &self.payload)
    }
}

/// The hash that a clue's tag depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Binding(pub [u8; 32]);

impl Binding {
    /// Number of words.
    pub const WORDS: usize = 7;

    /// The binding of a message on a board, from the hash of its clue's bound part and the hash of its payload.
    pub fn new(board: &BoardId, bound: &Hash, payload: &Hash) -> Self {
        let mut material = [0; 80];
        material[..16].copy_from_slice(&board.0);
        material[16..48].copy_from_slice(&bound.0);
        material[48..].copy_from_slice(&payload.0);
        Self(blake3::derive_key(CONTEXT, &material))
    }

    /// The binding as integers, each uniform below 2^64.
    pub fn words(&self) -> [u64; Self::WORDS] {
        let mut bytes = [[0; 8]; Self::WORDS];
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(WORDS).finalize_xof().fill(bytes.as_flattened_mut());
        bytes.map(u64::from_le_bytes)
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Binding({})", Hash(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_changes_changes_the_binding() {
        let (board, bound, payload) = (BoardId([1; 16]), Hash::of(b"bound"), Hash::of(b"payload"));
        let binding = Binding::new(&board, &bound, &payload);
        assert_eq!(binding, Binding::new(&board, &bound, &payload));
        for other in [
            Binding::new(&BoardId([2; 16]), &bound, &payload),
            Binding::new(&board, &Hash::of(b"other"), &payload),
            Binding::new(&board, &bound, &Hash::of(b"other")),
            Binding::new(&board, &payload, &bound),
        ] {
            assert_ne!(other, binding);
            assert!(other.words().iter().zip(binding.words()).all(|(a, b)| *a != b));
        }
    }

    #[test]
    fn periods_are_days_and_near_to_their_neighbours() {
        assert_eq!(Period::of(0), Period(0));
        assert_eq!(Period::of(86_399), Period(0));
        // 2026-01-01 is day 20,454.
        assert_eq!(Period::of(1_767_225_600), Period(20_454));
        assert_eq!(Period::of(u64::MAX), Period(u32::MAX));
        for (other, near) in [(8, false), (9, true), (10, true), (11, true), (12, false)] {
            assert_eq!(Period(other).is_near(Period(10)), near);
        }
        assert_eq!(Period::of_clue(&[1, 2, 0, 0, 9]), Some(Period(513)));
        assert_eq!(Period::of_clue(&[1, 2, 0]), None);
        let open: Vec<u32> = (0..9).filter(|&day| Period(day).is_open_after(Period(5))).collect();
        assert_eq!(open, [3, 4, 5, 6, 7, 8]);
        assert!(Period(0).is_open_after(Period(1)) && !Period(0).is_open_after(Period(u32::MAX)));
        assert!(Period(u32::MAX).is_near(Period(u32::MAX)) && !Period(0).is_near(Period(u32::MAX)));
    }

    #[test]
    fn ids_read_back() {
        let id = BoardId([0xa5; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "a5", &"A5".repeat(16), &"a5".repeat(17), &"g5".repeat(16), "ääääääääääääääää"]
        {
            assert!(wrong.parse::<BoardId>().is_err(), "{wrong}");
        }
    }
}
