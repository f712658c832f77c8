//! The query that a client sends to one server.

use restante_dpf::{Bits, DpfKey, Variant};
use restante_wire::{Decode, Encode, Envelope, Kind, ParameterId, Reader, WireError};

use crate::PirError;
use crate::fetch::EpochId;

/// The most fetches of one query.
pub const MAX_FETCHES: usize = 1024;

/// The bytes of a query before its keys.
pub(crate) const QUERY_HEADER_BYTES: usize = 32 + 1 + 4;

/// The hash by which an answer says which query it is to.
pub(crate) type QueryDigest = [u8; 16];

/// A query to one server: a key for each fetch. It hides from that server which records are fetched, and how
/// many of the fetches are real.
///
/// The two queries of a pair are for different servers. Both together reveal the indices.
#[derive(Debug, Clone)]
pub struct Query {
    epoch: EpochId,
    party: u8,
    keys: Vec<DpfKey<Bits>>,
    digest: QueryDigest,
}

impl Query {
    /// The version of the format.
    pub const VERSION: u16 = 1;

    /// `keys` are all for `party`, and there are 1 to [`MAX_FETCHES`].
    pub(crate) fn new(epoch: EpochId, party: u8, keys: Vec<DpfKey<Bits>>) -> Self {
        let mut query = Self { epoch, party, keys, digest: [0; 16] };
        let mut hasher = blake3::Hasher::new_derive_key("restante/1/fetch/query");
        hasher.update(&query.to_bytes());
        query.digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        query
    }

    /// The epoch that it asks about.
    pub fn epoch(&self) -> EpochId {
        self.epoch
    }

    /// The server that it is for: 0 or 1.
    pub fn party(&self) -> u8 {
        self.party
    }

    /// The number of fetches, dummies included.
    pub fn fetches(&self) -> usize {
        self.keys.len()
    }

    /// The number of records that the keys are for.
    #[cfg(feature = "server")]
    pub(crate) fn records(&self) -> u64 {
        self.keys.first().map_or(0, |key| key.parameters().domain())
    }

    #[cfg(feature = "server")]
    pub(crate) fn keys(&self) -> &[DpfKey<Bits>] {
        &self.keys
    }

    pub(crate) fn digest(&self) -> QueryDigest {
        self.digest
    }

    /// The query as a file.
    pub fn to_file(&self) -> Vec<u8> {
        let (kind, parameters, body) = (Kind::FetchQuery, ParameterId::NONE, self.to_bytes());
        Envelope { kind, version: Self::VERSION, parameters, body: &body }.seal()
    }

    /// Reads what [`Query::to_file`] wrote.
    ///
    /// # Errors
    ///
    /// [`PirError::Wire`]: also for keys of different parties or for different numbers of records.
    pub fn from_file(bytes: &[u8]) -> Result<Self, PirError> {
        let envelope = Envelope::open_as(bytes, Kind::FetchQuery, Self::VERSION, ParameterId::NONE)?;
        Ok(Self::from_bytes(&(), envelope.body)?)
    }
}

impl Encode for Query {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.epoch.0);
        out.push(self.party);
        out.extend_from_slice(&(self.keys.len() as u32).to_le_bytes());
        self.keys.iter().for_each(|key| key.encode(out));
    }
}

impl Decode for Query {
    const WHAT: &'static str = "fetch query";

    fn decode(_context: &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let epoch = EpochId(reader.array()?);
        let party = decode_party(reader)?;
        let fetches = decode_fetches(reader)?;
        let mut keys: Vec<DpfKey<Bits>> = Vec::new();
        for _ in 0..fetches {
            let key: DpfKey<Bits> = Decode::decode(&(), reader)?;
            if key.party() != party {
                return Err(WireError::OutOfRange {
                    what: "party of a key of a fetch query",
                    found: key.party().into(),
                    expected: format!("{party}, the query's"),
                });
            }
            let domain = keys.first().map_or(key.parameters().domain(), |key| key.parameters().domain());
            if key.parameters().domain() != domain {
                return Err(WireError::OutOfRange {
                    what: "number of records of a key of a fetch query",
                    found: key.parameters().domain(),
                    expected: format!("{domain}, as for the first key"),
                });
            }
            if key.parameters().variant() != Variant::HalfTree {
                return Err(WireError::OutOfRange {
                    what: "variant of a key of a fetch query",
                    found: key.parameters().variant() as u64,
                    expected: format!("{} (half-tree)", Variant::HalfTree as u8),
                });
            }
            keys.push(key);
        }
        Ok(Self::new(epoch, party, keys))
    }
}

/// Checks the size of a batch.
pub(crate) fn check_fetches(found: usize) -> Result<(), PirError> {
    match found {
        1..=MAX_FETCHES => Ok(()),
        _ => Err(PirError::Size {
            what: "number of fetches of a query",
            found: found as u64,
            expected: format!("1 to {MAX_FETCHES}"),
        }),
    }
}

pub(crate) fn decode_fetches(reader: &mut Reader<'_>) -> Result<usize, WireError> {
    reader.count("number of fetches", 1..=MAX_FETCHES as u32)
}

pub(crate) fn decode_party(reader: &mut Reader<'_>) -> Result<u8, WireError> {
    match reader.u8()? {
        party @ 0..=1 => Ok(party),
        found => {
            Err(WireError::OutOfRange { what: "server", found: found.into(), expected: "0 or 1".into() })
        }
    }
}
