//! A server's work: one pass over the records for all queries at hand.
//!
//! The keys of a pass are in parts, and the records in ranges; a shard is a range for a part. Where there are
//! many keys each thread has a part of its own, so that no key's sum is held twice; where there are few,
//! threads share them out by ranges, and their sums are added up. [`scan_bytes`] gives the memory that a pass
//! takes, before it begins.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use aligned_vec::{AVec, ConstAlign};
use restante_dpf::{Bits, Evaluator};
use restante_scan::{Runner, Scan};
use restante_wire::{Envelope, Kind, ParameterId, WireError};

use crate::PirError;
use crate::fetch::answer::{ANSWER_HEADER_BYTES, encode_header};
use crate::fetch::{Answer, Backend, Epoch, EpochInfo, Query, backend::accumulate};

/// Shards are whole leaves of a query's keys where that is possible: a leaf has this many bits at most.
const LEAF_RECORDS: u64 = 1024;
/// The records for which the bits of a part's keys are held in memory: 8 KiB a key.
const BITS_RECORDS: u64 = 1 << 16;
/// The bytes of records that all keys go over before the next: they stay in the second-level cache.
const TILE_BYTES: usize = 128 << 10;
/// The keys that share a pass over a tile: their sums stay in the first-level cache.
const GROUP: usize = 8;
/// Keys of a query from which on it has parts of its own: with fewer, reading the records costs more than adding them.
const OWN_KEYS: usize = 16;
/// Keys of a part that several queries share, at most.
const SHARED_KEYS: usize = 32;
/// Bytes of sums that may be held beyond those of the answers for the sake of an even load.
const SPARE_BYTES: usize = 4 << 20;
/// Bytes of a prepared key, from above.
const EVALUATOR_BYTES: usize = 512;
/// Bytes that a thread works in while it expands a key, from above.
const THREAD_BYTES: usize = 256 << 10;

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
/// [`PirError::EpochMismatch`] for a query to another epoch, [`PirError::Wire`] for one whose keys are for
/// another number of records. No query is answered then.
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
    let told = |records| {
        finished(records);
        true
    };
    let Some(shares) = pass(epoch, queries, runner, backend, told)? else { return Ok(Vec::new()) };
    let answers = queries.iter().zip(shares).map(|(query, shares)| Answer {
        epoch: epoch.id(),
        party: query.party(),
        query: query.digest(),
        record_bytes: epoch.info().record_bytes,
        shares: shares.iter().flat_map(|piece| piece.as_ref().iter().copied()).collect(),
    });
    Ok(answers.collect())
}

/// Like [`answer_all`], and gives the answers as files, in pieces, so that none is held twice. `goes_on` is asked now and
/// then, from any thread, with the number of records that were gone over since; none if it says no.
///
/// # Errors
///
/// As for [`answer_all`].
pub fn answer_files(
    epoch: &Epoch,
    queries: &[&Query],
    runner: &Runner,
    goes_on: impl Fn(u64) -> bool + Sync,
) -> Result<Option<Vec<AnswerFile>>, PirError> {
    let shares = pass(epoch, queries, runner, Backend::best(), goes_on)?;
    let files = |shares: Vec<Vec<Piece>>| {
        queries.iter().zip(shares).map(|(query, shares)| AnswerFile::new(epoch, query, shares)).collect()
    };
    Ok(shares.map(files))
}

/// Memory that a pass takes, from above, for queries of so many fetches each: the answers, and what is held besides while
/// it goes on. The queries and the mapped records are not in it.
pub fn scan_bytes(info: &EpochInfo, fetches: &[usize], threads: usize) -> u64 {
    let (size, keys) = (info.record_bytes(), fetches.iter().sum::<usize>());
    let plan = Plan::new(info, fetches, threads);
    let sums = (plan.ranges.len() * keys * size) as u64;
    // Answers to queries that share a part are copied out of it.
    let shared: usize =
        plan.parts.iter().filter(|part| part.is_shared).map(|part| part.keys.len() * size).sum();
    let row = plan.ranges.iter().map(bits_row).max().unwrap_or(0);
    let largest = plan.parts.iter().map(|part| part.keys.len()).max().unwrap_or(0);
    let at_once = threads.max(1).min(plan.parts.len() * plan.ranges.len());
    let working = at_once * (largest * row + THREAD_BYTES) + keys * EVALUATOR_BYTES;
    sums + (shared + working + fetches.len() * (ANSWER_HEADER_BYTES + Envelope::OVERHEAD_BYTES)) as u64
}

