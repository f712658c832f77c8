//! How indicators are put into ciphertexts, and how a responder gets them out.
//!
//! **Sharing.** With S selectors and Y = X^(N/S), Y^S + 1 splits modulo t: the idempotents e_s(Y), s < S, are 1 at one root
//! y_s each and 0 at the others. A chunk is a polynomial p(X) of N/S coefficients; the sum of e_s p_s holds S of them, and is
//! p_s where Y = y_s. So an indicator is the sum of the e_s of the selectors that have the digit: S coefficients, at the
//! multiples of N/S. Products of indicators are indicators, as e_s e_r is e_s or 0.
//!
//! **Packing.** A ciphertext of a query encrypts the sum of X^j 2^-k f_j(Y) over j < 2^k, where f_j is an indicator. With g =
//! N/2^(k-1) + 1 and z = X^(N/2^(k-1)), X^i goes to z^i X^i under X -> X^g, and z stays. So
//!
//! ```text
//! X^-j (sum over l < 2^k of z^(-jl) c(X^(g^l))) = 2^k X^-j (the part of c with exponents that are j modulo 2^k) = f_j(Y):
//! ```
//!
//! 2^k - 1 automorphisms, all with one key, and a discrete Fourier transform whose roots of unity are monomials. Expansion by
//! k levels of automorphisms (Angel, Chen, Laine and Setty, ePrint 2017/1142, section 3.3) takes k keys, or with powers of
//! one key k 2^(k-1) automorphisms.

use restante_bfv::{Ciphertext, FineGaloisKey};
use restante_ring::{Basis, Coefficient, Evaluation, Modulus, Poly, RingError, primes::primitive_root};
use zeroize::Zeroizing;

use crate::search::scheme::Scheme;
use crate::search::shape::Shape;

/// The roots y_s of Y^S + 1 modulo t.
pub(crate) fn roots(modulus: &Modulus<u64>, sharing: usize) -> Result<Vec<u64>, RingError> {
    let root = primitive_root(modulus, 2 * sharing as u64)?;
    Ok((0..sharing as u64).map(|s| modulus.pow(root, 2 * s + 1)).collect())
}

/// The plaintexts of a group's ciphertexts in a query, for the buckets of at most S selectors.
///
/// Takes the same time and touches the same memory whatever the buckets are.
pub(crate) fn pack(
    scheme: &Scheme,
    shape: &Shape,
    buckets: &[u32],
) -> Result<Vec<Zeroizing<Vec<u64>>>, RingError> {
    let (t, degree, sharing) = (scheme.plaintext(), scheme.preset().degree, shape.sharing());
    let packing = scheme.packing();
    // 2^-k e_s(Y) = 2^-k S^-1 sum over i of y_s^-i Y^i
    let scale = t.inv(t.reduce((packing * sharing) as u64));
    let idempotents: Vec<Vec<u64>> = roots(t, sharing)?
        .into_iter()
        .map(|root| {
            let inverse = t.inv(root);
            std::iter::successors(Some(scale), |power| Some(t.mul(*power, inverse))).take(sharing).collect()
        })
        .collect();
    let mut packed = vec![Zeroizing::new(vec![0u64; degree]); shape.packed(scheme.preset())];
    for (selector, &bucket) in buckets.iter().enumerate() {
        let places = Zeroizing::new(shape.places(bucket));
        for indicator in 0..shape.indicators() {
            let equal = places.iter().fold(0, |equal, &place| equal | is_equal(place, indicator));
            let message = &mut packed[indicator / packing];
            for (i, &coefficient) in idempotents[selector].iter().enumerate() {
                let place = &mut message[indicator % packing + i * (degree / sharing)];
                *place = t.add(*place, coefficient & equal);
            }
        }
    }
    Ok(packed)
}

/// All ones if a = b, otherwise zero.
fn is_equal(a: usize, b: usize) -> u64 {
    let difference = (a ^ b) as u64;
    // The top bit is set unless the difference is zero, which is below 2^63.
    (difference.wrapping_neg() >> 63).wrapping_sub(1)
}

/// The precomputation that [`expand`] needs for every ciphertext.
#[derive(Debug)]
pub(crate) struct Expander {
    /// z^-m for m below 2^(k-1).
    twiddles: Vec<Poly<u64, Evaluation>>,
    /// X^-j for j below 2^k.
    shifts: Vec<Poly<u64, Evaluation>>,
}

impl Expander {
    pub(crate) fn new(scheme: &Scheme) -> Self {
        let (basis, degree, packing) =
            (scheme.context().ciphertext_basis(), scheme.preset().degree, scheme.packing());
        let step = 2 * degree / packing;
        Self {
            twiddles: (0..packing / 2).map(|m| monomial(basis, 2 * degree - m * step)).collect(),
            shifts: (0..packing).map(|j| monomial(basis, 2 * degree - j)).collect(),
        }
    }

