//! Bytes that JSON and paths write in hexadecimal.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{ParameterId, merkle::Hash};

/// Exactly `LEN` bytes, written as twice as many lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex<const LEN: usize>(pub [u8; LEN]);

impl<const LEN: usize> fmt::Display for Hex<LEN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<const LEN: usize> fmt::Debug for Hex<LEN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hex({self})")
    }
}

impl<const LEN: usize> FromStr for Hex<LEN> {
    type Err = String;

    /// Reads lower-case digits only, so that every value has one name.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected {} lower-case hexadecimal digits", 2 * LEN);
        let digits = text.as_bytes();
        if digits.len() != 2 * LEN {
            return Err(expected());
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(expected()),
        };
        let mut bytes = [0; LEN];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

impl<const LEN: usize> Serialize for Hex<LEN> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const LEN: usize> Deserialize<'de> for Hex<LEN> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text<const LEN: usize>;
        impl<const LEN: usize> de::Visitor<'_> for Text<LEN> {
            type Value = Hex<LEN>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} lower-case hexadecimal digits", 2 * LEN)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Hex<LEN>, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl From<Hash> for Hex<32> {
    fn from(hash: Hash) -> Self {
        Self(hash.0)
    }
}

impl From<ParameterId> for Hex<8> {
    fn from(id: ParameterId) -> Self {
        Self(id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_one_name() {
        assert_eq!("00ff0a".parse(), Ok(Hex([0, 255, 10])));
        assert_eq!(Hex([0, 255, 10]).to_string(), "00ff0a");
        for wrong in ["00FF0a", "00ff0", "00ff0a0", "00ff0g", "", "0x00ff", "äöü"] {
            assert!(wrong.parse::<Hex<3>>().is_err(), "{wrong}");
        }
    }
}
