//! The powers of a root of unity that a transform multiplies by.

use crate::{Modulus, Multiplier, RingError, Word, primes::primitive_root};

/// The constants of the transform for one prime and one degree N, as its definition has them.
///
/// psi is the smallest primitive 2N-th root of unity modulo q; rev reverses the log2 N bits of a place.
#[derive(Debug)]
pub struct Roots<W: Word> {
    /// q.
    pub(crate) modulus: Modulus<W>,
    /// psi^rev(i).
    pub(crate) forward: Vec<Multiplier<W>>,
    /// psi^-rev(i).
    pub(crate) inverse: Vec<Multiplier<W>>,
    /// N^-1.
    pub(crate) inverse_degree: Multiplier<W>,
}

impl<W: Word> Roots<W> {
    /// The constants for a degree that is a power of two. Fails if the prime has no such root of unity.
    pub(crate) fn new(modulus: Modulus<W>, degree: usize) -> Result<Self, RingError> {
        let root = primitive_root(&modulus, 2 * degree as u64)?;
        Ok(Self {
            forward: bit_reversed_powers(&modulus, root, degree),
            inverse: bit_reversed_powers(&modulus, modulus.inv(root), degree),
            inverse_degree: modulus.multiplier(modulus.inv(modulus.reduce(degree as u64))),
            modulus,
        })
    }

    /// N.
    pub(crate) fn degree(&self) -> usize {
        self.forward.len()
    }
}

/// Reverses the low `bits` bits of `value`, which has no others.
pub(crate) fn reverse_bits(value: u64, bits: u32) -> u64 {
    value.reverse_bits().checked_shr(64 - bits).unwrap_or(0)
}

fn bit_reversed_powers<W: Word>(modulus: &Modulus<W>, root: W, degree: usize) -> Vec<Multiplier<W>> {
    let mut powers = vec![Multiplier::default(); degree];
    let mut power = W::truncate(1);
    for exponent in 0..degree as u64 {
        powers[reverse_bits(exponent, degree.ilog2()) as usize] = modulus.multiplier(power);
        power = modulus.mul(power, root);
    }
    powers
}
