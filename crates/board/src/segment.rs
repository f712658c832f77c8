//! One segment: its files mapped, its index rows, its seal.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;

use rayon::prelude::*;
use restante_wire::binding::{Binding, MessageHashes, Period};
use restante_wire::{Decode, Encode, Envelope, Kind, Reader, WireError};

use crate::config::VERSION;
use crate::files::{Files, Part, replace_durably};
use crate::map::Map;
use crate::{BoardConfig, BoardError, Hash};
use restante_wire::merkle::{Frontier, leaf};

/// The bytes of an index row: end of the payload in the payload file, period of the clue, hash of the clue's bound part, hash of the
/// payload, tail of the clue.
pub(crate) fn row_bytes(config: &BoardConfig) -> u64 {
    ROW_FIELDS_BYTES as u64 + u64::from(config.tail_bytes)
}

const ROW_FIELDS_BYTES: usize = 8 + Period::BYTES + 32 + 32;

/// The messages of a subtree of which the root is kept once it was needed: what a proof costs, against 8 KiB of memory for a
/// segment of the default capacity.
const CHUNK: u64 = 256;

/// A row of the index file. It has all that leaves, bindings and the rule for clues take, so that none of them reads clues or payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    /// Where the payload ends; it starts where the one before it ends.
    pub(crate) payload_end: u64,
    pub(crate) period: Period,
    pub(crate) hashes: MessageHashes,
    pub(crate) tail: &'a [u8],
}

impl<'a> Row<'a> {
    /// The row of a message whose clue has the right length.
    pub(crate) fn of(config: &BoardConfig, clue: &'a [u8], payload: &[u8], payload_end: u64) -> Self {
        let (bound, tail) = config.split(clue);
        let period = Period::of_clue(clue).unwrap_or(Period(0));
        Self { payload_end, period, hashes: MessageHashes::of(bound, payload), tail }
    }

    pub(crate) fn leaf(&self) -> Hash {
        leaf(&self.hashes, self.tail)
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(ROW_FIELDS_BYTES + self.tail.len());
        out.extend_from_slice(&self.payload_end.to_le_bytes());
        out.extend_from_slice(&self.period.0.to_le_bytes());
        out.extend_from_slice(&self.hashes.bound.0);
        out.extend_from_slice(&self.hashes.payload.0);
        out.extend_from_slice(self.tail);
        out
    }
}

/// The rows of an index file, at least as many as are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    bytes: &'a [u8],
    row_bytes: usize,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(config: &BoardConfig, bytes: &'a [u8]) -> Self {
        Self { bytes, row_bytes: row_bytes(config) as usize }
    }

    /// The row at `place`, which is there.
    #[inline]
    pub(crate) fn get(self, place: u64) -> Row<'a> {
        let start = place as usize * self.row_bytes;
        let bytes = &self.bytes[start..start + self.row_bytes];
        let hash = |from: usize| {
            let mut hash = [0; 32];
            hash.copy_from_slice(&bytes[from..from + 32]);
            Hash(hash)
        };
        let mut period = [0; Period::BYTES];
        period.copy_from_slice(&bytes[8..8 + Period::BYTES]);
        Row {
            payload_end: self.payload_end(place + 1),
            period: Period(u32::from_le_bytes(period)),
            hashes: MessageHashes {
                bound: hash(ROW_FIELDS_BYTES - 64),
                payload: hash(ROW_FIELDS_BYTES - 32),
            },
            tail: &bytes[ROW_FIELDS_BYTES..],
        }
    }

    /// The bytes of the first `messages` payloads together.
    fn payload_end(self, messages: u64) -> u64 {
        let Some(place) = messages.checked_sub(1) else { return 0 };
        let start = place as usize * self.row_bytes;
        let mut end = [0; 8];
        end.copy_from_slice(&self.bytes[start..start + 8]);
        u64::from_le_bytes(end)
    }
}

/// The contents of a full segment's seal file.
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
    config: BoardConfig,
    /// Whether it was opened with a seal.
    sealed: bool,
    /// The roots of the segment's chunks, computed when first asked for.
    chunks: OnceLock<Vec<Hash>>,
    clues: Map,
    payloads: Map,
    index: Map,
}

