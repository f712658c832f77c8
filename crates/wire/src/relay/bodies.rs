//! Binary request and response bodies.

use super::{MessageId, SignedHead};
use crate::{
    Decode, Encode, Envelope, Kind, ParameterId, Reader, WireError,
    binding::{MessageHashes, split_clue},
    merkle::{Hash, ProofError, RangeProof, leaf},
};

/// The most messages of one batch that the format allows; a relay may allow fewer.
pub const MAX_BATCH: u32 = 4096;
/// The most digests of one list.
pub const MAX_DIGESTS: u32 = 4096;

/// Of batches and pages; a list of digests has the version of its own.
const VERSION: u16 = 2;
const DIGEST_LIST_VERSION: u16 = 1;

/// A message to post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostMessage {
    /// 16 random bytes, drawn once for a message and sent again with every attempt to post it: the relay accepts it once.
    pub id: MessageId,
    /// The clue.
    pub clue: Vec<u8>,
    /// The payload.
    pub payload: Vec<u8>,
}

/// Messages to post together: all of them are accepted, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostBatch(pub Vec<PostMessage>);

impl PostBatch {
    /// The body for a board with these parameters.
    pub fn to_body(&self, parameters: ParameterId) -> Vec<u8> {
        let mut body = (self.0.len() as u32).to_le_bytes().to_vec();
        for message in &self.0 {
            body.extend_from_slice(&message.id.0);
            encode_message(&message.clue, &message.payload, &mut body);
        }
        Envelope { kind: Kind::PostBatch, version: VERSION, parameters, body: &body }.seal()
    }

    /// Reads a body for a board with clues of `clue_bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`WireError`]; also for a batch without messages or of more than [`MAX_BATCH`].
    pub fn from_body(parameters: ParameterId, clue_bytes: usize, bytes: &[u8]) -> Result<Self, WireError> {
        let envelope = Envelope::open_as(bytes, Kind::PostBatch, VERSION, parameters)?;
        let mut reader = Reader::new("batch of messages", envelope.body);
        let count = reader.count("number of messages of a batch", 1..=MAX_BATCH)?;
        // Grows with what is read, not with what is announced.
        let mut messages = Vec::new();
        for _ in 0..count {
            let id = MessageId(reader.array()?);
            let (clue, payload) = decode_message(clue_bytes, &mut reader)?;
            messages.push(PostMessage { id, clue, payload });
        }
        reader.finish()?;
        Ok(Self(messages))
    }
}

/// A message on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageMessage {
    /// The clue.
    pub clue: Vec<u8>,
    /// The payload.
    pub payload: Vec<u8>,
}

impl PageMessage {
    /// The bound part of the clue, and its tail.
    fn split(&self) -> (&[u8], &[u8]) {
        split_clue(&self.clue)
    }

    /// The hashes of the message's two parts.
    pub fn hashes(&self) -> MessageHashes {
        MessageHashes::of(self.split().0, &self.payload)
    }

    /// The leaf of the message in the hash tree.
    pub fn leaf(&self) -> Hash {
        leaf(&self.hashes(), self.split().1)
    }
}

impl PostMessage {
    /// The hashes of the message's two parts.
    pub fn hashes(&self) -> MessageHashes {
        MessageHashes::of(split_clue(&self.clue).0, &self.payload)
    }

    /// The leaf that the message has in the hash tree.
    pub fn leaf(&self) -> Hash {
        leaf(&self.hashes(), split_clue(&self.clue).1)
    }
}

/// Consecutive messages of a board with the proof that a head counts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The head.
    pub head: SignedHead,
    /// Index of the first message.
    pub first: u64,
    /// The messages.
    pub messages: Vec<PageMessage>,
    /// The proof.
    pub proof: RangeProof,
}

