//! The header of an epoch: the size and number of its records, and the root of their hashes.

use std::fmt;
#[cfg(feature = "server")]
use std::fs::File;
#[cfg(feature = "server")]
use std::io::{ErrorKind, Read};
#[cfg(feature = "server")]
use std::path::{Path, PathBuf};

use restante_dpf::{Bits, Parameters, Variant};
use restante_wire::merkle::{Frontier, Hash};
use restante_wire::{Decode, Encode, Envelope, Kind, ParameterId, Reader, WireError};

use crate::PirError;

/// The shortest record in bytes.
pub const MIN_RECORD_BYTES: u32 = 8;
/// The longest record in bytes.
pub const MAX_RECORD_BYTES: u32 = 1 << 16;
/// The most records of an epoch.
pub const MAX_RECORDS: u64 = 1 << 32;

/// The largest file "epoch": one root for each bit of the number of records.
#[cfg(feature = "server")]
const MAX_INFO_BYTES: u64 = (13 + 33 * 32 + Envelope::OVERHEAD_BYTES) as u64;

/// Names an epoch by its contents: two epochs with the same id have the same records.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EpochId(pub [u8; 32]);

impl fmt::Display for EpochId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for EpochId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochId({self})")
    }
}

/// The meaning of a record's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Content {
    /// Whatever was put in, of exactly the record's size.
    Raw = 0,
    /// The length of a payload in four bytes, little-endian, the payload, and zeros.
    Padded = 1,
}

impl Content {
    /// The bytes of a padded record that hold the payload's length.
    pub const LENGTH_BYTES: usize = 4;

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match reader.u8()? {
            0 => Ok(Self::Raw),
            1 => Ok(Self::Padded),
            found => Err(WireError::OutOfRange {
                what: "content of an epoch's records",
                found: found.into(),
                expected: "0 (raw) or 1 (padded payloads)".into(),
            }),
        }
    }
}

/// An epoch without its records: a client and a server must agree on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochInfo {
    pub(crate) record_bytes: u32,
    pub(crate) content: Content,
    pub(crate) records: u64,
    pub(crate) frontier: Frontier,
}

impl EpochInfo {
    /// The version of an epoch's layout.
    pub const VERSION: u16 = 1;

    /// The size of every record in bytes.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes as usize
    }

    /// The number of records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The meaning of the records' bytes.
    pub fn content(&self) -> Content {
        self.content
    }

    /// The root of the hash tree over the records.
    pub fn root(&self) -> Hash {
        self.frontier.root()
    }

    /// The epoch's name: the hash of everything above.
    pub fn id(&self) -> EpochId {
        let mut hasher = blake3::Hasher::new_derive_key("restante/1/fetch/epoch");
        hasher.update(&self.record_bytes.to_le_bytes());
        hasher.update(&[self.content as u8]);
        hasher.update(&self.records.to_le_bytes());
        hasher.update(&self.root().0);
        EpochId(*hasher.finalize().as_bytes())
    }

    /// The parameters of a query's keys.
    pub(crate) fn key_parameters(&self) -> Result<Parameters<Bits>, PirError> {
        Ok(Parameters::new(self.records, Bits, Variant::HalfTree)?)
    }

    /// The size in bytes of the table of hashes.
    pub fn table_bytes(&self) -> u64 {
        self.records * 32
    }

    /// Whether hashes, one after the other, are those of the epoch's records.
    pub(crate) fn has_table(&self, table: &[u8]) -> bool {
        let (hashes, rest) = table.as_chunks::<32>();
        let mut frontier = Frontier::default();
        hashes.iter().for_each(|hash| frontier.push(0, Hash(*hash)));
        rest.is_empty() && hashes.len() as u64 == self.records && frontier == self.frontier
    }

    #[cfg(feature = "server")]
    pub(crate) fn record_file_bytes(&self) -> u64 {
        self.records * u64::from(self.record_bytes)
    }

    /// The contents of the file "epoch".
    pub fn to_file(&self) -> Vec<u8> {
        let (kind, parameters, body) = (Kind::FetchEpoch, ParameterId::NONE, self.to_bytes());
        Envelope { kind, version: Self::VERSION, parameters, body: &body }.seal()
    }

    /// Reads what [`EpochInfo::to_file`] wrote.
    ///
    /// # Errors
    ///
    /// [`PirError::Wire`].
    pub fn from_file(bytes: &[u8]) -> Result<Self, PirError> {
        let envelope = Envelope::open_as(bytes, Kind::FetchEpoch, Self::VERSION, ParameterId::NONE)?;
        Ok(Self::from_bytes(&(), envelope.body)?)
    }

    /// Reads the file "epoch" of a directory.
    #[cfg(feature = "server")]
    pub(crate) fn read(directory: &Path) -> Result<Self, PirError> {
        let path = info_path(directory);
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound && directory.is_dir() => {
                return Err(PirError::NotAnEpoch { path: directory.into() });
            }
            file => file.map_err(PirError::io("open", &path))?,
        };
        let mut bytes = Vec::new();
        file.take(MAX_INFO_BYTES + 1).read_to_end(&mut bytes).map_err(PirError::io("read", &path))?;
        Self::from_file(&bytes).map_err(|error| match error {
            PirError::Wire(reason) => PirError::Format { path, reason },
            other => other,
        })
    }
}

