//! Pertinency vectors: what phase 1 of compact digests has come to, one file each.
//!
//! A vector belongs to a registration, for its standing order, or to one of its jobs, until that is done. Files and what memory has of them
//! change under one lock, so that what was removed does not come back.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;

use restante_wire::relay::{JobId, RegistrationId};

use crate::ServerError;
use crate::files::{DataDirectory, read_limited, remove, write_whole};
use crate::locks::lock;

/// Whose a vector is: a standing order's, or a job's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) registration: RegistrationId,
    pub(crate) job: Option<JobId>,
}

impl Owner {
    /// A registration's standing order.
    pub(crate) fn order(registration: RegistrationId) -> Self {
        Self { registration, job: None }
    }

    /// A job.
    pub(crate) fn job((registration, job): (RegistrationId, JobId)) -> Self {
        Self { registration, job: Some(job) }
    }
}

/// Where a vector begins and ends.
type Place = (u64, u64);

/// All vectors, and the bytes of each.
#[derive(Debug)]
pub(crate) struct Vectors {
    data: DataDirectory,
    all: Mutex<BTreeMap<Owner, BTreeMap<Place, u64>>>,
}

impl Vectors {
    /// Finds the vectors that there are; drafts that a crash has left are removed.
    pub(crate) fn load(data: DataDirectory) -> Result<Self, ServerError> {
        let folder = data.pertinency();
        let mut all: BTreeMap<Owner, BTreeMap<Place, u64>> = BTreeMap::new();
        for entry in std::fs::read_dir(&folder).map_err(ServerError::io("list", &folder))? {
            let entry = entry.map_err(ServerError::io("list", &folder))?;
            match entry.file_name().to_str().and_then(parse) {
                Some((owner, place)) => {
                    let bytes = entry.metadata().map_err(ServerError::io("read", entry.path()))?.len();
                    all.entry(owner).or_default().insert(place, bytes);
                }
                None => remove(&entry.path())?,
            }
        }
        Ok(Self { data, all: Mutex::new(all) })
    }

    fn path(&self, owner: &Owner, place: Place) -> PathBuf {
        self.data.pertinency().join(name(owner, place))
    }

    /// The ranges of an owner's vectors, in order.
    pub(crate) fn ranges(&self, owner: &Owner) -> Vec<Range<u64>> {
        let all = lock(&self.all);
        all.get(owner).into_iter().flatten().map(|(&(first, end), _)| first..end).collect()
    }

    /// Stores a vector: it is there, whole and durably, when this returns.
    pub(crate) fn put(&self, owner: Owner, range: &Range<u64>, file: &[u8]) -> Result<(), ServerError> {
        let mut all = lock(&self.all);
        let place = (range.start, range.end);
        write_whole(&self.path(&owner, place), file)?;
        all.entry(owner).or_default().insert(place, file.len() as u64);
        Ok(())
    }

    /// A vector's file.
    pub(crate) fn read(&self, owner: &Owner, range: &Range<u64>, limit: u64) -> Result<Vec<u8>, ServerError> {
        read_limited(&self.path(owner, (range.start, range.end)), limit)
    }

    /// Removes an owner's vector for a range.
    pub(crate) fn remove(&self, owner: &Owner, range: &Range<u64>) -> Result<(), ServerError> {
        self.keep(|other, place| (other, place) != (owner, (range.start, range.end)))
    }

    /// Removes those of an owner that `is_kept` does not want.
    pub(crate) fn keep_of(
        &self,
        owner: &Owner,
        is_kept: impl Fn(Range<u64>) -> bool,
    ) -> Result<(), ServerError> {
        self.keep(|other, (first, end)| other != owner || is_kept(first..end))
    }

    /// Removes what a registration and its jobs have.
    pub(crate) fn remove_registration(&self, registration: &RegistrationId) -> Result<(), ServerError> {
        self.keep(|owner, _| owner.registration != *registration)
    }

    /// Removes those that have no message from `first` on.
    pub(crate) fn forget_before(&self, first: u64) -> Result<(), ServerError> {
        self.keep(|_, (_, end)| end > first)
    }

