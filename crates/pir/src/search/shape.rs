//! How large a query is: buckets, selectors that share a ciphertext, and the sizes of files and memory that follow from them.

use restante_bfv::{FineGaloisKey, KeySwitchingKey, SeededCiphertext};
use restante_wire::Envelope;

use crate::PirError;
use crate::search::hash::{MAX_HASH_BITS, MIN_HASH_BITS};
use crate::search::preset::Preset;
use crate::search::scheme::Scheme;

/// The most selectors of a query.
pub const MAX_SELECTORS: usize = 4096;
/// The most selectors that share a ciphertext.
pub const MAX_SHARING: usize = 64;
/// The most bytes that a query or answer carries for the records' side.
pub const MAX_NOTE_BYTES: usize = 1 << 16;
/// The same for a state, which keeps the selectors.
pub const MAX_SECRET_NOTE_BYTES: usize = 1 << 26;

/// Bytes of a chunk that a coefficient holds.
pub(crate) const WORD_BYTES: usize = 4;
/// Bytes of a query's body before its ciphertexts, without the note.
pub(crate) const QUERY_HEADER_BYTES: usize = 1 + 1 + 4 + 4 + 32;
/// Bytes of an answer's body before its ciphertexts, without the note.
pub(crate) const ANSWER_HEADER_BYTES: usize = 16 + 8 + 4 + 4 + 4;
/// Bytes of a state's body without the note.
pub(crate) const STATE_BYTES: usize = 32 + 16 + 1 + 1 + 4 + 4;
/// Entries of the inner table that meet chunks in one call of the kernel: the chunks' evaluations stay in a second-level cache.
pub(crate) const BLOCK_ROWS: usize = 4;
/// Columns that are computed at a time, so that the inner table is read once for all of them.
pub(crate) const COLUMNS: usize = 8;

/// The shape of a query: how many buckets there are, and how many selectors share a ciphertext.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub(crate) hash_bits: u32,
    pub(crate) sharing_bits: u32,
}

impl Shape {
    /// 2^`hash_bits` buckets, and ciphertexts that `sharing` selectors share: a power of two up to [`MAX_SHARING`].
    ///
    /// Sharing makes queries of many selectors short and costs throughput: a chunk is as many times shorter.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] for numbers outside their limits.
    pub fn new(hash_bits: u32, sharing: usize) -> Result<Self, PirError> {
        if !(MIN_HASH_BITS..=MAX_HASH_BITS).contains(&hash_bits) {
            return Err(PirError::Size {
                what: "the number of hash bits",
                found: hash_bits.into(),
                expected: format!("{MIN_HASH_BITS} to {MAX_HASH_BITS}"),
            });
        }
        if !sharing.is_power_of_two() || sharing > MAX_SHARING {
            return Err(PirError::Size {
                what: "the number of selectors that share a ciphertext",
                found: sharing as u64,
                expected: format!("a power of two up to {MAX_SHARING}"),
            });
        }
        Ok(Self { hash_bits, sharing_bits: sharing.ilog2() })
    }

    /// B.
    pub fn hash_bits(&self) -> u32 {
        self.hash_bits
    }

    /// S: the selectors that share a ciphertext.
    pub fn sharing(&self) -> usize {
        1 << self.sharing_bits
    }

    /// The ciphertexts that a query's selectors need for each column.
    pub fn groups(&self, selectors: usize) -> usize {
        selectors.div_ceil(self.sharing())
    }

    /// The size of a chunk.
    pub fn chunk_bytes(&self, preset: &Preset) -> usize {
        (preset.degree * WORD_BYTES) >> self.sharing_bits
    }

    /// Bits of the lower half of a bucket's number: h2, the inner one.
    pub(crate) fn inner_bits(&self) -> u32 {
        self.hash_bits.div_ceil(2)
    }

    /// Bits of the upper half: h1, the outer one.
    pub(crate) fn outer_bits(&self) -> u32 {
        self.hash_bits / 2
    }

    /// Bits of the four digits, from the upper to the lower: two for each half.
    pub(crate) fn digit_bits(&self) -> [u32; 4] {
        let [outer, inner] = [self.outer_bits(), self.inner_bits()];
        [outer / 2, outer.div_ceil(2), inner / 2, inner.div_ceil(2)]
    }

    /// Encrypted indicators of a group: one for each value of each digit.
    pub(crate) fn indicators(&self) -> usize {
        self.digit_bits().iter().map(|bits| 1 << bits).sum()
    }

    /// Ciphertexts of a query for each group.
    pub(crate) fn packed(&self, preset: &Preset) -> usize {
        self.indicators().div_ceil(1 << preset.packing_bits)
    }

    /// The size of a query file.
    pub fn query_bytes(&self, scheme: &Scheme, selectors: usize, note_bytes: usize) -> usize {
        let (context, preset) = (scheme.context(), scheme.preset());
        let ciphertexts = self.groups(selectors) * self.packed(preset);
        Envelope::OVERHEAD_BYTES
            + QUERY_HEADER_BYTES
            + note_bytes
            + ciphertexts * SeededCiphertext::body_bytes(context)
            + FineGaloisKey::body_bytes(context, preset.pieces)
            + KeySwitchingKey::body_bytes(context, Scheme::DIGITS)
    }

