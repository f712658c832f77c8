//! Records sorted into buckets.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::PirError;
use crate::search::bucket::{HEADER_BYTES, Header, MAX_PREFIX_BYTES, prefix, prefix_bytes};
use crate::search::hash::{CHECK_BYTES, Location, SelectorHash};
use crate::search::record::MAX_RECORD_BYTES;
use crate::search::source::{ChunkSource, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES};
use crate::search::store::RecordStore;

/// The most records of a window.
pub const MAX_WINDOW_RECORDS: u64 = 1 << 30;
/// The most chunks of a bucket.
pub const MAX_COLUMNS: u32 = 1 << 22;

/// Records whose first bytes are loaded together.
const TOUCHED: usize = 32;

/// How a query wants a window to be cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The query's hash function.
    pub hash: SelectorHash,
    /// The size of a chunk in bytes.
    pub chunk_bytes: usize,
}

/// The limits of what a window may hold and return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowLimits {
    /// The most records; one more is an error, so whoever cuts a stream into windows ends one before that.
    pub records: u64,
    /// The most records that come back for a selector: the first of them, and the number of those cut off.
    pub hits: Option<u32>,
    /// The most chunks of a bucket: a bucket keeps the records that came before the first one that does not fit, and the number of
    /// those dropped.
    pub columns: Option<u32>,
    /// Bytes of records to keep in memory; more than that goes into a file.
    pub memory_bytes: usize,
    /// Where that file is made. It has no name, and is gone when the window is.
    pub folder: PathBuf,
}

impl Default for WindowLimits {
    /// 2^30 records, no limit on hits and columns, 256 MiB, the system's directory for temporary files.
    fn default() -> Self {
        Self {
            records: MAX_WINDOW_RECORDS,
            hits: None,
            columns: None,
            memory_bytes: 256 << 20,
            folder: std::env::temp_dir(),
        }
    }
}

/// Takes records in any order and sorts them into the buckets of one or several queries.
///
/// Memory: 36 bytes for each record and query (up to twice that while an array grows), and the records themselves as far as
/// [`WindowLimits::memory_bytes`] allows. A table that is larger by far than the memory is thus answered from a file, of which
/// [`ChunkSource::read_chunk`] reads what it needs.
#[derive(Debug)]
pub struct WindowBuilder {
    limits: WindowLimits,
    store: RecordStore,
    records: u64,
    queries: Vec<(Cut, Vec<Entry>)>,
}

/// A window of records, sorted for one query.
#[derive(Debug)]
pub struct Window {
    cut: Cut,
    store: Arc<RecordStore>,
    /// The frames, by bucket.
    entries: Vec<Entry>,
    /// Where each frame ends in its bucket's string.
    ends: Vec<u64>,
    buckets: Vec<u32>,
    /// The first frame of each bucket, and one more for the end.
    starts: Vec<usize>,
    /// The records dropped of each bucket from which records were dropped, by its place.
    dropped: HashMap<usize, u64>,
    columns: u32,
    records: u64,
}

/// A frame. Two halves of the offset keep it at 28 bytes.
#[derive(Debug, Clone, Copy)]
struct Entry {
    bucket: u32,
    offset: [u32; 2],
    /// The length of the record, or how many were dropped.
    number: u32,
    check: [u8; CHECK_BYTES],
    cut: bool,
}

// What the documentation of [`WindowBuilder`] counts on, with 8 bytes for the frame's end.
const _: () = assert!(size_of::<Entry>() == 28);

impl Entry {
    fn offset(&self) -> u64 {
        u64::from(self.offset[1]) << 32 | u64::from(self.offset[0])
    }

    /// The size of the frame.
    fn bytes(&self) -> u64 {
        let content = if self.cut { 0 } else { self.number.into() };
        prefix_bytes(self.number.into(), self.cut) as u64 + content
    }
}

impl WindowBuilder {
    /// An empty window for these queries.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] for a chunk size outside [`MIN_CHUNK_BYTES`] to [`MAX_CHUNK_BYTES`], or limits above the maxima of
    /// this module.
    pub fn new(cuts: &[Cut], limits: WindowLimits) -> Result<Self, PirError> {
        for cut in cuts {
            let range = MIN_CHUNK_BYTES as u64..=MAX_CHUNK_BYTES as u64;
            check("the size of a chunk in bytes", cut.chunk_bytes as u64, range)?;
        }
        check("the limit on a window's records", limits.records, 0..=MAX_WINDOW_RECORDS)?;
        check("the limit on columns", limits.columns.unwrap_or(1).into(), 1..=MAX_COLUMNS.into())?;
        Ok(Self {
            store: RecordStore::new(limits.memory_bytes, limits.folder.clone()),
            limits,
            records: 0,
            queries: cuts.iter().map(|cut| (cut.clone(), Vec::new())).collect(),
        })
    }

    /// The number of records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The bytes of all records so far.
    pub fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// Whether the window has as many records as it may.
    pub fn is_full(&self) -> bool {
        self.records >= self.limits.records
    }

