//! The hash tree over the messages: RFC 6962, section 2.1, with BLAKE3 in place of SHA-256.
//!
//! ```text
//! leaf(message)      = BLAKE3(0x00 || BLAKE3(bound part of its clue) || BLAKE3(its payload) || tail of its clue)
//! node(left, right)  = BLAKE3(0x01 || left || right)
//! root of no message = BLAKE3()
//! ```
//!
//! A leaf takes the two hashes and not the two strings, so that what a clue is bound to ([`crate::binding`]) follows from what
//! is hashed for the proof, without the payloads.
//!
//! A client that remembers one head can check everything that a relay says later: that a newer head only adds
//! messages ([`ConsistencyProof`]), and that a range of messages is what a head counts ([`RangeProof`]).

use crate::binding::MessageHashes;
pub use crate::hash::Hash;

mod proof;

pub use proof::{ConsistencyProof, MAX_PROOF_HASHES, ProofError, RangeProof};

/// The leaf of a message, from the hashes of its two parts and the tail of its clue.
pub fn leaf(hashes: &MessageHashes, tail: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[0]).update(&hashes.bound.0).update(&hashes.payload.0).update(tail);
    Hash(*hasher.finalize().as_bytes())
}

/// The node above two subtrees.
pub fn node(left: &Hash, right: &Hash) -> Hash {
    let mut bytes = [1; 65];
    bytes[1..33].copy_from_slice(&left.0);
    bytes[33..].copy_from_slice(&right.0);
    Hash::of(&bytes)
}

/// The complete subtrees that a growing tree consists of, largest first; a level's subtree has `2^level` leaves.
///
/// It is all that appending to the tree and computing its root take: at most 64 hashes, whatever the number of leaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frontier {
    peaks: Vec<(u32, Hash)>,
}

impl Frontier {
    /// The frontier of a tree of `leaves` leaves from the roots of its complete subtrees, the largest first: one for
    /// each bit that is set in the number of leaves. `None` if there are more or fewer.
    pub fn from_peaks(leaves: u64, peaks: &[Hash]) -> Option<Self> {
        let levels = (0..u64::BITS).rev().filter(|level| leaves >> level & 1 == 1);
        let whole = leaves.count_ones() as usize == peaks.len();
        whole.then(|| Self { peaks: levels.zip(peaks.iter().copied()).collect() })
    }

    /// The roots of the complete subtrees, the largest first.
    pub fn peaks(&self) -> impl ExactSizeIterator<Item = &Hash> {
        self.peaks.iter().map(|(_, hash)| hash)
    }

    /// Appends a complete subtree of `2^level` leaves: a leaf's hash at level 0. Every subtree that is there already has
    /// at least that level.
    pub fn push(&mut self, mut level: u32, mut hash: Hash) {
        while let Some((_, left)) = self.peaks.pop_if(|(last, _)| *last == level) {
            hash = node(&left, &hash);
            level += 1;
        }
        self.peaks.push((level, hash));
    }

    /// The root of the tree whose left part is `self` and whose right part, of smaller subtrees, is `right`.
    pub fn root_with(&self, right: &Self) -> Hash {
        let mut peaks = self.peaks.iter().chain(&right.peaks).map(|(_, hash)| hash).rev();
        match peaks.next() {
            None => Hash::of(&[]),
            Some(last) => peaks.fold(*last, |root, left| node(left, &root)),
        }
    }

    /// The root of the tree.
    pub fn root(&self) -> Hash {
        self.root_with(&Self::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition in RFC 6962: the left subtree has the largest power of two of leaves that leaves one over.
    fn definition(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => Hash::of(&[]),
            [leaf] => *leaf,
            _ => {
                let left = leaves.len().next_power_of_two() / 2;
                let (left, right) = leaves.split_at(left);
                node(&definition(left), &definition(right))
            }
        }
    }

    #[test]
    fn frontier_agrees_with_the_definition_at_every_size_and_segment_size() {
        let leaves: Vec<Hash> = (0u32..70).map(|number| Hash::of(&number.to_le_bytes())).collect();
        for level in 0..4 {
            let (mut full, mut tail) = (Frontier::default(), Frontier::default());
            for (number, leaf) in leaves.iter().enumerate() {
                assert_eq!(full.root_with(&tail), definition(&leaves[..number]));
                tail.push(0, *leaf);
                if (number + 1) % (1 << level) == 0 {
                    full.push(level, tail.root());
                    tail = Frontier::default();
                }
            }
        }
    }

    #[test]
    fn a_leaf_is_no_node() {
        let (left, right) = (Hash::of(b"left"), Hash::of(b"right"));
        let hashes = MessageHashes { bound: left, payload: right };
        assert_ne!(leaf(&hashes, &[]), node(&left, &right));
        assert_ne!(leaf(&hashes, &[]), leaf(&MessageHashes { bound: right, payload: left }, &[]));
        assert_ne!(leaf(&hashes, &[0]), leaf(&hashes, &[1]));
    }
}
