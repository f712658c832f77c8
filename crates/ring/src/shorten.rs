//! Switching to a short power-of-two modulus, for what goes over a wire.

use crate::{Basis, Coefficient, Poly, Word};

/// Rounds x modulo Q to round(2^w x / Q) modulo 2^w.
///
/// x/Q is, up to an integer, the sum over the primes of y_i/q_i with y_i = \[x (Q/q_i)^-1\] modulo q_i. The sum is
/// taken in 64-bit fixed point, where it is off by less than 2 limbs 2^-64 and integers wrap away by themselves.
#[derive(Debug, Clone)]
pub struct Shortener<W: Word> {
    basis: Basis<W>,
    /// (Q/q_i)^-1 modulo q_i.
    inverses: Vec<crate::Multiplier<W>>,
    /// floor(2^(64 + bits) / q_i), where q_i has that many bits; and the bits.
    reciprocals: Vec<(u128, u32)>,
}

impl<W: Word> Shortener<W> {
    /// Precomputes the constants for one basis.
    pub fn new(basis: &Basis<W>) -> Self {
        let reciprocals = basis.plans().iter().map(|plan| {
            let bits = plan.modulus().bits();
            ((1u128 << (64 + bits)) / u128::from(plan.modulus().as_u64()), bits)
        });
        Self { basis: basis.clone(), inverses: basis.cofactor_inverses(), reciprocals: reciprocals.collect() }
    }

    /// One value below 2^`bits` per coefficient; `bits` from 1 to 48.
    pub fn shorten(&self, poly: &Poly<W, Coefficient>, bits: u32) -> Vec<u64> {
        assert!(*poly.basis() == self.basis, "the polynomial must be over the shortener's basis");
        assert!((1..=48).contains(&bits));
        let mut fractions = vec![0u64; self.basis.degree()];
        for (limb, (plan, values)) in poly.limbs().enumerate() {
            let (reciprocal, shift) = self.reciprocals[limb];
            let inverse = self.inverses[limb];
            for (fraction, &value) in fractions.iter_mut().zip(values) {
                let y: u64 = inverse.mul(plan.modulus(), value).into();
                *fraction = fraction.wrapping_add(((u128::from(y) * reciprocal) >> shift) as u64);
            }
        }
        let half = 1 << (63 - bits);
        fractions.iter().map(|fraction| fraction.wrapping_add(half) >> (64 - bits)).collect()
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use num_integer::Integer;

    use super::*;
    use crate::{Backend, crt::centered, primes::ntt_primes, sample::Seed};

    fn check<W: Word>(prime_bits: u32, limbs: usize) {
        let degree = 64;
        let basis = Basis::<W>::new(&ntt_primes(prime_bits, degree, limbs).unwrap(), degree, Backend::best())
            .unwrap();
        let poly = Poly::from_limbs(&basis, |limb, plan, values| {
            Seed::from([limb as u8; 32]).stream("test", &[]).uniform(plan.modulus(), values);
        });
        let product: BigInt = basis.moduli().map(BigInt::from).product();
        for bits in [1, 10, 23, 28, 40] {
            for (place, &found) in Shortener::new(&basis).shorten(&poly, bits).iter().enumerate() {
                let doubled: BigInt = (centered(&poly, place) << (bits + 1)) + &product;
                let expected = doubled.div_floor(&(&product * 2)).mod_floor(&(BigInt::from(1) << bits));
                assert_eq!(BigInt::from(found), expected);
            }
        }
    }

    #[test]
    fn agrees_with_big_integers() {
        for limbs in 1..=4 {
            check::<u32>(30, limbs);
            check::<u32>(20, limbs);
            check::<u64>(50, limbs);
        }
    }
}
