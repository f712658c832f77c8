//! A client's part of an epoch: its header and the hashes of its records.

#[cfg(feature = "server")]
use std::path::Path;

use rand_core::CryptoRng;
use restante_dpf::generate;
use zeroize::Zeroizing;

use crate::PirError;
use crate::fetch::query::check_fetches;
use crate::fetch::state::Wanted;
use crate::fetch::{EpochId, EpochInfo, Query, State, UncheckedState};
#[cfg(feature = "server")]
use crate::fetch::{epoch::check_table, info::table_path, map::Map};

/// An epoch's header and table of hashes: what a client downloads once for an epoch, whole, and from anybody. It has to
/// learn the epoch's id from somebody it trusts.
///
/// It has all hashes, because asking for one would say which record will be fetched.
#[derive(Debug)]
pub struct Catalog {
    info: EpochInfo,
    id: EpochId,
    table: Table,
}

/// Where the hashes are.
#[derive(Debug)]
enum Table {
    Memory(Vec<u8>),
    #[cfg(feature = "server")]
    File(Map),
}

impl Table {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Memory(table) => table,
            #[cfg(feature = "server")]
            Self::File(map) => map.bytes(),
        }
    }
}

impl Catalog {
    /// The catalog of an epoch whose header a client has, with the table of hashes that somebody sent it. The header's
    /// id is what the caller compares with the one it trusts.
    ///
    /// # Errors
    ///
    /// [`PirError::ForeignTable`].
    pub fn new(info: EpochInfo, table: Vec<u8>) -> Result<Self, PirError> {
        let id = info.id();
        if info.has_table(&table) {
            Ok(Self { info, id, table: Table::Memory(table) })
        } else {
            Err(PirError::ForeignTable { epoch: id })
        }
    }

    /// Opens a directory that holds the files "epoch" and "hashes" of an epoch, and checks one against the other.
    ///
    /// # Errors
    ///
    /// [`PirError::NotAnEpoch`], [`PirError::Format`], [`PirError::Length`], [`PirError::Root`], [`PirError::Io`].
    #[cfg(feature = "server")]
    pub fn open(path: impl AsRef<Path>) -> Result<Self, PirError> {
        let path = path.as_ref();
        let info = EpochInfo::read(path)?;
        let table = Map::open(&table_path(path), info.table_bytes())?;
        check_table(&info, &table)?;
        Ok(Self { id: info.id(), info, table: Table::File(table) })
    }

    /// The epoch's header.
    pub fn info(&self) -> &EpochInfo {
        &self.info
    }

    /// The epoch's name.
    pub fn id(&self) -> EpochId {
        self.id
    }

    /// Asks for the records with these indices, in a batch of `fetches` fetches, and gives the state to keep and the queries
    /// for server 0 and server 1.
    ///
    /// The rest of the batch asks for random records. The number and size of everything that leaves the client follow from
    /// the epoch and `fetches` alone: a client that always asks for the same number at the same times shows neither how many
    /// records it wants nor when.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] for more indices than fetches or a number of fetches outside 1 to
    /// [`MAX_FETCHES`](crate::fetch::MAX_FETCHES); [`PirError::IndexOutside`].
    pub fn query(
        &self,
        indices: &[u64],
        fetches: usize,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<(State, [Query; 2]), PirError> {
        let (mut state, queries) = ask(&self.info, self.id, indices, fetches, rng)?;
        self.find_hashes(&mut state.wanted);
        Ok((state, queries))
    }

    /// Fills in the hashes of records. The whole table is read for that, in order: which of its memory is touched, and
    /// when, says nothing about the indices.
    fn find_hashes(&self, wanted: &mut [Wanted]) {
        let hashes = self.table.bytes().as_chunks::<32>().0;
        for (tile, hashes) in (0u64..).step_by(TILE_HASHES).zip(hashes.chunks(TILE_HASHES)) {
            for wanted in wanted.iter_mut() {
                let mut sum = Zeroizing::new([0; 32]);
                for (index, hash) in (tile..).zip(hashes) {
                    let mask = mask_of_equal(index, wanted.index);
                    sum.iter_mut().zip(hash).for_each(|(sum, byte)| *sum |= byte & mask);
                }
                wanted.hash.iter_mut().zip(sum.iter()).for_each(|(hash, byte)| *hash |= byte);
            }
        }
    }
}

impl EpochInfo {
    /// As [`Catalog::query`], without the hashes of records, which are the larger part of what a client downloads: for records that
    /// prove by themselves whose they are, as mail does. [`decode_unchecked`](crate::fetch::decode_unchecked) opens the answers.
    ///
    /// # Errors
    ///
    /// Those of [`Catalog::query`].
    pub fn query(
        &self,
        indices: &[u64],
        fetches: usize,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<(UncheckedState, [Query; 2]), PirError> {
        let (state, queries) = ask(self, self.id(), indices, fetches, rng)?;
        Ok((UncheckedState(state), queries))
    }
}

/// Makes the queries, and a state without hashes.
fn ask(
    info: &EpochInfo,
    epoch: EpochId,
    indices: &[u64],
    fetches: usize,
    rng: &mut (impl CryptoRng + ?Sized),
) -> Result<(State, [Query; 2]), PirError> {
    check_fetches(fetches)?;
    if indices.len() > fetches {
        let (found, expected) = (indices.len() as u64, format!("at most {fetches}, the size of the batch"));
        return Err(PirError::Size { what: "number of indices", found, expected });
    }
    let records = info.records;
    let parameters = info.key_parameters()?;
    let mut wanted = Zeroizing::new(Vec::with_capacity(fetches));
    let mut keys = [Vec::with_capacity(fetches), Vec::with_capacity(fetches)];
    for place in 0..fetches {
        let dummy = below(records, rng);
        let index = indices.get(place).copied().unwrap_or(dummy);
        if index >= records {
            return Err(PirError::IndexOutside { records });
        }
        let pair = generate(&parameters, index, &true, rng)?;
        keys.iter_mut().zip(pair).for_each(|(keys, key)| keys.push(key));
        wanted.push(Wanted { index, hash: [0; 32] });
    }
    let [first, second] = keys;
    let queries = [Query::new(epoch, 0, first), Query::new(epoch, 1, second)];
    let state = State {
        epoch,
        record_bytes: info.record_bytes,
        content: info.content,
        queries: [queries[0].digest(), queries[1].digest()],
        real: indices.len() as u32,
        wanted,
    };
    Ok((state, queries))
}

/// Hashes that all fetches go over before the next: they stay in the first-level cache.
const TILE_HASHES: usize = 256;

/// All ones if two numbers are equal, else zero, without a branch.
fn mask_of_equal(first: u64, second: u64) -> u8 {
    let difference = std::hint::black_box(first ^ second);
    // The highest bit says whether they differ.
    let differ = (difference | difference.wrapping_neg()) >> 63;
    (differ as u8).wrapping_sub(1)
}

/// A uniform integer below `bound`, which is at least 1. The number of draws depends on nothing secret.
fn below(bound: u64, rng: &mut (impl CryptoRng + ?Sized)) -> u64 {
    let rejected = (u64::MAX % bound + 1) % bound;
    loop {
        let mut bytes = Zeroizing::new([0; 8]);
        rng.fill_bytes(&mut *bytes);
        let value = u64::from_le_bytes(*bytes);
        if value <= u64::MAX - rejected {
            return value % bound;
        }
    }
}
