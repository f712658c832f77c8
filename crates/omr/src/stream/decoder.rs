//! The recipient's side: from a digest to the indices of its messages.

use restante_bfv::{ShortCiphertext, ShortDecryptor};

use super::{BLOCK, DetectionKey, KeyId, RecipientSecret, StreamContext, StreamDigest};
use crate::OmrError;

/// Decrypts digests that were made with one detection key.
#[derive(Debug)]
pub struct Decoder {
    context: StreamContext,
    decryptor: ShortDecryptor,
    key: KeyId,
}

impl Decoder {
    /// A decoder for the digests of a detection key that `secret` has made.
    pub fn new(secret: &RecipientSecret, key: &DetectionKey) -> Result<Self, OmrError> {
        Ok(Self {
            context: secret.context().clone(),
            decryptor: ShortDecryptor::new(secret.bfv())?,
            key: key.id(),
        })
    }

    /// The indices of the pertinent messages, ascending. A false positive is possible at the rate of the clue
    /// parameters; the payload's authentication settles it.
    pub fn pertinent(&self, digest: &StreamDigest) -> Result<Vec<u64>, OmrError> {
        let range = u64::from(self.context.parameters().clue.range());
        let mut indices = Vec::new();
        for (first, [x0, x1]) in self.distances(digest)?.into_iter().zip(digest.first..).map(|(x, i)| (i, x))
        {
            if x0.unsigned_abs() <= range && x1.unsigned_abs() <= range {
                indices.push(first);
            }
        }
        Ok(indices)
    }

    /// Both distances of each message.
    pub fn distances(&self, digest: &StreamDigest) -> Result<Vec<[i64; 2]>, OmrError> {
        if digest.key != self.key {
            let (found, expected) = (digest.key.to_string(), self.key.to_string());
            return Err(OmrError::ForeignDigest { found, expected });
        }
        let mut distances = Vec::with_capacity(digest.count as usize);
        for block in &digest.blocks {
            let [x0, x1] = block.each_ref().map(|ciphertext| self.slots(ciphertext));
            let messages = (digest.count as usize - distances.len()).min(BLOCK);
            distances.extend(x0.into_iter().zip(x1).map(|(x0, x1)| [x0, x1]).take(messages));
        }
        Ok(distances)
    }

    fn slots(&self, ciphertext: &ShortCiphertext) -> Vec<i64> {
        let encoder = self.context.bfv().encoder();
        let coefficients = self.decryptor.decrypt(ciphertext, self.context.parameters().short);
        let coefficients = coefficients.into_iter().map(|value| value as u32).collect();
        let slots = encoder.coefficients_to_slots(coefficients);
        slots.into_iter().map(|value| encoder.plan().modulus().to_signed(value)).collect()
    }
}