    /// The 2^k indicators of a ciphertext of a query, or those of the first `count`.
    pub(crate) fn expand(
        &self,
        key: &FineGaloisKey<u64>,
        packed: Ciphertext<u64, Evaluation>,
        count: usize,
    ) -> Vec<Ciphertext<u64, Evaluation>> {
        let packing = self.shifts.len();
        let mut powers = vec![packed];
        while powers.len() < packing {
            powers.push(key.apply(&powers[powers.len() - 1]));
        }
        // Cooley and Tukey: bit-reversed input, output in order.
        let bits = packing.ilog2();
        for place in 0..packing {
            let other = place.reverse_bits() >> (usize::BITS - bits);
            if place < other {
                powers.swap(place, other);
            }
        }
        let mut half = 1;
        while half < packing {
            for block in powers.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for (m, (low, high)) in low.iter_mut().zip(high).enumerate() {
                    if m > 0 {
                        high.mul_plain(&self.twiddles[m * (packing / (2 * half))]);
                    }
                    let mut difference = low.clone();
                    difference.sub_assign(high);
                    low.add_assign(high);
                    *high = difference;
                }
            }
            half *= 2;
        }
        powers.truncate(count);
        powers.iter_mut().zip(&self.shifts).skip(1).for_each(|(power, shift)| power.mul_plain(shift));
        powers
    }
}

/// X^`exponent`, for an exponent up to 2N.
fn monomial(basis: &Basis<u64>, exponent: usize) -> Poly<u64, Evaluation> {
    let degree = basis.degree();
    let poly = Poly::<u64, Coefficient>::from_limbs(basis, |_, plan, values| {
        let one = plan.modulus().reduce(1);
        let negative = exponent / degree % 2 == 1;
        values[exponent % degree] = if negative { plan.modulus().neg(one) } else { one };
    });
    poly.into_evaluation()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use restante_bfv::SecretKey;
    use restante_ring::{Backend, sample::Seed};

    use super::*;
    use crate::search::preset::Preset;

    #[test]
    fn equality_is_a_mask() {
        for (a, b) in [(0, 0), (5, 5), (0, 1), (1, 0), (usize::MAX >> 1, 0), (77, 76)] {
            assert_eq!(is_equal(a, b), if a == b { u64::MAX } else { 0 });
        }
    }

    /// The value of an indicator at each y_s, by Horner's rule.
    fn values(scheme: &Scheme, sharing: usize, coefficients: &[u64]) -> Vec<u64> {
        let t = scheme.plaintext();
        let step = coefficients.len() / sharing;
        assert!(coefficients.iter().enumerate().all(|(place, &value)| place % step == 0 || value == 0));
        let roots = roots(t, sharing).unwrap();
        let value = |root: &u64| {
            coefficients.iter().step_by(step).rev().fold(0, |sum, &c| t.add(t.mul(sum, *root), c))
        };
        roots.iter().map(value).collect()
    }

    #[test]
    fn expansion_gives_every_indicator() {
        let scheme = Scheme::new(Preset::insecure_for_tests(), Backend::best()).unwrap();
        let secret = SecretKey::generate(scheme.context(), &Seed::from([1; 32]));
        let key = FineGaloisKey::generate(
            &secret,
            scheme.galois_element(),
            scheme.preset().pieces,
            &Seed::from([2; 32]),
        )
        .unwrap();
        let expander = Expander::new(&scheme);
        for (hash_bits, buckets) in [(8, vec![0x5c]), (13, vec![0x1234, 0x0fff, 0]), (12, vec![7; 8])] {
            let shape = Shape::new(hash_bits, buckets.len().next_power_of_two()).unwrap();
            let packed = pack(&scheme, &shape, &buckets).unwrap();
            let mut found = Vec::new();
            for (index, message) in packed.iter().enumerate() {
                let ciphertext = secret.encrypt(Seed::from([10 + index as u8; 32]), message).expand();
                let count = (shape.indicators() - found.len()).min(scheme.packing());
                found.extend(expander.expand(&key, ciphertext, count));
            }
            assert_eq!(found.len(), shape.indicators());
            for (indicator, ciphertext) in found.iter().enumerate() {
                let values = values(&scheme, shape.sharing(), &secret.decrypt(ciphertext));
                for (selector, value) in values.into_iter().enumerate() {
                    let expected =
                        buckets.get(selector).is_some_and(|&b| shape.places(b).contains(&indicator));
                    assert_eq!(value, u64::from(expected), "{hash_bits} {indicator} {selector}");
                }
            }
        }
    }
}
