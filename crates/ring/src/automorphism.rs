//! The automorphisms X -> X^g of Z_q\[X\]/(X^N + 1), which rotate the slots of packed plaintexts.

use crate::{Coefficient, Evaluation, NttPlan, Poly, RingError, Word, roots::reverse_bits};

/// X -> X^g for an odd g below 2N, the Galois element.
#[derive(Debug, Clone)]
pub struct Automorphism {
    element: u64,
    /// Place i of the result's evaluations is place `sources[i]` of the argument's.
    sources: Vec<u32>,
}

impl Automorphism {
    /// Tabulates the map for one degree.
    pub fn new(element: u64, degree: usize) -> Result<Self, RingError> {
        let order = 2 * degree as u64;
        if element % 2 == 0 || element >= order {
            return Err(RingError::GaloisElement { element, order });
        }
        let bits = degree.ilog2();
        // f(X^g) at psi^e is f at psi^(e g).
        let sources = NttPlan::<u32>::evaluation_exponents(degree)
            .map(|exponent| reverse_bits((exponent * element % order - 1) / 2, bits) as u32)
            .collect();
        Ok(Self { element, sources })
    }

    /// g.
    pub fn element(&self) -> u64 {
        self.element
    }

    /// For each place of the result's evaluations, that of the argument's.
    pub(crate) fn sources(&self) -> &[u32] {
        &self.sources
    }

    /// f(X^g) from the evaluations of f: a permutation.
    pub fn apply_evaluation<W: Word>(&self, poly: &Poly<W, Evaluation>) -> Poly<W, Evaluation> {
        Poly::build(poly.basis(), |limb, _, values| self.permute(poly.limb(limb), values))
    }

    /// The same for the evaluations modulo one prime.
    pub fn permute<W: Word>(&self, source: &[W], out: &mut [W]) {
        assert_eq!(source.len(), self.sources.len(), "as many evaluations as the degree");
        for (value, &place) in out.iter_mut().zip(&self.sources) {
            *value = source[place as usize];
        }
    }

    /// f(X^g) from the coefficients of f: a permutation with signs.
    pub fn apply_coefficient<W: Word>(&self, poly: &Poly<W, Coefficient>) -> Poly<W, Coefficient> {
        let degree = self.sources.len();
        Poly::from_limbs(poly.basis(), |limb, plan, values| {
            for (power, &coefficient) in poly.limb(limb).iter().enumerate() {
                let exponent = (power as u64 * self.element) as usize % (2 * degree);
                values[exponent % degree] =
                    if exponent < degree { coefficient } else { plan.modulus().neg(coefficient) };
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backend, Basis, primes::ntt_primes};

    #[test]
    fn both_forms_agree_with_the_definition() {
        let degree = 64;
        let basis = Basis::<u32>::new(&ntt_primes(20, degree, 2).unwrap(), degree, Backend::best()).unwrap();
        let poly = Poly::<u32, Coefficient>::from_limbs(&basis, |limb, _, values| {
            (0..).zip(values).for_each(|(i, value)| *value = 7919 * i + 31 + limb as u32);
        });
        for element in (1..2 * degree as u64).step_by(2) {
            let map = Automorphism::new(element, degree).unwrap();
            let mapped = map.apply_coefficient(&poly);
            // By definition: X^g multiplied with itself, one power after the other.
            for (limb, plan) in basis.plans().iter().enumerate() {
                let modulus = plan.modulus();
                let mut expected = vec![0u32; degree];
                let (mut place, mut negative) = (0, false);
                for &coefficient in poly.limb(limb) {
                    expected[place] = if negative { modulus.neg(coefficient) } else { coefficient };
                    for _ in 0..element {
                        place += 1;
                        if place == degree {
                            (place, negative) = (0, !negative);
                        }
                    }
                }
                assert_eq!(mapped.limb(limb), expected);
            }
            let evaluated = map.apply_evaluation(&poly.clone().into_evaluation());
            assert_eq!(evaluated.into_coefficient(), mapped);
        }
        assert!(Automorphism::new(2, degree).is_err());
        assert!(Automorphism::new(129, degree).is_err());
    }
}
