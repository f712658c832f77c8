//! Random factors, one per message.
//!
//! The noise that the matrix product adds is that of a sum of products of plaintexts, which senders choose, with errors
//! of the baby steps, which are correlated: each step hands its error on to all later ones. Clues could be crafted so that
//! all terms of one coefficient add up, for every recipient at once; that coefficient's wrong value would spoil a
//! whole block. The detector therefore multiplies each message's clue by a factor that is drawn when the clues are fixed
//! already, and multiplies the binding's vector likewise: what it encrypts is rho_j x_j, and the plaintexts are random whatever the
//! clues are. The recipient knows the factors' seed and divides them out.
//!
//! One freedom is left to whoever fills a whole block: clues with which all diagonals are one random polynomial R times monomials. The
//! noise is then R times a sum of images of the same errors under X -> X^(3^m), which are uncorrelated but where they have
//! fixed points: at most 2^(v+2) of 8192 for m with v factors of two. Summed over all pairs of 1,024 diagonals, that
//! is at most 2.5 times the variance, and 1.9 times the deviation in all.

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