/// An answer's file, [`Answer::to_file`] byte by byte, in pieces.
#[derive(Debug)]
pub struct AnswerFile(Vec<Piece>);

/// Consecutive bytes of a file.
#[derive(Debug)]
pub struct Piece(Bytes);

#[derive(Debug)]
enum Bytes {
    Plain(Vec<u8>),
    Sums(Sums),
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Plain(bytes) => bytes,
            Bytes::Sums(sums) => sums,
        }
    }
}

impl AnswerFile {
    fn new(epoch: &Epoch, query: &Query, shares: Vec<Piece>) -> Self {
        let (mut body, record_bytes) = (Vec::with_capacity(ANSWER_HEADER_BYTES), epoch.info().record_bytes);
        encode_header(epoch.id(), query.party(), &query.digest(), record_bytes, query.fetches(), &mut body);
        let parts: Vec<&[u8]> =
            std::iter::once(body.as_slice()).chain(shares.iter().map(AsRef::as_ref)).collect();
        let (header, checksum) =
            Envelope::frame(Kind::FetchAnswer, Answer::VERSION, ParameterId::NONE, &parts);
        let plain = |bytes: Vec<u8>| Piece(Bytes::Plain(bytes));
        let mut pieces = vec![plain([&header[..], &body].concat())];
        pieces.extend(shares);
        pieces.push(plain(checksum.to_vec()));
        Self(pieces)
    }

    /// The size of the file.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|piece| piece.as_ref().len()).sum()
    }

    /// The pieces, in order.
    pub fn into_pieces(self) -> Vec<Piece> {
        self.0
    }
}

/// For each query its shares in pieces; none if the pass was told to stop.
fn pass(
    epoch: &Epoch,
    queries: &[&Query],
    runner: &Runner,
    backend: Backend,
    goes_on: impl Fn(u64) -> bool + Sync,
) -> Result<Option<Vec<Vec<Piece>>>, PirError> {
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
    let fetches: Vec<usize> = queries.iter().map(|query| query.fetches()).collect();
    let plan = Plan::new(info, &fetches, runner.threads());
    let keys = plan.order.iter().flat_map(|&query| queries[query].keys());
    let scan = FetchScan {
        records: epoch.bytes(),
        record_bytes: size,
        evaluators: keys.map(|key| key.evaluator()).collect(),
        parts: &plan.parts,
        backend,
        done: AtomicU64::new(0),
        goes_on,
    };
    let sums = match runner.run(&scan, &plan.shards(), |_| ()) {
        Ok(sums) => sums,
        Err(Ended::Stopped) => return Ok(None),
        Err(Ended::Failed(error)) => return Err(error),
    };
    drop(scan);
    let mut shares: Vec<Vec<Piece>> = queries.iter().map(|_| Vec::new()).collect();
    for (part, sums) in plan.parts.iter().zip(sums) {
        if !part.is_shared {
            if let Some(&(query, _)) = part.queries.first() {
                shares[query].push(Piece(Bytes::Sums(sums)));
            }
            continue;
        }
        let mut rest = sums.as_slice();
        for &(query, fetches) in &part.queries {
            let own;
            (own, rest) = rest.split_at(fetches * size);
            shares[query].push(Piece(Bytes::Plain(own.to_vec())));
        }
    }
    Ok(Some(shares))
}

/// How a pass is cut.
#[derive(Debug)]
struct Plan {
    /// The queries in the order of their keys: those with parts of their own first.
    order: Vec<usize>,
    parts: Vec<KeyPart>,
    /// Of records.
    ranges: Vec<Range<u64>>,
}

/// Some of the keys of a pass.
#[derive(Debug)]
struct KeyPart {
    keys: Range<usize>,
    /// The queries, and how many of the keys are of each, in their order.
    queries: Vec<(usize, usize)>,
    is_shared: bool,
}

