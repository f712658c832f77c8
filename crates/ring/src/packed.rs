//! Reading residues out of bit-packed arrays, fast enough to do it once per use.

use crate::{Backend, Modulus, Multiplier, RingError, backend};

/// Reads arrays of residues that are packed with `width` bits each, least significant bit first, after `dropped` low
/// bits of each were cut off.
#[derive(Debug, Clone, Copy)]
pub struct Unpacker {
    pub(crate) width: u32,
    pub(crate) dropped: u32,
    pub(crate) modulus: Modulus<u32>,
    backend: Backend,
}

impl Unpacker {
    /// Widths from 1 to 24 bits, together with `dropped` at most 32.
    pub fn new(width: u32, dropped: u32, modulus: u32, backend: Backend) -> Result<Self, RingError> {
        assert!((1..=24).contains(&width) && width + dropped <= 32);
        Ok(Self { width, dropped, modulus: Modulus::new(modulus.into())?, backend })
    }

    /// The values with index `first ..`, as many as `out` holds, each times a factor: residues, whatever is packed. Past
    /// the end of `bytes`, zero bits are read.
    pub fn unpack(&self, bytes: &[u8], first: usize, factor: Multiplier<u32>, out: &mut [u32]) {
        backend::unpack(self.backend, self, bytes, first, factor, out);
    }

    /// Asks the processor to bring the residues with index `first .. first + count` into its cache.
    pub fn prefetch(&self, bytes: &[u8], first: usize, count: usize) {
        let width = self.width as usize;
        let start = (first * width / 8).min(bytes.len());
        let end = ((first + count) * width).div_ceil(8).min(bytes.len());
        backend::prefetch(&bytes[start..end]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_reading_bit_by_bit(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            width in 8u32..=24,
            dropped in 0u32..=4,
            first in 0usize..90,
            count in 0usize..70,
            factor in 0u32..786_433,
        ) {
            let modulus = Modulus::<u32>::new(786_433).unwrap();
            let bit = |index: usize| u32::from(bytes.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1));
            let expected: Vec<u32> = (first..first + count)
                .map(|index| {
                    let start = index * width as usize;
                    let value = (0..width).map(|i| bit(start + i as usize) << i).sum::<u32>() << dropped;
                    (u64::from(value) * u64::from(factor) % 786_433) as u32
                })
                .collect();
            for backend in Backend::available() {
                let mut out = vec![7; count];
                let unpacker = Unpacker::new(width, dropped, 786_433, backend).unwrap();
                unpacker.prefetch(&bytes, first, count);
                unpacker.unpack(&bytes, first, modulus.multiplier(factor), &mut out);
                prop_assert_eq!(&out, &expected, "{}", backend);
            }
        }
    }
}
