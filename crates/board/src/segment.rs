//! One segment: its files mapped, its index rows, its seal.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;

use rayon::prelude::*;
use restante_wire::{Decode, Encode, Envelope, Kind, Reader, WireError};

use crate::config::VERSION;
use crate::files::{Files, Part, replace_durably};
use crate::map::Map;
use crate::{BoardConfig, BoardError, Hash};
use restante_wire::merkle::{Frontier, leaf};

/// End of the payload in the payload file, hash of the clue, hash of the payload.
pub(crate) const ROW_BYTES: u64 = 8 + 32 + 32;

/// The messages of a subtree of which the root is kept once it was needed: what a proof costs, against 8 KiB of memory for a
/// segment of the default capacity.
const CHUNK: u64 = 256;

/// A row of the index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Where the payload ends; it starts where the one before it ends.
    pub(crate) payload_end: u64,
    pub(crate) clue: Hash,
    pub(crate) payload: Hash,
}

impl Encode for Row {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.payload_end.to_le_bytes());
        out.extend_from_slice(&self.clue.0);
        out.extend_from_slice(&self.payload.0);
    }
}

impl Decode for Row {
    const WHAT: &'static str = "index row";

    fn decode((): &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { payload_end: reader.u64()?, clue: Hash(reader.array()?), payload: Hash(reader.array()?) })
    }
}

/// What the seal file of a full segment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) number: u64,
    pub(crate) messages: u32,
    pub(crate) payload_bytes: u64,
    /// The root of the segment's messages, a node of the board's tree.
    pub(crate) root: Hash,
}

impl Encode for Seal {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.messages.to_le_bytes());
        out.extend_from_slice(&self.payload_bytes.to_le_bytes());
        out.extend_from_slice(&self.root.0);
    }
}

impl Decode for Seal {
    const WHAT: &'static str = "segment seal";

    fn decode((): &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            number: reader.u64()?,
            messages: reader.u32()?,
            payload_bytes: reader.u64()?,
            root: Hash(reader.array()?),
        })
    }
}

impl Seal {
    /// The seal of a full segment whose messages have the root `root`.
    pub(crate) fn of(segment: &Segment, root: Hash) -> Self {
        Self {
            number: segment.number,
            messages: segment.messages as u32,
            payload_bytes: segment.part_bytes()[1],
            root,
        }
    }

    /// Writes the seal file, whole or not at all.
    pub(crate) fn write(&self, files: &Files, config: &BoardConfig) -> Result<(), BoardError> {
        let body = self.to_bytes();
        let envelope = Envelope {
            kind: Kind::SegmentSeal,
            version: VERSION,
            parameters: config.parameters,
            body: &body,
        };
        let path = files.segment(self.number, Part::Seal);
        replace_durably(&path, &files.segment(self.number, Part::SealDraft), &envelope.seal())
    }

    /// Reads the seal of segment `number`; None when it has none yet.
    pub(crate) fn read(files: &Files, config: &BoardConfig, number: u64) -> Result<Option<Self>, BoardError> {
        let path = files.segment(number, Part::Seal);
        let bytes = match read_small(&path, Self::FILE_BYTES) {
            Err(BoardError::Io { reason, .. }) if reason.kind() == std::io::ErrorKind::NotFound => {
                return Ok(None);
            }
            bytes => bytes?,
        };
        let seal = Envelope::open_as(&bytes, Kind::SegmentSeal, VERSION, config.parameters)
            .and_then(|envelope| Self::from_bytes(&(), envelope.body))
            .map_err(|reason| BoardError::Format { path: path.clone(), reason })?;
        if (seal.number, seal.messages) != (number, config.segment_capacity) {
            let name = |number, messages| format!("segment {number} with {messages} messages");
            return Err(BoardError::Seal {
                path,
                found: name(seal.number, seal.messages),
                expected: name(number, config.segment_capacity),
            });
        }
        Ok(Some(seal))
    }

    const FILE_BYTES: usize = 8 + 4 + 8 + 32 + Envelope::OVERHEAD_BYTES;
}

/// Reads a file of about `expected` bytes, and of a longer one only enough to show that it is longer.
pub(crate) fn read_small(path: &std::path::Path, expected: usize) -> Result<Vec<u8>, BoardError> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(expected as u64 + 1).read_to_end(&mut bytes))
        .map_err(BoardError::io("read", path))?;
    Ok(bytes)
}

