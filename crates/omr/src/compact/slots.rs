//! The slots of a block's messages: a random permutation, drawn by the detector.
//!
//! The noise of a circuit depends on its plaintexts, and those are what senders choose. A polynomial whose coefficients
//! are shaped after a complex root zeta of X^N + 1 is sqrt(N) times as large there as a random one is, and the
//! errors of chained rotations are correlated: clues crafted so that the diagonals of a block have that shape could add bits of noise at
//! one root, where squaring multiplies it, and spoil the block for every recipient. Where the detector draws the slots when the
//! clues are fixed already, the messages of a block are spread in a way that nobody who posts can foresee: as soon as
//! one clue in it is random, each diagonal is. Blocks of one clue only, repeated, keep their shape under every permutation; their
//! diagonals have 2,048 coefficients that are not zero, half of them free, which leaves 3 bits in place of 8: the affine step's errors are then
//! still below what the rounding after it adds at that root.
//!
//! A seed is drawn when the messages of its vector are fixed and serves no other, so that a vector that is kept for many digests is no different:
//! whoever works its slots out from them can add no message to it any more.
//!
//! The bindings' vectors, which meet V beside the diagonals, are hashes: whoever posts can try for few of their residues, and
//! not for the 16 plaintexts of a block that they are spread over, whose slots are drawn like those of the diagonals. With one clue only, repeated, those
//! plaintexts are as regular as the diagonals are: 16 more beside 1,024.
//!
//! A factor for each message, as the stream digest has, would do the same, but must be divided out before the range check, at the
//! cost of a level.

use std::ops::Range;

use restante_ring::sample::Seed;

/// The purpose of the streams that permutations come from.
const PURPOSE: &str = "omr/slots";

/// For each place in a block, its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slots(Vec<u32>);

impl Slots {
    /// The slots of one block.
    pub(super) fn new(seed: &Seed, block: u64, degree: usize) -> Self {
        // Sorting by random keys; where two agree, once in 2^64 pairs, the place decides.
        let mut bytes = vec![0; 8 * degree];
        seed.stream(PURPOSE, &[block]).bytes(&mut bytes);
        let mut keyed: Vec<(u64, u32)> = bytes
            .chunks_exact(8)
            .zip(0..)
            .map(|(bytes, slot)| (bytes.iter().fold(0, |key, &byte| key << 8 | u64::from(byte)), slot))
            .collect();
        keyed.sort_unstable();
        Self(keyed.into_iter().map(|(_, slot)| slot).collect())
    }

    /// The slots of some places.
    pub(super) fn of(&self, places: Range<usize>) -> &[u32] {
        &self.0[places]
    }

    /// The item in each slot, where `items` are those of the first places.
    pub(super) fn scatter<T: Copy>(&self, items: &[T]) -> Vec<Option<T>> {
        let mut slots = vec![None; self.0.len()];
        self.0.iter().zip(items).for_each(|(&slot, &item)| slots[slot as usize] = Some(item));
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_slot_of_its_own_and_blocks_differ() {
        let seed = Seed::from([1; 32]);
        let [first, second] = [0, 1].map(|block| Slots::new(&seed, block, 4096));
        for slots in [&first, &second] {
            let mut sorted = slots.of(0..4096).to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..4096));
        }
        assert_ne!(first, second);
        assert_ne!(first, Slots::new(&Seed::from([2; 32]), 0, 4096));
        assert_eq!(first, Slots::new(&seed, 0, 4096));
        // A random permutation leaves one place where it was, on average.
        assert!(first.of(0..4096).iter().zip(0..).filter(|(slot, place)| *slot == place).count() < 16);
    }

    #[test]
    fn items_are_scattered_to_their_slots() {
        let slots = Slots::new(&Seed::from([3; 32]), 7, 16);
        let scattered = slots.scatter(&[10, 11, 12]);
        assert_eq!(scattered.iter().flatten().count(), 3);
        for (slot, item) in slots.of(0..3).iter().zip(10..) {
            assert_eq!(scattered[*slot as usize], Some(item));
        }
    }
}
