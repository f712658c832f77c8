//! Consecutive messages of a board, for recipients that do not hold the board.

use std::ops::Range;

use restante_clue::ClueParameters;
use restante_wire::{Envelope, Kind, Reader, WireError, binding::BoardId};

use crate::{ClientError, Message};

/// Messages with consecutive indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRange {
    board: BoardId,
    first: u64,
    messages: Vec<Message>,
}

impl MessageRange {
    /// The version of the file format.
    pub const VERSION: u16 = 2;

    /// Messages `first ..` of a board, whose clues must have the length that the parameters say.
    pub fn new(
        clue: &ClueParameters,
        board: BoardId,
        first: u64,
        messages: Vec<Message>,
    ) -> Result<Self, ClientError> {
        let expected = clue.clue_bytes();
        match messages.iter().find(|message| message.clue.len() != expected) {
            Some(message) => Err(WireError::OutOfRange {
                what: "length of a clue",
                found: message.clue.len() as u64,
                expected: expected.to_string(),
            }
            .into()),
            None => Ok(Self { board, first, messages }),
        }
    }

    /// The board that they are of: on another they would be for nobody.
    pub fn board(&self) -> &BoardId {
        &self.board
    }

    /// The indices.
    pub fn range(&self) -> Range<u64> {
        self.first..self.first.saturating_add(self.messages.len() as u64)
    }

    /// The message with an index, if it is in the range.
    pub fn get(&self, index: u64) -> Option<&Message> {
        self.messages.get(usize::try_from(index.checked_sub(self.first)?).ok()?)
    }

    /// The file: the board's id (16 bytes), first index and number of messages (64 bits each), then for each message its clue, the length of its
    /// payload (32 bits) and its payload.
    pub fn to_file(&self, clue: &ClueParameters) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.board.0);
        body.extend_from_slice(&self.first.to_le_bytes());
        body.extend_from_slice(&(self.messages.len() as u64).to_le_bytes());
        for message in &self.messages {
            body.extend_from_slice(&message.clue);
            body.extend_from_slice(&(message.payload.len() as u32).to_le_bytes());
            body.extend_from_slice(&message.payload);
        }
        Envelope { kind: Kind::Messages, version: Self::VERSION, parameters: clue.id(), body: &body }.seal()
    }

    /// Reads a file for the caller's clue parameters. Clues and payloads are not looked into.
    pub fn from_file(clue: &ClueParameters, bytes: &[u8]) -> Result<Self, ClientError> {
        let envelope = Envelope::open_as(bytes, Kind::Messages, Self::VERSION, clue.id())?;
        let mut reader = Reader::new("range of messages", envelope.body);
        let board = BoardId(reader.array()?);
        let (first, count) = (reader.u64()?, reader.u64()?);
        if first.checked_add(count).is_none() {
            let expected = format!("at most {}", u64::MAX - first);
            return Err(WireError::OutOfRange { what: "number of messages", found: count, expected }.into());
        }
        // Grows with what is read, not with what is announced.
        let mut messages = Vec::new();
        for _ in 0..count {
            let clue = reader.bytes(clue.clue_bytes())?.to_vec();
            let payload_bytes = reader.u32()? as usize;
            messages.push(Message { clue, payload: reader.bytes(payload_bytes)?.to_vec() });
        }
        reader.finish()?;
        Ok(Self { board, first, messages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUE: ClueParameters = ClueParameters::SHORT;
    const BOARD: BoardId = BoardId([3; 16]);

    fn sample() -> MessageRange {
        let message = |byte: u8| Message {
            clue: vec![byte; CLUE.clue_bytes()],
            payload: vec![byte; 3 + usize::from(byte)],
        };
        MessageRange::new(&CLUE, BOARD, 40, (0..3).map(message).collect()).unwrap()
    }

    #[test]
    fn files_read_back() {
        let range = sample();
        let read = MessageRange::from_file(&CLUE, &range.to_file(&CLUE)).unwrap();
        assert_eq!(read, range);
        assert_eq!(read.range(), 40..43);
        assert_eq!(read.get(41), range.messages.get(1));
        for index in [0, 39, 43, u64::MAX] {
            assert_eq!(read.get(index), None);
        }
        let empty = MessageRange::new(&CLUE, BOARD, 7, Vec::new()).unwrap();
        assert_eq!(MessageRange::from_file(&CLUE, &empty.to_file(&CLUE)).unwrap(), empty);
    }

    #[test]
    fn announced_counts_are_not_believed() {
        let seal = |count: u64, rest: &[u8]| {
            let body = [&BOARD.0[..], &5u64.to_le_bytes(), &count.to_le_bytes(), rest].concat();
            Envelope {
                kind: Kind::Messages,
                version: MessageRange::VERSION,
                parameters: CLUE.id(),
                body: &body,
            }
            .seal()
        };
        for (count, rest) in [(1, 0), (u64::MAX - 5, 2000), (u64::MAX, 0), (0, 1)] {
            assert!(MessageRange::from_file(&CLUE, &seal(count, &vec![0; rest])).is_err(), "{count}");
        }
        let wrong = Message { clue: vec![0; 3], payload: Vec::new() };
        assert!(MessageRange::new(&CLUE, BOARD, 0, vec![wrong]).is_err());
        let standard = sample().to_file(&ClueParameters::STANDARD);
        assert!(matches!(
            MessageRange::from_file(&CLUE, &standard),
            Err(ClientError::Wire(WireError::WrongParameters { .. }))
        ));
    }
}
