//! The messages that a client has opened lately, so that none counts twice.

use std::collections::VecDeque;

use restante_wire::{Reader, WireError};
use zeroize::Zeroize;

/// One's own last messages, each as the account notes it (`Account::own_message`). A board takes each clue once; a relay
/// that does not keep to that, or makes up what it delivers, could otherwise have a recipient read one message again and again.
///
/// The payload is part of what is noted. By the clue alone, whoever has the address and a relay of his own could have another payload
/// with a message's clue read first, and the message itself would be left out as its copy.
#[derive(Clone, Default)]
pub(super) struct OwnMessages(VecDeque<[u8; 32]>);

/// The most that are kept. What is beyond pushes the oldest out, so that a message comes back after as many others at the earliest.
const ENTRIES_MAX: usize = 4096;

impl OwnMessages {
    /// Notes a message; false if it is there already.
    pub(super) fn is_first(&mut self, message: &[u8; 32]) -> bool {
        if self.0.contains(message) {
            return false;
        }
        if self.0.len() == ENTRIES_MAX {
            self.0.pop_front().zeroize();
        }
        self.0.push_back(*message);
        true
    }

    pub(super) fn file_bytes(&self) -> usize {
        4 + 32 * self.0.len()
    }

    /// Number of hashes, then the hashes, the oldest first.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.0.len() as u32).to_le_bytes());
        self.0.iter().for_each(|hash| out.extend_from_slice(hash));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = reader.count("number of one's own messages", 0..=ENTRIES_MAX as u32)?;
        (0..count).map(|_| reader.array()).collect::<Result<_, _>>().map(Self)
    }
}

impl Drop for OwnMessages {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Zeroize::zeroize);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn hash(number: u32) -> [u8; 32] {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&number.to_le_bytes());
        hash
    }

    #[test]
    fn a_message_counts_once_and_there_is_a_bound() {
        let mut own = OwnMessages::default();
        for number in 0..ENTRIES_MAX as u32 + 10 {
            assert!(own.is_first(&hash(number)) && !own.is_first(&hash(number)));
        }
        let mut file = Vec::new();
        own.encode(&mut file);
        assert_eq!((own.0.len(), file.len()), (ENTRIES_MAX, own.file_bytes()));
        let mut reader = Reader::new("own messages", &file);
        let mut own = OwnMessages::decode(&mut reader).unwrap();
        reader.finish().unwrap();
        assert!(!own.is_first(&hash(10)) && own.is_first(&hash(9)));
        assert!(OwnMessages::decode(&mut Reader::new("own messages", &[255; 4])).is_err());
        assert!(OwnMessages::decode(&mut Reader::new("own messages", &file[..100])).is_err());
    }
}
