//! Reading residues out of bit-packed arrays, fast enough to do it once per use.

use crate::{
    Backend, Modulus, Multiplier, RingError,
    backend::{self, Packing},
};

/// Reads arrays of residues that are packed with `width` bits each, least significant bit first, after `dropped` low
/// bits of each were cut off.
#[derive(Debug, Clone, Copy)]
pub struct Unpacker {
    packing: Packing,
    backend: Backend,
}

impl Unpacker {
    /// Widths from 1 to 24 bits, together with `dropped` at most 32.
    ///
    /// # Errors
    ///
    /// [`RingError::Modulus`]; [`RingError::Unavailable`] if this processor cannot run the back end.
    pub fn new(width: u32, dropped: u32, modulus: u32, backend: Backend) -> Result<Self, RingError> {
        assert!((1..=24).contains(&width) && width + dropped <= 32);
        Ok(Self {
            packing: Packing::new(width, dropped, Modulus::new(modulus.into())?),
            backend: backend.checked()?,
        })
    }

    /// The modulus of factors and of what is unpacked.
    pub fn modulus(&self) -> &Modulus<u32> {
        &self.packing.modulus
    }

    /// The values with index `first ..`, as many as `out` holds, each times a factor: residues, whatever is packed. Past
    /// the end of `bytes`, zero bits are read.
    pub fn unpack(&self, bytes: &[u8], first: usize, factor: Multiplier<u32>, out: &mut [u32]) {
        backend::unpack(self.backend, &self.packing, bytes, first, factor, out);
    }

    /// Asks the processor to bring the residues with index `first .. first + count` into its cache.
    pub fn prefetch(&self, bytes: &[u8], first: usize, count: usize) {
        let width = self.packing.width as usize;
        let start = (first * width / 8).min(bytes.len());
        let end = ((first + count) * width).div_ceil(8).min(bytes.len());
        backend::prefetch(&bytes[start..end]);
    }
}

/// Turns 16 lines of `steps` values each, one after the other, into columns: out\[i\] gets the i-th value of each line.
/// Any processor does it, whatever the back end.
pub fn transpose_lines(backend: Backend, lines: &[u32], out: &mut [[u32; 16]]) {
    assert_eq!(lines.len(), 16 * out.len(), "16 lines of as many values as there are columns");
    backend::transpose_lines(backend, lines, out);
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

    #[test]
    fn columns_are_the_values_of_the_lines() {
        for steps in [0, 1, 7, 8, 9, 64, 100] {
            let lines: Vec<u32> =
                (0..16 * steps as u32).map(|value| value.wrapping_mul(0x9e37_79b9)).collect();
            for backend in Backend::available() {
                let mut out = vec![[0; 16]; steps];
                transpose_lines(backend, &lines, &mut out);
                for (step, column) in out.iter().enumerate() {
                    let expected: [u32; 16] = std::array::from_fn(|line| lines[line * steps + step]);
                    assert_eq!(*column, expected, "{backend}");
                }
            }
        }
    }
}
