//! The string of bytes that stands for a bucket.
//!
//! It starts with a header of 20 bytes, little-endian: the number of records that follow (4 bytes), the number of records that
//! were dropped because the window's columns were full (4 bytes, at most 2^32 - 1), the bytes that follow (8), and the first 4
//! bytes of the BLAKE3 hash of the domain and of these 16. Then frames:
//!
//! ```text
//! 10 bytes  check value of the record's selector
//!  1 to 10  LEB128 of 2 x length, or of 2 x number + 1
//!   length  the encoded record
//! ```
//!
//! A frame with the odd number holds no record; it comes behind all that do, and says that so many more records of that
//! selector were dropped by the limit on hits. A bucket that holds nothing is all zeros, which no header is; behind the
//! last frame there are zeros up to the end of the last column.

use restante_wire::Reader;

use crate::search::hash::{CHECK_BYTES, Location};
use crate::search::record::MAX_RECORD_BYTES;
use crate::search::varint;

/// The size of a bucket's header in bytes.
pub const HEADER_BYTES: usize = 20;
/// The most bytes that a frame takes in front of its record.
pub(super) const MAX_PREFIX_BYTES: usize = CHECK_BYTES + 10;

const DOMAIN: &[u8] = b"restante/1/search/bucket";

/// The records that a search brought back for a selector.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The encoded records, in the order in which they came into the window.
    pub records: Vec<Vec<u8>>,
    /// How many more records of this selector there were: the limit on hits cut them off.
    pub cut_off: u64,
    /// How many records of the whole bucket were left out because the window's columns were full; any of them may have
    /// been a hit. At most 2^32 - 1 are counted.
    pub bucket_dropped: u32,
    /// How many records of other selectors fell into the same bucket.
    pub others: u32,
}

impl Found {
    /// Whether these are all hits that there were.
    pub fn is_complete(&self) -> bool {
        self.cut_off == 0 && self.bucket_dropped == 0
    }
}

/// A bucket's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) records: u32,
    pub(super) dropped: u32,
    pub(super) bytes: u64,
}

impl Header {
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.records.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.dropped.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        let hash = blake3::Hasher::new().update(DOMAIN).update(&bytes[..16]).finalize();
        bytes[16..].copy_from_slice(&hash.as_bytes()[..4]);
        bytes
    }

    fn read(bytes: [u8; HEADER_BYTES]) -> Option<Self> {
        let mut reader = Reader::new("a bucket's header", &bytes);
        let header =
            Self { records: reader.u32().ok()?, dropped: reader.u32().ok()?, bytes: reader.u64().ok()? };
        (header.to_bytes() == bytes).then_some(header)
    }
}

/// The first bytes of a frame.
pub(super) fn prefix(check: &[u8; CHECK_BYTES], length: u64, cut: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(check);
    varint::put(length << 1 | u64::from(cut), out);
}

/// How many bytes that is.
pub(super) fn prefix_bytes(length: u64, cut: bool) -> usize {
    CHECK_BYTES + varint::bytes(length << 1 | u64::from(cut))
}

