//! Fixed-layout serialisation: little-endian integers, explicit lengths, nothing implied.

use crate::WireError;

/// A value with a fixed binary layout.
pub trait Encode {
    /// Appends the value's bytes to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// The value's bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

/// A value that can be read back, given what the reader must know beforehand (the parameters, usually).
pub trait Decode<Context: ?Sized = ()>: Sized {
    /// The name used in error messages.
    const WHAT: &'static str;

    /// Reads one value and leaves `reader` behind its last byte.
    fn decode(context: &Context, reader: &mut Reader<'_>) -> Result<Self, WireError>;

    /// Reads one value that must fill `bytes` exactly.
    fn from_bytes(context: &Context, bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(Self::WHAT, bytes);
        let value = Self::decode(context, &mut reader)?;
        reader.finish()?;
        Ok(value)
    }
}

/// A cursor over untrusted bytes.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    what: &'static str,
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte; `what` names the input in errors.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, left: bytes }
    }

    /// The number of bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.left.len()
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let Some((head, tail)) = self.left.split_at_checked(len) else {
            return Err(WireError::Truncated { what: self.what, needed: len, left: self.left.len() });
        };
        self.left = tail;
        Ok(head)
    }

    /// The next `LEN` bytes as an array.
    pub fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], WireError> {
        let mut array = [0; LEN];
        array.copy_from_slice(self.bytes(LEN)?);
        Ok(array)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    /// The next byte, which says yes (1) or no (0).
    ///
    /// # Errors
    ///
    /// [`WireError::OutOfRange`] for any other byte.
    pub fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            found => {
                Err(WireError::OutOfRange { what: "flag", found: found.into(), expected: "0 or 1".into() })
            }
        }
    }

    /// The next little-endian 16-bit integer.
    pub fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next little-endian 32-bit integer.
    pub fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next little-endian 64-bit integer.
    pub fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A 32-bit count that must lie in `range`, so that it can be used to size an allocation.
    pub fn count(
        &mut self,
        what: &'static str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<usize, WireError> {
        let found = self.u32()?;
        if !range.contains(&found) {
            return Err(WireError::OutOfRange {
                what,
                found: found.into(),
                expected: format!("{} to {}", range.start(), range.end()),
            });
        }
        Ok(found as usize)
    }

    /// Checks that everything was read.
    pub fn finish(self) -> Result<(), WireError> {
        match self.left.len() {
            0 => Ok(()),
            left => Err(WireError::Trailing { what: self.what, left }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_little_endian_fields_in_order() {
        let bytes = [1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];
        let mut reader = Reader::new("test", &bytes);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u16(), Ok(2));
        assert_eq!(reader.u32(), Ok(3));
        assert_eq!(reader.u64(), Ok(4));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn refuses_truncated_and_trailing_input() {
        let mut reader = Reader::new("test", &[1, 2]);
        assert_eq!(reader.u32(), Err(WireError::Truncated { what: "test", needed: 4, left: 2 }));
        assert_eq!(reader.finish(), Err(WireError::Trailing { what: "test", left: 2 }));
    }

    #[test]
    fn refuses_counts_outside_their_range() {
        let bytes = 9u32.to_le_bytes();
        assert!(Reader::new("test", &bytes).count("rows", 0..=8).is_err());
        assert_eq!(Reader::new("test", &bytes).count("rows", 0..=9), Ok(9));
    }
}
