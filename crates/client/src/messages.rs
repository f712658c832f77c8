//! Consecutive messages of a board, for recipients that do not hold the board.

use std::{
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
};

use restante_clue::ClueParameters;
use restante_letter::{LetterError, Message};
use restante_wire::{
    BODY_START, Envelope, EnvelopeWriter, Kind, Reader, WireError, binding::BoardId, check_envelope,
};

/// Messages with consecutive indices.
///
/// ```
/// use restante_client::{Account, BoardId, ClueParameters, MessageRange, Period};
/// # use rand_core::SeedableRng;
/// # let mut rng = chacha20::ChaCha20Rng::from_seed([1; 32]);
///
/// let account = Account::random(ClueParameters::STANDARD, &mut rng);
/// let (sender, board) = (account.address().prepare(), BoardId([7; 16]));
/// let message = sender.write_message(&board, Period::of(1_800_000_000), b"meet at noon", &mut rng)?;
/// let range = MessageRange::new(&ClueParameters::STANDARD, board, 40, vec![message])?;
///
/// let read = MessageRange::from_file(&ClueParameters::STANDARD, &range.to_file(&ClueParameters::STANDARD))?;
/// let message = read.get(40).expect("it is the first");
/// assert_eq!(account.open(read.board(), &message.clue, &message.payload)?, b"meet at noon");
/// # Ok::<(), restante_client::LetterError>(())
/// ```
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
    ) -> Result<Self, LetterError> {
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
    pub fn from_file(clue: &ClueParameters, bytes: &[u8]) -> Result<Self, LetterError> {
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

/// Board, first index and number of messages.
const HEAD_BYTES: usize = 16 + 8 + 8;

/// Writes the file of a [`MessageRange`] message by message: it may be larger than memory.
///
/// ```
/// use std::io::Cursor;
/// use restante_client::{BoardId, ClueParameters, MessageReader, MessageWriter};
///
/// let clue = ClueParameters::STANDARD;
/// let mut writer = MessageWriter::new(Vec::new(), &clue, BoardId([7; 16]), 40, 2, 5)?;
/// writer.push(&vec![0; clue.clue_bytes()], b"one")?;
/// writer.push(&vec![0; clue.clue_bytes()], b"2.")?;
///
/// let mut reader = MessageReader::open(Cursor::new(writer.finish()?), &clue)?;
/// assert_eq!(reader.range(), 40..42);
/// assert_eq!(reader.get(41)?.expect("it is the second").payload, b"2.");
/// # std::io::Result::Ok(())
/// ```
pub struct MessageWriter<W: Write> {
    out: EnvelopeWriter<W>,
    clue_bytes: usize,
    left: u64,
}

impl<W: Write> MessageWriter<W> {
    /// For so many messages of a board from `first` on, whose payloads have so many bytes together.
    ///
    /// # Errors
    ///
    /// As `out` has them; here and in the other functions.
    pub fn new(
        out: W,
        clue: &ClueParameters,
        board: BoardId,
        first: u64,
        messages: u64,
        payload_bytes: u64,
    ) -> io::Result<Self> {
        let each = clue.clue_bytes() as u64 + 4;
        let body_bytes = messages.checked_mul(each).and_then(|bytes| bytes.checked_add(payload_bytes));
        let body_bytes = body_bytes
            .and_then(|bytes| bytes.checked_add(HEAD_BYTES as u64))
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut out = EnvelopeWriter::new(out, Kind::Messages, MessageRange::VERSION, clue.id(), body_bytes)?;
        out.write_all(&board.0)?;
        out.write_all(&first.to_le_bytes())?;
        out.write_all(&messages.to_le_bytes())?;
        Ok(Self { out, clue_bytes: clue.clue_bytes(), left: messages })
    }

    /// Writes the next message.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] for a clue of another length, or for more than was said.
    pub fn push(&mut self, clue: &[u8], payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        if clue.len() != self.clue_bytes || self.left == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.left -= 1;
        self.out.write_all(clue)?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(payload)
    }

    /// Writes the end, and gives back where it went.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if it is less than was said.
    pub fn finish(self) -> io::Result<W> {
        match self.left {
            0 => self.out.finish(),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

/// Reads single messages from the file of a [`MessageRange`], which may be larger than memory.
///
/// [`MessageWriter`] has an example.
pub struct MessageReader<R> {
    input: R,
    clue_bytes: usize,
    board: BoardId,
    range: Range<u64>,
    /// The index of the message that the input is at, and the bytes of the body that are left there.
    next: u64,
    left: u64,
    body_bytes: u64,
}

impl<R: Read + Seek> MessageReader<R> {
    /// Checks a file for the caller's clue parameters, all of it, with a fixed amount of memory.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] with a [`WireError`] inside for what is no such file, and what `input` has.
    pub fn open(mut input: R, clue: &ClueParameters) -> io::Result<Self> {
        let body_bytes = check_envelope(&mut input, Kind::Messages, MessageRange::VERSION, clue.id())?;
        let (clue_bytes, board) = (clue.clue_bytes(), BoardId([0; 16]));
        let mut reader = Self { input, clue_bytes, board, range: 0..0, next: 0, left: 0, body_bytes };
        reader.rewind()?;
        Ok(reader)
    }

    /// The board that they are of.
    pub fn board(&self) -> &BoardId {
        &self.board
    }

    /// The indices.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.input.seek(SeekFrom::Start(BODY_START))?;
        self.left = self.body_bytes;
        let mut head = [0; HEAD_BYTES];
        self.read(&mut head)?;
        let mut reader = Reader::new("range of messages", &head);
        self.board = BoardId(reader.array().map_err(refused)?);
        let (first, count) = (reader.u64().map_err(refused)?, reader.u64().map_err(refused)?);
        let Some(end) = first.checked_add(count) else {
            let (what, expected) = ("number of messages", format!("at most {}", u64::MAX - first));
            return Err(refused(WireError::OutOfRange { what, found: count, expected }));
        };
        (self.range, self.next) = (first..end, first);
        Ok(())
    }

    /// The message with an index, if it is in the range. Ascending indices are read in one pass.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] with a [`WireError`] inside for a file with less in it than it says, and what `input` has.
    pub fn get(&mut self, index: u64) -> io::Result<Option<Message>> {
        if !self.range.contains(&index) {
            return Ok(None);
        }
        if index < self.next {
            self.rewind()?;
        }
        loop {
            let found = self.next == index;
            let mut clue = vec![0; if found { self.clue_bytes } else { 0 }];
            if found {
                self.read(&mut clue)?
            } else {
                self.skip(self.clue_bytes as u64)?
            }
            let mut length = [0; 4];
            self.read(&mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            self.next += 1;
            if !found {
                self.skip(length)?;
                continue;
            }
            self.take(length)?;
            let mut payload = Vec::new();
            // Grows with what is read, not with what is announced.
            if self.input.by_ref().take(length).read_to_end(&mut payload)? as u64 != length {
                return Err(truncated(length, payload.len() as u64));
            }
            return Ok(Some(Message { clue, payload }));
        }
    }

    /// Counts bytes of the body that are about to be read.
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| truncated(bytes, self.left))?;
        Ok(())
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.take(bytes.len() as u64)?;
        self.input.read_exact(bytes)
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.take(bytes)?;
        self.input.seek_relative(i64::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?)
    }
}

fn truncated(needed: u64, left: u64) -> io::Error {
    let [needed, left] = [needed, left].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    refused(WireError::Truncated { what: "range of messages", needed, left })
}

fn refused(error: WireError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
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
            Err(LetterError::Wire(WireError::WrongParameters { .. }))
        ));
    }

    #[test]
    fn message_by_message_it_is_the_same_file() {
        let range = sample();
        let file = range.to_file(&CLUE);
        let payload_bytes = range.messages.iter().map(|message| message.payload.len() as u64).sum();
        let mut writer = MessageWriter::new(Vec::new(), &CLUE, BOARD, 40, 3, payload_bytes).unwrap();
        assert!(writer.push(&[0; 3], b"").is_err(), "a clue of another length");
        range.messages.iter().for_each(|message| writer.push(&message.clue, &message.payload).unwrap());
        assert!(writer.push(&range.messages[0].clue, b"").is_err(), "more than was said");
        assert!(writer.finish().unwrap() == file);
        assert!(
            MessageWriter::new(Vec::new(), &CLUE, BOARD, 40, 3, 9).unwrap().finish().is_err(),
            "less than was said"
        );
        assert!(MessageWriter::new(Vec::new(), &CLUE, BOARD, 40, u64::MAX, 9).is_err());

        let mut reader = MessageReader::open(io::Cursor::new(&file), &CLUE).unwrap();
        assert_eq!((reader.board(), reader.range()), (&BOARD, 40..43));
        for index in [40, 42, 41, 41, 39, 43, u64::MAX, 42] {
            assert_eq!(reader.get(index).unwrap().as_ref(), range.get(index), "{index}");
        }
        assert!(MessageReader::open(io::Cursor::new(&file[..file.len() - 1]), &CLUE).is_err());
        assert!(MessageReader::open(io::Cursor::new(&file), &ClueParameters::STANDARD).is_err());
    }

    #[test]
    fn a_reader_does_not_believe_counts_and_lengths_either() {
        let clue = vec![0; CLUE.clue_bytes()];
        let long = [&clue[..], &u32::MAX.to_le_bytes()].concat();
        for (count, rest) in [(1u64, &b""[..]), (u64::MAX - 5, &clue), (1, &long), (2, &long)] {
            let body = [&BOARD.0[..], &5u64.to_le_bytes(), &count.to_le_bytes(), rest].concat();
            let (version, parameters) = (MessageRange::VERSION, CLUE.id());
            let file = Envelope { kind: Kind::Messages, version, parameters, body: &body }.seal();
            let mut reader = MessageReader::open(io::Cursor::new(&file), &CLUE).unwrap();
            let last = reader.range().end - 1;
            let error = reader.get(last.min(7)).unwrap_err();
            assert!(error.get_ref().is_some_and(|inner| inner.is::<WireError>()), "{count}: {error}");
        }
        let body = [&BOARD.0[..], &u64::MAX.to_le_bytes(), &1u64.to_le_bytes()].concat();
        let (version, parameters) = (MessageRange::VERSION, CLUE.id());
        let file = Envelope { kind: Kind::Messages, version, parameters, body: &body }.seal();
        assert!(MessageReader::open(io::Cursor::new(&file), &CLUE).is_err());
    }
}
