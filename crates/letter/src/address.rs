//! Addresses, and writing to them.

use hpke::Serializable;
use rand_core::CryptoRng;
use restante_clue::{ClueDraft, ClueKey, ClueMaker, ClueParameters};
use restante_ring::sample::Seed;
use restante_wire::{
    Decode, Encode, Envelope, Kind, Reader,
    binding::{Binding, BoardId, Period},
    merkle::Hash,
};

use crate::{
    LetterError,
    payload::{self, ClueHash, OpeningKey, PUBLIC_KEY_BYTES, PublicKey, read_public_key},
};

/// An address: a sender needs it to write to its owner. It holds a clue key and its public encryption key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    clue_key: ClueKey,
    public_key: PublicKey,
}

/// A message as it is posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The encoded clue, `ClueParameters::clue_bytes` bytes.
    pub clue: Vec<u8>,
    /// The encrypted text, as many bytes as one of [`PAYLOAD_BYTES`](crate::PAYLOAD_BYTES).
    pub payload: Vec<u8>,
}

impl Address {
    /// The version of the file format.
    pub const VERSION: u16 = 2;

    /// The address that senders get of whoever has both secrets.
    pub fn new(clue_key: ClueKey, opening_key: &OpeningKey) -> Self {
        Self { clue_key, public_key: opening_key.public().clone() }
    }

    /// Reads an address file for any known clue parameters.
    pub fn from_file(bytes: &[u8]) -> Result<Self, LetterError> {
        let (parameters, body) = open_file(bytes, Kind::Address, Self::VERSION)?;
        let mut reader = Reader::new("address", body);
        let address = Self::decode_body(&parameters, &mut reader)?;
        reader.finish()?;
        Ok(address)
    }

    /// Reads what [`Address::encode_body`] wrote; other files hold addresses so.
    ///
    /// # Errors
    ///
    /// [`LetterError::Wire`], [`LetterError::Clue`] and [`LetterError::InvalidPublicKey`].
    pub fn decode_body(parameters: &ClueParameters, reader: &mut Reader<'_>) -> Result<Self, LetterError> {
        let clue_key = ClueKey::decode(parameters, reader)?;
        let public_key = read_public_key(reader.bytes(PUBLIC_KEY_BYTES)?)?;
        Ok(Self { clue_key, public_key })
    }

    /// The address file: an envelope around the clue key and the public encryption key.
    pub fn to_file(&self) -> Vec<u8> {
        Envelope {
            kind: Kind::Address,
            version: Self::VERSION,
            parameters: self.parameters().id(),
            body: &self.body(),
        }
        .seal()
    }

    /// The clue parameters.
    pub fn parameters(&self) -> &ClueParameters {
        self.clue_key.parameters()
    }

    /// The key that clues are made with.
    pub fn clue_key(&self) -> &ClueKey {
        &self.clue_key
    }

    /// 160 bits of a hash of the address in base 32 (RFC 4648, lower case): 8 groups of 4 letters and digits.
    ///
    /// Two people who compare all of it know that they have the same address, unless its owner spent 2^80 operations on two
    /// that agree.
    pub fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("restante/1/address/fingerprint");
        hasher.update(&self.parameters().id().0).update(&self.body());
        let groups = hasher.finalize().as_bytes()[..20].chunks(5).map(base_32).collect::<String>();
        groups.as_bytes().chunks(4).map(String::from_utf8_lossy).collect::<Vec<_>>().join("-")
    }

    /// Precomputes what every message to this address needs.
    pub fn prepare(&self) -> Sender {
        Sender { maker: self.clue_key.prepare(), public_key: self.public_key.clone() }
    }

    fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        self.encode_body(&mut body);
        body
    }

    /// Writes the body of an address file: the clue key, then the public encryption key.
    pub fn encode_body(&self, out: &mut Vec<u8>) {
        self.clue_key.encode(out);
        out.extend_from_slice(&self.public_key.to_bytes());
    }
}

/// An address that is prepared for many messages.
pub struct Sender {
    maker: ClueMaker,
    public_key: PublicKey,
}

impl Sender {
    /// A message for a board, made in a period: the board takes it then, and in the periods before and after, once. Fails if the text
    /// is longer than [`MAX_TEXT_BYTES`](crate::MAX_TEXT_BYTES).
    ///
    /// A message for another board is made anew: the same one would be pertinent to nobody there.
    pub fn write_message(
        &self,
        board: &BoardId,
        period: Period,
        text: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Result<Message, LetterError> {
        let draft = self.draft(period, rng);
        // The payload is bound to a', the clue to the payload.
        let bound = draft.bound_hash();
        let payload = payload::seal(&self.public_key, &ClueHash::new(board, &bound), text, rng)?;
        let clue = draft.bind(&Binding::new(board, &bound, &Hash::of(&payload))).to_bytes();
        Ok(Message { clue, payload })
    }

    /// An encoded clue for a given payload, which does not open with it unless it was sealed for it: for tests and measurements.
    pub fn make_clue(
        &self,
        board: &BoardId,
        period: Period,
        payload: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Vec<u8> {
        let draft = self.draft(period, rng);
        let binding = Binding::new(board, &draft.bound_hash(), &Hash::of(payload));
        draft.bind(&binding).to_bytes()
    }

    fn draft(&self, period: Period, rng: &mut impl CryptoRng) -> ClueDraft {
        let Ok(seed) = Seed::random(rng);
        self.maker.draft(period, &mut seed.stream("client/clue", &[]))
    }

    /// The payload that goes with a clue on a board, of which it takes the bound part. Fails if the text is longer than
    /// [`MAX_TEXT_BYTES`](crate::MAX_TEXT_BYTES).
    pub fn seal(
        &self,
        board: &BoardId,
        clue: &[u8],
        text: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<u8>, LetterError> {
        payload::seal(&self.public_key, &ClueHash::of_clue(board, clue), text, rng)
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("maker", &self.maker).finish_non_exhaustive()
    }
}

/// Opens a file of one kind and version for any known clue parameters: those, and the file's body.
///
/// # Errors
///
/// [`LetterError::Wire`] for another kind or version and for damaged files, [`LetterError::UnknownParameters`].
pub fn open_file(bytes: &[u8], kind: Kind, version: u16) -> Result<(ClueParameters, &[u8]), LetterError> {
    let found = Envelope::open(bytes)?.parameters;
    let body = Envelope::open_as(bytes, kind, version, found)?.body;
    let parameters = ClueParameters::by_id(found).ok_or(LetterError::UnknownParameters { kind, found })?;
    Ok((parameters, body))
}

/// Five bytes as eight letters or digits, most significant bits first.
fn base_32(bytes: &[u8]) -> String {
    const ALPHABET: [char; 32] = [
        'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't',
        'u', 'v', 'w', 'x', 'y', 'z', '2', '3', '4', '5', '6', '7',
    ];
    let value = bytes.iter().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    (0..8).rev().map(|place| ALPHABET[(value >> (5 * place)) as usize % 32]).collect()
}

/// An address for tests.
#[cfg(test)]
pub(crate) fn test_address() -> Address {
    let clue_key = restante_clue::ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([5; 32]));
    Address::new(clue_key.clue_key().clone(), &OpeningKey::from_seed(&[6; 32]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_32_agrees_with_rfc_4648() {
        // Section 10: "fooba" is MZXW6YTB.
        assert_eq!(base_32(b"fooba"), "mzxw6ytb");
        assert_eq!(base_32(&[255; 5]), "77777777");
        assert_eq!(base_32(&[0; 5]), "aaaaaaaa");
    }
}