impl Plan {
    fn new(info: &EpochInfo, fetches: &[usize], threads: usize) -> Self {
        let (size, keys, threads) = (info.record_bytes(), fetches.iter().sum::<usize>(), threads.max(1));
        let (own, shared): (Vec<usize>, Vec<usize>) =
            (0..fetches.len()).partition(|&query| fetches[query] >= OWN_KEYS);
        let (mut parts, mut next) = (Vec::<KeyPart>::new(), 0);
        for &query in &own {
            // As many as its share of the threads.
            let count = (threads * fetches[query]).div_ceil(keys).min(fetches[query] / OWN_KEYS).max(1);
            let share = fetches[query].div_ceil(count);
            for start in (0..fetches[query]).step_by(share) {
                let length = share.min(fetches[query] - start);
                parts.push(KeyPart {
                    keys: next..next + length,
                    queries: vec![(query, length)],
                    is_shared: false,
                });
                next += length;
            }
        }
        for &query in &shared {
            let end = next + fetches[query];
            match parts.last_mut().filter(|part| part.is_shared && end - part.keys.start <= SHARED_KEYS) {
                Some(part) => {
                    part.keys.end = end;
                    part.queries.push((query, fetches[query]));
                }
                None => {
                    let queries = vec![(query, fetches[query])];
                    parts.push(KeyPart { keys: next..end, queries, is_shared: true });
                }
            }
            next = end;
        }
        let least = threads.div_ceil(parts.len().max(1));
        let even = (8 * threads).div_ceil(parts.len().max(1));
        let count = (SPARE_BYTES / (keys * size).max(1)).clamp(least, even);
        Self { order: [own, shared].concat(), parts, ranges: ranges(info.records(), count as u64) }
    }

    /// Those of a part one after the other.
    fn shards(&self) -> Vec<(usize, Range<u64>)> {
        let ranges = |part| self.ranges.iter().map(move |range| (part, range.clone()));
        (0..self.parts.len()).flat_map(ranges).collect()
    }
}

/// A record for each key of a part. Stores that cross the end of a cache line are slow, so it starts with one.
type Sums = AVec<u8, ConstAlign<CACHE_LINE>>;

const CACHE_LINE: usize = 64;

/// Why a pass ended early.
enum Ended {
    Stopped,
    Failed(PirError),
}

/// The XOR of the records that each key selects.
struct FetchScan<'a, G> {
    records: &'a [u8],
    record_bytes: usize,
    evaluators: Vec<Evaluator<'a, Bits>>,
    parts: &'a [KeyPart],
    backend: Backend,
    /// Records times keys.
    done: AtomicU64,
    goes_on: G,
}

impl<G: Fn(u64) -> bool + Sync> FetchScan<'_, G> {
    /// Tells how much is done, in records for all keys, and asks whether to go on.
    fn report(&self, records: u64, keys: usize) -> Result<(), Ended> {
        let all = self.evaluators.len().max(1) as u64;
        let more = records * keys as u64;
        let before = self.done.fetch_add(more, Ordering::Relaxed);
        if (self.goes_on)((before + more) / all - before / all) { Ok(()) } else { Err(Ended::Stopped) }
    }
}