impl Page {
    /// Checks the messages against the head, and returns their hashes, from which what their clues are bound to follows. Whether the head is genuine, and continues what the client knows, is another
    /// question: [`SignedHead::is_signed_by`], [`SignedHead::verify_continues`].
    ///
    /// # Errors
    ///
    /// [`ProofError`].
    pub fn verify(&self) -> Result<Vec<MessageHashes>, ProofError> {
        if self.messages.is_empty() {
            return if self.first <= self.head.count {
                Ok(Vec::new())
            } else {
                let (first, count) = (self.first, self.head.count);
                Err(ProofError::Range { first, end: first, leaves: 0, count })
            };
        }
        let hashes: Vec<MessageHashes> = self.messages.iter().map(PageMessage::hashes).collect();
        let leaves = self.messages.iter().zip(&hashes);
        let leaves: Vec<Hash> = leaves.map(|(message, hashes)| leaf(hashes, message.split().1)).collect();
        self.proof.verify(&leaves, self.first, self.head.count, &self.head.root).map(|()| hashes)
    }

    /// Index behind the last message.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.messages.len() as u64)
    }

    /// The body.
    pub fn to_body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        self.head.encode(&mut body);
        body.extend_from_slice(&self.first.to_le_bytes());
        body.extend_from_slice(&(self.messages.len() as u32).to_le_bytes());
        self.proof.encode(&mut body);
        self.messages.iter().for_each(|message| encode_message(&message.clue, &message.payload, &mut body));
        let parameters = self.head.parameters;
        Envelope { kind: Kind::Page, version: VERSION, parameters, body: &body }.seal()
    }

    /// Reads a body for a board with these parameters and clues of `clue_bytes` bytes. Nothing is verified.
    ///
    /// # Errors
    ///
    /// [`WireError`].
    pub fn from_body(parameters: ParameterId, clue_bytes: usize, bytes: &[u8]) -> Result<Self, WireError> {
        let envelope = Envelope::open_as(bytes, Kind::Page, VERSION, parameters)?;
        let mut reader = Reader::new("page of messages", envelope.body);
        let head = SignedHead::decode(&parameters, &mut reader)?;
        let first = reader.u64()?;
        let count = reader.u32()?;
        let proof = RangeProof::decode(&(), &mut reader)?;
        // Grows with what is read, not with what is announced.
        let mut messages = Vec::new();
        for _ in 0..count {
            let (clue, payload) = decode_message(clue_bytes, &mut reader)?;
            messages.push(PageMessage { clue, payload });
        }
        reader.finish()?;
        Ok(Self { head, first, messages, proof })
    }
}

/// The files of some digests, in the order of their ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DigestList(pub Vec<Vec<u8>>);

impl DigestList {
    /// The body.
    pub fn to_body(&self, parameters: ParameterId) -> Vec<u8> {
        let mut body = (self.0.len() as u32).to_le_bytes().to_vec();
        for file in &self.0 {
            body.extend_from_slice(&(file.len() as u64).to_le_bytes());
            body.extend_from_slice(file);
        }
        Envelope { kind: Kind::DigestList, version: DIGEST_LIST_VERSION, parameters, body: &body }.seal()
    }

    /// Reads a body. The files are not looked into.
    ///
    /// # Errors
    ///
    /// [`WireError`]; also for more than [`MAX_DIGESTS`].
    pub fn from_body(parameters: ParameterId, bytes: &[u8]) -> Result<Self, WireError> {
        let envelope = Envelope::open_as(bytes, Kind::DigestList, DIGEST_LIST_VERSION, parameters)?;
        let mut reader = Reader::new("list of digests", envelope.body);
        let count = reader.count("number of digests of a list", 0..=MAX_DIGESTS)?;
        let mut files = Vec::new();
        for _ in 0..count {
            let bytes = usize::try_from(reader.u64()?).unwrap_or(usize::MAX);
            files.push(reader.bytes(bytes)?.to_vec());
        }
        reader.finish()?;
        Ok(Self(files))
    }
}

fn encode_message(clue: &[u8], payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(clue);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(payload);
}