impl Encode for EpochInfo {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.record_bytes.to_le_bytes());
        out.push(self.content as u8);
        out.extend_from_slice(&self.records.to_le_bytes());
        self.frontier.peaks().for_each(|peak| out.extend_from_slice(&peak.0));
    }
}

impl Decode for EpochInfo {
    const WHAT: &'static str = "fetch epoch";

    fn decode(_context: &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let record_bytes =
            reader.count("record size of an epoch", MIN_RECORD_BYTES..=MAX_RECORD_BYTES)? as u32;
        let content = Content::decode(reader)?;
        let records = reader.u64()?;
        let outside = || WireError::OutOfRange {
            what: "number of records of an epoch",
            found: records,
            expected: format!("1 to {MAX_RECORDS}"),
        };
        if !(1..=MAX_RECORDS).contains(&records) {
            return Err(outside());
        }
        let peaks = (0..records.count_ones()).map(|_| Ok(Hash(reader.array()?)));
        let peaks = peaks.collect::<Result<Vec<_>, WireError>>()?;
        let frontier = Frontier::from_peaks(records, &peaks).ok_or_else(outside)?;
        Ok(Self { record_bytes, content, records, frontier })
    }
}

/// Checks a record size.
#[cfg(feature = "server")]
pub(crate) fn check_record_bytes(found: usize) -> Result<u32, PirError> {
    let fits =
        u32::try_from(found).ok().filter(|bytes| (MIN_RECORD_BYTES..=MAX_RECORD_BYTES).contains(bytes));
    fits.ok_or_else(|| PirError::Size {
        what: "record size in bytes",
        found: found as u64,
        expected: format!("{MIN_RECORD_BYTES} to {MAX_RECORD_BYTES}"),
    })
}

/// The hash of a record, a leaf of the tree: BLAKE3 keyed with the hash of a name, which keeps leaves apart from nodes.
#[derive(Debug)]
pub(crate) struct RecordHasher([u8; 32]);

impl RecordHasher {
    pub(crate) fn new() -> Self {
        Self(*blake3::hash(b"restante/1/fetch/record").as_bytes())
    }

    pub(crate) fn hash(&self, record: &[u8]) -> Hash {
        Hash(*blake3::keyed_hash(&self.0, record).as_bytes())
    }
}

#[cfg(feature = "server")]
pub(crate) fn info_path(directory: &Path) -> PathBuf {
    directory.join("epoch")
}

#[cfg(feature = "server")]
pub(crate) fn table_path(directory: &Path) -> PathBuf {
    directory.join("hashes")
}

#[cfg(feature = "server")]
pub(crate) fn records_path(directory: &Path) -> PathBuf {
    directory.join("records")
}
