//! The stream digest and its file.

use restante_bfv::ShortCiphertext;
use restante_ring::sample::Seed;
use restante_wire::{Envelope, Kind, Reader};

use super::{BLOCK, KeyId, StreamContext};
use crate::OmrError;

const VERSION: u16 = 2;

/// For each message of a range its two distances, encrypted for one recipient.
#[derive(Debug, Clone)]
pub struct StreamDigest {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) key: KeyId,
    /// The seed of the messages' random factors.
    pub(super) seed: Seed,
    pub(super) blocks: Vec<[ShortCiphertext; 2]>,
}

impl StreamDigest {
    /// The most messages that one digest covers.
    pub const MAX_MESSAGES: u64 = 1 << 24;

    /// Refuses ranges that no digest can cover.
    pub(super) fn check_range(first: u64, count: u64) -> Result<(), OmrError> {
        if count > Self::MAX_MESSAGES || first.checked_add(count).is_none() {
            return Err(OmrError::Range { first, count, limit: Self::MAX_MESSAGES });
        }
        Ok(())
    }

    /// Index of the first message.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number of messages: the digest is complete for `first .. first + count`.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The detection key that it was made with.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// The bytes of a digest's file.
    pub fn file_bytes(context: &StreamContext, count: u64) -> usize {
        let short = context.parameters().short;
        Envelope::OVERHEAD_BYTES
            + 64
            + 2 * (count as usize).div_ceil(BLOCK) * short.ciphertext_bytes(context.bfv().degree())
    }

    /// The file: first index, count, key id, seed of the factors, then for each block the ciphertexts of both coordinates.
    pub fn to_file(&self, context: &StreamContext) -> Vec<u8> {
        let mut body = Vec::with_capacity(Self::file_bytes(context, self.count));
        body.extend_from_slice(&self.first.to_le_bytes());
        body.extend_from_slice(&self.count.to_le_bytes());
        body.extend_from_slice(&self.key.0);
        body.extend_from_slice(self.seed.as_bytes());
        let short = context.parameters().short;
        self.blocks.iter().flatten().for_each(|ciphertext| ciphertext.encode(short, &mut body));
        let parameters = context.id();
        Envelope { kind: Kind::StreamDigest, version: VERSION, parameters, body: &body }.seal()
    }

    /// Reads a file.
    pub fn from_file(context: &StreamContext, bytes: &[u8]) -> Result<Self, OmrError> {
        let envelope = Envelope::open_as(bytes, Kind::StreamDigest, VERSION, context.id())?;
        let mut reader = Reader::new("stream digest", envelope.body);
        let (first, count) = (reader.u64()?, reader.u64()?);
        Self::check_range(first, count)?;
        let key = KeyId(reader.array()?);
        let seed = Seed::from(reader.array::<32>()?);
        let (degree, short) = (context.bfv().degree(), context.parameters().short);
        let mut ciphertext = || ShortCiphertext::decode(degree, short, &mut reader);
        let blocks = (0..count.div_ceil(BLOCK as u64))
            .map(|_| Ok([ciphertext()?, ciphertext()?]))
            .collect::<Result<_, OmrError>>()?;
        reader.finish()?;
        Ok(Self { first, count, key, seed, blocks })
    }
}
