//! The recipient's side: from a digest to the indices of its messages.

use restante_bfv::{ShortCiphertext, ShortDecryptor};
use zeroize::Zeroizing;

use super::{BLOCK, KeyId, RecipientSecret, StreamContext, StreamDigest, randomizer};
use crate::OmrError;

/// Decrypts the digests that were made with one recipient's detection key.
#[derive(Debug)]
pub struct Decoder {
    context: StreamContext,
    decryptor: ShortDecryptor,
    key: KeyId,
}

impl Decoder {
    /// A decoder for the digests that are made with the detection key of `secret`.
    pub fn new(secret: &RecipientSecret) -> Result<Self, OmrError> {
        Ok(Self {
            context: secret.context().clone(),
            decryptor: ShortDecryptor::new(secret.bfv())?,
            key: secret.detection_key()?.id(),
        })
    }

    /// The indices of the pertinent messages, ascending. A false positive is possible at the rate of the clue
    /// parameters; the payload's authentication settles it.
    pub fn pertinent(&self, digest: &StreamDigest) -> Result<Vec<u64>, OmrError> {
        let range = u64::from(self.context.parameters().clue.range());
        let distances = self.distances(digest)?;
        let near = |[x0, x1]: [i64; 2]| (x0.unsigned_abs() <= range) & (x1.unsigned_abs() <= range);
        Ok((digest.first..)
            .zip(distances.iter())
            .filter(|&(_, distance)| near(*distance))
            .map(|(index, _)| index)
            .collect())
    }

    /// Both distances of each message, wiped when they are dropped.
    ///
    /// A block that the circuit did not make for this key is an error: it decrypts to noise, which shows.
    pub fn distances(&self, digest: &StreamDigest) -> Result<Zeroizing<Vec<[i64; 2]>>, OmrError> {
        if digest.key != self.key {
            let (found, expected) = (digest.key.to_string(), self.key.to_string());
            return Err(OmrError::ForeignDigest { found, expected });
        }
        let modulus = self.context.bfv().encoder().plan().modulus();
        // Of its full length from the start, so that growing leaves nothing behind.
        let mut distances = Zeroizing::new(Vec::with_capacity(digest.count as usize));
        for (index, [x0, x1]) in digest.blocks.iter().enumerate() {
            let [x0, x1] = [self.slots(index, x0)?, self.slots(index, x1)?];
            let inverses = randomizer::inverses(&digest.seed, index, modulus, BLOCK);
            let messages = (digest.count as usize - distances.len()).min(BLOCK);
            let pairs = x0.iter().zip(x1.iter()).zip(inverses).take(messages);
            distances.extend(
                pairs.map(|((&x0, &x1), inverse)| {
                    [x0, x1].map(|x| modulus.to_signed(modulus.mul(x, inverse)))
                }),
            );
        }
        Ok(distances)
    }

    fn slots(&self, block: usize, ciphertext: &ShortCiphertext) -> Result<Zeroizing<Vec<u32>>, OmrError> {
        let (parameters, encoder) = (self.context.parameters(), self.context.bfv().encoder());
        let plaintext = self.decryptor.decrypt(ciphertext, parameters.short);
        let (deviation, limit) = (plaintext.error_deviation, parameters.error_deviation);
        if deviation > limit {
            return Err(OmrError::InvalidBlock { block, deviation, limit });
        }
        let coefficients = plaintext.coefficients.iter().map(|&value| value as u32).collect();
        Ok(Zeroizing::new(encoder.coefficients_to_slots(coefficients)))
    }
}
