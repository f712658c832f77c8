//! Proofs from the hash tree: of a range of messages, and of one head by another.

use std::ops::Range;

use thiserror::Error;

use super::{Hash, node};
use crate::binding::BoardId;
use crate::{Decode, Encode, Reader, WireError};

/// The most hashes of any proof: two for each level of a tree of 2^64 leaves.
pub const MAX_PROOF_HASHES: u32 = 128;

/// Why a proof proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProofError {
    /// A range that is not within the tree, or not as long as there are leaves.
    #[error("messages {first}..{end} with {leaves} leaves in a tree of {count}")]
    Range {
        /// First index.
        first: u64,
        /// End of the range.
        end: u64,
        /// Leaves that were given.
        leaves: usize,
        /// Leaves of the tree.
        count: u64,
    },
    /// The older tree is larger than the newer.
    #[error("a tree of {newer} leaves cannot begin with one of {older}")]
    Shrunk {
        /// Leaves of the older tree.
        older: u64,
        /// Leaves of the newer tree.
        newer: u64,
    },
    /// Heads of two boards.
    #[error("a head of board {newer} cannot continue one of board {older}")]
    OtherBoard {
        /// The board of the older head.
        older: BoardId,
        /// The board of the newer head.
        newer: BoardId,
    },
    /// Too few or too many hashes.
    #[error("the proof has {found} hashes, which is not the number that its sizes need")]
    Length {
        /// Hashes that it has.
        found: usize,
    },
    /// The leaves and the proof lead to another root.
    #[error("the {which} root is {expected}, the proof leads to {found}")]
    Root {
        /// The root's name: one of two, or "tree's".
        which: &'static str,
        /// The root that was to be proved.
        expected: Hash,
        /// The root that the proof leads to.
        found: Hash,
    },
}

/// The proof that some leaves are those at `first ..` of a tree: the roots of the largest subtrees beside them, from left to
/// right. With one leaf it is an inclusion proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeProof(Vec<Hash>);

impl RangeProof {
    /// The proof for the leaves `range` of a tree of `count` leaves. `subtree` gives the root over the leaves of a range that
    /// is a node of the tree.
    ///
    /// # Errors
    ///
    /// Those of `subtree`. An empty range, or one that is not within the tree, gives a proof that proves nothing.
    pub fn build<E>(
        range: &Range<u64>,
        count: u64,
        mut subtree: impl FnMut(Range<u64>) -> Result<Hash, E>,
    ) -> Result<Self, E> {
        fn descend<E>(
            tree: Range<u64>,
            range: &Range<u64>,
            hashes: &mut Vec<Hash>,
            subtree: &mut impl FnMut(Range<u64>) -> Result<Hash, E>,
        ) -> Result<(), E> {
            if tree.end <= range.start || tree.start >= range.end {
                hashes.push(subtree(tree)?);
            } else if !(range.start <= tree.start && tree.end <= range.end) {
                let middle = split(&tree);
                descend(tree.start..middle, range, hashes, subtree)?;
                descend(middle..tree.end, range, hashes, subtree)?;
            }
            Ok(())
        }
        let mut hashes = Vec::new();
        if !range.is_empty() && range.end <= count {
            descend(0..count, range, &mut hashes, &mut subtree)?;
        }
        Ok(Self(hashes))
    }

    /// Checks that `leaves` are those at `first ..` of the tree of `count` leaves with this root. That the tree has so many leaves
    /// is taken from the caller, who knows it together with the root from a head.
    ///
    /// # Errors
    ///
    /// [`ProofError`], whatever the proof holds.
    pub fn verify(&self, leaves: &[Hash], first: u64, count: u64, root: &Hash) -> Result<(), ProofError> {
        let end = first.checked_add(leaves.len() as u64).filter(|&end| end <= count && first < end);
        let Some(end) = end else {
            let end = first.saturating_add(leaves.len() as u64);
            return Err(ProofError::Range { first, end, leaves: leaves.len(), count });
        };
        let length = ProofError::Length { found: self.0.len() };
        let mut hashes = self.0.iter();
        let found = climb(0..count, &(first..end), leaves, &mut hashes).ok_or(length)?;
        if hashes.next().is_some() {
            return Err(length);
        }
        if found == *root {
            Ok(())
        } else {
            Err(ProofError::Root { which: "tree's", expected: *root, found })
        }
    }

    /// The hashes, from left to right.
    pub fn hashes(&self) -> &[Hash] {
        &self.0
    }
}

