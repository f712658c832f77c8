//! The domain and outputs of a distributed point function, and the sizes that follow.

use std::ops::Range;

use crate::{DpfError, Output};

/// The largest number of points of a domain, 3^40.
pub const MAX_DOMAIN: u64 = 12_157_665_459_056_928_801;

/// The largest depth of a tree: 3^40 leaves.
pub(crate) const MAX_DEPTH: usize = 40;

/// How the children of a node are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Variant {
    /// Three AES calls for three children. Rests on the pseudorandomness of the hash on independent seeds.
    Plain = 0,
    /// Two AES calls for three children: the third is the XOR of its siblings and its parent. Rests on circular
    /// correlation robustness of the hash.
    HalfTree = 1,
}

impl Variant {
    pub(crate) const ALL: [Self; 2] = [Self::Plain, Self::HalfTree];
}

/// A domain, an output group and a way to build the tree. Both parties and the dealer know all of it.
///
/// The tree's leaves carry several outcomes each (early termination, Boyle, Gilboa and Ishai, ePrint 2018/707,
/// section 3.2.3): a power of two, so that a point splits into leaf and slot without a division, and as many as fit
/// into [`Output::LEAF_BYTES`]. The tree is as deep as the next power of three above the number of leaves asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parameters<O: Output> {
    domain: u64,
    output: O,
    variant: Variant,
    outcomes_per_leaf_log2: u32,
    depth: u32,
}

impl<O: Output> Parameters<O> {
    /// A function on the points 0 to `domain - 1`; `domain` is between 1 and [`MAX_DOMAIN`].
    pub fn new(domain: u64, output: O, variant: Variant) -> Result<Self, DpfError> {
        if !(1..=MAX_DOMAIN).contains(&domain) {
            return Err(DpfError::Domain { found: domain });
        }
        let needed_log2 = u64::BITS - (domain - 1).leading_zeros();
        let outcomes_per_leaf_log2 = output.outcomes_per_leaf_log2().min(needed_log2);
        let leaves = ((domain - 1) >> outcomes_per_leaf_log2) + 1;
        let mut depth = 0;
        let mut width: u64 = 1;
        while width < leaves {
            width = width.saturating_mul(3);
            depth += 1;
        }
        Ok(Self { domain, output, variant, outcomes_per_leaf_log2, depth })
    }

    /// The number of points.
    pub fn domain(&self) -> u64 {
        self.domain
    }

    /// The output group.
    pub fn output(&self) -> O {
        self.output
    }

    /// How the tree is built.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// The number of levels below the root, and of correction words.
    pub fn depth(&self) -> usize {
        self.depth as usize
    }

    /// How many consecutive points share a leaf.
    pub fn outcomes_per_leaf(&self) -> u64 {
        1 << self.outcomes_per_leaf_log2
    }

    /// The number of leaves that hold points of the domain.
    pub fn leaves(&self) -> u64 {
        self.leaf_of(self.domain - 1) + 1
    }

    /// The bytes that a leaf carries, and the length of the output correction word.
    pub fn leaf_bytes(&self) -> usize {
        self.output.outcome_bytes(self.outcomes_per_leaf_log2)
    }

    /// The number of elements that the shares of `points` consecutive points fill: the length of an output slice.
    pub fn output_elements(&self, points: u64) -> u128 {
        self.output.elements(points)
    }

    /// The number of AES calls that the evaluation of all points in `range` takes.
    pub fn aes_blocks(&self, range: Range<u64>) -> u128 {
        if range.is_empty() {
            return 0;
        }
        let per_node = match self.variant {
            Variant::Plain => 3,
            Variant::HalfTree => 2,
        };
        let (mut first, mut last) = (self.leaf_of(range.start), self.leaf_of(range.end - 1));
        let mut blocks = u128::from(last - first + 1) * self.leaf_bytes().div_ceil(16) as u128;
        for _ in 0..self.depth {
            (first, last) = (first / 3, last / 3);
            blocks += u128::from(last - first + 1) * per_node;
        }
        blocks
    }

    pub(crate) fn leaf_of(&self, point: u64) -> u64 {
        point >> self.outcomes_per_leaf_log2
    }

    pub(crate) fn first_point_of(&self, leaf: u64) -> u64 {
        leaf << self.outcomes_per_leaf_log2
    }

    pub(crate) fn slot_of(&self, point: u64) -> u64 {
        point & (self.outcomes_per_leaf() - 1)
    }

    pub(crate) fn check_range(&self, range: &Range<u64>) -> Result<(), DpfError> {
        if range.start > range.end || range.end > self.domain {
            return Err(DpfError::RangeOutside { start: range.start, end: range.end, domain: self.domain });
        }
        if !O::starts_on_element(range.start) {
            return Err(DpfError::RangeUnaligned { start: range.start });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bits, Bytes, Integers};

    #[test]
    fn the_domain_has_limits() {
        assert_eq!(3u64.checked_pow(40), Some(MAX_DOMAIN));
        assert_eq!(Parameters::new(0, Bits, Variant::Plain), Err(DpfError::Domain { found: 0 }));
        assert!(Parameters::new(MAX_DOMAIN + 1, Integers, Variant::Plain).is_err());
        let largest = Parameters::new(MAX_DOMAIN, Bytes(4096), Variant::HalfTree).unwrap();
        assert_eq!(largest.depth(), MAX_DEPTH);
    }

    #[test]
    fn leaves_are_packed_and_the_depth_is_minimal() {
        let bits = Parameters::new(1 << 20, Bits, Variant::HalfTree).unwrap();
        assert_eq!((bits.outcomes_per_leaf(), bits.leaf_bytes(), bits.leaves()), (1024, 128, 1024));
        assert_eq!(bits.depth(), 7);
        for domain in [1, 2, 3, 26, 27, 28, 80, 81, 82] {
            let wide = Parameters::new(domain, Bytes(128), Variant::Plain).unwrap();
            assert_eq!(wide.leaves(), domain);
            assert!(3u64.pow(wide.depth() as u32) >= domain);
            assert!(wide.depth() == 0 || 3u64.pow(wide.depth() as u32 - 1) < domain);
        }
        let small = Parameters::new(3, Bits, Variant::Plain).unwrap();
        assert_eq!((small.outcomes_per_leaf(), small.leaf_bytes(), small.depth()), (4, 1, 0));
    }

    #[test]
    fn counts_aes_calls_of_the_whole_tree() {
        let parameters = Parameters::new(27, Bytes(160), Variant::HalfTree).unwrap();
        assert_eq!(parameters.aes_blocks(0..27), 27 * 10 + (9 + 3 + 1) * 2);
        assert_eq!(parameters.aes_blocks(0..1), 10 + 3 * 2);
        assert_eq!(parameters.aes_blocks(4..4), 0);
    }
}