impl<G: Fn(u64) -> bool + Sync> Scan for FetchScan<'_, G> {
    /// A part of the keys, and a range of records that starts at a multiple of eight.
    type Shard = (usize, Range<u64>);
    /// Sums of some parts, in ascending order.
    type Partial = Vec<(usize, Sums)>;
    /// The sums of all parts.
    type Answer = Vec<Sums>;
    type Error = Ended;

    fn empty(&self) -> Self::Partial {
        Vec::new()
    }

    fn scan(&self, (part, range): &Self::Shard) -> Result<Self::Partial, Ended> {
        (self.goes_on)(0).then_some(()).ok_or(Ended::Stopped)?;
        let (size, evaluators) = (self.record_bytes, &self.evaluators[self.parts[*part].keys.clone()]);
        let mut sums = Sums::new(CACHE_LINE);
        // Not by growing, which would hold them twice.
        sums.reserve_exact(evaluators.len() * size);
        sums.resize(evaluators.len() * size, 0);
        let row = bits_row(range);
        let mut bits = vec![0; evaluators.len() * row];
        let tile_rows = (TILE_BYTES / (8 * size)).max(1);
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + BITS_RECORDS);
            let bytes = (end - start).div_ceil(8) as usize;
            for (evaluator, bits) in evaluators.iter().zip(bits.chunks_exact_mut(row)) {
                evaluator
                    .range(start..end, &mut bits[..bytes])
                    .map_err(|error| Ended::Failed(error.into()))?;
            }
            let records = &self.records[start as usize * size..end as usize * size];
            for (tile, records) in records.chunks(tile_rows * 8 * size).enumerate() {
                let first = tile * tile_rows;
                let groups = bits.chunks(GROUP * row).zip(sums.chunks_mut(GROUP * size));
                for (bits, sums) in groups {
                    accumulate(self.backend, records, size, &bits[first..], row, sums);
                }
                self.report((records.len() / size) as u64, evaluators.len())?;
            }
            start = end;
        }
        Ok(vec![(*part, sums)])
    }

    fn merge(&self, sum: &mut Self::Partial, partial: Self::Partial) {
        for (part, sums) in partial {
            match sum.binary_search_by_key(&part, |(part, _)| *part) {
                Ok(place) => sum[place].1.iter_mut().zip(sums.iter()).for_each(|(sum, byte)| *sum ^= byte),
                Err(place) => sum.insert(place, (part, sums)),
            }
        }
    }

    fn finish(&self, sum: Self::Partial) -> Self::Answer {
        sum.into_iter().map(|(_, sums)| sums).collect()
    }
}

/// The bytes of a key's bits for as many records of a range as are gone over at once.
fn bits_row(range: &Range<u64>) -> usize {
    BITS_RECORDS.min(range.end - range.start).div_ceil(8) as usize
}

/// Cuts the records into about so many ranges.
fn ranges(records: u64, count: u64) -> Vec<Range<u64>> {
    let share = records.div_ceil(count.max(1));
    let unit = if share < LEAF_RECORDS { 8 } else { LEAF_RECORDS };
    let size = share.next_multiple_of(unit);
    (0..records).step_by(size as usize).map(|start| start..records.min(start + size)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use restante_wire::merkle::Frontier;

    use super::*;
    use crate::fetch::Content;

    #[test]
    fn ranges_are_aligned_and_cover_everything() {
        for records in [1, 7, 8, 9, 1000, 1024, 1025, 3u64.pow(11) + 1, 1 << 20] {
            for count in [1, 2, 3, 16, 200] {
                let ranges = ranges(records, count);
                assert_eq!((ranges[0].start, ranges.last().unwrap().end), (0, records));
                assert!(ranges.len() as u64 <= count);
                for pair in ranges.windows(2) {
                    assert_eq!(pair[0].end, pair[1].start);
                    assert_eq!(pair[1].start % 8, 0);
                }
            }
        }
    }

    #[test]
    fn every_key_is_in_one_part_and_large_queries_have_parts_of_their_own() {
        let info = EpochInfo {
            record_bytes: 1024,
            content: Content::Raw,
            records: 5000,
            frontier: Frontier::default(),
        };
        for threads in [1, 2, 3, 16] {
            for fetches in [&[1][..], &[1024], &[3, 40, 15, 16, 1, 1, 100], &[5; 64], &[1000, 1, 1000]] {
                let plan = Plan::new(&info, fetches, threads);
                let mut next = 0;
                let mut found = vec![0; fetches.len()];
                for part in &plan.parts {
                    assert_eq!(part.keys.start, next);
                    next = part.keys.end;
                    assert_eq!(part.keys.len(), part.queries.iter().map(|(_, keys)| keys).sum::<usize>());
                    assert!(part.is_shared || part.queries.len() == 1);
                    part.queries.iter().for_each(|&(query, keys)| found[query] += keys);
                }
                assert_eq!(found, fetches);
                assert!(plan.parts.len() * plan.ranges.len() >= threads.min(600));
                // Many keys are held once.
                let keys: usize = fetches.iter().sum();
                if keys >= 64 * threads && keys * 1024 > SPARE_BYTES {
                    assert_eq!(plan.ranges.len(), 1, "{fetches:?} {threads}");
                }
            }
        }
    }
}
