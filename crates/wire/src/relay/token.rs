//! The secret that owns a registration.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::Hex;

/// 32 random bytes that a relay gives out once, at registration, and keeps only a hash of. In text `rst1_` and 64 hexadecimal
/// digits; requests carry it as `Authorization: Bearer rst1_…`.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Token([u8; 32]);

const PREFIX: &str = "rst1_";

impl Token {
    /// A token of 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The token as text: a secret.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", Hex(self.0))
    }

    /// What a relay keeps in its place. The token is uniform, so a plain hash hides it.
    pub fn hash(&self) -> [u8; 32] {
        blake3::derive_key("restante/1/relay/token", &self.0)
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix(PREFIX).and_then(|digits| digits.parse::<Hex<32>>().ok());
        let token = digits.map(|Hex(bytes)| Self(bytes));
        token.ok_or_else(|| format!("expected {PREFIX} and 64 lower-case hexadecimal digits"))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.reveal())
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn text_reads_back_and_debug_tells_nothing() {
        let token = Token::new([7; 32]);
        assert_eq!(token.reveal().parse::<Token>().unwrap().hash(), token.hash());
        assert!(!format!("{token:?}").contains('7'));
        assert!("rst1_00".parse::<Token>().is_err());
        assert!("07".repeat(32).parse::<Token>().is_err());
    }
}
