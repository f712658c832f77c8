//! The head file: two slots that are written in turn, so that one of them is always whole.
//!
//! A slot holds its head twice. A write that was cut short leaves neither copy valid or the first one only; a bit that
//! flips later leaves the other copy, so that damage to the newest head is not mistaken for a commit that never was.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use restante_wire::binding::BoardId;
use restante_wire::{Decode, Encode, Envelope, Kind, ParameterId, Reader, WireError};

use crate::config::VERSION;
use crate::{BoardError, Hash};

const SLOT_BYTES: usize = 4096;
const COPY_BYTES: usize = SLOT_BYTES / 2;
pub(crate) const HEAD_FILE_BYTES: usize = 2 * SLOT_BYTES;
/// Sequence number, count and root, in an envelope.
const BODY_BYTES: usize = 8 + 8 + 32;
const ENVELOPE_BYTES: usize = BODY_BYTES + Envelope::OVERHEAD_BYTES;
/// A reader finds no valid slot if the writer commits twice while it reads; that it does so ever again is damage.
const ATTEMPTS: usize = 100;

/// A board's contents, in a form to compare, sign and remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The board.
    pub board: BoardId,
    /// The number of committed messages.
    pub count: u64,
    /// The root of the Merkle tree over them.
    pub root: Hash,
    /// The parameter set of the board.
    pub parameters: ParameterId,
}

/// A head as the head file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadRecord {
    /// The number of the commit.
    pub(crate) sequence: u64,
    pub(crate) count: u64,
    pub(crate) root: Hash,
}

impl Encode for HeadRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.root.0);
    }
}

impl Decode for HeadRecord {
    const WHAT: &'static str = "board head";

    fn decode((): &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { sequence: reader.u64()?, count: reader.u64()?, root: Hash(reader.array()?) })
    }
}

impl HeadRecord {
    fn to_slot(self, parameters: ParameterId) -> Vec<u8> {
        let body = self.to_bytes();
        let copy = Envelope { kind: Kind::BoardHead, version: VERSION, parameters, body: &body }.seal();
        let mut slot = vec![0; SLOT_BYTES];
        slot[..ENVELOPE_BYTES].copy_from_slice(&copy);
        slot[COPY_BYTES..COPY_BYTES + ENVELOPE_BYTES].copy_from_slice(&copy);
        slot
    }

    fn from_copy(copy: &[u8], parameters: ParameterId) -> Option<Self> {
        let envelope = Envelope::open_as(copy, Kind::BoardHead, VERSION, parameters).ok()?;
        Self::from_bytes(&(), envelope.body).ok()
    }
}

/// The contents of a new head file.
pub(crate) fn first_head_file(parameters: ParameterId) -> Vec<u8> {
    head_file(HeadRecord { sequence: 0, count: 0, root: Hash::of(&[]) }, parameters)
}

/// The contents of a head file that has one head only.
pub(crate) fn head_file(head: HeadRecord, parameters: ParameterId) -> Vec<u8> {
    let offset = (head.sequence % 2) as usize * SLOT_BYTES;
    let mut bytes = vec![0; HEAD_FILE_BYTES];
    bytes[offset..offset + SLOT_BYTES].copy_from_slice(&head.to_slot(parameters));
    bytes
}

/// Writes one slot.
fn write_slot(
    file: &mut File,
    path: &Path,
    head: HeadRecord,
    parameters: ParameterId,
) -> Result<(), BoardError> {
    let slot = head.to_slot(parameters);
    let offset = (head.sequence % 2) * SLOT_BYTES as u64;
    file.seek(SeekFrom::Start(offset)).map_err(BoardError::io("write", path))?;
    file.write_all(&slot).map_err(BoardError::io("write", path))
}

/// Opens the head file for [`publish`].
pub(crate) fn open_for_writing(path: &Path) -> Result<File, BoardError> {
    OpenOptions::new().write(true).open(path).map_err(BoardError::io("open", path))
}

/// Makes `head` the newest one, durably. When this fails, the newest is this or the one before.
pub(crate) fn publish(
    file: &mut File,
    path: &Path,
    head: HeadRecord,
    parameters: ParameterId,
) -> Result<(), BoardError> {
    write_slot(file, path, head, parameters)?;
    file.sync_data().map_err(BoardError::io("sync", path))
}

