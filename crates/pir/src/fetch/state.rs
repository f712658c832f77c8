//! The state that a client keeps, and how it opens the answers.

use std::fmt;

use restante_wire::{Decode, Encode, Envelope, Kind, ParameterId, Reader, WireError};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::PirError;
use crate::fetch::EpochId;
use crate::fetch::answer::Answer;
use crate::fetch::info::{Content, MAX_RECORD_BYTES, MIN_RECORD_BYTES, RecordHasher};
use crate::fetch::query::{QueryDigest, decode_fetches};

/// A client's state between its queries and the answers: which records it wants, and their hashes. Secret.
///
/// The indices are wiped from memory when it is dropped; its `Debug` form shows none. Its file is equally long for every
/// number of real fetches in a batch.
#[derive(Clone)]
pub struct State {
    pub(crate) epoch: EpochId,
    pub(crate) record_bytes: u32,
    pub(crate) content: Content,
    /// The queries to server 0 and server 1.
    pub(crate) queries: [QueryDigest; 2],
    /// How many of the fetches are no dummies. They come first.
    pub(crate) real: u32,
    pub(crate) wanted: Zeroizing<Vec<Wanted>>,
}

/// A record that was asked for.
#[derive(Clone, Copy, Zeroize)]
pub(crate) struct Wanted {
    pub(crate) index: u64,
    pub(crate) hash: [u8; 32],
}

/// A record that was fetched, and matches its hash. Its content is wiped from memory when it is dropped: which records
/// somebody has fetched is the secret, whatever is in them.
#[derive(Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Its index in the epoch.
    pub index: u64,
    /// The record, or of a padded one the payload.
    pub content: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched").field("bytes", &self.content.len()).finish_non_exhaustive()
    }
}

impl State {
    /// The version of the format.
    pub const VERSION: u16 = 1;

    /// The epoch that was asked about.
    pub fn epoch(&self) -> EpochId {
        self.epoch
    }

    /// The number of fetches, dummies included.
    pub fn fetches(&self) -> usize {
        self.wanted.len()
    }

    /// The state as a file.
    pub fn to_file(&self) -> Zeroizing<Vec<u8>> {
        let body = Zeroizing::new(self.to_bytes());
        let (kind, parameters) = (Kind::FetchState, ParameterId::NONE);
        Zeroizing::new(Envelope { kind, version: Self::VERSION, parameters, body: &body }.seal())
    }

    /// Reads what [`State::to_file`] wrote.
    ///
    /// # Errors
    ///
    /// [`PirError::Wire`].
    pub fn from_file(bytes: &[u8]) -> Result<Self, PirError> {
        let envelope = Envelope::open_as(bytes, Kind::FetchState, Self::VERSION, ParameterId::NONE)?;
        Ok(Self::from_bytes(&(), envelope.body)?)
    }
}

/// Combines the answers of the two servers, in either order, and gives the records that were asked for, in that order, without the
/// dummies.
///
/// Every record is checked against its hash, dummies included: what a wrong answer makes the client do does not depend on
/// how many fetches were real. It may depend on which records were asked for: see docs/fetch.md.
///
/// # Errors
///
/// [`PirError::EpochMismatch`], [`PirError::SameParty`], [`PirError::OtherQuery`], [`PirError::Size`] for answers of another
/// size than asked for, [`PirError::WrongRecord`], [`PirError::Padding`].
pub fn decode(state: &State, first: &Answer, second: &Answer) -> Result<Vec<Fetched>, PirError> {
    let mut fetched = Vec::with_capacity(state.fetches());
    for (fetch, outcome) in decode_each(state, first, second)?.into_iter().enumerate() {
        if fetch < state.real as usize {
            fetched.push(outcome?);
        } else if let Err(PirError::WrongRecord { fetch }) = outcome {
            return Err(PirError::WrongRecord { fetch });
        }
    }
    Ok(fetched)
}

/// Like [`decode`], with an outcome for every fetch, dummies included: a record that a server changed costs that record and
/// not the batch.
///
/// # Errors
///
/// Those of [`decode`] that concern the whole batch; [`PirError::WrongRecord`] and [`PirError::Padding`] are of single fetches.
pub fn decode_each(
    state: &State,
    first: &Answer,
    second: &Answer,
) -> Result<Vec<Result<Fetched, PirError>>, PirError> {
    let hasher = RecordHasher::new();
    let records = combine(state, first, second)?.enumerate();
    let outcomes = records.map(|(fetch, (wanted, record))| {
        if hasher.hash(&record).0 != wanted.hash {
            return Err(PirError::WrongRecord { fetch });
        }
        let content = content(state, record).map_err(|reason| PirError::Padding { fetch, reason })?;
        Ok(Fetched { index: wanted.index, content })
    });
    Ok(outcomes.collect())
}

/// The state between queries without hashes ([`EpochInfo::query`](crate::fetch::EpochInfo::query)) and the answers. Secret.
#[derive(Debug, Clone)]
pub struct UncheckedState(pub(crate) State);

