//! The bucket that a selector belongs to, and the tag that tells its records from others in that bucket.

use std::collections::HashMap;
use std::fmt;

use rand_core::CryptoRng;
use restante_wire::{Decode, Encode, Reader, WireError};

use crate::PirError;

/// The smallest B: fewer buckets would make an answer a large part of the table.
pub const MIN_HASH_BITS: u32 = 8;
/// The largest B.
pub const MAX_HASH_BITS: u32 = 24;

/// The size of a check value in bytes.
///
/// A record of another selector that fell into the same bucket passes for a hit with probability 2^-80 each, so that even a
/// bucket of 2^20 other records yields a false hit with 2^-60 only. With 64 bits that bound would hold for 16 others, and a
/// bucket of small records holds hundreds.
pub const CHECK_BYTES: usize = 10;

/// How often [`SelectorHash::random_distinct`] draws.
const DRAWS: usize = 1024;

/// Separates the hash of selectors from any other use of the same key.
const DOMAIN: &str = "restante/1/search/selector";

/// The kind of a selector, which decides how buckets are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SelectorKind {
    /// Any bytes. The bucket is a keyed hash of them.
    Bytes = 0,
    /// A record's number, as [`number_selector`] has it. The bucket is the number modulo 2^B, so that up to 2^B records fall
    /// into buckets of their own.
    Number = 1,
}

/// The selector of record `number` in index mode.
pub fn number_selector(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// A query's hash function: keyed BLAKE3 of the selector gives the bucket and the check value.
///
/// The key is no secret, since the responder hashes with it; it must be fresh for each query, and independent of the selectors.
/// [`random`](Self::random) draws it so. A query that repeats a key lets collisions that were seen once be counted on.
#[derive(Clone, PartialEq, Eq)]
pub struct SelectorHash {
    kind: SelectorKind,
    bits: u32,
    key: [u8; 32],
    /// The key that BLAKE3 gets.
    derived: [u8; 32],
}

/// Where a selector's records are, and what marks them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Location {
    /// The bucket.
    pub bucket: u32,
    /// The check value.
    pub check: [u8; CHECK_BYTES],
}

impl SelectorHash {
    /// The hash function with 2^`bits` buckets and the given key.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] unless `bits` is [`MIN_HASH_BITS`] to [`MAX_HASH_BITS`].
    pub fn new(kind: SelectorKind, bits: u32, key: [u8; 32]) -> Result<Self, PirError> {
        if !(MIN_HASH_BITS..=MAX_HASH_BITS).contains(&bits) {
            return Err(PirError::Size {
                what: "the number of hash bits",
                found: bits.into(),
                expected: format!("{MIN_HASH_BITS} to {MAX_HASH_BITS}"),
            });
        }
        Ok(Self::with_any_bits(kind, bits, key))
    }

    /// Without the lower limit, so that tests can force collisions.
    pub(crate) fn with_any_bits(kind: SelectorKind, bits: u32, key: [u8; 32]) -> Self {
        Self { kind, bits, key, derived: blake3::derive_key(DOMAIN, &key) }
    }

    /// A hash function whose key depends on nothing.
    ///
    /// # Errors
    ///
    /// As for [`SelectorHash::new`].
    pub fn random(kind: SelectorKind, bits: u32, rng: &mut impl CryptoRng) -> Result<Self, PirError> {
        let mut key = [0; 32];
        rng.fill_bytes(&mut key);
        Self::new(kind, bits, key)
    }

    /// A hash function that puts all `selectors` into different buckets: keys are drawn until one does.
    ///
    /// The responder then learns that the selectors do not collide under this key, which is -log2 p bits about them if a share p
    /// of all keys would have done: about 0.72 k(k-1) / 2^B bits for k selectors, 0.01 for 32 of them and B = 16. A
    /// query in which selectors may share a bucket, because each has its own answer, needs [`random`](Self::random) only and tells
    /// nothing.
    ///
    /// # Errors
    ///
    /// As for [`SelectorHash::new`]; [`PirError::SameSelector`] if two selectors are equal; [`PirError::Crowded`] if 1,024
    /// draws were not enough, or if two record numbers are congruent modulo 2^B, which no key changes.
    pub fn random_distinct(
        kind: SelectorKind,
        bits: u32,
        selectors: &[impl AsRef<[u8]>],
        rng: &mut impl CryptoRng,
    ) -> Result<Self, PirError> {
        refuse_repeated(selectors)?;
        let draws = if kind == SelectorKind::Number { 1 } else { DRAWS };
        for _ in 0..draws {
            let hash = Self::random(kind, bits, rng)?;
            if hash.collisions(selectors).is_empty() {
                return Ok(hash);
            }
        }
        Err(PirError::Crowded { selectors: selectors.len(), bits })
    }

