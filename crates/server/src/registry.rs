//! The registry: what a relay knows besides the board, in an embedded database.
//!
//! Every write is one transaction and durable when it returns. After a failure of the disk the database refuses to go on, as it
//! should; it is opened again, which takes it back to the last transaction.

use std::path::{Path, PathBuf};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use restante_wire::merkle::Hash;
use serde::{Serialize, de::DeserializeOwned};

use crate::ServerError;
use crate::locks;
use crate::refusal::Answer;

/// Id of a message: index, leaf, time.
const IDS: TableDefinition<&[u8; 16], (u64, &[u8; 32], u64)> = TableDefinition::new("ids");
/// The same by index.
const ID_OF_INDEX: TableDefinition<u64, &[u8; 16]> = TableDefinition::new("id_of_index");
/// Registration id: registration, as JSON.
const REGISTRATIONS: TableDefinition<&[u8; 16], &[u8]> = TableDefinition::new("registrations");
/// Registration id and job id: job, as JSON.
const JOBS: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("jobs");
/// Id of a credential: credential, as JSON.
const CREDENTIALS: TableDefinition<&[u8; 16], &[u8]> = TableDefinition::new("credentials");
/// Number of a segment: when it was full.
const SEGMENT_TIMES: TableDefinition<u64, u64> = TableDefinition::new("segment_times");

/// The entry of a message's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdEntry {
    pub(crate) id: [u8; 16],
    pub(crate) index: u64,
    pub(crate) leaf: Hash,
    pub(crate) time: u64,
}

/// The tables whose rows are JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a, T> {
    Put(&'a T),
    Remove,
}

#[derive(Debug)]
pub(crate) struct Registry {
    path: PathBuf,
    /// None while it cannot be opened.
    database: RwLock<Option<Database>>,
    /// Whether the last failure was for want of space.
    full: AtomicBool,
}

type Stored<T> = Result<T, redb::Error>;

impl Registry {
    pub(crate) fn open(path: &Path) -> Result<Self, ServerError> {
        let this = Self { path: path.into(), database: RwLock::new(None), full: AtomicBool::new(false) };
        *locks::write(&this.database) = Some(this.open_database()?);
        this.write(|transaction| {
            transaction.open_table(IDS)?;
            transaction.open_table(ID_OF_INDEX)?;
            transaction.open_table(REGISTRATIONS)?;
            transaction.open_table(JOBS)?;
            transaction.open_table(CREDENTIALS)?;
            transaction.open_table(SEGMENT_TIMES)?;
            Ok(())
        })?;
        Ok(this)
    }

    fn open_database(&self) -> Result<Database, ServerError> {
        let database = Database::builder().set_cache_size(64 << 20).create(&self.path);
        database.map_err(|error| self.failed(&error.into()))
    }

    fn failed(&self, error: &redb::Error) -> ServerError {
        let full = match error {
            redb::Error::Io(error) => crate::error::is_full(error),
            // Somebody else's write failed, and the database has not been opened again yet.
            redb::Error::PreviousIo => self.full.load(Ordering::Relaxed),
            _ => false,
        };
        self.full.store(full, Ordering::Relaxed);
        ServerError::Registry { path: self.path.clone(), reason: error.to_string(), full }
    }

    /// One durable transaction: all of `change` or nothing.
    fn write<T>(&self, change: impl FnOnce(&WriteTransaction) -> Stored<T>) -> Result<T, ServerError> {
        self.attempt(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_two_phase_commit(false);
            let value = change(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })
    }

    fn read<T>(&self, query: impl FnOnce(&ReadTransaction) -> Stored<T>) -> Result<T, ServerError> {
        self.attempt(|database| query(&database.begin_read()?))
    }

    fn attempt<T>(&self, work: impl FnOnce(&Database) -> Stored<T>) -> Result<T, ServerError> {
        let needs_opening = locks::read(&self.database).is_none();
        if needs_opening {
            let mut database = locks::write(&self.database);
            if database.is_none() {
                *database = Some(self.open_database()?);
            }
        }
        let outcome = match &*locks::read(&self.database) {
            Some(database) => work(database),
            None => Err(redb::Error::PreviousIo),
        };
        outcome.map_err(|error| {
            if matches!(error, redb::Error::Io(_) | redb::Error::PreviousIo) {
                *locks::write(&self.database) = None;
            }
            self.failed(&error)
        })
    }

