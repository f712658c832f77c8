//! Lengths of one to ten bytes: seven bits a byte, the lowest first, the highest bit set on all but the last (LEB128).

use restante_wire::{Reader, WireError};

/// Appends `value`.
pub(super) fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number of bytes that `value` takes.
pub(super) fn bytes(value: u64) -> usize {
    (value.max(1).ilog2() / 7 + 1) as usize
}

/// Reads a value. Only its shortest form is accepted, and only up to `max`.
pub(super) fn get(what: &'static str, max: u64, reader: &mut Reader<'_>) -> Result<u64, WireError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = reader.u8()?;
        let bits = u64::from(byte & 0x7f);
        if (bits << shift) >> shift != bits {
            break;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            if shift > 0 && byte == 0 {
                break;
            }
            if value > max {
                return Err(WireError::OutOfRange { what, found: value, expected: format!("at most {max}") });
            }
            return Ok(value);
        }
    }
    Err(WireError::OutOfRange { what, found: value, expected: "a number in its shortest form".into() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_come_back(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            put(value, &mut out);
            prop_assert_eq!(out.len(), bytes(value));
            let mut reader = Reader::new("test", &out);
            prop_assert_eq!(get("value", u64::MAX, &mut reader).unwrap(), value);
            reader.finish().unwrap();
        }

        #[test]
        fn what_is_read_is_what_would_be_written(input in proptest::collection::vec(any::<u8>(), 0..12)) {
            let mut reader = Reader::new("test", &input);
            if let Ok(value) = get("value", u64::MAX, &mut reader) {
                let mut out = Vec::new();
                put(value, &mut out);
                prop_assert_eq!(&input[..input.len() - reader.remaining()], &out[..]);
            }
        }
    }

    #[test]
    fn long_forms_and_large_values_are_refused() {
        for bad in [&[0x80, 0][..], &[0xff; 10], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]] {
            assert!(get("value", u64::MAX, &mut Reader::new("test", bad)).is_err());
        }
        assert!(get("value", 127, &mut Reader::new("test", &[0x80, 1])).is_err());
    }
}
