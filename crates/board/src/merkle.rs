//! The hash tree over the messages: RFC 6962, section 2.1, with BLAKE3 in place of SHA-256.
//!
//! ```text
//! leaf(clue, payload) = BLAKE3(0x00 || BLAKE3(clue) || BLAKE3(payload))
//! node(left, right)   = BLAKE3(0x01 || left || right)
//! root of no message  = BLAKE3()
//! ```
//!
//! A leaf takes the two hashes and not the two strings, so that a detector can check clues without the payloads and a
//! recipient can check a payload without the clue, which is the longer of the two.

use std::fmt;

/// A BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

/// The leaf of a message, from the hashes of its two parts.
pub(crate) fn leaf(clue: &Hash, payload: &Hash) -> Hash {
    combine(0, clue, payload)
}

fn node(left: &Hash, right: &Hash) -> Hash {
    combine(1, left, right)
}

fn combine(prefix: u8, left: &Hash, right: &Hash) -> Hash {
    let mut bytes = [0; 65];
    bytes[0] = prefix;
    bytes[1..33].copy_from_slice(&left.0);
    bytes[33..].copy_from_slice(&right.0);
    Hash::of(&bytes)
}

/// The complete subtrees that a growing tree consists of, largest first; a level's subtree has `2^level` leaves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frontier {
    peaks: Vec<(u32, Hash)>,
}

impl Frontier {
    /// Appends a complete subtree. Every subtree that is there already has at least that level.
    pub(crate) fn push(&mut self, mut level: u32, mut hash: Hash) {
        while let Some((_, left)) = self.peaks.pop_if(|(last, _)| *last == level) {
            hash = node(&left, &hash);
            level += 1;
        }
        self.peaks.push((level, hash));
    }

    /// The root of the tree whose left part is `self` and whose right part, of smaller subtrees, is `right`.
    pub(crate) fn root_with(&self, right: &Self) -> Hash {
        let mut peaks = self.peaks.iter().chain(&right.peaks).map(|(_, hash)| hash).rev();
        match peaks.next() {
            None => Hash::of(&[]),
            Some(last) => peaks.fold(*last, |root, left| node(left, &root)),
        }
    }

    /// The root of the tree.
    pub(crate) fn root(&self) -> Hash {
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
        assert_ne!(leaf(&left, &right), node(&left, &right));
        assert_ne!(leaf(&left, &right), leaf(&right, &left));
    }
}
