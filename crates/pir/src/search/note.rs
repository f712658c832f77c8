//! What a responder says about a window, in the clear: what became of its rows.

use restante_wire::{Reader, WireError};

/// The rows of a window that were searched, and those that were not.
///
/// A search found all there is only if nothing was left out: [`AnswerNote::is_complete`] for the window, and
/// [`Found::is_complete`](crate::search::Found::is_complete) for a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnswerNote {
    /// Rows that were searched.
    pub records: u64,
    /// Rows without a selector, which no search could find.
    pub unselected: u64,
    /// Rows that were not understood and left out: whatever they hold was not searched.
    pub malformed: u64,
    /// The bytes of those rows, as the table has them.
    pub malformed_bytes: u64,
    /// Records that limits cut off, over all buckets.
    pub dropped: u64,
}

impl AnswerNote {
    /// The version of the format. Version 1 was 32 bytes without a version: four of the numbers.
    pub const VERSION: u8 = 2;
    /// The bytes of a note.
    pub const BYTES: usize = 1 + 5 * 8;
    const OLD_BYTES: usize = 4 * 8;

    /// Whether every row of the window was searched.
    pub fn is_complete(&self) -> bool {
        self.malformed == 0 && self.malformed_bytes == 0
    }

    /// The version (1 byte), then the five numbers in their order (8 each).
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = vec![Self::VERSION];
        for number in [self.records, self.unselected, self.malformed, self.malformed_bytes, self.dropped] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// Reads what [`AnswerNote::to_bytes`] wrote.
    ///
    /// # Errors
    ///
    /// [`WireError`] for another version or length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new("note of a search answer", bytes);
        // Version 1 had no version in it.
        let found = match bytes.len() {
            Self::OLD_BYTES => 1,
            _ => reader.u8()?,
        };
        if found != Self::VERSION {
            let reason = match found {
                1 => {
                    "answered by an earlier program, which did not tell what it left out: have the query answered again"
                }
                _ => "use a program of the responder's version",
            };
            let (what, found) = ("the format version of a search answer's note", found.into());
            return Err(WireError::OutOfRange {
                what,
                found,
                expected: format!("{} ({reason})", Self::VERSION),
            });
        }
        let note = Self {
            records: reader.u64()?,
            unselected: reader.u64()?,
            malformed: reader.u64()?,
            malformed_bytes: reader.u64()?,
            dropped: reader.u64()?,
        };
        reader.finish()?;
        Ok(note)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn notes_read_back_and_older_ones_are_named() {
        let note =
            AnswerNote { records: 1, unselected: 2, malformed: 3, malformed_bytes: 4, dropped: u64::MAX };
        let bytes = note.to_bytes();
        assert_eq!(bytes.len(), AnswerNote::BYTES);
        assert_eq!(AnswerNote::from_bytes(&bytes).unwrap(), note);
        for length in 0..bytes.len() {
            assert!(AnswerNote::from_bytes(&bytes[..length]).is_err());
        }
        assert!(AnswerNote::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        // Four numbers, as earlier programs wrote them.
        let error = AnswerNote::from_bytes(&[0; 32]).unwrap_err().to_string();
        assert!(error.contains("version") && error.contains("is 1, expected 2"), "{error}");
        assert!(error.contains("have the query answered again"), "{error}");
    }

    #[test]
    fn a_window_with_rows_left_out_is_not_complete() {
        assert!(AnswerNote { records: 5, unselected: 1, dropped: 9, ..AnswerNote::default() }.is_complete());
        assert!(!AnswerNote { malformed: 1, ..AnswerNote::default() }.is_complete());
        assert!(!AnswerNote { malformed_bytes: 1, ..AnswerNote::default() }.is_complete());
    }
}
