//! Signed heads, by which a relay vouches for its board: the number of messages and their root.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use super::Hex;
use crate::{
    Decode, Encode, Envelope, Kind, ParameterId, Reader, WireError,
    binding::BoardId,
    merkle::{ConsistencyProof, Hash, ProofError},
};

/// A relay's public key: what it is known by.
pub type RelayKey = Hex<32>;

/// Writes whether a relay's key is known (1 byte) and the key (32), zeros if it is not.
pub fn encode_relay_key(key: Option<RelayKey>, out: &mut Vec<u8>) {
    out.push(key.is_some().into());
    out.extend_from_slice(&key.map_or([0; 32], |key| key.0));
}

/// Reads what [`encode_relay_key`] wrote.
///
/// # Errors
///
/// [`WireError`] for another flag than 0 and 1, and for a key that is said not to be known.
pub fn decode_relay_key(reader: &mut Reader<'_>) -> Result<Option<RelayKey>, WireError> {
    let known = reader.flag()?;
    let key = reader.array()?;
    if known {
        return Ok(Some(Hex(key)));
    }
    if key == [0; 32] {
        return Ok(None);
    }
    Err(WireError::OutOfRange {
        what: "key of a relay that is not known",
        found: key.iter().map(|&byte| u64::from(byte)).sum(),
        expected: "zeros".into(),
    })
}

/// A board's head with the relay's signature (Ed25519, RFC 8032, with the strict verification of `verify_strict`).
///
/// The signature covers a context string, the parameter id and every field. A relay that signs two heads of one board of which
/// neither begins with the other has proved its own dishonesty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedHead {
    /// The parameter set of the board's clues.
    pub parameters: ParameterId,
    /// The board.
    pub board: BoardId,
    /// The signer's key.
    pub relay: RelayKey,
    /// The number of messages.
    pub count: u64,
    /// The root over them.
    pub root: Hash,
    /// When it was signed, in seconds since 1970 by the relay's clock.
    pub time: u64,
    /// The signature.
    pub signature: Hex<64>,
}

const CONTEXT: &[u8; 16] = b"restante/2/head\0";

impl SignedHead {
    /// The version of the format.
    pub const VERSION: u16 = 2;
    /// The bytes of a file.
    pub const FILE_BYTES: usize = 16 + 32 + 8 + 32 + 8 + 64 + Envelope::OVERHEAD_BYTES;

    /// Signs a head.
    pub fn sign(
        key: &SigningKey,
        (board, parameters): (BoardId, ParameterId),
        count: u64,
        root: Hash,
        time: u64,
    ) -> Self {
        let relay = Hex(key.verifying_key().to_bytes());
        let mut head = Self { parameters, board, relay, count, root, time, signature: Hex([0; 64]) };
        head.signature = Hex(key.sign(&head.signed_bytes()).to_bytes());
        head
    }

    /// Whether it was signed by the relay with this key. A client knows the key beforehand: a key that comes with the head
    /// proves nothing.
    pub fn is_signed_by(&self, relay: &RelayKey) -> bool {
        let Ok(key) = VerifyingKey::from_bytes(&relay.0) else { return false };
        let signature = Signature::from_bytes(&self.signature.0);
        self.relay == *relay && key.verify_strict(&self.signed_bytes(), &signature).is_ok()
    }

    /// Checks that `self` only adds messages to `older`, which the client remembers. Heads of two boards never do.
    ///
    /// # Errors
    ///
    /// [`ProofError`]: the relay has dropped, changed or reordered messages, or the proof is not one.
    pub fn verify_continues(&self, older: &Self, proof: &ConsistencyProof) -> Result<(), ProofError> {
        if older.board != self.board {
            return Err(ProofError::OtherBoard { older: older.board, newer: self.board });
        }
        proof.verify((older.count, &older.root), (self.count, &self.root))
    }

    fn signed_bytes(&self) -> Vec<u8> {
        let mut bytes = CONTEXT.to_vec();
        bytes.extend_from_slice(&self.parameters.0);
        self.encode_fields(&mut bytes);
        bytes
    }

    fn encode_fields(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.board.0);
        out.extend_from_slice(&self.relay.0);
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.root.0);
        out.extend_from_slice(&self.time.to_le_bytes());
    }

    /// The head as a file or a body.
    pub fn to_file(&self) -> Vec<u8> {
        let body = self.to_bytes();
        Envelope { kind: Kind::SignedHead, version: Self::VERSION, parameters: self.parameters, body: &body }
            .seal()
    }

    /// Reads a file or a body. The signature is not checked.
    ///
    /// # Errors
    ///
    /// [`WireError`].
    pub fn from_file(bytes: &[u8]) -> Result<Self, WireError> {
        let parameters = Envelope::open(bytes)?.parameters;
        let envelope = Envelope::open_as(bytes, Kind::SignedHead, Self::VERSION, parameters)?;
        Self::from_bytes(&parameters, envelope.body)
    }
}

impl Encode for SignedHead {
    fn encode(&self, out: &mut Vec<u8>) {
        self.encode_fields(out);
        out.extend_from_slice(&self.signature.0);
    }
}

impl Decode<ParameterId> for SignedHead {
    const WHAT: &'static str = "signed head";

    fn decode(parameters: &ParameterId, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            parameters: *parameters,
            board: BoardId(reader.array()?),
            relay: Hex(reader.array()?),
            count: reader.u64()?,
            root: Hash(reader.array()?),
            time: reader.u64()?,
            signature: Hex(reader.array()?),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn every_field_is_signed() {
        let key = SigningKey::from_bytes(&[3; 32]);
        let board = (BoardId([8; 16]), ParameterId::of("test"));
        let head = SignedHead::sign(&key, board, 5, Hash::of(b"root"), 1_700_000_000);
        let relay = Hex(key.verifying_key().to_bytes());
        assert!(head.is_signed_by(&relay));
        let file = head.to_file();
        assert_eq!(file.len(), SignedHead::FILE_BYTES);
        assert_eq!(SignedHead::from_file(&file).unwrap(), head);
        let other = Hex(SigningKey::from_bytes(&[4; 32]).verifying_key().to_bytes());
        assert!(!head.is_signed_by(&other));
        for changed in [
            SignedHead { parameters: ParameterId::of("other"), ..head },
            SignedHead { board: BoardId([9; 16]), ..head },
            SignedHead { count: 6, ..head },
            SignedHead { root: Hash::of(b"fork"), ..head },
            SignedHead { time: 0, ..head },
            SignedHead { relay: other, ..head },
            SignedHead { signature: Hex([0; 64]), ..head },
        ] {
            assert!(!changed.is_signed_by(&relay), "{changed:?}");
        }
    }
    #[test]
    fn heads_of_two_boards_are_never_consistent() {
        let key = SigningKey::from_bytes(&[3; 32]);
        let sign = |board, count| {
            let board = (BoardId([board; 16]), ParameterId::NONE);
            SignedHead::sign(&key, board, count, Hash::of(&[]), 7)
        };
        let proof = ConsistencyProof::from_bytes(&(), &[0; 4]).unwrap();
        for count in [0, 1] {
            assert_eq!(sign(1, count).verify_continues(&sign(1, 0), &proof), Ok(()));
            let error = sign(2, count).verify_continues(&sign(1, 0), &proof).unwrap_err();
            assert_eq!(error, ProofError::OtherBoard { older: BoardId([1; 16]), newer: BoardId([2; 16]) });
        }
    }
}
