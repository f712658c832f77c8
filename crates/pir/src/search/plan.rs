//! How many buckets a table wants.

use crate::PirError;
use crate::search::bucket::{HEADER_BYTES, prefix_bytes};
use crate::search::hash::{MAX_HASH_BITS, MIN_HASH_BITS, SelectorKind};
use crate::search::source::{MAX_CHUNK_BYTES, MIN_CHUNK_BYTES};

/// How often a prediction may be exceeded.
const RISK: f64 = 0.01;

/// The facts about a table that are known beforehand. Hits count as records: a selector's hits are all in one bucket, so that a selector with many
/// hits needs `max_hits`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordSizes {
    /// The number of records.
    pub records: u64,
    /// The mean size of an encoded record in bytes.
    pub mean_bytes: f64,
    /// The size of the largest encoded record in bytes.
    pub max_bytes: u64,
    /// The most records that one selector has, or that the limit on hits lets through.
    pub max_hits: u64,
    /// The kind of the selectors.
    pub kind: SelectorKind,
}

/// The consequences of a number of hash bits for a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// B.
    pub hash_bits: u32,
    /// The mean number of records in a bucket.
    pub mean_records: f64,
    /// The most records in any bucket, exceeded for less than one key in a hundred.
    pub max_records: u64,
    /// The columns that suffice as often, taking records of mean size and one of the largest: what the answer grows with.
    pub columns: u32,
}

impl Plan {
    /// The consequences of `hash_bits` for a table, with chunks of `chunk_bytes`.
    ///
    /// The number of records in a bucket is taken as Poisson-distributed, and the buckets as independent.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] for a number of bits or a chunk size outside its limits.
    pub fn predict(sizes: &RecordSizes, hash_bits: u32, chunk_bytes: usize) -> Result<Self, PirError> {
        let limits = [
            (
                "the number of hash bits",
                u64::from(hash_bits),
                u64::from(MIN_HASH_BITS),
                u64::from(MAX_HASH_BITS),
            ),
            (
                "the size of a chunk in bytes",
                chunk_bytes as u64,
                MIN_CHUNK_BYTES as u64,
                MAX_CHUNK_BYTES as u64,
            ),
        ];
        for (what, found, min, max) in limits {
            if !(min..=max).contains(&found) {
                return Err(PirError::Size { what, found, expected: format!("{min} to {max}") });
            }
        }
        let buckets = (1u64 << hash_bits) as f64;
        let hits = sizes.max_hits.clamp(1, sizes.records.max(1));
        let mean_records = sizes.records as f64 / buckets;
        let max_records = match sizes.kind {
            _ if sizes.records == 0 => 0,
            SelectorKind::Number => sizes.records.div_ceil(1 << hash_bits),
            // One selector's hits, and as many others as any bucket has.
            SelectorKind::Bytes => {
                let others = largest_load((sizes.records - hits) as f64 / buckets, buckets);
                (hits.max(1) - 1 + others.max(1)).min(sizes.records)
            }
        };
        let frame = |bytes: f64| prefix_bytes(bytes as u64, false) as f64 + bytes;
        let largest = match max_records {
            0 => 0.0,
            records => (records - 1) as f64 * frame(sizes.mean_bytes) + frame(sizes.max_bytes as f64),
        };
        let columns = match max_records {
            0 => 0.0,
            _ => ((HEADER_BYTES as f64 + largest) / chunk_bytes as f64).ceil(),
        };
        Ok(Self { hash_bits, mean_records, max_records, columns: columns as u32 })
    }