/// The newest head, and for each of its two copies whether it is intact.
pub(crate) fn read(path: &Path, parameters: ParameterId) -> Result<(HeadRecord, [bool; 2]), BoardError> {
    for _ in 0..ATTEMPTS {
        let file = File::open(path).map_err(BoardError::io("open", path))?;
        let mut bytes = Vec::with_capacity(HEAD_FILE_BYTES + 1);
        let limit = HEAD_FILE_BYTES as u64 + 1;
        (&file).take(limit).read_to_end(&mut bytes).map_err(BoardError::io("read", path))?;
        if bytes.len() != HEAD_FILE_BYTES {
            // The file never changes its length, so this is no torn write.
            let found = file.metadata().map_err(BoardError::io("inspect", path))?.len();
            return Err(BoardError::Length {
                path: path.into(),
                expected: HEAD_FILE_BYTES as u64,
                or_more: false,
                found,
            });
        }
        if let Some(newest) = newest(&bytes, parameters) {
            return Ok(newest);
        }
        std::thread::yield_now();
    }
    Err(BoardError::NoHead { path: path.into() })
}

/// The newest head, if both of its copies are intact. The first copy may be valid while the second is being written.
pub(crate) fn read_intact(path: &Path, parameters: ParameterId) -> Result<HeadRecord, BoardError> {
    let mut damaged = 0;
    for _ in 0..ATTEMPTS {
        let (head, intact) = read(path, parameters)?;
        match intact.iter().position(|intact| !intact) {
            None => return Ok(head),
            Some(copy) => damaged = copy,
        }
        std::thread::yield_now();
    }
    Err(BoardError::HeadCopy { path: path.into(), copy: damaged })
}

/// Waits until the head that [`read`] returned is durable. The writer may have written it and not synced it yet; a
/// reader that told others about it before a power cut would have told them about messages that never were.
pub(crate) fn wait_until_durable(path: &Path) -> Result<(), BoardError> {
    if !cfg!(unix) {
        return Ok(());
    }
    let file = File::open(path).map_err(BoardError::io("open", path))?;
    match file.sync_data() {
        // What some file systems say that have nothing to sync.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        result => result.map_err(BoardError::io("sync", path)),
    }
}

fn newest(bytes: &[u8], parameters: ParameterId) -> Option<(HeadRecord, [bool; 2])> {
    let slots = [0, SLOT_BYTES].map(|slot| {
        let copies = [0, COPY_BYTES].map(|copy| {
            let start = slot + copy;
            HeadRecord::from_copy(&bytes[start..start + ENVELOPE_BYTES], parameters)
        });
        let head = copies[0].or(copies[1])?;
        let expected = head.to_slot(parameters);
        let intact = [0, COPY_BYTES]
            .map(|copy| bytes[slot + copy..slot + copy + COPY_BYTES] == expected[copy..copy + COPY_BYTES]);
        Some((head, intact))
    });
    slots.into_iter().flatten().max_by_key(|(head, _)| head.sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: ParameterId = ParameterId([7; 8]);

    fn record(sequence: u64) -> HeadRecord {
        HeadRecord { sequence, count: sequence * 10, root: Hash::of(&sequence.to_le_bytes()) }
    }

    fn file_of(sequences: [u64; 2]) -> Vec<u8> {
        let mut bytes = record(sequences[0]).to_slot(PARAMETERS);
        bytes.extend(record(sequences[1]).to_slot(PARAMETERS));
        bytes
    }

    #[test]
    fn a_torn_write_leaves_the_head_before_or_after_it() {
        let (before, after) = (file_of([4, 3]), file_of([4, 5]));
        for written in 0..=SLOT_BYTES {
            let mut bytes = before.clone();
            bytes[SLOT_BYTES..SLOT_BYTES + written].copy_from_slice(&after[SLOT_BYTES..SLOT_BYTES + written]);
            let (head, _) = newest(&bytes, PARAMETERS).unwrap();
            assert_eq!(head, record(if written < ENVELOPE_BYTES { 4 } else { 5 }), "{written} bytes written");
        }
    }

    #[test]
    fn one_flipped_bit_does_not_hide_the_newest_head() {
        let bytes = file_of([4, 5]);
        for bit in SLOT_BYTES * 8..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let (head, intact) = newest(&changed, PARAMETERS).unwrap();
            assert_eq!(head, record(5));
            assert_eq!(intact, [bit / 8 >= SLOT_BYTES + COPY_BYTES, bit / 8 < SLOT_BYTES + COPY_BYTES]);
        }
        assert_eq!(newest(&bytes, PARAMETERS), Some((record(5), [true, true])));
        assert_eq!(newest(&bytes, ParameterId::NONE), None);
        assert_eq!(newest(&[0; HEAD_FILE_BYTES], PARAMETERS), None);
    }
}
