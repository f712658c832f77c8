//! Arithmetic modulo one prime, without secret-dependent branches.

use crate::{RingError, Word, primality::is_prime};

/// An odd prime q together with what Barrett reduction needs (Handbook of Applied Cryptography, algorithm 14.42).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modulus<W: Word> {
    value: W,
    bits: u32,
    /// floor(2^(2 bits) / q), at most one bit longer than q.
    barrett: u64,
}

impl<W: Word> Modulus<W> {
    /// Checks that `value` is an odd prime that the word serves.
    pub fn new(value: u64) -> Result<Self, RingError> {
        let bits = 64 - value.leading_zeros();
        if bits > W::MAX_PRIME_BITS || value < 3 || !is_prime(value) {
            return Err(RingError::Modulus { value, max_bits: W::MAX_PRIME_BITS });
        }
        let barrett = ((1u128 << (2 * bits)) / u128::from(value)) as u64;
        Ok(Self { value: W::truncate(value), bits, barrett })
    }

    /// The prime.
    pub fn value(&self) -> W {
        self.value
    }

    /// The prime as a 64-bit integer.
    pub fn as_u64(&self) -> u64 {
        self.value.into()
    }

    /// Length of the prime in bits.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// floor(2^(2 bits) / q).
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn barrett(&self) -> u64 {
        self.barrett
    }

    /// a + b for residues a and b.
    #[inline(always)]
    pub fn add(&self, a: W, b: W) -> W {
        self.subtract_once(a.into() + b.into())
    }

    /// a - b for residues a and b.
    #[inline(always)]
    pub fn sub(&self, a: W, b: W) -> W {
        let (a, b): (u64, u64) = (a.into(), b.into());
        self.subtract_once(a + self.as_u64() - b)
    }

    /// -a for a residue a.
    #[inline(always)]
    pub fn neg(&self, a: W) -> W {
        self.subtract_once(self.as_u64() - a.into())
    }

    /// a * b for residues a and b.
    #[inline(always)]
    pub fn mul(&self, a: W, b: W) -> W {
        self.reduce_product(u128::from(a.into()) * u128::from(b.into()))
    }

    /// a to the power `exponent`, which is not secret.
    pub fn pow(&self, a: W, mut exponent: u64) -> W {
        let mut result = W::truncate(1);
        let mut square = a;
        while exponent != 0 {
            if exponent & 1 == 1 {
                result = self.mul(result, square);
            }
            square = self.mul(square, square);
            exponent >>= 1;
        }
        result
    }

    /// The inverse of a non-zero residue; zero for zero.
    pub fn inv(&self, a: W) -> W {
        self.pow(a, self.as_u64() - 2)
    }

    /// Replaces non-zero residues by their inverses, with one inversion for all (Montgomery's trick). One zero among
    /// them makes zeros of all.
    pub fn invert_all(&self, values: &mut [W]) {
        let mut product = self.reduce(1);
        let prefixes: Vec<W> = values
            .iter()
            .map(|&value| {
                let prefix = product;
                product = self.mul(product, value);
                prefix
            })
            .collect();
        let mut inverse = self.inv(product);
        for (value, prefix) in values.iter_mut().zip(prefixes).rev() {
            let own = self.mul(inverse, prefix);
            inverse = self.mul(inverse, *value);
            *value = own;
        }
    }

    /// The residue of any 64-bit integer.
    #[inline(always)]
    pub fn reduce(&self, value: u64) -> W {
        W::truncate(value % self.as_u64())
    }

    /// The residue of any 128-bit integer.
    #[inline(always)]
    pub fn reduce_u128(&self, value: u128) -> W {
        W::truncate((value % u128::from(self.as_u64())) as u64)
    }

    /// The residue of a signed integer whose magnitude is below q.
    #[inline(always)]
    pub fn from_signed(&self, value: i64) -> W {
        let negative = (value >> 63) as u64;
        W::truncate((value as u64).wrapping_add(negative & self.as_u64()))
    }

    /// The representative of a residue in (-q/2, q/2).
    #[inline(always)]
    pub fn to_signed(&self, residue: W) -> i64 {
        let residue: u64 = residue.into();
        let above = ((self.as_u64() / 2).wrapping_sub(residue) as i64 >> 63) as u64;
        residue.wrapping_sub(above & self.as_u64()) as i64
    }

    /// Precomputes what makes multiplications by one fixed residue cheap.
    pub fn multiplier(&self, factor: W) -> Multiplier<W> {
        let quotient = (u128::from(factor.into()) << W::BITS) / u128::from(self.as_u64());
        Multiplier { factor, quotient: W::truncate(quotient as u64) }
    }