    /// The entries of some ids, in their order.
    pub(crate) fn ids(&self, ids: &[[u8; 16]]) -> Result<Vec<Option<IdEntry>>, ServerError> {
        self.read(|transaction| {
            let table = transaction.open_table(IDS)?;
            ids.iter()
                .map(|id| {
                    let row = table.get(id)?;
                    Ok(row.map(|row| {
                        let (index, leaf, time) = row.value();
                        IdEntry { id: *id, index, leaf: Hash(*leaf), time }
                    }))
                })
                .collect()
        })
    }

    /// Adds ids, before their messages are committed. An index belongs to the last id that was given to it.
    pub(crate) fn add_ids(&self, entries: &[IdEntry]) -> Result<(), ServerError> {
        self.write(|transaction| {
            let mut ids = transaction.open_table(IDS)?;
            let mut of_index = transaction.open_table(ID_OF_INDEX)?;
            for entry in entries {
                let before = of_index.insert(entry.index, &entry.id)?.map(|row| *row.value());
                if let Some(before) = before.filter(|before| *before != entry.id) {
                    // Of a message that was never committed.
                    let stale = ids.get(&before)?.is_some_and(|row| row.value().0 == entry.index);
                    if stale {
                        ids.remove(&before)?;
                    }
                }
                ids.insert(&entry.id, (entry.index, &entry.leaf.0, entry.time))?;
            }
            Ok(())
        })
    }

    /// Forgets the ids of messages that never came, and returns how many there were and the ids of the last messages that did.
    pub(crate) fn reconcile(&self, count: u64, last: usize) -> Result<(usize, Vec<IdEntry>), ServerError> {
        self.write(|transaction| {
            let mut ids = transaction.open_table(IDS)?;
            let mut of_index = transaction.open_table(ID_OF_INDEX)?;
            let beyond: Vec<(u64, [u8; 16])> = of_index
                .range(count..)?
                .map(|row| row.map(|(index, id)| (index.value(), *id.value())))
                .collect::<Result<_, _>>()?;
            for (index, id) in &beyond {
                of_index.remove(index)?;
                if ids.get(id)?.is_some_and(|row| row.value().0 == *index) {
                    ids.remove(id)?;
                }
            }
            let mut found = Vec::new();
            for row in of_index.range(..count)?.rev().take(last) {
                let (index, id) = row?;
                if let Some(row) = ids.get(id.value())? {
                    let (_, leaf, time) = row.value();
                    found.push(IdEntry { id: *id.value(), index: index.value(), leaf: Hash(*leaf), time });
                }
            }
            Ok((beyond.len(), found))
        })
    }

    /// Forgets ids from before `time`, at most `limit` of them, and returns how many.
    pub(crate) fn expire_ids(&self, time: u64, limit: usize) -> Result<usize, ServerError> {
        let old = self.read(|transaction| {
            let (ids, of_index) = (transaction.open_table(IDS)?, transaction.open_table(ID_OF_INDEX)?);
            let mut old = Vec::new();
            for row in of_index.iter()?.take(limit) {
                let (index, id) = row?;
                match ids.get(id.value())? {
                    Some(row) if row.value().2 >= time => break,
                    _ => old.push((index.value(), *id.value())),
                }
            }
            Ok(old)
        })?;
        if old.is_empty() {
            return Ok(0);
        }
        self.write(|transaction| {
            let mut ids = transaction.open_table(IDS)?;
            let mut of_index = transaction.open_table(ID_OF_INDEX)?;
            for (index, id) in &old {
                of_index.remove(index)?;
                ids.remove(id)?;
            }
            Ok(old.len())
        })
    }

