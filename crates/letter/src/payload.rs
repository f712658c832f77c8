//! Payloads: the encrypted text of a message, in one of a few sizes.
//!
//! HPKE in base mode (RFC 9180) with the hybrid key encapsulation X-Wing (ML-KEM-768 with X25519, KEM id 0x647a of
//! draft-ietf-hpke-pq), HKDF-SHA256 and ChaCha20-Poly1305. The associated data are a hash of the board's id and of the bound part
//! of the message's clue, so that a payload cannot be moved to another clue or board.
//!
//! ```text
//! offset  bytes  field
//!      0   1120  encapsulated key
//!   1120      …  ciphertext of: text length (4 bytes, little-endian), text, zero padding
//!      …     16  authentication tag
//! ```

use hpke::{
    Deserializable, OpModeR, OpModeS, Serializable,
    aead::{AeadTag, ChaCha20Poly1305},
    inout::InOutBuf,
    kdf::HkdfSha256,
    kem::XWing,
    single_shot_open_inout_detached, single_shot_seal_inout_detached_with_rng,
};
use rand_core::CryptoRng;
use restante_wire::{
    binding::{BoardId, split_clue},
    merkle::Hash,
};
use zeroize::Zeroizing;

use crate::LetterError;

/// The sizes of payloads in bytes; the smallest that fits is used, so that little but the size class shows.
pub const PAYLOAD_BYTES: [usize; 7] = [1_536, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536];

/// The longest text in bytes.
pub const MAX_TEXT_BYTES: usize = PAYLOAD_BYTES[PAYLOAD_BYTES.len() - 1] - OVERHEAD_BYTES;

/// The bytes of a public key in an address.
pub const PUBLIC_KEY_BYTES: usize = 1_216;

const ENCAPSULATED_KEY_BYTES: usize = 1_120;
const LENGTH_BYTES: usize = 4;
const TAG_BYTES: usize = 16;
const OVERHEAD_BYTES: usize = ENCAPSULATED_KEY_BYTES + LENGTH_BYTES + TAG_BYTES;

const INFO: &[u8] = b"restante/1/payload";
const CLUE_HASH_CONTEXT: &str = "restante/2/payload/clue";

pub(crate) type PublicKey = <XWing as hpke::Kem>::PublicKey;
type PrivateKey = <XWing as hpke::Kem>::PrivateKey;
type EncapsulatedKey = <XWing as hpke::Kem>::EncappedKey;

/// The secret that opens the payloads sealed for an address.
pub struct OpeningKey {
    private: PrivateKey,
    public: PublicKey,
}

impl OpeningKey {
    /// The key that follows from 32 secret bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let (private, public) = <XWing as hpke::Kem>::derive_keypair(seed);
        Self { private, public }
    }

    /// The half that senders seal with.
    pub(crate) fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The text in a payload that belongs to a clue.
    ///
    /// # Errors
    ///
    /// [`LetterError::NotForUs`] if the payload is another address's, belongs to another clue or board, or was changed;
    /// [`LetterError::PayloadSize`] and [`LetterError::MalformedContents`] for what no sender of this version makes.
    pub fn open(&self, clue: &ClueHash, payload: &[u8]) -> Result<Vec<u8>, LetterError> {
        open(&self.private, clue, payload)
    }
}

impl std::fmt::Debug for OpeningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpeningKey").finish_non_exhaustive()
    }
}

/// Reads a public key.
pub(crate) fn read_public_key(bytes: &[u8]) -> Result<PublicKey, LetterError> {
    PublicKey::from_bytes(bytes).map_err(|_| LetterError::InvalidPublicKey)
}

/// The hash that binds a payload to its clue and board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClueHash(pub [u8; 32]);

impl ClueHash {
    /// For a message of a board with this bound hash.
    pub fn new(board: &BoardId, bound: &Hash) -> Self {
        Self(blake3::derive_key(CLUE_HASH_CONTEXT, &[&board.0[..], &bound.0].concat()))
    }