    /// The residue of a sum below 2q.
    #[inline(always)]
    fn subtract_once(&self, sum: u64) -> W {
        W::truncate(sum.min(sum.wrapping_sub(self.as_u64())))
    }

    /// The residue of a product of two residues.
    #[inline(always)]
    fn reduce_product(&self, product: u128) -> W {
        let high = (product >> (self.bits - 1)) as u64;
        let quotient = ((u128::from(high) * u128::from(self.barrett)) >> (self.bits + 1)) as u64;
        let rest = (product as u64).wrapping_sub(quotient.wrapping_mul(self.as_u64()));
        // The estimate is at most 2 below the quotient.
        let rest = rest.min(rest.wrapping_sub(2 * self.as_u64()));
        self.subtract_once(rest)
    }
}

/// A fixed factor w with floor(w 2^BITS / q), for Shoup's multiplication.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Multiplier<W> {
    /// w, a residue.
    pub factor: W,
    /// floor(w 2^BITS / q).
    pub quotient: W,
}

impl<W: Word> Multiplier<W> {
    /// a w modulo q for any word a, lazily: the result is below 2q.
    #[inline(always)]
    pub fn mul_lazy(&self, modulus: &Modulus<W>, a: W) -> W {
        let (a, factor, quotient): (u64, u64, u64) = (a.into(), self.factor.into(), self.quotient.into());
        let estimate = ((u128::from(a) * u128::from(quotient)) >> W::BITS) as u64;
        W::truncate(a.wrapping_mul(factor).wrapping_sub(estimate.wrapping_mul(modulus.as_u64())))
    }

    /// a w modulo q for any word a.
    #[inline(always)]
    pub fn mul(&self, modulus: &Modulus<W>, a: W) -> W {
        modulus.subtract_once(self.mul_lazy(modulus, a).into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::primes::ntt_primes;

    fn check<W: Word>(q: u64, a: u64, b: u64) {
        let modulus = Modulus::<W>::new(q).unwrap();
        let (a, b) = (a % q, b % q);
        let (x, y) = (W::truncate(a), W::truncate(b));
        let wide = |v: u128| (v % u128::from(q)) as u64;
        let (a, b, q128) = (u128::from(a), u128::from(b), u128::from(q));
        assert_eq!(modulus.add(x, y).into(), wide(a + b));
        assert_eq!(modulus.sub(x, y).into(), wide(a + q128 - b));
        assert_eq!(modulus.neg(x).into(), wide(q128 - a));
        assert_eq!(modulus.mul(x, y).into(), wide(a * b));
        assert_eq!(modulus.multiplier(y).mul(&modulus, x).into(), wide(a * b));
        if a != 0 {
            assert_eq!(modulus.mul(modulus.inv(x), x).into(), 1);
        }
        let signed = modulus.to_signed(x);
        assert!(signed.unsigned_abs() <= q / 2);
        assert_eq!(i128::from(signed).rem_euclid(q128 as i128) as u128, a);
        assert_eq!(modulus.from_signed(signed), x);
    }

    proptest! {
        #[test]
        fn agrees_with_wide_integers(a: u64, b: u64, edge_a in 0u64..3, edge_b in 0u64..3) {
            for q in [3, 7, 12289, 786_433, (1 << 31) - 1] {
                check::<u32>(q, a, b);
                check::<u32>(q, q.wrapping_sub(edge_a), q.wrapping_sub(edge_b));
                check::<u64>(q, a, b);
            }
            for bits in [20, 40, 49, 50] {
                let q = ntt_primes(bits, 1 << 13, 1).unwrap()[0];
                check::<u64>(q, a, b);
                check::<u64>(q, q - edge_a, q - edge_b);
            }
        }
    }

    #[test]
    fn inverses_of_many_are_inverses_of_each() {
        let modulus = Modulus::<u32>::new(786_433).unwrap();
        let values: Vec<u32> = (1..500).map(|i| modulus.pow(i, 5)).collect();
        let mut inverses = values.clone();
        modulus.invert_all(&mut inverses);
        assert!(values.iter().zip(inverses).all(|(&value, inverse)| modulus.mul(value, inverse) == 1));
        modulus.invert_all(&mut []);
    }

    #[test]
    fn refuses_what_is_not_an_odd_prime_of_the_class() {
        for value in [0, 1, 2, 4, 9, 1 << 30, (1 << 31) + 11] {
            assert!(Modulus::<u32>::new(value).is_err(), "{value}");
        }
        assert!(Modulus::<u64>::new((1 << 61) - 1).is_err());
    }
}