/// The root over `tree`, from the leaves of `range` and, beside it, hashes of the proof; `None` if those are too few.
fn climb<'a>(
    tree: Range<u64>,
    range: &Range<u64>,
    leaves: &[Hash],
    hashes: &mut impl Iterator<Item = &'a Hash>,
) -> Option<Hash> {
    if tree.end <= range.start || tree.start >= range.end {
        return hashes.next().copied();
    }
    if tree.end - tree.start == 1 {
        return leaves.get((tree.start - range.start) as usize).copied();
    }
    let middle = split(&tree);
    let left = climb(tree.start..middle, range, leaves, hashes)?;
    let right = climb(middle..tree.end, range, leaves, hashes)?;
    Some(node(&left, &right))
}

/// Where the tree over at least two leaves divides: at the largest power of two that leaves one over.
fn split(tree: &Range<u64>) -> u64 {
    let last = tree.end - tree.start - 1;
    tree.start + (1 << last.ilog2())
}

/// The proof that the first leaves of a tree are all those of an older one: RFC 6962, section 2.1.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsistencyProof(Vec<Hash>);

impl ConsistencyProof {
    /// The proof for the first `older` of `newer` leaves. `subtree` gives the root over the leaves of a range that is a node of
    /// the newer tree.
    ///
    /// # Errors
    ///
    /// Those of `subtree`. More older leaves than newer ones give a proof that proves nothing.
    pub fn build<E>(
        older: u64,
        newer: u64,
        mut subtree: impl FnMut(Range<u64>) -> Result<Hash, E>,
    ) -> Result<Self, E> {
        let mut hashes = Vec::new();
        if older == 0 || older > newer {
            return Ok(Self(hashes));
        }
        // From the root down to where the older tree ends; the RFC lists from there up.
        let (mut tree, mut whole) = (0..newer, true);
        while tree.end != older {
            let middle = split(&tree);
            if older <= middle {
                hashes.push(subtree(middle..tree.end)?);
                tree = tree.start..middle;
            } else {
                hashes.push(subtree(tree.start..middle)?);
                tree = middle..tree.end;
                whole = false;
            }
        }
        if !whole {
            hashes.push(subtree(tree)?);
        }
        hashes.reverse();
        Ok(Self(hashes))
    }

    /// Checks that the tree of `newer` leaves begins with that of `older` leaves; each is given with its root.
    ///
    /// # Errors
    ///
    /// [`ProofError`], whatever the proof holds.
    pub fn verify(&self, older: (u64, &Hash), newer: (u64, &Hash)) -> Result<(), ProofError> {
        let ((older, older_root), (newer, newer_root)) = (older, newer);
        if older > newer {
            return Err(ProofError::Shrunk { older, newer });
        }
        let length = ProofError::Length { found: self.0.len() };
        let mut hashes = self.0.iter();
        if older == 0 {
            if !self.0.is_empty() {
                return Err(length);
            }
            compare("older", older_root, Hash::of(&[]))?;
            return match newer {
                0 => compare("newer", newer_root, Hash::of(&[])),
                // Any tree begins with that of no leaf: its root is not looked at.
                _ => Ok(()),
            };
        }
        let start = Some(older_root);
        let (old, new) = roots(0..newer, older, start, &mut hashes).ok_or(length)?;
        if hashes.next().is_some() {
            return Err(length);
        }
        compare("older", older_root, old)?;
        compare("newer", newer_root, new)
    }

    /// The hashes, in the RFC's order.
    pub fn hashes(&self) -> &[Hash] {
        &self.0
    }
}

/// The roots over the part of `tree` before `older`, and over `tree`. `start` is the older tree's root while nothing lies to the
/// left.
fn roots<'a>(
    tree: Range<u64>,
    older: u64,
    start: Option<&Hash>,
    hashes: &mut impl Iterator<Item = &'a Hash>,
) -> Option<(Hash, Hash)> {
    if tree.end == older {
        let root = match start {
            Some(root) => *root,
            None => *hashes.next()?,
        };
        return Some((root, root));
    }
    let middle = split(&tree);
    if older <= middle {
        let (old, left) = roots(tree.start..middle, older, start, hashes)?;
        Some((old, node(&left, hashes.next()?)))
    } else {
        let (old, right) = roots(middle..tree.end, older, None, hashes)?;
        let left = hashes.next()?;
        Some((node(left, &old), node(left, &right)))
    }
}

fn compare(which: &'static str, expected: &Hash, found: Hash) -> Result<(), ProofError> {
    if found == *expected { Ok(()) } else { Err(ProofError::Root { which, expected: *expected, found }) }
}

fn encode(hashes: &[Hash], out: &mut Vec<u8>) {
    out.extend_from_slice(&(hashes.len() as u32).to_le_bytes());
    hashes.iter().for_each(|hash| out.extend_from_slice(&hash.0));
}

