//! The recipient's side: from a digest to the indices of its messages.

use std::ops::Range;

use restante_bfv::{ShortCiphertext, ShortDecryptor};
use zeroize::Zeroizing;

use super::{BLOCK, KeyId, RecipientSecret, StreamContext, StreamDigest, randomizer};
use crate::OmrError;

/// The messages of a block, and the indices of the pertinent ones among them.
pub type PertinentBlock = (Range<u64>, Result<Vec<u64>, OmrError>);

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

    /// The indices of the messages of each block and its pertinent ones, or that the block was not made by the circuit.
    ///
    /// A detector may have changed a block to see from the time whether it decrypts. So every block is decrypted and
    /// looked at, whatever became of those before it: the work is the same for everybody.
    ///
    /// # Errors
    ///
    /// [`OmrError::ForeignDigest`]; of a block [`OmrError::InvalidBlock`].
    pub fn pertinent_by_block(&self, digest: &StreamDigest) -> Result<Vec<PertinentBlock>, OmrError> {
        self.check_key(digest)?;
        let range = u64::from(self.context.parameters().clue.range());
        let blocks = digest.blocks.iter().enumerate().map(|(block, ciphertexts)| {
            let start = block * BLOCK;
            let messages = (digest.count as usize).saturating_sub(start).min(BLOCK);
            let first = digest.first + start as u64;
            let (distances, verdict) = self.block_distances(digest, block, ciphertexts, messages);
            let near = |[x0, x1]: &[i64; 2]| (x0.unsigned_abs() <= range) & (x1.unsigned_abs() <= range);
            let found = (first..).zip(distances.iter()).filter(|(_, distance)| near(distance));
            let found: Vec<u64> = found.map(|(index, _)| index).collect();
            (first..first + messages as u64, verdict.map(|()| found))
        });
        Ok(blocks.collect())
    }

    /// Both distances of each message, wiped when they are dropped.
    ///
    /// A block that the circuit did not make for this key is an error: it decrypts to noise, which shows.
    pub fn distances(&self, digest: &StreamDigest) -> Result<Zeroizing<Vec<[i64; 2]>>, OmrError> {
        self.check_key(digest)?;
        // Of its full length from the start, so that growing leaves nothing behind.
        let mut distances = Zeroizing::new(Vec::with_capacity(digest.count as usize));
        for (block, ciphertexts) in digest.blocks.iter().enumerate() {
            let messages = (digest.count as usize - distances.len()).min(BLOCK);
            let (found, verdict) = self.block_distances(digest, block, ciphertexts, messages);
            verdict?;
            distances.extend_from_slice(&found);
        }
        Ok(distances)
    }

    fn check_key(&self, digest: &StreamDigest) -> Result<(), OmrError> {
        if digest.key != self.key {
            let (found, expected) = (digest.key.to_string(), self.key.to_string());
            return Err(OmrError::ForeignDigest { found, expected });
        }
        Ok(())
    }

    /// Both distances of the messages of a block, and whether they mean anything.
    fn block_distances(
        &self,
        digest: &StreamDigest,
        block: usize,
        ciphertexts: &[ShortCiphertext; 2],
        messages: usize,
    ) -> (Zeroizing<Vec<[i64; 2]>>, Result<(), OmrError>) {
        let modulus = self.context.bfv().encoder().plan().modulus();
        let [(x0, first), (x1, second)] = ciphertexts.each_ref().map(|half| self.slots(half));
        let inverses = randomizer::inverses(&digest.seed, block, modulus, BLOCK);
        let pairs = x0.iter().zip(x1.iter()).zip(inverses).take(messages);
        let mut distances = Zeroizing::new(Vec::with_capacity(messages));
        distances.extend(
            pairs.map(|((&x0, &x1), inverse)| [x0, x1].map(|x| modulus.to_signed(modulus.mul(x, inverse)))),
        );
        let (deviation, limit) = (first.max(second), self.context.parameters().error_deviation);
        let verdict =
            if deviation > limit { Err(OmrError::InvalidBlock { block, deviation, limit }) } else { Ok(()) };
        (distances, verdict)
    }

    /// The slots of half a block, and the deviation of its error.
    fn slots(&self, ciphertext: &ShortCiphertext) -> (Zeroizing<Vec<u32>>, f64) {
        let (parameters, encoder) = (self.context.parameters(), self.context.bfv().encoder());
        let plaintext = self.decryptor.decrypt(ciphertext, parameters.short);
        let coefficients = plaintext.coefficients.iter().map(|&value| value as u32).collect();
        (Zeroizing::new(encoder.coefficients_to_slots(coefficients)), plaintext.error_deviation)
    }
}
