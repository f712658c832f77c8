//! Integers of a fixed width from 1 to 64 bits, least significant bit first, without gaps.

use crate::{Reader, WireError};

/// The number of bytes that `count` values of `width` bits take.
pub const fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Appends fixed-width integers to a byte vector.
#[derive(Debug)]
pub struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    /// At most 63.
    pending_bits: u32,
}

impl<'a> BitWriter<'a> {
    /// Starts at the next byte of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, pending: 0, pending_bits: 0 }
    }

    /// Appends the low `width` bits (1 to 64) of `value`; higher bits must be zero.
    pub fn write(&mut self, value: u64, width: u32) {
        debug_assert!((1..=64).contains(&width) && (width == 64 || value >> width == 0));
        self.pending |= value << self.pending_bits;
        let bits = self.pending_bits + width;
        if bits >= 64 {
            self.out.extend_from_slice(&self.pending.to_le_bytes());
            self.pending = value.checked_shr(64 - self.pending_bits).unwrap_or(0);
            self.pending_bits = bits - 64;
        } else {
            self.pending_bits = bits;
        }
    }

    /// Appends the last, partly filled byte, padded with zero bits.
    pub fn finish(self) {
        let bytes = self.pending_bits.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.pending.to_le_bytes()[..bytes]);
    }
}

/// Reads fixed-width integers from a byte slice.
#[derive(Debug)]
pub struct BitReader<'a> {
    left: &'a [u8],
    pending: u128,
    pending_bits: u32,
}

impl<'a> BitReader<'a> {
    /// Takes from `reader` the bytes that `count` values of `width` bits fill.
    pub fn new(reader: &mut Reader<'a>, count: usize, width: u32) -> Result<Self, WireError> {
        Ok(Self { left: reader.bytes(packed_bytes(count, width))?, pending: 0, pending_bits: 0 })
    }

    /// The next value of `width` bits (1 to 64). Past the end, zero bits follow.
    pub fn read(&mut self, width: u32) -> u64 {
        debug_assert!((1..=64).contains(&width));
        if self.pending_bits < width {
            let mut chunk = [0; 8];
            let bytes = self.left.len().min(8);
            let (head, tail) = self.left.split_at(bytes);
            chunk[..bytes].copy_from_slice(head);
            self.left = tail;
            self.pending |= u128::from(u64::from_le_bytes(chunk)) << self.pending_bits;
            self.pending_bits += 64;
        }
        let value = self.pending as u64 & (u64::MAX >> (64 - width));
        self.pending >>= width;
        self.pending_bits -= width;
        value
    }

    /// Checks that the padding after the last value is zero, so that every value has one encoding only.
    pub fn finish(self) -> Result<(), WireError> {
        if self.pending != 0 || self.left.iter().any(|&byte| byte != 0) {
            return Err(WireError::OutOfRange {
                what: "padding of a packed array",
                found: self.pending as u64,
                expected: "zero".into(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_values_read_back(width in 1u32..=64, values in proptest::collection::vec(any::<u64>(), 0..80)) {
            let mask = u64::MAX >> (64 - width);
            let mut bytes = Vec::new();
            let mut writer = BitWriter::new(&mut bytes);
            values.iter().for_each(|value| writer.write(value & mask, width));
            writer.finish();
            prop_assert_eq!(bytes.len(), packed_bytes(values.len(), width));
            // The definition: bit i of the stream is bit i % width of value i / width.
            for bit in 0..values.len() * width as usize {
                let expected = values[bit / width as usize] >> (bit % width as usize) & 1;
                prop_assert_eq!(u64::from(bytes[bit / 8] >> (bit % 8) & 1), expected);
            }
            let mut reader = Reader::new("test", &bytes);
            let mut bits = BitReader::new(&mut reader, values.len(), width).unwrap();
            for value in &values {
                prop_assert_eq!(bits.read(width), value & mask);
            }
            bits.finish().unwrap();
            reader.finish().unwrap();
        }
    }

    #[test]
    fn refuses_non_zero_padding() {
        let bytes = [0b1000_0001];
        let mut reader = Reader::new("test", &bytes);
        let mut bits = BitReader::new(&mut reader, 1, 5).unwrap();
        assert_eq!(bits.read(5), 1);
        assert!(bits.finish().is_err());
    }
}