fn decode(reader: &mut Reader<'_>) -> Result<Vec<Hash>, WireError> {
    let count = reader.count("number of hashes of a proof", 0..=MAX_PROOF_HASHES)?;
    (0..count).map(|_| Ok(Hash(reader.array()?))).collect()
}

impl Encode for RangeProof {
    fn encode(&self, out: &mut Vec<u8>) {
        encode(&self.0, out);
    }
}

impl Decode for RangeProof {
    const WHAT: &'static str = "range proof";

    fn decode((): &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        decode(reader).map(Self)
    }
}

impl Encode for ConsistencyProof {
    fn encode(&self, out: &mut Vec<u8>) {
        encode(&self.0, out);
    }
}

impl Decode for ConsistencyProof {
    const WHAT: &'static str = "consistency proof";

    fn decode((): &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        decode(reader).map(Self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use std::convert::Infallible;

    use super::*;

    fn leaves(count: u64) -> Vec<Hash> {
        (0..count).map(|number| Hash::of(&number.to_le_bytes())).collect()
    }

    /// The definition in RFC 6962.
    fn root(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => Hash::of(&[]),
            [leaf] => *leaf,
            _ => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                node(&root(left), &root(right))
            }
        }
    }

    fn oracle(leaves: &[Hash]) -> impl Fn(Range<u64>) -> Result<Hash, Infallible> + '_ {
        |range| Ok(root(&leaves[range.start as usize..range.end as usize]))
    }

    #[test]
    fn every_range_of_every_tree_is_proved_and_no_other() {
        for count in 1..20u64 {
            let all = leaves(count);
            let whole = root(&all);
            for first in 0..count {
                for end in first + 1..=count {
                    let Ok(proof) = RangeProof::build(&(first..end), count, oracle(&all));
                    let some = &all[first as usize..end as usize];
                    assert_eq!(proof.verify(some, first, count, &whole), Ok(()));
                    assert_eq!(RangeProof::from_bytes(&(), &proof.to_bytes()).unwrap(), proof);
                    let mut changed = some.to_vec();
                    changed[0].0[0] ^= 1;
                    assert!(proof.verify(&changed, first, count, &whole).is_err());
                    assert!(proof.verify(&some[1..], first, count, &whole).is_err());
                    assert!(proof.verify(some, first + 1, count, &whole).is_err());
                    if some.len() > 1 {
                        changed[0].0[0] ^= 1;
                        changed.swap(0, some.len() - 1);
                        assert!(proof.verify(&changed, first, count, &whole).is_err());
                    }
                    let longer = RangeProof([proof.0.as_slice(), &[whole]].concat());
                    assert!(longer.verify(some, first, count, &whole).is_err());
                }
            }
        }
    }

    #[test]
    fn every_pair_of_sizes_is_consistent_and_a_fork_is_not() {
        for newer in 0..24u64 {
            let all = leaves(newer);
            for older in 0..=newer {
                let Ok(proof) = ConsistencyProof::build(older, newer, oracle(&all));
                let (old, new) = (root(&all[..older as usize]), root(&all));
                assert_eq!(proof.verify((older, &old), (newer, &new)), Ok(()), "{older} {newer}");
                assert_eq!(proof.0, definition(older, &all, true), "{older} {newer}");
                assert!(proof.verify((older, &Hash::of(b"fork")), (newer, &new)).is_err());
                if older > 0 {
                    assert!(proof.verify((older, &old), (newer, &Hash::of(b"fork"))).is_err());
                }
                if newer > older {
                    assert!(proof.verify((newer, &new), (older, &old)).is_err());
                }
            }
        }
    }

    /// SUBPROOF of RFC 6962.
    fn definition(older: u64, all: &[Hash], whole: bool) -> Vec<Hash> {
        if older == 0 {
            return Vec::new();
        }
        if older == all.len() as u64 {
            return if whole { Vec::new() } else { vec![root(all)] };
        }
        let middle = all.len().next_power_of_two() / 2;
        let (mut proof, last) = if older <= middle as u64 {
            (definition(older, &all[..middle], whole), root(&all[middle..]))
        } else {
            (definition(older - middle as u64, &all[middle..], false), root(&all[..middle]))
        };
        proof.push(last);
        proof
    }

    #[test]
    fn sizes_from_outside_end_at_once() {
        let hash = Hash::of(&[]);
        assert!(RangeProof(vec![hash; 128]).verify(&[hash], u64::MAX - 1, u64::MAX, &hash).is_err());
        assert!(RangeProof(vec![]).verify(&[hash], u64::MAX, u64::MAX, &hash).is_err());
        assert!(ConsistencyProof(vec![hash; 128]).verify((1 << 63, &hash), (u64::MAX, &hash)).is_err());
    }
}
