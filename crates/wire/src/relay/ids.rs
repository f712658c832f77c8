//! Ids. Each kind of id is a type of its own, so that none is taken for another; in JSON and paths all are 32 lower-case
//! hexadecimal digits.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::Hex;

macro_rules! id {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(from = "Hex<16>", into = "Hex<16>")]
        pub struct $name(pub [u8; 16]);

        impl From<Hex<16>> for $name {
            fn from(Hex(bytes): Hex<16>) -> Self {
                Self(bytes)
            }
        }

        impl From<$name> for Hex<16> {
            fn from(id: $name) -> Self {
                Self(id.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Hex(self.0).fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), Hex(self.0))
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                text.parse().map(|Hex(bytes)| Self(bytes))
            }
        }
    };
}

id! {
    /// Names a message to the relay that it is posted to: 16 random bytes of the sender's, the same with every attempt.
    MessageId
}

id! {
    /// Names a detection key: the first bytes of the BLAKE3 hash of its file.
    KeyId
}

impl KeyId {
    /// The id of the key whose file has this hash.
    pub fn of(hash: &Hex<32>) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&hash.0[..16]);
        Self(id)
    }
}

id! {
    /// Names a registration within a relay: nobody but its operator sees it.
    RegistrationId
}

id! {
    /// Names a job of a registration: 16 random bytes of the client's, the same with every attempt.
    JobId
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn ids_are_written_like_their_bytes() {
        let id = JobId([0xa5; 16]);
        assert_eq!(id.to_string(), "a5".repeat(16));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<JobId>(&format!("\"{id}\"")).unwrap(), id);
        for wrong in ["", "a5", &"A5".repeat(16), &"a5".repeat(17)] {
            assert!(wrong.parse::<JobId>().is_err(), "{wrong}");
        }
        assert_eq!(KeyId::of(&Hex([7; 32])), KeyId([7; 16]));
    }
}