/// The committed messages of one segment, mapped.
#[derive(Debug)]
pub(crate) struct Segment {
    files: Files,
    number: u64,
    first: u64,
    messages: u64,
    clue_bytes: usize,
    payload_bytes_max: u32,
    /// Whether it was opened with a seal.
    sealed: bool,
    /// The roots of the segment's chunks, computed when first asked for.
    chunks: OnceLock<Vec<Hash>>,
    clues: Map,
    payloads: Map,
    index: Map,
}

impl Segment {
    /// Maps the first `messages` messages of segment `number`, or all of the sealed segment. Nothing is hashed here.
    pub(crate) fn open(
        files: &Files,
        config: &BoardConfig,
        number: u64,
        messages: u64,
        seal: Option<&Seal>,
    ) -> Result<Self, BoardError> {
        let exact = seal.is_some();
        let index_path = files.segment(number, Part::Index);
        let index = Map::open(&index_path, messages * ROW_BYTES, exact)?;
        let payload_bytes = match seal {
            Some(seal) => seal.payload_bytes,
            None => payload_end(index.bytes(), messages),
        };
        let limit = messages * u64::from(config.payload_bytes_max);
        if payload_bytes > limit {
            return Err(BoardError::CorruptedIndex {
                path: index_path,
                index: number * u64::from(config.segment_capacity) + messages - 1,
                start: 0,
                end: payload_bytes,
                payload_bytes: limit,
                payload_bytes_max: config.payload_bytes_max,
            });
        }
        let clues = files.segment(number, Part::Clues);
        Ok(Self {
            files: files.clone(),
            number,
            first: number * u64::from(config.segment_capacity),
            messages,
            clue_bytes: config.clue_bytes as usize,
            payload_bytes_max: config.payload_bytes_max,
            sealed: exact,
            chunks: OnceLock::new(),
            clues: Map::open(&clues, messages * u64::from(config.clue_bytes), exact)?,
            payloads: Map::open(&files.segment(number, Part::Payloads), payload_bytes, exact)?,
            index,
        })
    }

    /// A full segment whose messages the board has forgotten. Nobody asks it for any: [`crate::Board`] sees to that.
    pub(crate) fn forgotten(files: &Files, config: &BoardConfig, seal: &Seal) -> Self {
        Self {
            files: files.clone(),
            number: seal.number,
            first: seal.number * u64::from(config.segment_capacity),
            messages: u64::from(seal.messages),
            clue_bytes: config.clue_bytes as usize,
            payload_bytes_max: config.payload_bytes_max,
            sealed: true,
            chunks: OnceLock::new(),
            clues: Map::empty(),
            payloads: Map::empty(),
            index: Map::empty(),
        }
    }

    /// The root over the messages at `places`, which are a subtree. Not checked against anything: the index was checked when
    /// the segment was opened or sealed.
    pub(crate) fn subtree(&self, places: Range<u64>, capacity: u64) -> Hash {
        let chunk = CHUNK.min(capacity);
        if self.messages < capacity || places.end - places.start < chunk {
            return self.root_of(places);
        }
        let chunks = self.chunks.get_or_init(|| {
            (0..self.messages / chunk).map(|i| self.root_of(i * chunk..(i + 1) * chunk)).collect()
        });
        let mut tree = Frontier::default();
        let some = chunks.get((places.start / chunk) as usize..(places.end / chunk) as usize);
        some.unwrap_or_default().iter().for_each(|root| tree.push(0, *root));
        tree.root()
    }

    fn root_of(&self, places: Range<u64>) -> Hash {
        let mut tree = Frontier::default();
        places.for_each(|place| tree.push(0, self.indexed_leaf(place)));
        tree.root()
    }

    /// The leaf that follows from the index.
    pub(crate) fn indexed_leaf(&self, place: u64) -> Hash {
        let row = row(self.index.bytes(), place);
        leaf(&row.clue, &row.payload)
    }

    /// The number of messages.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Bytes of clues, payloads and index.
    pub(crate) fn part_bytes(&self) -> [u64; 3] {
        [&self.clues, &self.payloads, &self.index].map(|map| map.bytes().len() as u64)
    }

    /// The contents of clues, payloads and index.
    pub(crate) fn parts(&self) -> [(Part, &[u8]); 3] {
        [
            (Part::Clues, self.clues.bytes()),
            (Part::Payloads, self.payloads.bytes()),
            (Part::Index, self.index.bytes()),
        ]
    }

