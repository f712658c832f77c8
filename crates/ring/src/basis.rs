//! A product of primes that polynomials are taken modulo.

use std::sync::Arc;

use crate::{Backend, Modulus, Multiplier, NttPlan, RingError, Word};

/// An ordered list of distinct primes for one degree, with their transforms: the moduli of an RNS polynomial.
///
/// Cloning and taking parts is cheap: the transforms are shared.
#[derive(Debug, Clone)]
pub struct Basis<W: Word> {
    degree: usize,
    plans: Arc<[Arc<NttPlan<W>>]>,
}

impl<W: Word> Basis<W> {
    /// Builds the transforms of every modulus.
    pub fn new(moduli: &[u64], degree: usize, backend: Backend) -> Result<Self, RingError> {
        let distinct = moduli.iter().enumerate().all(|(i, modulus)| !moduli[..i].contains(modulus));
        if moduli.is_empty() || !distinct {
            return Err(RingError::Basis);
        }
        let plans = moduli
            .iter()
            .map(|&modulus| NttPlan::with_backend(modulus, degree, backend).map(Arc::new))
            .collect::<Result<_, _>>()?;
        Ok(Self { degree, plans })
    }

    /// The moduli in `range`, in order; at least one.
    pub fn part(&self, range: std::ops::Range<usize>) -> Self {
        assert!(!range.is_empty(), "a basis needs a modulus");
        Self { degree: self.degree, plans: self.plans[range].into() }
    }

    /// The moduli with these places, in their order; at least one.
    pub fn select(&self, limbs: &[usize]) -> Self {
        assert!(!limbs.is_empty(), "a basis needs a modulus");
        Self { degree: self.degree, plans: limbs.iter().map(|&limb| self.plans[limb].clone()).collect() }
    }

    /// This basis' moduli followed by another's.
    pub fn join(&self, other: &Self) -> Result<Self, RingError> {
        let shared = self.plans.iter().any(|plan| other.plans.iter().any(|o| o.modulus() == plan.modulus()));
        if shared || self.degree != other.degree {
            return Err(RingError::Basis);
        }
        Ok(Self { degree: self.degree, plans: self.plans.iter().chain(&*other.plans).cloned().collect() })
    }

    /// N.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// The number of moduli.
    pub fn limbs(&self) -> usize {
        self.plans.len()
    }

    /// The transforms, one per modulus.
    pub fn plans(&self) -> &[Arc<NttPlan<W>>] {
        &self.plans
    }

    /// The moduli.
    pub fn moduli(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + Clone + '_ {
        self.plans.iter().map(|plan| plan.modulus().as_u64())
    }

    /// log2 of the product of the moduli.
    pub fn log2(&self) -> f64 {
        self.moduli().map(|modulus| (modulus as f64).log2()).sum()
    }

    /// The back end that the transforms use.
    pub fn backend(&self) -> Backend {
        self.plans[0].backend()
    }

    /// The product Q of the moduli, modulo another prime.
    pub fn product_modulo(&self, modulus: &Modulus<W>) -> W {
        product_modulo(self.moduli(), modulus)
    }

    /// Q/q_i modulo another prime, where q_i is modulus `limb`.
    pub(crate) fn cofactor_modulo(&self, limb: usize, modulus: &Modulus<W>) -> W {
        let others = self.moduli().enumerate().filter(|&(i, _)| i != limb);
        product_modulo(others.map(|(_, q)| q), modulus)
    }

    /// (Q/q_i)^-1 modulo q_i, for each modulus q_i: the constants of the Chinese remainder theorem.
    pub(crate) fn cofactor_inverses(&self) -> Vec<Multiplier<W>> {
        let inverses = self.plans.iter().enumerate().map(|(limb, plan)| {
            let modulus = plan.modulus();
            modulus.multiplier(modulus.inv(self.cofactor_modulo(limb, modulus)))
        });
        inverses.collect()
    }
}

fn product_modulo<W: Word>(factors: impl Iterator<Item = u64>, modulus: &Modulus<W>) -> W {
    factors.fold(modulus.reduce(1), |product, factor| modulus.mul(product, modulus.reduce(factor)))
}

impl<W: Word> PartialEq for Basis<W> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plans, &other.plans)
            || self.degree == other.degree && self.moduli().eq(other.moduli())
    }
}

impl<W: Word> Eq for Basis<W> {}