impl Segment {
    /// Maps the first `messages` messages of segment `number`, or all of the sealed segment. It hashes
    /// nothing.
    pub(crate) fn open(
        files: &Files,
        config: &BoardConfig,
        number: u64,
        messages: u64,
        seal: Option<&Seal>,
    ) -> Result<Self, BoardError> {
        let exact = seal.is_some();
        let index_path = files.segment(number, Part::Index);
        let index = Map::open(&index_path, messages * row_bytes(config), exact)?;
        let payload_bytes = match seal {
            Some(seal) => seal.payload_bytes,
            None => Rows::new(config, index.bytes()).payload_end(messages),
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
            config: *config,
            sealed: exact,
            chunks: OnceLock::new(),
            clues: Map::open(&clues, messages * u64::from(config.clue_bytes), exact)?,
            payloads: Map::open(&files.segment(number, Part::Payloads), payload_bytes, exact)?,
            index,
        })
    }

    /// A full segment whose messages the board has forgotten. [`crate::Board`] never asks it for one.
    pub(crate) fn forgotten(files: &Files, config: &BoardConfig, seal: &Seal) -> Self {
        Self {
            files: files.clone(),
            number: seal.number,
            first: seal.number * u64::from(config.segment_capacity),
            messages: u64::from(seal.messages),
            config: *config,
            sealed: true,
            chunks: OnceLock::new(),
            clues: Map::empty(),
            payloads: Map::empty(),
            index: Map::empty(),
        }
    }

    /// The index of a forgotten segment, while it is kept for the clues that the board must not take again. The seal vouches for it.
    pub(crate) fn kept_index(&self) -> Result<Option<Map>, BoardError> {
        let path = self.path(Part::Index);
        match Map::open(&path, self.messages * row_bytes(&self.config), true) {
            Err(BoardError::Io { reason, .. }) if reason.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Ok(index) => {
                let rows = Rows::new(&self.config, index.bytes());
                let mut tree = Frontier::default();
                (0..self.messages).for_each(|place| tree.push(0, rows.get(place).leaf()));
                let (found, seal) = (tree.root(), Seal::read(&self.files, &self.config, self.number)?);
                match seal {
                    Some(seal) if seal.root != found => {
                        Err(BoardError::Root { path, expected: seal.root, found })
                    }
                    _ => Ok(Some(index)),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The root over the messages at `places`, which are a subtree. It is not checked: the index was, when
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
        self.rows().get(place).leaf()
    }

    /// The rows of the index; a forgotten segment has none.
    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows::new(&self.config, self.index.bytes())
    }

    /// The binding of the clue at `place`.
    pub(crate) fn binding(&self, place: u64) -> Binding {
        self.rows().get(place).hashes.binding(&self.config.id)
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

    /// The clue at `place`, if it matches the index.
    pub(crate) fn checked_clue(&self, place: u64) -> Result<(&[u8], Hash), BoardError> {
        let clue_bytes = self.config.clue_bytes as usize;
        let start = place as usize * clue_bytes;
        let clue = &self.clues.bytes()[start..start + clue_bytes];
        let ((bound, tail), row) = (self.config.split(clue), self.rows().get(place));
        let hash = Hash::of(bound);
        let found = (Period::of_clue(clue), hash, tail);
        if found != (Some(row.period), row.hashes.bound, row.tail) {
            return Err(self.corrupted(Part::Clues, "clue", place));
        }
        Ok((clue, hash))
    }

    fn checked_payload(&self, place: u64) -> Result<(&[u8], Hash), BoardError> {
        let (start, row) = (self.rows().payload_end(place), self.rows().get(place));
        let (payloads, end) = (self.payloads.bytes(), row.payload_end);
        let payload = usize::try_from(start)
            .ok()
            .zip(usize::try_from(end).ok())
            .and_then(|(start, end)| payloads.get(start..end))
            .filter(|payload| payload.len() <= self.config.payload_bytes_max as usize)
            .ok_or_else(|| BoardError::CorruptedIndex {
                path: self.files.segment(self.number, Part::Index),
                index: self.first + place,
                start,
                end,
                payload_bytes: payloads.len() as u64,
                payload_bytes_max: self.config.payload_bytes_max,
            })?;
        let hash = Hash::of(payload);
        if hash != row.hashes.payload {
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
            .map(|place| {
                self.checked_clue(place)?;
                self.checked_payload(place)?;
                Ok(self.indexed_leaf(place))
            })
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

#[cfg(test)]
mod tests {
    use restante_wire::ParameterId;
    use restante_wire::binding::BoardId;

    use super::*;

    #[test]
    fn rows_read_back_from_their_place() {
        let config = BoardConfig::new(BoardId([1; 16]), ParameterId::NONE, 12);
        let clues = [*b"\x07\0\0\0aaa tail", *b"\x08\0\0\0bbb_liat", *b"\0\0\0\x09ccctails"];
        let rows: Vec<Row<'_>> = [5, 5, 9]
            .iter()
            .zip(&clues)
            .map(|(&payload_end, clue)| Row::of(&config, clue, b"payload", payload_end))
            .collect();
        let index: Vec<u8> = rows.iter().flat_map(|row| row.to_bytes()).collect();
        assert_eq!(index.len() as u64, 3 * row_bytes(&config));
        let read = Rows::new(&config, &index);
        for (place, expected) in rows.iter().enumerate() {
            assert_eq!(read.get(place as u64), *expected);
        }
        assert_eq!(rows.iter().map(|row| row.period.0).collect::<Vec<_>>(), [7, 8, 9 << 24]);
        assert_eq!(rows[1].hashes, MessageHashes::of(&clues[1][..7], b"payload"));
        assert_eq!(rows[1].tail, b"_liat");
        assert_eq!([0, 1, 2, 3].map(|messages| read.payload_end(messages)), [0, 5, 5, 9]);
    }
}
