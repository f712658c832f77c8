//! Which messages a client has opened lately, so that none counts twice.

use restante_wire::{Reader, WireError, binding::Period};
use zeroize::Zeroizing;

use crate::payload::ClueHash;

/// The clues of one's own messages of open periods. A board takes each clue once; a relay that does not keep to that could have a
/// recipient read one message again and again. Secret.
#[derive(Clone, Default)]
pub(super) struct OwnClues {
    /// In the order in which they came.
    entries: Zeroizing<Vec<(u32, [u8; 32])>>,
}

/// The most that are kept: some days of a busy account. What is beyond pushes the oldest out.
const ENTRIES_MAX: usize = 4096;
const ENTRY_BYTES: usize = Period::BYTES + 32;

impl OwnClues {
    /// Notes a message, by the hash that binds its payload to its clue; false if it is there already.
    pub(super) fn is_first(&mut self, period: Period, clue: &ClueHash) -> bool {
        if self.entries.iter().any(|(_, known)| *known == clue.0) {
            return false;
        }
        let latest = self.entries.iter().map(|(period, _)| Period(*period)).max();
        let oldest = latest.max(Some(period)).map_or(Period(0), Period::oldest_open);
        self.entries.retain(|(period, _)| Period(*period) >= oldest);
        if self.entries.len() == ENTRIES_MAX {
            self.entries.remove(0);
        }
        self.entries.push((period.0, clue.0));
        true
    }

    pub(super) fn file_bytes(&self) -> usize {
        4 + ENTRY_BYTES * self.entries.len()
    }

    /// Number of entries, then for each its period and its hash.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        for (period, hash) in self.entries.iter() {
            out.extend_from_slice(&period.to_le_bytes());
            out.extend_from_slice(hash);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = reader.count("number of one's own clues", 0..=ENTRIES_MAX as u32)?;
        let mut entries = Zeroizing::new(Vec::new());
        for _ in 0..count {
            entries.push((reader.u32()?, reader.array()?));
        }
        Ok(Self { entries })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn hash(number: u32) -> ClueHash {
        let mut hash = ClueHash([0; 32]);
        hash.0[..4].copy_from_slice(&number.to_le_bytes());
        hash
    }

    #[test]
    fn a_clue_counts_once_while_its_period_is_open() {
        let mut own = OwnClues::default();
        assert!(own.is_first(Period(10), &hash(1)) && own.is_first(Period(11), &hash(2)));
        for _ in 0..2 {
            assert!(!own.is_first(Period(10), &hash(1)) && !own.is_first(Period(11), &hash(2)));
            let mut file = Vec::new();
            own.encode(&mut file);
            assert_eq!(file.len(), own.file_bytes());
            let mut reader = Reader::new("own clues", &file);
            own = OwnClues::decode(&mut reader).unwrap();
            reader.finish().unwrap();
        }
        // Two days later the first is forgotten: the board takes no message of its day any more.
        assert!(own.is_first(Period(13), &hash(3)));
        assert_eq!(own.entries.len(), 2);
        assert!(!own.is_first(Period(11), &hash(2)));
    }

    #[test]
    fn there_is_a_bound() {
        let mut own = OwnClues::default();
        for number in 0..ENTRIES_MAX as u32 + 10 {
            assert!(own.is_first(Period(5), &hash(number)));
        }
        assert_eq!(own.entries.len(), ENTRIES_MAX);
        assert!(!own.is_first(Period(5), &hash(10)) && own.is_first(Period(5), &hash(9)));
        assert!(OwnClues::decode(&mut Reader::new("own clues", &[255; 4])).is_err());
    }
}