    /// For a message of a board with this encoded clue.
    pub fn of_clue(board: &BoardId, clue: &[u8]) -> Self {
        Self::new(board, &Hash::of(split_clue(clue).0))
    }
}

/// Encrypts a text that belongs to a clue.
pub(crate) fn seal(
    key: &PublicKey,
    clue: &ClueHash,
    text: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<Vec<u8>, LetterError> {
    let too_long = LetterError::MessageTooLong { found: text.len() };
    if text.len() > MAX_TEXT_BYTES {
        return Err(too_long);
    }
    let payload_bytes = PAYLOAD_BYTES.into_iter().find(|&bytes| text.len() + OVERHEAD_BYTES <= bytes);
    let mut payload = vec![0; payload_bytes.ok_or(too_long)?];
    let (head, rest) = payload.split_at_mut(ENCAPSULATED_KEY_BYTES);
    let (contents, tail) = rest.split_at_mut(rest.len() - TAG_BYTES);
    contents[..LENGTH_BYTES].copy_from_slice(&(text.len() as u32).to_le_bytes());
    contents[LENGTH_BYTES..][..text.len()].copy_from_slice(text);

    let (encapsulated, tag) =
        single_shot_seal_inout_detached_with_rng::<ChaCha20Poly1305, HkdfSha256, XWing>(
            &OpModeS::Base,
            key,
            INFO,
            InOutBuf::from(contents),
            &clue.0,
            rng,
        )
        .map_err(|_| LetterError::Encryption)?;
    encapsulated.write_exact(head);
    tag.write_exact(tail);
    Ok(payload)
}

/// Decrypts a payload that belongs to a clue.
fn open(key: &PrivateKey, clue: &ClueHash, payload: &[u8]) -> Result<Vec<u8>, LetterError> {
    if !PAYLOAD_BYTES.contains(&payload.len()) {
        return Err(LetterError::PayloadSize { found: payload.len() });
    }
    let (head, rest) = payload.split_at(ENCAPSULATED_KEY_BYTES);
    let (ciphertext, tail) = rest.split_at(rest.len() - TAG_BYTES);
    let encapsulated = EncapsulatedKey::from_bytes(head).map_err(|_| LetterError::NotForUs)?;
    let tag = AeadTag::<ChaCha20Poly1305>::from_bytes(tail).map_err(|_| LetterError::NotForUs)?;
    let mut contents = Zeroizing::new(ciphertext.to_vec());
    single_shot_open_inout_detached::<ChaCha20Poly1305, HkdfSha256, XWing>(
        &OpModeR::Base,
        key,
        &encapsulated,
        INFO,
        InOutBuf::from(contents.as_mut_slice()),
        &clue.0,
        &tag,
    )
    .map_err(|_| LetterError::NotForUs)?;
    read_contents(&contents).map(<[u8]>::to_vec).ok_or(LetterError::MalformedContents)
}

/// The text in decrypted contents, unless its length or the padding is wrong.
fn read_contents(contents: &[u8]) -> Option<&[u8]> {
    let (length, rest) = contents.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (text, padding) = rest.split_at_checked(length)?;
    padding.iter().all(|&byte| byte == 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_key_encapsulation() {
        assert_eq!(PublicKey::size(), PUBLIC_KEY_BYTES);
        assert_eq!(EncapsulatedKey::size(), ENCAPSULATED_KEY_BYTES);
        assert_eq!(AeadTag::<ChaCha20Poly1305>::size(), TAG_BYTES);
    }

    #[test]
    fn contents_with_a_wrong_length_or_padding_are_refused() {
        assert_eq!(read_contents(&[2, 0, 0, 0, 7, 8, 0]), Some(&[7, 8][..]));
        assert_eq!(read_contents(&[0, 0, 0, 0]), Some(&[][..]));
        assert_eq!(read_contents(&[2, 0, 0, 0, 7, 8, 1]), None);
        assert_eq!(read_contents(&[4, 0, 0, 0, 7, 8, 0]), None);
        assert_eq!(read_contents(&[255, 255, 255, 255, 7, 8, 0]), None);
        assert_eq!(read_contents(&[0, 0, 0]), None);
    }
}