    /// Adds a record: its selector, and what comes back for it.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] if the window is full or the record larger than [`MAX_RECORD_BYTES`], which leave the window as it
    /// was; [`PirError::Io`], after which it can only be given up.
    pub fn push(&mut self, selector: &[u8], record: &[u8]) -> Result<(), PirError> {
        if self.is_full() {
            return Err(PirError::Size {
                what: "the number of records in a window",
                found: self.records + 1,
                expected: format!("at most {}", self.limits.records),
            });
        }
        check("the size of a record in bytes", record.len() as u64, 0..=MAX_RECORD_BYTES as u64)?;
        let offset = self.store.push(record)?;
        for (cut, entries) in &mut self.queries {
            let Location { bucket, check } = cut.hash.locate(selector);
            entries.push(Entry {
                bucket,
                offset: [offset as u32, (offset >> 32) as u32],
                number: record.len() as u32,
                check,
                cut: false,
            });
        }
        self.records += 1;
        Ok(())
    }

    /// Sorts the records: a window for each query, in the queries' order.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] if a bucket takes more than [`MAX_COLUMNS`] chunks and there is no limit on columns.
    pub fn seal(self) -> Result<Vec<Window>, PirError> {
        let store = Arc::new(self.store);
        let (records, limits) = (self.records, self.limits);
        let windows = self.queries.into_iter();
        windows
            .map(|(cut, entries)| Window::sort(cut, entries, Arc::clone(&store), records, &limits))
            .collect()
    }
}

impl Window {
    fn sort(
        cut: Cut,
        mut entries: Vec<Entry>,
        store: Arc<RecordStore>,
        records: u64,
        limits: &WindowLimits,
    ) -> Result<Self, PirError> {
        // Arrival is the order of offsets; of those with the same offset only the last can have a length.
        entries.sort_unstable_by_key(|entry| (entry.bucket, entry.offset(), entry.number));
        let (mut buckets, mut starts, mut dropped) = (Vec::new(), vec![0], HashMap::new());
        let mut ends = Vec::with_capacity(entries.len());
        let mut longest = 0u64;
        let room = limits.columns.map_or(u64::MAX, |columns| u64::from(columns) * cut.chunk_bytes as u64);
        // Kept frames move to the front: there are never more of them than frames that were read, as a frame that
        // counts dropped records stands for at least one.
        let (mut read, mut kept) = (0, 0);
        while let Some(first) = entries.get(read) {
            let bucket = first.bucket;
            let start = kept;
            let members = entries[read..].partition_point(|entry| entry.bucket == bucket);
            let counts = limit_hits(&mut entries, read..read + members, limits.hits, &mut kept);
            for mut counter in counts {
                counter.bucket = bucket;
                entries[kept] = counter;
                kept += 1;
            }
            read += members;
            let mut length = HEADER_BYTES as u64;
            let mut fitting = start;
            while fitting < kept && length + entries[fitting].bytes() <= room {
                length += entries[fitting].bytes();
                ends.push(length);
                fitting += 1;
            }
            if fitting < kept {
                let lost = entries[fitting..kept].iter();
                let lost = lost.map(|entry| if entry.cut { entry.number.into() } else { 1u64 });
                dropped.insert(buckets.len(), lost.sum());
                kept = fitting;
            }
            longest = longest.max(length);
            buckets.push(bucket);
            starts.push(kept);
        }
        entries.truncate(kept);
        let columns = longest.div_ceil(cut.chunk_bytes as u64);
        check("the number of columns", columns, 0..=MAX_COLUMNS.into())?;
        Ok(Self { cut, store, entries, ends, buckets, starts, dropped, columns: columns as u32, records })
    }

    /// How the window is cut.
    pub fn cut(&self) -> &Cut {
        &self.cut
    }

    /// The number of records that came into the window, dropped ones included.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The number of chunks that hold something, over all buckets: what the responder's work grows with.
    pub fn chunks(&self) -> u64 {
        (0..self.buckets.len()).map(|place| u64::from(self.bucket_columns(place))).sum()
    }

    /// The number of records that no answer can return, because of a limit.
    pub fn dropped(&self) -> u64 {
        let cut = self.entries.iter().filter(|entry| entry.cut).map(|entry| u64::from(entry.number));
        cut.sum::<u64>() + self.dropped.values().sum::<u64>()
    }

    fn frames(&self, place: usize) -> Option<Range<usize>> {
        Some(*self.starts.get(place)?..*self.starts.get(place + 1)?)
    }

    /// The length of a bucket's string.
    fn length(&self, frames: &Range<usize>) -> u64 {
        if frames.is_empty() { HEADER_BYTES as u64 } else { self.ends[frames.end - 1] }
    }

    fn header(&self, place: usize, frames: &Range<usize>) -> [u8; HEADER_BYTES] {
        let records = self.entries[frames.clone()].iter().filter(|entry| !entry.cut).count() as u32;
        let dropped = self.dropped.get(&place).copied().unwrap_or(0);
        Header {
            records,
            dropped: u32::try_from(dropped).unwrap_or(u32::MAX),
            bytes: self.length(frames) - HEADER_BYTES as u64,
        }
        .to_bytes()
    }
}