/// Combines the answers to queries without hashes, in either order, and gives what each fetch found, dummies included: none where
/// the record is not one. Either server can have changed any of them, without a trace here: a record counts only if it proves by
/// itself that it is genuine, and the client must not react to one that does not.
///
/// # Errors
///
/// Those of [`decode`] that concern the whole batch.
pub fn decode_unchecked(
    state: &UncheckedState,
    first: &Answer,
    second: &Answer,
) -> Result<Vec<Option<Zeroizing<Vec<u8>>>>, PirError> {
    let UncheckedState(state) = state;
    let records = combine(state, first, second)?;
    Ok(records.map(|(_, record)| content(state, record).ok()).collect())
}

/// The records that two answers make together, and what was asked for.
fn combine<'a>(
    state: &'a State,
    first: &'a Answer,
    second: &'a Answer,
) -> Result<impl Iterator<Item = (&'a Wanted, Zeroizing<Vec<u8>>)>, PirError> {
    for answer in [first, second] {
        if answer.epoch != state.epoch {
            let (expected, found) = (state.epoch, answer.epoch);
            return Err(PirError::EpochMismatch { what: "the answer", expected, found });
        }
    }
    if first.party == second.party {
        return Err(PirError::SameParty { party: first.party });
    }
    let size = state.record_bytes as usize;
    for answer in [first, second] {
        if answer.query != state.queries[usize::from(answer.party)] {
            return Err(PirError::OtherQuery { party: answer.party });
        }
        let sizes = [
            ("record size of the answer", answer.record_bytes as usize, size),
            ("number of fetches of the answer", answer.fetches(), state.fetches()),
        ];
        for (what, found, expected) in sizes {
            if found != expected {
                return Err(PirError::Size { what, found: found as u64, expected: expected.to_string() });
            }
        }
    }
    let shares = first.shares.chunks_exact(size).zip(second.shares.chunks_exact(size));
    Ok(state.wanted.iter().zip(shares).map(|(wanted, (first, second))| {
        let mut record = Zeroizing::new(first.to_vec());
        record.iter_mut().zip(second).for_each(|(record, byte)| *record ^= byte);
        (wanted, record)
    }))
}

fn content(state: &State, record: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    match state.content {
        Content::Raw => Ok(record),
        Content::Padded => unpad(&record),
    }
}

/// The payload of a padded record.
fn unpad(record: &[u8]) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    let (length, rest) =
        record.split_first_chunk::<{ Content::LENGTH_BYTES }>().ok_or("it is too short for a length")?;
    let length = u32::from_le_bytes(*length) as usize;
    let (payload, padding) =
        rest.split_at_checked(length).ok_or("it is shorter than the length in it says")?;
    if padding.iter().all(|&byte| byte == 0) {
        Ok(Zeroizing::new(payload.to_vec()))
    } else {
        Err("what follows its payload is not zero")
    }
}

impl Encode for State {
    fn encode(&self, out: &mut Vec<u8>) {
        // At once, so that no half-grown copy stays behind in memory.
        out.reserve_exact(32 + 4 + 1 + 2 * 16 + 4 + 4 + self.wanted.len() * 40);
        out.extend_from_slice(&self.epoch.0);
        out.extend_from_slice(&self.record_bytes.to_le_bytes());
        out.push(self.content as u8);
        self.queries.iter().for_each(|query| out.extend_from_slice(query));
        out.extend_from_slice(&self.real.to_le_bytes());
        out.extend_from_slice(&(self.wanted.len() as u32).to_le_bytes());
        for wanted in self.wanted.iter() {
            out.extend_from_slice(&wanted.index.to_le_bytes());
            out.extend_from_slice(&wanted.hash);
        }
    }
}

impl Decode for State {
    const WHAT: &'static str = "fetch state";

    fn decode(_context: &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let epoch = EpochId(reader.array()?);
        let record_bytes =
            reader.count("record size of a fetch state", MIN_RECORD_BYTES..=MAX_RECORD_BYTES)? as u32;
        let content = Content::decode(reader)?;
        let queries = [reader.array()?, reader.array()?];
        let real = reader.u32()?;
        let fetches = decode_fetches(reader)?;
        if real as usize > fetches {
            return Err(WireError::OutOfRange {
                what: "number of real fetches",
                found: real.into(),
                expected: format!("at most {fetches}, the size of the batch"),
            });
        }
        let mut wanted = Zeroizing::new(Vec::with_capacity(fetches));
        for _ in 0..fetches {
            wanted.push(Wanted { index: reader.u64()?, hash: reader.array()? });
        }
        Ok(Self { epoch, record_bytes, content, queries, real, wanted })
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("epoch", &self.epoch)
            .field("fetches", &self.fetches())
            .finish_non_exhaustive()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.real.zeroize();
    }
}

impl ZeroizeOnDrop for State {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_records_are_read_strictly() {
        assert_eq!(unpad(&[3, 0, 0, 0, b'a', b'b', b'c', 0]), Ok(b"abc".to_vec().into()));
        assert_eq!(unpad(&[0; 8]), Ok(vec![].into()));
        assert_eq!(unpad(&[4, 0, 0, 0, 1, 2, 3, 4]), Ok(vec![1, 2, 3, 4].into()));
        for wrong in [&[5, 0, 0, 0, 1, 2, 3, 4][..], &[255; 8], &[1, 0, 0, 0, 7, 0, 0, 1], &[1, 0, 0]] {
            assert!(unpad(wrong).is_err(), "{wrong:?}");
        }
    }
}
