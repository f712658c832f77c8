//! Random factors, one per message.
//!
//! The noise that the matrix product adds is that of a sum of products of plaintexts, which senders choose, with errors
//! of the baby steps, which are correlated: each step hands its error on to all later ones. Clues could be crafted so that
//! all terms of one coefficient add up, for every recipient at once; that coefficient's wrong value would spoil a
//! whole block. The detector therefore multiplies each message's clue by a factor that is drawn when the clues are fixed
//! already, and multiplies the tag likewise: what it encrypts is rho_j x_j, and the plaintexts are random whatever the
//! clues are. The recipient knows the factors' seed and divides them out.

use restante_ring::{Modulus, Multiplier, sample::Seed};

/// The purpose of the streams that factors come from.
const PURPOSE: &str = "omr/randomizer";

/// The inverses of a block's factors rho_j, for the recipient: uniform in 1 .. t.
pub(super) fn inverses(seed: &Seed, block: usize, modulus: &Modulus<u32>, count: usize) -> Vec<u32> {
    let mut inverses = vec![0; count];
    seed.stream(PURPOSE, &[block as u64]).uniform(modulus, &mut inverses);
    // Once in t times: not quite uniform, but not zero.
    inverses.iter_mut().for_each(|value| *value = (*value).max(1));
    inverses
}

/// A block's factors rho_j, for the detector.
pub(super) fn factors(
    seed: &Seed,
    block: usize,
    modulus: &Modulus<u32>,
    count: usize,
) -> Vec<Multiplier<u32>> {
    let mut factors = inverses(seed, block, modulus, count);
    modulus.invert_all(&mut factors);
    factors.into_iter().map(|factor| modulus.multiplier(factor)).collect()
}
