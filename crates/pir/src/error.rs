use std::io;
#[cfg(feature = "server")]
use std::path::Path;
use std::path::PathBuf;

use restante_bfv::BfvError;
#[cfg(feature = "server")]
use restante_board::BoardError;
use restante_dpf::DpfError;
use restante_wire::WireError;
use thiserror::Error;

use crate::fetch::EpochId;

/// Why something was refused. No variant carries an index that a client wants.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PirError {
    /// The operating system refused.
    #[error("cannot {action} {}: {reason}", .path.display())]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// A file of an epoch cannot be read.
    #[error("{}: {reason}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: WireError,
    },
    /// The directory holds no epoch.
    #[error("{} is not an epoch: there is no file \"epoch\" in it", .path.display())]
    NotAnEpoch {
        /// The directory.
        path: PathBuf,
    },
    /// An epoch is sealed: it can be made under a new name only.
    #[error("cannot make an epoch at {}: expected a name that is not in use", .path.display())]
    Exists {
        /// Where it was to be.
        path: PathBuf,
    },
    /// A file has not the length that the epoch gives it.
    #[error("{} has {found} bytes, expected {expected}", .path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The length that follows from the number and the size of the records.
        expected: u64,
        /// The length found.
        found: u64,
    },
    /// The table of hashes does not hash to the epoch's root.
    #[error("{} is corrupted: its hashes do not combine to the root in the epoch's file", .path.display())]
    Root {
        /// The table of hashes.
        path: PathBuf,
    },
    /// A table of hashes that came from somewhere does not hash to the epoch's root.
    #[error("the table of hashes is not that of epoch {epoch}: its hashes do not combine to the root")]
    ForeignTable {
        /// The epoch.
        epoch: EpochId,
    },
    /// A record of an epoch does not match its hash.
    #[error("{} is corrupted: record {index} does not match its hash", .path.display())]
    Record {
        /// The file of records.
        path: PathBuf,
        /// The record's index.
        index: u64,
    },
    /// A size outside its limits.
    #[error("{what} is {found}, expected {expected}")]
    Size {
        /// The thing that has that size.
        what: &'static str,
        /// The size found.
        found: u64,
        /// The values that are right.
        expected: String,
    },
    /// A source of records does not fit the record size.
    #[error("record {record}: {reason}")]
    Source {
        /// The record's index in the epoch to be.
        record: u64,
        /// The mistake, and what was expected.
        reason: String,
    },
    /// Something belongs to another epoch.
    #[error("{what} is for epoch {found}, expected {expected}")]
    EpochMismatch {
        /// "the query" or "the answer".
        what: &'static str,
        /// The epoch that was expected.
        expected: EpochId,
        /// The epoch found.
        found: EpochId,
    },
    /// An index that the client asks for lies outside the epoch. The index is withheld.
    #[error("an index lies outside the epoch of {records} records")]
    IndexOutside {
        /// The number of records.
        records: u64,
    },
    /// Two answers of the same server do not open anything.
    #[error("both answers are from server {party}, expected one from each")]
    SameParty {
        /// The server: 0 or 1.
        party: u8,
    },
    /// The answer was computed for another query than the one that the state is kept for.
    #[error("the answer of server {party} is to another query")]
    OtherQuery {
        /// The server: 0 or 1.
        party: u8,
    },
    /// The answers do not combine to the record with the hash that the epoch states: one of the servers has other records or
    /// lies.
    #[error(
        "fetch {fetch} of the batch does not match the epoch's hash: at least one server's answer is wrong"
    )]
    WrongRecord {
        /// The place in the batch, not the record's index.
        fetch: usize,
    },
    /// A record that should hold a length and a payload does not.
    #[error("fetch {fetch} of the batch is no padded payload: {reason}")]
    Padding {
        /// The place in the batch.
        fetch: usize,
        /// The reason.
        reason: &'static str,
    },
    /// A selector is in a query twice. The selector is withheld.
    #[error("selectors {first} and {second} of the query are the same, counted from 0")]
    SameSelector {
        /// The place of the first.
        first: usize,
        /// The place of the second.
        second: usize,
    },
    /// No hash key puts a query's selectors into different buckets.
    #[error(
        "no key was found that puts {selectors} selectors into different ones of 2^{bits} buckets: ask in several queries or use \
         more hash bits"
    )]
    Crowded {
        /// The number of selectors.
        selectors: usize,
        /// The number of hash bits.
        bits: u32,
    },
    /// The fields of a record do not fit their layout. Their contents are withheld.
    #[error("field {field:?}: {reason}")]
    Field {
        /// The field's name.
        field: String,
        /// The mistake, and what was expected.
        reason: String,
    },
    /// The bytes that a search brought back for a selector are no bucket.
    #[error("the bucket of selector {selector} of the query is damaged: {reason}")]
    Bucket {
        /// The place of the selector in the query, counted from 0.
        selector: usize,
        /// The reason.
        reason: String,
    },
    /// The answer was computed for another query than the one that the state is kept for.
    #[error("the answer is to another search than the state's")]
    OtherSearch,
    /// A ciphertext of an answer holds no words.
    #[error("column {column} of the answer does not decrypt: the responder's work or the file is wrong")]
    Noise {
        /// The column, counted from 0.
        column: u32,
    },
    /// Lattice parameters or keys do not fit.
    #[error(transparent)]
    Bfv(#[from] BfvError),
    /// A query, an answer or a state is malformed.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A key cannot be made or evaluated.
    #[error(transparent)]
    Dpf(#[from] DpfError),
    /// The board cannot be read.
    #[cfg(feature = "server")]
    #[error(transparent)]
    Board(#[from] BoardError),
}

#[cfg(feature = "server")]
impl PirError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |reason| Self::Io { action, path, reason }
    }
}