/// Reads the whole string of a bucket, and what follows it up to the end of the last column.
pub(super) fn read(location: &Location, text: &[u8]) -> Result<Found, String> {
    let mut found = Found::default();
    let (header, rest) = text.split_first_chunk().unwrap_or((&[0; HEADER_BYTES], text));
    if header == &[0; HEADER_BYTES] {
        return if is_zero(rest) { Ok(found) } else { Err("it has no header".into()) };
    }
    let header = Header::read(*header).ok_or("its header does not match its hash")?;
    let Some((frames, padding)) =
        usize::try_from(header.bytes).ok().and_then(|bytes| rest.split_at_checked(bytes))
    else {
        return Err(format!("it has {} bytes, the columns have {}", header.bytes, rest.len()));
    };
    if !is_zero(padding) {
        return Err("something follows its end".into());
    }
    found.bucket_dropped = header.dropped;
    let mut reader = Reader::new("a bucket", frames);
    let mut records = 0u32;
    while reader.remaining() > 0 {
        let malformed = |error: restante_wire::WireError| error.to_string();
        let check = reader.array::<CHECK_BYTES>().map_err(malformed)?;
        let number = varint::get("the length of a record", u64::MAX, &mut reader).map_err(malformed)?;
        let (number, cut) = (number >> 1, number & 1 == 1);
        let ours = check == location.check;
        if cut {
            found.cut_off = found.cut_off.saturating_add(if ours { number } else { 0 });
            continue;
        }
        if number > MAX_RECORD_BYTES as u64 {
            return Err(format!("a record has {number} bytes, expected at most {MAX_RECORD_BYTES}"));
        }
        let record = reader.bytes(number as usize).map_err(malformed)?;
        records += 1; // A frame takes 11 bytes at least, and a bucket is in memory.
        if ours {
            found.records.push(record.to_vec());
        } else {
            found.others += 1;
        }
    }
    if records == header.records {
        Ok(found)
    } else {
        Err(format!("it has {records} records, its header says {}", header.records))
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const OURS: Location = Location { bucket: 0, check: [1; CHECK_BYTES] };

    fn text(records: u32, dropped: u32, frames: &[u8], padding: usize) -> Vec<u8> {
        let header = Header { records, dropped, bytes: frames.len() as u64 };
        [&header.to_bytes()[..], frames, &vec![0; padding]].concat()
    }

    fn frame(check: u8, record: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        prefix(&[check; CHECK_BYTES], record.len() as u64, false, &mut out);
        assert_eq!(out.len(), prefix_bytes(record.len() as u64, false));
        out.extend_from_slice(record);
        out
    }

    #[test]
    fn hits_are_told_from_others_and_what_was_dropped_is_reported() {
        let mut frames = [frame(1, b"one"), frame(2, b"two"), frame(1, b""), frame(1, &[0; 300])].concat();
        prefix(&[2; CHECK_BYTES], 7, true, &mut frames);
        prefix(&[1; CHECK_BYTES], 1000, true, &mut frames);
        let found = read(&OURS, &text(4, 5, &frames, 17)).unwrap();
        assert_eq!(found.records, [b"one".to_vec(), vec![], vec![0; 300]]);
        assert_eq!((found.others, found.cut_off, found.bucket_dropped), (1, 1000, 5));
        assert!(!found.is_complete());
    }

    #[test]
    fn an_empty_bucket_is_no_record_and_a_record_of_zeros_is_one() {
        for zeros in [0, 1, HEADER_BYTES, 64] {
            assert_eq!(read(&OURS, &vec![0; zeros]).unwrap(), Found::default());
        }
        let nothing = Location { bucket: 0, check: [0; CHECK_BYTES] };
        let found = read(&nothing, &text(1, 0, &frame(0, &[0; 40]), 3)).unwrap();
        assert_eq!(found.records, [vec![0; 40]]);
        let found = read(&nothing, &text(1, 0, &frame(0, b""), 3)).unwrap();
        assert_eq!(found.records, [b""]);
        assert!(found.is_complete());
    }

    #[test]
    fn damage_is_found() {
        let frames = [frame(1, b"one"), frame(2, b"two")].concat();
        let good = text(2, 0, &frames, 9);
        read(&OURS, &good).unwrap();
        // Every bit of the header, every byte of padding, every end before the frames'.
        for bit in 0..8 * HEADER_BYTES {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&OURS, &bad).is_err(), "bit {bit}");
        }
        for place in HEADER_BYTES + frames.len()..good.len() {
            let mut bad = good.clone();
            bad[place] = 1;
            assert!(read(&OURS, &bad).is_err(), "padding at {place}");
        }
        for end in 1..HEADER_BYTES + frames.len() {
            assert!(read(&OURS, &good[..end]).is_err(), "cut at {end}");
        }
        assert!(read(&OURS, &text(3, 0, &frames, 0)).is_err());
        assert!(read(&OURS, &text(1, 0, &frames, 0)).is_err());
        assert!(read(&OURS, &text(2, 0, &frames[..frames.len() - 1], 0)).is_err());
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(frames in vec(any::<u8>(), 0..100), records in 0u32..4, zeros in 0usize..30) {
            let _ = read(&OURS, &frames);
            let _ = read(&OURS, &text(records, 0, &frames, zeros));
        }
    }
}