    /// Writes or removes registrations.
    pub(crate) fn change_registrations<T: Serialize>(
        &self,
        changes: &[([u8; 16], Change<'_, T>)],
    ) -> Result<(), ServerError> {
        self.change(REGISTRATIONS, changes)
    }

    /// Writes or removes jobs.
    pub(crate) fn change_jobs<T: Serialize>(
        &self,
        changes: &[([u8; 32], Change<'_, T>)],
    ) -> Result<(), ServerError> {
        self.change(JOBS, changes)
    }

    fn change<const ID_BYTES: usize, T: Serialize>(
        &self,
        table: TableDefinition<&[u8; ID_BYTES], &[u8]>,
        changes: &[([u8; ID_BYTES], Change<'_, T>)],
    ) -> Result<(), ServerError> {
        self.write(|transaction| {
            let mut table = transaction.open_table(table)?;
            for (id, change) in changes {
                match change {
                    Change::Put(value) => table.insert(id, to_json(value)?.as_slice())?,
                    Change::Remove => table.remove(id)?,
                };
            }
            Ok(())
        })
    }

    /// Changes credentials, or makes or removes them, all in one transaction.
    pub(crate) fn change_credentials<T: Serialize + DeserializeOwned>(
        &self,
        changes: impl IntoIterator<Item = ([u8; 16], impl FnOnce(Option<T>) -> Option<T>)>,
    ) -> Result<(), ServerError> {
        self.write(|transaction| {
            let mut table = transaction.open_table(CREDENTIALS)?;
            for (id, change) in changes {
                let before = table.get(&id)?.map(|row| from_json(row.value())).transpose()?;
                match change(before) {
                    Some(after) => table.insert(&id, to_json(&after)?.as_slice())?,
                    None => table.remove(&id)?,
                };
            }
            Ok(())
        })
    }

    pub(crate) fn credentials<T: DeserializeOwned>(&self) -> Result<Vec<T>, ServerError> {
        self.read(|transaction| {
            let table = transaction.open_table(CREDENTIALS)?;
            table.iter()?.map(|row| from_json(row?.1.value())).collect()
        })
    }

    pub(crate) fn credential<T: DeserializeOwned>(&self, id: &[u8; 16]) -> Result<Option<T>, ServerError> {
        self.read(|transaction| {
            let table = transaction.open_table(CREDENTIALS)?;
            table.get(id)?.map(|row| from_json(row.value())).transpose()
        })
    }

    /// Writes a registration that a credential pays for: both or neither. `spend` says what becomes of the credential, or refuses;
    /// none is no change.
    pub(crate) fn register_paid<C: Serialize + DeserializeOwned, T: Serialize>(
        &self,
        credential: &[u8; 16],
        spend: impl FnOnce(Option<C>) -> Answer<Option<C>>,
        id: &[u8; 16],
        registration: &T,
    ) -> Answer<()> {
        self.write(|transaction| {
            let mut credentials = transaction.open_table(CREDENTIALS)?;
            let before = credentials.get(credential)?.map(|row| from_json(row.value())).transpose()?;
            match spend(before) {
                Ok(Some(after)) => drop(credentials.insert(credential, to_json(&after)?.as_slice())?),
                Ok(None) => {}
                Err(refusal) => return Ok(Err(refusal)),
            }
            transaction.open_table(REGISTRATIONS)?.insert(id, to_json(registration)?.as_slice())?;
            Ok(Ok(()))
        })?
    }

    /// Removes a registration and its jobs.
    pub(crate) fn remove_registration(&self, id: &[u8; 16]) -> Result<(), ServerError> {
        self.write(|transaction| {
            transaction.open_table(REGISTRATIONS)?.remove(id)?;
            let (mut from, mut to) = ([0; 32], [255; 32]);
            from[..16].copy_from_slice(id);
            to[..16].copy_from_slice(id);
            transaction.open_table(JOBS)?.retain_in::<&[u8; 32], _>(&from..=&to, |_, _| false)?;
            Ok(())
        })
    }

    pub(crate) fn registrations<T: DeserializeOwned>(&self) -> Result<Vec<T>, ServerError> {
        self.read(|transaction| {
            let table = transaction.open_table(REGISTRATIONS)?;
            table.iter()?.map(|row| from_json(row?.1.value())).collect()
        })
    }

    pub(crate) fn jobs<T: DeserializeOwned>(&self) -> Result<Vec<T>, ServerError> {
        self.read(|transaction| {
            let table = transaction.open_table(JOBS)?;
            table.iter()?.map(|row| from_json(row?.1.value())).collect()
        })
    }

    /// Notes when segments were full.
    pub(crate) fn note_segments(&self, segments: std::ops::Range<u64>, time: u64) -> Result<(), ServerError> {
        self.write(|transaction| {
            let mut table = transaction.open_table(SEGMENT_TIMES)?;
            for segment in segments {
                table.insert(segment, time)?;
            }
            Ok(())
        })
    }

    /// When segments were full, the oldest first.
    pub(crate) fn segment_times(&self) -> Result<Vec<(u64, u64)>, ServerError> {
        self.read(|transaction| {
            let table = transaction.open_table(SEGMENT_TIMES)?;
            table
                .iter()?
                .map(|row| row.map(|(segment, time)| (segment.value(), time.value())).map_err(Into::into))
                .collect()
        })
    }

    /// Copies everything, as of one moment, into a new database.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<(), ServerError> {
        let copy = Self::open(path)?;
        self.read(|from| {
            let outcome = copy.write(|to| {
                macro_rules! copy_tables {
                    ($($table:expr),*) => {$({
                        let mut target = to.open_table($table)?;
                        for row in from.open_table($table)?.iter()? {
                            let (key, value) = row?;
                            target.insert(key.value(), value.value())?;
                        }
                    })*};
                }
                copy_tables!(IDS, ID_OF_INDEX, REGISTRATIONS, JOBS, CREDENTIALS, SEGMENT_TIMES);
                Ok(())
            });
            Ok(outcome)
        })?
    }
}

fn to_json(value: &impl Serialize) -> Stored<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| redb::Error::Corrupted(error.to_string()))
}

fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Stored<T> {
    serde_json::from_slice(bytes).map_err(|error| redb::Error::Corrupted(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn entry(id: u8, index: u64) -> IdEntry {
        IdEntry { id: [id; 16], index, leaf: Hash::of(&[id]), time: index * 10 }
    }

    #[test]
    fn ids_of_messages_that_never_came_are_forgotten() {
        let scratch = tempfile::tempdir().unwrap();
        let registry = Registry::open(&scratch.path().join("registry")).unwrap();
        registry.add_ids(&[entry(1, 0), entry(2, 1), entry(3, 2)]).unwrap();
        let (beyond, last) = registry.reconcile(2, 1).unwrap();
        assert_eq!((beyond, last), (1, vec![entry(2, 1)]));
        assert_eq!(registry.ids(&[[1; 16], [3; 16]]).unwrap(), [Some(entry(1, 0)), None]);
        // A commit that failed left index 2 to id 3; it goes to id 4 now.
        registry.add_ids(&[entry(3, 2)]).unwrap();
        registry.add_ids(&[entry(4, 2)]).unwrap();
        assert_eq!(registry.ids(&[[3; 16], [4; 16]]).unwrap(), [None, Some(entry(4, 2))]);
        // The same id with the next index, after its own commit failed.
        registry.add_ids(&[entry(5, 3)]).unwrap();
        registry.add_ids(&[entry(6, 3), entry(5, 4)]).unwrap();
        assert_eq!(registry.ids(&[[5; 16], [6; 16]]).unwrap(), [Some(entry(5, 4)), Some(entry(6, 3))]);
        assert_eq!(registry.expire_ids(20, 100).unwrap(), 2);
        assert_eq!(registry.ids(&[[1; 16], [4; 16]]).unwrap(), [None, Some(entry(4, 2))]);
        let copy = scratch.path().join("copy");
        registry.copy_to(&copy).unwrap();
        assert_eq!(Registry::open(&copy).unwrap().ids(&[[4; 16]]).unwrap(), [Some(entry(4, 2))]);
    }
}