    /// Removes what has no owner any more.
    pub(crate) fn keep_owners(&self, exists: impl Fn(&Owner) -> bool) -> Result<(), ServerError> {
        self.keep(|owner, _| exists(owner))
    }

    fn keep(&self, is_kept: impl Fn(&Owner, Place) -> bool) -> Result<(), ServerError> {
        let mut all = lock(&self.all);
        let gone: BTreeSet<(Owner, Place)> = all
            .iter()
            .flat_map(|(owner, places)| places.keys().map(|&place| (*owner, place)))
            .filter(|(owner, place)| !is_kept(owner, *place))
            .collect();
        for (owner, place) in gone {
            remove(&self.path(&owner, place))?;
            if let Some(places) = all.get_mut(&owner) {
                places.remove(&place);
                if places.is_empty() {
                    all.remove(&owner);
                }
            }
        }
        Ok(())
    }

    /// The bytes of all.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.all).values().flat_map(BTreeMap::values).sum()
    }
}

/// `REGISTRATION-FIRST-END`, or `REGISTRATION-JOB-FIRST-END`.
fn name(owner: &Owner, (first, end): Place) -> String {
    let Owner { registration, job } = owner;
    match job {
        Some(job) => format!("{registration}-{job}-{first}-{end}"),
        None => format!("{registration}-{first}-{end}"),
    }
}

fn parse(text: &str) -> Option<(Owner, Place)> {
    let parts: Vec<&str> = text.split('-').collect();
    let (owner, first, end) = match *parts {
        [registration, first, end] => (Owner::order(registration.parse().ok()?), first, end),
        [registration, job, first, end] => {
            (Owner::job((registration.parse().ok()?, job.parse().ok()?)), first, end)
        }
        _ => return None,
    };
    let place = (first.parse().ok()?, end.parse().ok()?);
    // Each vector has one name.
    (name(&owner, place) == text).then_some((owner, place))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
    #![allow(clippy::single_range_in_vec_init, reason = "lists of ranges are meant")]

    use super::*;

    #[test]
    fn vectors_are_found_again_and_go_with_what_they_belong_to() {
        let scratch = tempfile::tempdir().unwrap();
        let (data, _lock) = DataDirectory::open(scratch.path()).unwrap();
        let vectors = Vectors::load(data.clone()).unwrap();
        let [alice, bob] = [1, 2].map(|one| Owner::order(RegistrationId([one; 16])));
        let job = Owner::job((RegistrationId([1; 16]), JobId([9; 16])));
        for (owner, range) in [(alice, 0..4), (alice, 4..8), (job, 3..6), (bob, 0..4)] {
            vectors.put(owner, &range, b"vector").unwrap();
        }
        for stray in [
            "x",
            "0101-1-2",
            &format!("{}-0-4.tmp", RegistrationId([1; 16])),
            &format!("{}-00-4", RegistrationId([1; 16])),
        ] {
            std::fs::write(data.pertinency().join(stray), "").unwrap();
        }
        let files = || std::fs::read_dir(data.pertinency()).unwrap().count();
        assert_eq!(files(), 8);
        let vectors = Vectors::load(data.clone()).unwrap();
        assert_eq!((files(), vectors.bytes()), (4, 24));
        assert_eq!(vectors.ranges(&alice), [0..4, 4..8]);
        assert_eq!((vectors.ranges(&job), vectors.ranges(&bob)), (vec![3..6], vec![0..4]));
        assert_eq!(vectors.read(&job, &(3..6), 100).unwrap(), b"vector");
        vectors.forget_before(4).unwrap();
        assert_eq!((vectors.ranges(&alice), vectors.ranges(&bob)), (vec![4..8], vec![]));
        vectors.put(bob, &(4..8), b"another").unwrap();
        vectors.remove(&alice, &(4..8)).unwrap();
        assert_eq!(vectors.ranges(&job), [3..6]);
        vectors.remove_registration(&RegistrationId([1; 16])).unwrap();
        assert_eq!((files(), vectors.bytes()), (1, 7));
        vectors.keep_of(&bob, |range| range.start >= 8).unwrap();
        assert_eq!((files(), vectors.bytes()), (0, 0));
    }
}
