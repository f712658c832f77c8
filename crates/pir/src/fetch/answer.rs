//! One server's answer.

use restante_wire::{Decode, Encode, Envelope, Kind, ParameterId, Reader, WireError};

use crate::PirError;
use crate::fetch::EpochId;
use crate::fetch::info::{MAX_RECORD_BYTES, MIN_RECORD_BYTES};
use crate::fetch::query::{QueryDigest, decode_fetches, decode_party};

/// The bytes of an answer before its shares.
pub(crate) const ANSWER_HEADER_BYTES: usize = 32 + 1 + 16 + 4 + 4;

/// One server's answer: for each fetch, the XOR of the records that the key's bits select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub(crate) epoch: EpochId,
    pub(crate) party: u8,
    pub(crate) query: QueryDigest,
    pub(crate) record_bytes: u32,
    pub(crate) shares: Vec<u8>,
}

impl Answer {
    /// The version of the format.
    pub const VERSION: u16 = 1;

    /// The epoch that it was computed from.
    pub fn epoch(&self) -> EpochId {
        self.epoch
    }

    /// The server that it is from: 0 or 1.
    pub fn party(&self) -> u8 {
        self.party
    }

    /// The number of fetches, dummies included.
    pub fn fetches(&self) -> usize {
        self.shares.len() / self.record_bytes as usize
    }

    /// The answer as a file.
    pub fn to_file(&self) -> Vec<u8> {
        let (kind, parameters, body) = (Kind::FetchAnswer, ParameterId::NONE, self.to_bytes());
        Envelope { kind, version: Self::VERSION, parameters, body: &body }.seal()
    }

    /// Reads what [`Answer::to_file`] wrote.
    ///
    /// # Errors
    ///
    /// [`PirError::Wire`].
    pub fn from_file(bytes: &[u8]) -> Result<Self, PirError> {
        let envelope = Envelope::open_as(bytes, Kind::FetchAnswer, Self::VERSION, ParameterId::NONE)?;
        Ok(Self::from_bytes(&(), envelope.body)?)
    }
}

impl Encode for Answer {
    fn encode(&self, out: &mut Vec<u8>) {
        out.reserve_exact(ANSWER_HEADER_BYTES + self.shares.len());
        encode_header(self.epoch, self.party, &self.query, self.record_bytes, self.fetches(), out);
        out.extend_from_slice(&self.shares);
    }
}

/// Writes the fields before the shares.
pub(crate) fn encode_header(
    epoch: EpochId,
    party: u8,
    query: &QueryDigest,
    record_bytes: u32,
    fetches: usize,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&epoch.0);
    out.push(party);
    out.extend_from_slice(query);
    out.extend_from_slice(&record_bytes.to_le_bytes());
    out.extend_from_slice(&(fetches as u32).to_le_bytes());
}

impl Decode for Answer {
    const WHAT: &'static str = "fetch answer";

    fn decode(_context: &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let epoch = EpochId(reader.array()?);
        let party = decode_party(reader)?;
        let query = reader.array()?;
        let record_bytes =
            reader.count("record size of a fetch answer", MIN_RECORD_BYTES..=MAX_RECORD_BYTES)?;
        let fetches = decode_fetches(reader)?;
        let shares = reader.bytes(fetches * record_bytes)?.to_vec();
        Ok(Self { epoch, party, query, record_bytes: record_bytes as u32, shares })
    }
}
