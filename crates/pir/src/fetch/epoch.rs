//! A sealed snapshot of fixed-size records, as a server has it.

use std::path::{Path, PathBuf};

use crate::PirError;
use crate::fetch::info::{RecordHasher, records_path, table_path};
use crate::fetch::map::Map;
use crate::fetch::{EpochId, EpochInfo};

/// A sealed snapshot of fixed-size records, memory-mapped. [`EpochBuilder`](crate::fetch::EpochBuilder) makes one.
#[derive(Debug)]
pub struct Epoch {
    path: PathBuf,
    info: EpochInfo,
    id: EpochId,
    records: Map,
}

impl Epoch {
    /// Opens an epoch's directory. The header is checked, and that the file of records is as long as it says; the records
    /// themselves are not read ([`Epoch::verify`] does, and whoever fetches one checks it). A server needs no table of
    /// hashes.
    ///
    /// # Errors
    ///
    /// [`PirError::NotAnEpoch`], [`PirError::Format`], [`PirError::Length`], [`PirError::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, PirError> {
        let path = path.as_ref();
        let info = EpochInfo::read(path)?;
        let records = Map::open(&records_path(path), info.record_file_bytes())?;
        Ok(Self { path: path.into(), id: info.id(), info, records })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The epoch's header.
    pub fn info(&self) -> &EpochInfo {
        &self.info
    }

    /// The epoch's name.
    pub fn id(&self) -> EpochId {
        self.id
    }

    /// All records, one after the other.
    pub fn bytes(&self) -> &[u8] {
        self.records.bytes()
    }

    /// Record `index`, or `None` behind the last.
    pub fn record(&self, index: u64) -> Option<&[u8]> {
        if index >= self.info.records {
            return None;
        }
        let size = self.info.record_bytes();
        self.bytes().get(index as usize * size..)?.get(..size)
    }

    /// Checks every record against its hash in the table, and the table against the root.
    ///
    /// # Errors
    ///
    /// [`PirError::Record`] for the first record that does not match, [`PirError::Root`], [`PirError::Length`],
    /// [`PirError::Io`].
    pub fn verify(&self) -> Result<(), PirError> {
        let table = Map::open(&table_path(&self.path), self.info.table_bytes())?;
        check_table(&self.info, &table)?;
        let hasher = RecordHasher::new();
        let records = self.bytes().chunks_exact(self.info.record_bytes());
        for (index, (record, hash)) in (0u64..).zip(records.zip(table.bytes().as_chunks::<32>().0)) {
            if hasher.hash(record).0 != *hash {
                return Err(PirError::Record { path: self.records.path().into(), index });
            }
        }
        Ok(())
    }
}

/// Checks a table of hashes against the root.
pub(crate) fn check_table(info: &EpochInfo, table: &Map) -> Result<(), PirError> {
    if info.has_table(table.bytes()) { Ok(()) } else { Err(PirError::Root { path: table.path().into() }) }
}