    /// The pairs of places in `selectors` that share a bucket: each selector with the first before it in the same bucket.
    pub fn collisions(&self, selectors: &[impl AsRef<[u8]>]) -> Vec<(usize, usize)> {
        let mut first = HashMap::new();
        let mut pairs = Vec::new();
        for (place, selector) in selectors.iter().enumerate() {
            let earlier = *first.entry(self.locate(selector.as_ref()).bucket).or_insert(place);
            if earlier != place {
                pairs.push((earlier, place));
            }
        }
        pairs
    }

    /// The kind of the selectors.
    pub fn kind(&self) -> SelectorKind {
        self.kind
    }

    /// B: there are 2^B buckets.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The bucket and the check value of a selector.
    pub fn locate(&self, selector: &[u8]) -> Location {
        let hash: [u8; 32] = blake3::keyed_hash(&self.derived, selector).into();
        let [b0, b1, b2, b3, rest @ ..] = hash;
        let mut check = [0; CHECK_BYTES];
        check.copy_from_slice(&rest[..CHECK_BYTES]);
        let word = match self.kind {
            SelectorKind::Bytes => u32::from_le_bytes([b0, b1, b2, b3]),
            SelectorKind::Number => {
                let mut low = [0; 4];
                low.iter_mut().zip(selector).for_each(|(low, &byte)| *low = byte);
                u32::from_le_bytes(low)
            }
        };
        Location { bucket: word & ((1 << self.bits) - 1), check }
    }
}

/// Checks that no selector is in a query twice; the error has the places only.
///
/// # Errors
///
/// [`PirError::SameSelector`].
pub fn refuse_repeated(selectors: &[impl AsRef<[u8]>]) -> Result<(), PirError> {
    let mut first = HashMap::new();
    for (place, selector) in selectors.iter().enumerate() {
        let earlier = *first.entry(selector.as_ref()).or_insert(place);
        if earlier != place {
            return Err(PirError::SameSelector { first: earlier, second: place });
        }
    }
    Ok(())
}

impl fmt::Debug for SelectorHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectorHash")
            .field("kind", &self.kind)
            .field("bits", &self.bits)
            .finish_non_exhaustive()
    }
}

/// Says nothing: a location gives a selector away to whoever can guess it.
impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Location").finish_non_exhaustive()
    }
}

/// 34 bytes: kind, number of bits, key.
impl Encode for SelectorHash {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        out.push(self.bits as u8);
        out.extend_from_slice(&self.key);
    }
}

impl Decode for SelectorHash {
    const WHAT: &'static str = "selector hash";