    /// All clues, one after the other.
    pub(crate) fn clues(&self) -> &[u8] {
        self.clues.bytes()
    }

    /// The payload at `place`, if it matches its hash.
    pub(crate) fn payload(&self, place: u64) -> Result<&[u8], BoardError> {
        Ok(self.checked_payload(place)?.0)
    }

    /// The clue at `place`, if it matches its hash.
    pub(crate) fn checked_clue(&self, place: u64) -> Result<(&[u8], Hash), BoardError> {
        let start = place as usize * self.clue_bytes;
        let clue = &self.clues.bytes()[start..start + self.clue_bytes];
        let hash = Hash::of(clue);
        if hash != row(self.index.bytes(), place).clue {
            return Err(self.corrupted(Part::Clues, "clue", place));
        }
        Ok((clue, hash))
    }

    fn checked_payload(&self, place: u64) -> Result<(&[u8], Hash), BoardError> {
        let (start, row) = (payload_end(self.index.bytes(), place), row(self.index.bytes(), place));
        let (payloads, end) = (self.payloads.bytes(), row.payload_end);
        let payload = usize::try_from(start)
            .ok()
            .zip(usize::try_from(end).ok())
            .and_then(|(start, end)| payloads.get(start..end))
            .filter(|payload| payload.len() <= self.payload_bytes_max as usize)
            .ok_or_else(|| BoardError::CorruptedIndex {
                path: self.files.segment(self.number, Part::Index),
                index: self.first + place,
                start,
                end,
                payload_bytes: payloads.len() as u64,
                payload_bytes_max: self.payload_bytes_max,
            })?;
        let hash = Hash::of(payload);
        if hash != row.payload {
            return Err(self.corrupted(Part::Payloads, "payload", place));
        }
        Ok((payload, hash))
    }

    /// Checks the messages at `places` against the index, on all cores, and returns their leaves.
    pub(crate) fn leaves(&self, places: Range<u64>) -> Result<Vec<Hash>, BoardError> {
        (places.start as usize..places.end as usize)
            .into_par_iter()
            .with_min_len(16)
            .map(|place| place as u64)
            .map(|place| Ok(leaf(&self.checked_clue(place)?.1, &self.checked_payload(place)?.1)))
            .collect()
    }

    /// The path of one of the segment's files.
    pub(crate) fn path(&self, part: Part) -> PathBuf {
        self.files.segment(self.number, part)
    }

    fn corrupted(&self, part: Part, what: &'static str, place: u64) -> BoardError {
        BoardError::Corrupted { path: self.path(part), what, index: self.first + place }
    }
}

/// The row at `place` of an index that has it.
fn row(index: &[u8], place: u64) -> Row {
    let start = (place * ROW_BYTES) as usize;
    let array = |from: usize| {
        let mut hash = [0; 32];
        hash.copy_from_slice(&index[start + from..start + from + 32]);
        Hash(hash)
    };
    Row { payload_end: payload_end(index, place + 1), clue: array(8), payload: array(40) }
}

/// The bytes of the first `messages` payloads together.
fn payload_end(index: &[u8], messages: u64) -> u64 {
    let Some(place) = messages.checked_sub(1) else { return 0 };
    let start = (place * ROW_BYTES) as usize;
    let mut end = [0; 8];
    end.copy_from_slice(&index[start..start + 8]);
    u64::from_le_bytes(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_from_their_place() {
        let rows = [5, 5, 9].map(|payload_end: u64| Row {
            payload_end,
            clue: Hash::of(&payload_end.to_le_bytes()),
            payload: Hash::of(b"payload"),
        });
        let mut index = Vec::new();
        rows.iter().for_each(|row| row.encode(&mut index));
        assert_eq!(index.len() as u64, 3 * ROW_BYTES);
        for (place, expected) in rows.iter().enumerate() {
            assert_eq!(row(&index, place as u64), *expected);
            let bytes = &index[place * ROW_BYTES as usize..][..ROW_BYTES as usize];
            assert_eq!(Row::from_bytes(&(), bytes).as_ref(), Ok(expected));
        }
        assert_eq!([0, 1, 2, 3].map(|messages| payload_end(&index, messages)), [0, 5, 5, 9]);
    }
}
