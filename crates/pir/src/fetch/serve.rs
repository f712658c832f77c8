//! A server's work: one pass over the records for all queries at hand.

use std::ops::Range;

use aligned_vec::{AVec, ConstAlign};
use restante_dpf::{Bits, Evaluator};
use restante_scan::{Runner, Scan};
use restante_wire::WireError;

use crate::PirError;
use crate::fetch::{Answer, Backend, Epoch, Query};

/// The most bytes of records of a shard: what makes merging and allocating not matter, and leaves every thread enough to do.
const SHARD_BYTES: u64 = 16 << 20;
/// Shards are whole leaves of a query's keys where that is possible: a leaf has this many bits at most.
const LEAF_RECORDS: u64 = 1024;
/// The records for which the bits of all keys are held in memory: 8 KiB a key.
const BITS_RECORDS: u64 = 1 << 16;
/// The bytes of records that all keys go over before the next: they stay in the second-level cache.
const TILE_BYTES: usize = 128 << 10;
/// The keys that share a pass over a tile: their sums stay in the first-level cache.
const GROUP: usize = 8;

/// Answers one query.
///
/// # Errors
///
/// As for [`answer_all`].
pub fn answer(epoch: &Epoch, query: &Query, runner: &Runner) -> Result<Answer, PirError> {
    let mut answers = answer_all(epoch, &[query], runner)?;
    answers.pop().ok_or(PirError::Size { what: "number of answers", found: 0, expected: "1".into() })
}

/// Answers many queries, of one client or of many, in one pass over the records: eight cost much less than eight times one.
///
/// # Errors
///
/// [`PirError::EpochMismatch`] for a query to another epoch, [`PirError::Wire`] for one whose keys are for another
/// number of records. Nothing is computed then.
pub fn answer_all(epoch: &Epoch, queries: &[&Query], runner: &Runner) -> Result<Vec<Answer>, PirError> {
    answer_with(epoch, queries, runner, Backend::best(), |_| ())
}

/// Like [`answer_all`] with the instructions of `backend`, and `finished` is told, from any thread, how many more records were
/// gone over. All back ends and numbers of threads give the same answers.
///
/// # Errors
///
/// As for [`answer_all`].
pub fn answer_with(
    epoch: &Epoch,
    queries: &[&Query],
    runner: &Runner,
    backend: Backend,
    finished: impl Fn(u64) + Sync,
) -> Result<Vec<Answer>, PirError> {
    let (id, info) = (epoch.id(), epoch.info());
    for query in queries {
        if query.epoch() != id {
            return Err(PirError::EpochMismatch { what: "the query", expected: id, found: query.epoch() });
        }
        if query.records() != info.records() {
            return Err(PirError::Wire(WireError::OutOfRange {
                what: "number of records of the keys of a fetch query",
                found: query.records(),
                expected: format!("{}, as the epoch has", info.records()),
            }));
        }
    }
    let size = info.record_bytes();
    let keys = queries.iter().flat_map(|query| query.keys());
    let scan = FetchScan {
        records: epoch.bytes(),
        record_bytes: size,
        evaluators: keys.map(|key| key.evaluator()).collect(),
        backend,
    };
    let shards = shards(info.records(), size as u64, runner.threads() as u64);
    let sums = runner.run(&scan, &shards, |shard| finished(shard.end - shard.start))?;
    let mut rest = sums.as_slice();
    let answers = queries.iter().map(|query| {
        let shares;
        (shares, rest) = rest.split_at(query.fetches() * size);
        Answer {
            epoch: id,
            party: query.party(),
            query: query.digest(),
            record_bytes: info.record_bytes,
            shares: shares.to_vec(),
        }
    });
    Ok(answers.collect())
}

/// A record for each key. Stores that cross the end of a cache line are slow, so it starts with one.
type Sums = AVec<u8, ConstAlign<CACHE_LINE>>;

const CACHE_LINE: usize = 64;

/// The XOR of the records that each key selects: shards are ranges of records that start at a multiple of eight.
struct FetchScan<'a> {
    records: &'a [u8],
    record_bytes: usize,
    evaluators: Vec<Evaluator<'a, Bits>>,
    backend: Backend,
}

impl Scan for FetchScan<'_> {
    type Shard = Range<u64>;
    /// A record for each key; nothing at all stands for zeros.
    type Partial = Sums;
    type Answer = Sums;
    type Error = PirError;

    fn empty(&self) -> Sums {
        Sums::new(CACHE_LINE)
    }

    fn scan(&self, shard: &Range<u64>) -> Result<Sums, PirError> {
        let size = self.record_bytes;
        let mut sums = Sums::new(CACHE_LINE);
        sums.resize(self.evaluators.len() * size, 0);
        let row = BITS_RECORDS.min(shard.end - shard.start).div_ceil(8) as usize;
        let mut bits = vec![0; self.evaluators.len() * row];
        let tile_rows = (TILE_BYTES / (8 * size)).max(1);
        let mut start = shard.start;
        while start < shard.end {
            let end = shard.end.min(start + BITS_RECORDS);
            let bytes = (end - start).div_ceil(8) as usize;
            for (evaluator, bits) in self.evaluators.iter().zip(bits.chunks_exact_mut(row)) {
                evaluator.range(start..end, &mut bits[..bytes])?;
            }
            let records = &self.records[start as usize * size..end as usize * size];
            for (tile, records) in records.chunks(tile_rows * 8 * size).enumerate() {
                let first = tile * tile_rows;
                let groups = bits.chunks(GROUP * row).zip(sums.chunks_mut(GROUP * size));
                for (bits, sums) in groups {
                    self.backend.accumulate(records, size, &bits[first..], row, sums);
                }
            }
            start = end;
        }
        Ok(sums)
    }

    fn merge(&self, sum: &mut Sums, partial: Sums) {
        if sum.is_empty() {
            *sum = partial;
        } else {
            sum.iter_mut().zip(partial.iter()).for_each(|(sum, partial)| *sum ^= partial);
        }
    }

    fn finish(&self, sum: Sums) -> Sums {
        sum
    }
}

/// Cuts an epoch into shards: enough for every thread, none too small to be worth it.
fn shards(records: u64, record_bytes: u64, threads: u64) -> Vec<Range<u64>> {
    let share = (records * record_bytes).div_ceil(8 * threads.max(1)).min(SHARD_BYTES);
    let unit = |size: u64| (share / record_bytes).max(1).next_multiple_of(size);
    let size = match share / record_bytes {
        0..LEAF_RECORDS => unit(8),
        _ => unit(LEAF_RECORDS),
    };
    (0..records).step_by(size as usize).map(|start| start..records.min(start + size)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_aligned_and_cover_everything() {
        for records in [1, 7, 8, 9, 1000, 1024, 1025, 3u64.pow(11) + 1, 1 << 20] {
            for record_bytes in [8, 100, 1024, 65_536] {
                for threads in [1, 2, 16] {
                    let shards = shards(records, record_bytes, threads);
                    assert_eq!((shards[0].start, shards.last().unwrap().end), (0, records));
                    for pair in shards.windows(2) {
                        assert_eq!(pair[0].end, pair[1].start);
                        assert_eq!(pair[1].start % 8, 0);
                    }
                }
            }
        }
    }
}