    /// The size of an answer file.
    pub fn answer_bytes(&self, scheme: &Scheme, selectors: usize, columns: u32, note_bytes: usize) -> usize {
        let ciphertexts = self.groups(selectors) * columns as usize;
        Envelope::OVERHEAD_BYTES
            + ANSWER_HEADER_BYTES
            + note_bytes
            + ciphertexts * scheme.short_moduli().ciphertext_bytes(scheme.preset().degree)
    }

    /// The size of a state file.
    pub fn state_bytes(note_bytes: usize) -> usize {
        Envelope::OVERHEAD_BYTES + STATE_BYTES + note_bytes
    }

    /// Memory that a responder keeps for a query once it is prepared.
    pub fn prepared_bytes(&self, preset: &Preset, selectors: usize, keeps_outer: bool) -> usize {
        let limb = preset.degree * size_of::<u64>();
        let inner_limbs = preset.inner_bits.len();
        // A tile has an odd number of lines, one more than the two of each row.
        let rows = (1usize << self.inner_bits()).min(BLOCK_ROWS);
        let blocks = (1usize << self.inner_bits()) / rows;
        let inner = blocks * (2 * rows + 1) * inner_limbs * limb;
        let digits = self.digit_bits();
        let outer = if keeps_outer {
            (1usize << self.outer_bits()) * 2 * inner_limbs * limb
        } else {
            ((1usize << digits[0]) + (1 << digits[1])) * 2 * (inner_limbs + 1) * limb
        };
        let relinearisation = Scheme::DIGITS * 2 * (inner_limbs + 2) * limb;
        self.groups(selectors) * (inner + outer) + relinearisation
    }

    /// Memory that a responder needs besides while it prepares a query, from above: the indicators, as they come out of the query
    /// and as they are multiplied, and for each thread the entries of a block.
    pub fn preparing_bytes(&self, preset: &Preset, threads: usize) -> usize {
        let limb = preset.degree * size_of::<u64>();
        let leveled = 2 * (preset.inner_bits.len() + 2) * limb;
        let rows = (1usize << self.inner_bits()).min(BLOCK_ROWS);
        2 * self.indicators() * leveled + threads * (rows + 8) * leveled
    }

    /// Memory that a responder needs besides while it works: for each thread the chunks and sums of
    /// [`Self::columns_in_flight`] columns, and the sums of every column. `groups` are those of all queries in the pass.
    pub fn working_bytes(&self, preset: &Preset, groups: usize, columns: u32, threads: usize) -> usize {
        let limb = preset.degree * size_of::<u64>();
        let inner_limbs = preset.inner_bits.len();
        let in_flight = columns.min(Self::columns_in_flight()) as usize;
        let (span, group) = Self::chunks_at_a_time(groups);
        let chunks = span * group * (limb + limb / 2);
        let sums = groups * (in_flight + 1) * 2 * inner_limbs * limb;
        let columns = groups * columns as usize * 3 * inner_limbs * limb;
        threads * (chunks + sums + columns)
    }

    /// How many consecutive h2, and how many columns, are transformed before they are multiplied.
    pub(crate) fn chunks_at_a_time(groups: usize) -> (usize, usize) {
        if groups == 1 { (BLOCK_ROWS, 1) } else { (4 * BLOCK_ROWS, COLUMNS) }
    }

    /// The columns that are computed at a time.
    pub fn columns_in_flight() -> u32 {
        COLUMNS as u32
    }

    /// The indices of a bucket's four indicators among all.
    pub(crate) fn places(&self, bucket: u32) -> [usize; 4] {
        let bits = self.digit_bits();
        let (mut shift, mut start) = (self.hash_bits, 0);
        bits.map(|bits| {
            shift -= bits;
            let place = start + (bucket >> shift & ((1 << bits) - 1)) as usize;
            start += 1 << bits;
            place
        })
    }

    pub(crate) fn check_selectors(&self, selectors: usize) -> Result<(), PirError> {
        match selectors {
            1..=MAX_SELECTORS => Ok(()),
            _ => Err(PirError::Size {
                what: "the number of selectors of a query",
                found: selectors as u64,
                expected: format!("1 to {MAX_SELECTORS}"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn digits_make_up_the_bucket() {
        for hash_bits in MIN_HASH_BITS..=MAX_HASH_BITS {
            let shape = Shape::new(hash_bits, 1).unwrap();
            assert_eq!(shape.digit_bits().iter().sum::<u32>(), hash_bits);
            for bucket in [0, 1, 0x5a_5a5a, 0xff_ffff].map(|bucket: u32| bucket & ((1 << hash_bits) - 1)) {
                let mut start = 0;
                let mut value = 0;
                for (place, bits) in shape.places(bucket).into_iter().zip(shape.digit_bits()) {
                    assert!((start..start + (1 << bits)).contains(&place));
                    value = value << bits | (place - start) as u32;
                    start += 1 << bits;
                }
                assert_eq!((value, start), (bucket, shape.indicators()));
            }
        }
    }

    #[test]
    fn shapes_outside_their_limits_are_refused() {
        for (hash_bits, sharing) in [(7, 1), (25, 1), (8, 0), (8, 3), (8, 128)] {
            assert!(matches!(Shape::new(hash_bits, sharing), Err(PirError::Size { .. })));
        }
    }
}
