//! Polynomials modulo a product of primes, one vector of residues per prime.

use std::marker::PhantomData;

use zeroize::Zeroize;

use crate::{Basis, Multiplier, NttPlan, Word, buffer::Buffer, parallel::for_each};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Coefficient {}
    impl Sealed for super::Evaluation {}
}

/// The form that a polynomial is in.
pub trait Form: sealed::Sealed + Send + Sync + 'static {}

/// Coefficients of 1, X, X^2, ...
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coefficient;

/// Values at the roots of X^N + 1, in the order of [`NttPlan`]: products are element by element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evaluation;

impl Form for Coefficient {}
impl Form for Evaluation {}

/// A polynomial of degree below N modulo each prime of a basis.
#[derive(Debug, Clone)]
pub struct Poly<W: Word, F: Form> {
    basis: Basis<W>,
    /// Limb after limb, N residues each.
    data: Buffer<W>,
    form: PhantomData<F>,
}

impl<W: Word, F: Form> Poly<W, F> {
    /// The zero polynomial.
    pub fn zero(basis: &Basis<W>) -> Self {
        let data = Buffer::zeros(basis.limbs() * basis.degree());
        Self { basis: basis.clone(), data, form: PhantomData }
    }

    /// A polynomial whose limb i is filled in by `fill(i, plan of limb i, vector of zeros)`. `fill` writes
    /// residues.
    pub fn from_limbs(basis: &Basis<W>, mut fill: impl FnMut(usize, &NttPlan<W>, &mut [W])) -> Self {
        let mut poly = Self::zero(basis);
        for (limb, (plan, values)) in poly.limbs_mut().enumerate() {
            fill(limb, plan, values);
            debug_assert!(values.iter().all(|&value| value.into() < plan.modulus().as_u64()));
        }
        poly
    }

    /// A polynomial whose limb i is filled in by `fill(i, plan of limb i, a vector of any words)`, which must write every place.
    /// Fills several limbs at a time where the crate has threads.
    pub fn build(basis: &Basis<W>, fill: impl Fn(usize, &NttPlan<W>, &mut [W]) + Send + Sync) -> Self {
        let mut poly = Self::any(basis);
        for_each(basis.degree(), poly.limbs_mut().enumerate(), |(limb, (plan, values))| {
            fill(limb, plan, values);
            debug_assert!(values.iter().all(|&value| value.into() < plan.modulus().as_u64()));
        });
        poly
    }

    /// A polynomial whose limbs hold any words, to be filled in.
    pub(crate) fn any(basis: &Basis<W>) -> Self {
        let data = Buffer::any(basis.limbs() * basis.degree());
        Self { basis: basis.clone(), data, form: PhantomData }
    }

    /// The primes.
    pub fn basis(&self) -> &Basis<W> {
        &self.basis
    }

    /// The residues modulo prime `limb`.
    pub fn limb(&self, limb: usize) -> &[W] {
        let degree = self.basis.degree();
        &self.data[limb * degree..(limb + 1) * degree]
    }

    /// The residues modulo prime `limb`.
    pub fn limb_mut(&mut self, limb: usize) -> &mut [W] {
        let degree = self.basis.degree();
        &mut self.data[limb * degree..(limb + 1) * degree]
    }

    /// Each prime's transform and residues.
    pub fn limbs(&self) -> impl ExactSizeIterator<Item = (&NttPlan<W>, &[W])> {
        let plans = self.basis.plans().iter().map(|plan| &**plan);
        plans.zip(self.data.chunks_exact(self.basis.degree()))
    }

    /// Each prime's transform and residues.
    pub fn limbs_mut(&mut self) -> impl ExactSizeIterator<Item = (&NttPlan<W>, &mut [W])> {
        let plans = self.basis.plans().iter().map(|plan| &**plan);
        plans.zip(self.data.chunks_exact_mut(self.basis.degree()))
    }

    /// The limbs in `range` alone.
    pub fn part(&self, range: std::ops::Range<usize>) -> Self {
        let degree = self.basis.degree();
        let mut data = Buffer::any(range.len() * degree);
        data.copy_from_slice(&self.data[range.start * degree..range.end * degree]);
        Self { basis: self.basis.part(range), data, form: PhantomData }
    }

