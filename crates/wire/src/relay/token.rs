//! The secrets that a client shows to a relay, and of which a relay keeps only hashes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::Hex;

macro_rules! bearer {
    ($(#[$attribute:meta])* $name:ident, $prefix:literal, $context:literal) => {
        $(#[$attribute])*
        #[derive(Clone, Zeroize, ZeroizeOnDrop)]
        pub struct $name([u8; 32]);

        impl $name {
            /// The one with these random bytes.
            pub fn new(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// Its bytes: a secret.
            pub fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// It as text: a secret.
            pub fn reveal(&self) -> String {
                format!("{}{}", $prefix, Hex(self.0))
            }

            /// The hash that a relay keeps in its place. The bytes are uniform, so a plain hash hides them.
            pub fn hash(&self) -> [u8; 32] {
                blake3::derive_key($context, &self.0)
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let digits = text.strip_prefix($prefix).and_then(|digits| digits.parse::<Hex<32>>().ok());
                let secret = digits.map(|Hex(bytes)| Self(bytes));
                secret.ok_or_else(|| concat!("expected ", $prefix, " and 64 lower-case hexadecimal digits").into())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.reveal())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

bearer! {
    /// The secret that owns a registration: 32 random bytes that a relay gives out once, at registration. In text `rst1_` and 64
    /// hexadecimal digits; requests carry it as `Authorization: Bearer rst1_…`.
    Token, "rst1_", "restante/1/relay/token"
}

bearer! {
    /// The right to register detection keys at a relay that does not let everybody: 32 random bytes that its operator gives out. In
    /// text `rsc1_` and 64 hexadecimal digits; a registration carries it as `Authorization: Bearer rsc1_…`.
    Credential, "rsc1_", "restante/1/relay/credential"
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

    #[test]
    fn a_credential_is_no_token() {
        let credential = Credential::new([7; 32]);
        assert_eq!(credential.reveal().parse::<Credential>().unwrap().hash(), credential.hash());
        assert!(!format!("{credential:?}").contains('7'));
        assert!(credential.reveal().parse::<Token>().is_err());
        assert_ne!(credential.hash(), Token::new([7; 32]).hash());
    }
}