impl ChunkSource for Window {
    fn hash_bits(&self) -> u32 {
        self.cut.hash.bits()
    }

    fn chunk_bytes(&self) -> usize {
        self.cut.chunk_bytes
    }

    fn columns(&self) -> u32 {
        self.columns
    }

    fn buckets(&self) -> &[u32] {
        &self.buckets
    }

    fn bucket_columns(&self, place: usize) -> u32 {
        let length = self.frames(place).map_or(0, |frames| self.length(&frames));
        length.div_ceil(self.cut.chunk_bytes as u64) as u32 // At most `columns`.
    }

    fn read_chunk(&self, place: usize, column: u32, chunk: &mut [u8]) -> Result<usize, PirError> {
        let size = self.cut.chunk_bytes;
        check("the size of a chunk in bytes", chunk.len() as u64, size as u64..=size as u64)?;
        let Some(frames) = self.frames(place) else {
            return Err(PirError::Size {
                what: "the place of a bucket",
                found: place as u64,
                expected: format!("less than {}", self.buckets.len()),
            });
        };
        let from = u64::from(column) * size as u64;
        let filled = self.length(&frames).saturating_sub(from).min(size as u64) as usize;
        let (out, zeros) = chunk.split_at_mut(filled);
        zeros.fill(0);
        if filled == 0 {
            return Ok(0);
        }
        if from < HEADER_BYTES as u64 {
            copy(&self.header(place, &frames), 0, from, out);
        }
        let first = frames.start + self.ends[frames.clone()].partition_point(|&end| end <= from);
        let mut start = if first == frames.start { HEADER_BYTES as u64 } else { self.ends[first - 1] };
        let mut head = Vec::with_capacity(MAX_PREFIX_BYTES);
        let last =
            frames.start + self.ends[frames.clone()].partition_point(|&end| end < from + filled as u64);
        let last = frames.end.min(last + 1);
        for (place, (entry, &end)) in
            self.entries[first..last].iter().zip(&self.ends[first..last]).enumerate()
        {
            if place % TOUCHED == 0 {
                let ahead = &self.entries[first + place..last.min(first + place + TOUCHED)];
                self.store.touch(ahead.iter().map(|entry| (entry.offset(), entry.number)));
            }
            head.clear();
            prefix(&entry.check, entry.number.into(), entry.cut, &mut head);
            copy(&head, start, from, out);
            let content = start + head.len() as u64;
            if let Some((skip, place)) = overlap(content..end, from, filled) {
                self.store.read(entry.offset() + skip, &mut out[place])?;
            }
            start = end;
        }
        Ok(filled)
    }
}

/// Of a bucket's frames `bucket`, moves those within the limit to `kept`, in their order, and returns a frame for each selector that
/// had more, in the order in which they had.
fn limit_hits(
    entries: &mut [Entry],
    bucket: Range<usize>,
    limit: Option<u32>,
    kept: &mut usize,
) -> Vec<Entry> {
    let mut counters = Vec::new();
    let mut hits: HashMap<[u8; CHECK_BYTES], (u32, usize)> = HashMap::new();
    for place in bucket {
        let entry = entries[place];
        if let Some(limit) = limit {
            let (count, counter) = hits.entry(entry.check).or_insert((0, usize::MAX));
            if *count == limit {
                if *counter == usize::MAX {
                    *counter = counters.len();
                    counters.push(Entry { number: 0, cut: true, ..entry });
                }
                counters[*counter].number += 1; // At most MAX_WINDOW_RECORDS.
                continue;
            }
            *count += 1;
        }
        entries[*kept] = entry;
        *kept += 1;
    }
    counters
}

/// Where the part `range` of a bucket's string meets the `length` bytes from `from` on: how many of its bytes come before, and the
/// place in those bytes.
fn overlap(range: Range<u64>, from: u64, length: usize) -> Option<(u64, Range<usize>)> {
    let start = range.start.max(from);
    let end = range.end.min(from + length as u64);
    (start < end).then(|| (start - range.start, (start - from) as usize..(end - from) as usize))
}

/// Copies what of `bytes`, which are at `at` in a bucket's string, belongs into `out`, which starts at `from`.
fn copy(bytes: &[u8], at: u64, from: u64, out: &mut [u8]) {
    if let Some((skip, place)) = overlap(at..at + bytes.len() as u64, from, out.len()) {
        let skip = skip as usize;
        out[place.clone()].copy_from_slice(&bytes[skip..skip + place.len()]);
    }
}

fn check(what: &'static str, found: u64, range: std::ops::RangeInclusive<u64>) -> Result<(), PirError> {
    if range.contains(&found) {
        Ok(())
    } else {
        Err(PirError::Size { what, found, expected: format!("{} to {}", range.start(), range.end()) })
    }
}