    /// The limbs with these places, in their order.
    pub fn select(&self, limbs: &[usize]) -> Self {
        let basis = self.basis.select(limbs);
        Self::build(&basis, |limb, _, values| values.copy_from_slice(self.limb(limbs[limb])))
    }

    /// self += other.
    pub fn add_assign(&mut self, other: &Self) {
        self.zip_limbs(other, |plan, a, b| (plan.kernels().add)(plan.modulus(), a, b));
    }

    /// self -= other.
    pub fn sub_assign(&mut self, other: &Self) {
        self.zip_limbs(other, |plan, a, b| (plan.kernels().sub)(plan.modulus(), a, b));
    }

    /// self = -self.
    pub fn negate(&mut self) {
        for_each(self.basis.degree(), self.limbs_mut(), |(plan, values)| {
            values.iter_mut().for_each(|value| *value = plan.modulus().neg(*value));
        });
    }

    /// Multiplies by one integer, given modulo each prime.
    pub fn scale(&mut self, factors: &[Multiplier<W>]) {
        assert_eq!(factors.len(), self.basis.limbs(), "one factor per prime");
        for_each(self.basis.degree(), self.limbs_mut().zip(factors), |((plan, values), &factor)| {
            (plan.kernels().scale)(plan.modulus(), values, factor);
        });
    }

    fn zip_limbs(&mut self, other: &Self, apply: impl Fn(&NttPlan<W>, &mut [W], &[W]) + Send + Sync) {
        assert!(self.basis == other.basis, "polynomials must be over the same primes");
        for_each(self.basis.degree(), self.limbs_mut().zip(other.limbs()), |((plan, a), (_, b))| {
            apply(plan, a, b);
        });
    }

    fn with_form<G: Form>(self) -> Poly<W, G> {
        Poly { basis: self.basis, data: self.data, form: PhantomData }
    }
}

impl<W: Word> Poly<W, Coefficient> {
    /// The polynomial with small signed coefficients, the same modulo every prime. Each magnitude must be below
    /// every prime.
    pub fn from_signed(basis: &Basis<W>, coefficients: &[i64]) -> Self {
        assert_eq!(coefficients.len(), basis.degree(), "one coefficient per power of X");
        Self::from_limbs(basis, |_, plan, values| {
            for (value, &coefficient) in values.iter_mut().zip(coefficients) {
                *value = plan.modulus().from_signed(coefficient);
            }
        })
    }

    /// Coefficients to evaluations.
    pub fn into_evaluation(mut self) -> Poly<W, Evaluation> {
        for_each(self.basis.degree(), self.limbs_mut(), |(plan, values)| plan.forward(values));
        self.with_form()
    }
}

impl<W: Word> Poly<W, Evaluation> {
    /// Evaluations to coefficients.
    pub fn into_coefficient(mut self) -> Poly<W, Coefficient> {
        for_each(self.basis.degree(), self.limbs_mut(), |(plan, values)| plan.inverse(values));
        self.with_form()
    }

    /// self *= other.
    pub fn mul_assign(&mut self, other: &Self) {
        self.zip_limbs(other, |plan, a, b| (plan.kernels().mul)(plan.modulus(), a, b));
    }

    /// self += a * b.
    pub fn mul_add_assign(&mut self, a: &Self, b: &Self) {
        assert!(self.basis == b.basis, "polynomials must be over the same primes");
        assert!(self.basis == a.basis, "polynomials must be over the same primes");
        let limbs = self.limbs_mut().zip(a.limbs().zip(b.limbs()));
        for_each(a.basis.degree(), limbs, |((plan, sum), ((_, a), (_, b)))| {
            (plan.kernels().mul_add)(plan.modulus(), sum, a, b);
        });
    }
}

impl<W: Word, F: Form> PartialEq for Poly<W, F> {
    fn eq(&self, other: &Self) -> bool {
        self.basis == other.basis && *self.data == *other.data
    }
}

impl<W: Word, F: Form> Eq for Poly<W, F> {}

impl<W: Word, F: Form> Zeroize for Poly<W, F> {
    fn zeroize(&mut self) {
        self.data.iter_mut().zeroize();
    }
}