    /// The plan with the fewest hash bits whose columns more bits would not halve.
    ///
    /// Few bits make queries short and their expansion cheap; the answer and the products grow with the columns. For small
    /// records that is the fewest bits for which a bucket fits into few chunks.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] for a chunk size outside its limits.
    pub fn recommend(sizes: &RecordSizes, chunk_bytes: usize) -> Result<Self, PirError> {
        let fewest = Self::predict(sizes, MAX_HASH_BITS, chunk_bytes)?.columns;
        for bits in MIN_HASH_BITS..MAX_HASH_BITS {
            let plan = Self::predict(sizes, bits, chunk_bytes)?;
            if plan.columns < fewest.saturating_mul(2).max(2) {
                return Ok(plan);
            }
        }
        Self::predict(sizes, MAX_HASH_BITS, chunk_bytes)
    }
}

/// The load that the fullest of `buckets` Poisson-distributed ones of mean `mean` exceeds with probability [`RISK`] at most.
fn largest_load(mean: f64, buckets: f64) -> u64 {
    if mean <= 0.0 {
        return 0;
    }
    // Past the mean, the tail P(X > m) is at most P(X = m + 1) / (1 - mean / (m + 2)).
    let mut load = mean.floor();
    let mut log_term = log_poisson(mean, load);
    loop {
        let next = log_term + mean.ln() - (load + 1.0).ln();
        let ratio = mean / (load + 2.0);
        if ratio < 1.0 && buckets.ln() + next - (1.0 - ratio).ln() <= RISK.ln() {
            return load as u64;
        }
        load += 1.0;
        log_term = next;
    }
}

/// ln P(X = count), with Stirling's series for the factorial.
fn log_poisson(mean: f64, count: f64) -> f64 {
    let log_factorial = if count < 16.0 {
        (1..=count as u32).map(|factor| f64::from(factor).ln()).sum()
    } else {
        count * count.ln() - count + 0.5 * (2.0 * std::f64::consts::PI * count).ln() + 1.0 / (12.0 * count)
    };
    count * mean.ln() - mean - log_factorial
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn sizes(records: u64, mean_bytes: f64, max_bytes: u64) -> RecordSizes {
        RecordSizes { records, mean_bytes, max_bytes, max_hits: 1, kind: SelectorKind::Bytes }
    }

    #[test]
    fn loads_match_sums_of_the_distribution() {
        for (mean, buckets) in [(0.01, 256.0), (1.0, 65_536.0), (16.0, 1024.0), (250.0, 4096.0)] {
            let mut term = f64::exp(-mean);
            let mut below = term;
            let mut expected = 0u64;
            while buckets * (1.0 - below) > RISK {
                expected += 1;
                term *= mean / expected as f64;
                below += term;
            }
            let found = largest_load(mean, buckets);
            assert!((expected..=expected + 1).contains(&found), "{mean} {buckets}: {found} for {expected}");
        }
    }

    #[test]
    fn small_records_fill_a_chunk_and_large_ones_have_buckets_of_their_own() {
        // 2^20 records of 100 bytes: about 290 fit into 32 KiB.
        let plan = Plan::recommend(&sizes(1 << 20, 100.0, 200), 32 << 10).unwrap();
        assert_eq!((plan.hash_bits, plan.columns), (13, 1));
        let plan = Plan::recommend(&sizes(1000, 1e6, 1 << 20), 32 << 10).unwrap();
        assert!(plan.hash_bits > 10 && plan.max_records < 6, "{plan:?}");
        let numbers = RecordSizes { kind: SelectorKind::Number, ..sizes(1 << 16, 30_000.0, 30_000) };
        let plan = Plan::recommend(&numbers, 32 << 10).unwrap();
        assert_eq!((plan.hash_bits, plan.max_records, plan.columns), (16, 1, 1));
        assert_eq!(Plan::recommend(&sizes(0, 0.0, 0), 64).unwrap().columns, 0);
    }

    #[test]
    fn sizes_outside_their_limits_are_refused() {
        for (bits, chunk) in [(7, 1024), (25, 1024), (8, 63), (8, (1 << 20) + 1)] {
            assert!(Plan::predict(&sizes(1, 1.0, 1), bits, chunk).is_err());
        }
    }
}
