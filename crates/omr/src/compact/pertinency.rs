//! Pertinency vectors and their file.

use restante_bfv::Leveled;
use restante_ring::sample::Seed;
use restante_wire::{Envelope, Kind, ParameterId, Reader};

use super::{CompactContext, CompactParameters};
use crate::{KeyId, OmrError};

const VERSION: u16 = 2;

/// The pertinent messages of a range, marked under encryption: a ciphertext for each block of N messages, the
/// last of which may be partly filled.
#[derive(Debug, Clone)]
pub struct PertinencyVector {
    /// The parameters of the blocks.
    pub(super) parameters: ParameterId,
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) key: KeyId,
    /// Decides which slot each message is in.
    pub(super) seed: Seed,
    pub(super) blocks: Vec<Leveled<u64>>,
}

impl PertinencyVector {
    /// Index of the first message.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number of messages.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Index behind the last message.
    pub fn end(&self) -> u64 {
        // What makes or reads a vector has checked that there is no overflow.
        self.first + self.count
    }

    /// The detection key that it was made with.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// Whether both were made in one pass, so that one call can make both their digests.
    pub fn shares_pass(&self, other: &Self) -> bool {
        (self.first, self.count) == (other.first, other.count)
            && self.seed.as_bytes() == other.seed.as_bytes()
    }

    /// The memory that a vector of one block takes.
    pub fn block_memory_bytes(context: &CompactContext) -> usize {
        2 * context.pertinency().basis(0).limbs() * context.degree() * size_of::<u64>()
    }

    /// The bytes of a file.
    pub fn file_bytes(context: &CompactContext, count: u64) -> usize {
        let blocks = (count as usize).div_ceil(context.degree());
        Envelope::OVERHEAD_BYTES + 64 + blocks * Leveled::wire_bytes(context.pertinency(), 0)
    }

    /// The file: first index, count (64 bits each), key id, seed of the slots, then for each block its ciphertext.
    pub fn to_file(&self, context: &CompactContext) -> Vec<u8> {
        let mut body = Vec::with_capacity(Self::file_bytes(context, self.count));
        body.extend_from_slice(&self.first.to_le_bytes());
        body.extend_from_slice(&self.count.to_le_bytes());
        body.extend_from_slice(&self.key.0);
        body.extend_from_slice(self.seed.as_bytes());
        self.blocks.iter().for_each(|block| block.encode(&mut body));
        let parameters = self.parameters;
        Envelope { kind: Kind::PertinencyVector, version: VERSION, parameters, body: &body }.seal()
    }

    /// Reads a file.
    pub fn from_file(context: &CompactContext, bytes: &[u8]) -> Result<Self, OmrError> {
        let envelope = Envelope::open_as(bytes, Kind::PertinencyVector, VERSION, context.id())?;
        let mut reader = Reader::new("pertinency vector", envelope.body);
        let (first, count) = (reader.u64()?, reader.u64()?);
        if count > CompactParameters::MAX_MESSAGES || first.checked_add(count).is_none() {
            return Err(OmrError::Range { first, count, limit: CompactParameters::MAX_MESSAGES });
        }
        let key = KeyId(reader.array()?);
        let seed = Seed::from(reader.array::<32>()?);
        let blocks = (0..count.div_ceil(context.degree() as u64))
            .map(|_| Leveled::decode(context.pertinency(), 0, &mut reader))
            .collect::<Result<_, _>>()?;
        reader.finish()?;
        Ok(Self { parameters: context.id(), first, count, key, seed, blocks })
    }
}