fn decode_message(clue_bytes: usize, reader: &mut Reader<'_>) -> Result<(Vec<u8>, Vec<u8>), WireError> {
    let clue = reader.bytes(clue_bytes)?.to_vec();
    let payload_bytes = reader.u32()? as usize;
    Ok((clue, reader.bytes(payload_bytes)?.to_vec()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use ed25519_dalek::SigningKey;

    use super::*;
    use crate::{binding::BoardId, merkle::Frontier};

    const PARAMETERS: ParameterId = ParameterId([9; 8]);
    const BOARD: BoardId = BoardId([5; 16]);

    #[test]
    fn batches_read_back_and_announced_counts_are_not_believed() {
        let message = |byte: u8| PostMessage {
            id: MessageId([byte; 16]),
            clue: vec![byte; 7],
            payload: vec![byte; byte.into()],
        };
        let batch = PostBatch((0..4).map(message).collect());
        let body = batch.to_body(PARAMETERS);
        assert_eq!(PostBatch::from_body(PARAMETERS, 7, &body).unwrap(), batch);
        assert!(PostBatch::from_body(PARAMETERS, 8, &body).is_err());
        assert!(PostBatch::from_body(ParameterId::NONE, 7, &body).is_err());
        assert!(PostBatch::from_body(PARAMETERS, 7, &PostBatch(vec![]).to_body(PARAMETERS)).is_err());
        for count in [1u32, MAX_BATCH, MAX_BATCH + 1, u32::MAX] {
            let body = count.to_le_bytes();
            let envelope =
                Envelope { kind: Kind::PostBatch, version: VERSION, parameters: PARAMETERS, body: &body };
            assert!(PostBatch::from_body(PARAMETERS, 7, &envelope.seal()).is_err());
        }
    }

    #[test]
    fn a_page_is_verified_against_its_head() {
        let message = |byte: u8| PageMessage { clue: vec![byte; 9], payload: vec![byte; 2] };
        let all: Vec<PageMessage> = (0..9).map(message).collect();
        let leaves: Vec<Hash> = all.iter().map(PageMessage::leaf).collect();
        let root = |range: std::ops::Range<u64>| {
            let mut tree = Frontier::default();
            leaves[range.start as usize..range.end as usize].iter().for_each(|leaf| tree.push(0, *leaf));
            Ok::<_, std::convert::Infallible>(tree.root())
        };
        let Ok(whole) = root(0..9);
        let head = SignedHead::sign(&SigningKey::from_bytes(&[1; 32]), (BOARD, PARAMETERS), 9, whole, 0);
        let Ok(proof) = RangeProof::build(&(2..6), 9, root);
        let page = Page { head, first: 2, messages: all[2..6].to_vec(), proof };
        let hashes: Vec<MessageHashes> = page.messages.iter().map(PageMessage::hashes).collect();
        assert_eq!(page.verify(), Ok(hashes));
        assert_eq!(Page::from_body(PARAMETERS, 9, &page.to_body()).unwrap(), page);
        let mut dropped = page.clone();
        dropped.messages.remove(1);
        assert!(dropped.verify().is_err());
        for byte in 0..9 {
            let mut changed = page.clone();
            changed.messages[1].clue[byte] ^= 1;
            assert!(changed.verify().is_err(), "byte {byte} of a clue");
        }
        let mut reordered = page.clone();
        reordered.messages.swap(0, 1);
        assert!(reordered.verify().is_err());
        assert!(Page { first: 3, ..page.clone() }.verify().is_err());
        assert!(Page { messages: vec![], first: 9, ..page.clone() }.verify().is_ok());
        assert!(Page { messages: vec![], first: 10, ..page }.verify().is_err());
    }

    #[test]
    fn lists_of_digests_read_back() {
        let list = DigestList(vec![vec![], vec![1, 2, 3]]);
        let body = list.to_body(PARAMETERS);
        assert_eq!(DigestList::from_body(PARAMETERS, &body).unwrap(), list);
    }
}