    fn decode((): &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let out_of_range =
            |what, found: u8, expected: String| WireError::OutOfRange { what, found: found.into(), expected };
        let kind = match reader.u8()? {
            0 => SelectorKind::Bytes,
            1 => SelectorKind::Number,
            found => return Err(out_of_range("the kind of selectors", found, "0 or 1".into())),
        };
        let bits = reader.u8()?;
        let limits = MIN_HASH_BITS..=MAX_HASH_BITS;
        if !limits.contains(&bits.into()) {
            let expected = format!("{MIN_HASH_BITS} to {MAX_HASH_BITS}");
            return Err(out_of_range("the number of hash bits", bits, expected));
        }
        Ok(Self::with_any_bits(kind, bits.into(), reader.array()?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::*;

    fn rng() -> ChaCha20Rng {
        ChaCha20Rng::seed_from_u64(3)
    }

    #[test]
    fn every_bucket_is_reached_and_the_key_decides() {
        let hash = SelectorHash::random(SelectorKind::Bytes, 8, &mut rng()).unwrap();
        let mut counts = [0u32; 256];
        for number in 0..65_536u32 {
            counts[hash.locate(&number.to_le_bytes()).bucket as usize] += 1;
        }
        // 256 expected in each, 16 the standard deviation.
        assert!(counts.iter().all(|&count| (176..336).contains(&count)));
        let other = SelectorHash::new(SelectorKind::Bytes, 8, [1; 32]).unwrap();
        let same = (0..65_536u32).filter(|number| {
            hash.locate(&number.to_le_bytes()).bucket == other.locate(&number.to_le_bytes()).bucket
        });
        assert!((176..336).contains(&same.count()));
    }

    #[test]
    fn the_hash_is_the_documented_one() {
        let hash = SelectorHash::new(SelectorKind::Bytes, 20, [9; 32]).unwrap();
        let key = blake3::derive_key("restante/1/search/selector", &[9; 32]);
        let expected = blake3::keyed_hash(&key, b"selector");
        let location = hash.locate(b"selector");
        let word = u32::from_le_bytes(expected.as_bytes()[..4].try_into().unwrap());
        assert_eq!(location.bucket, word % (1 << 20));
        assert_eq!(location.check, expected.as_bytes()[4..14]);
    }

    #[test]
    fn numbers_have_buckets_of_their_own() {
        let hash = SelectorHash::random(SelectorKind::Number, 8, &mut rng()).unwrap();
        for number in 0..1000 {
            assert_eq!(hash.locate(&number_selector(number)).bucket, number as u32 % 256);
        }
        let far = [number_selector(3), number_selector(259)];
        assert_ne!(hash.locate(&far[0]).check, hash.locate(&far[1]).check);
        let refused = SelectorHash::random_distinct(SelectorKind::Number, 8, &far, &mut rng());
        assert!(matches!(refused, Err(PirError::Crowded { selectors: 2, bits: 8 })));
    }

    #[test]
    fn colliding_selectors_get_another_key() {
        let selectors: Vec<[u8; 1]> = (0..20).map(|selector| [selector]).collect();
        let mut redrawn = 0;
        for seed in 0..64 {
            let rng = || ChaCha20Rng::seed_from_u64(seed);
            let first = SelectorHash::random(SelectorKind::Bytes, 8, &mut rng()).unwrap();
            let hash = SelectorHash::random_distinct(SelectorKind::Bytes, 8, &selectors, &mut rng()).unwrap();
            assert!(hash.collisions(&selectors).is_empty());
            redrawn += u32::from(hash != first);
            assert_eq!(hash != first, !first.collisions(&selectors).is_empty());
        }
        assert!((16..50).contains(&redrawn));
        let crowd: Vec<[u8; 2]> = (0..300u16).map(u16::to_le_bytes).collect();
        let refused = SelectorHash::random_distinct(SelectorKind::Bytes, 8, &crowd, &mut rng());
        assert!(matches!(refused, Err(PirError::Crowded { selectors: 300, bits: 8 })));
        let twice = SelectorHash::random_distinct(SelectorKind::Bytes, 8, &["a", "b", "a"], &mut rng());
        assert!(matches!(twice, Err(PirError::SameSelector { first: 0, second: 2 })));
    }

    #[test]
    fn the_wire_form_is_strict() {
        let hash = SelectorHash::random(SelectorKind::Number, 24, &mut rng()).unwrap();
        let bytes = hash.to_bytes();
        assert_eq!(bytes.len(), 34);
        assert_eq!(SelectorHash::from_bytes(&(), &bytes).unwrap(), hash);
        for (place, value) in [(0, 2), (1, 7), (1, 25)] {
            let mut bad = bytes.clone();
            bad[place] = value;
            assert!(SelectorHash::from_bytes(&(), &bad).is_err());
        }
    }

    #[test]
    fn nothing_that_identifies_a_query_is_in_the_debug_form() {
        let hash = SelectorHash::new(SelectorKind::Bytes, 8, [0x5a; 32]).unwrap();
        assert_eq!(format!("{hash:?}"), "SelectorHash { kind: Bytes, bits: 8, .. }");
        assert_eq!(format!("{:?}", hash.locate(b"x")), "Location { .. }");
    }
}
