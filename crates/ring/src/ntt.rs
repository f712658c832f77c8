//! The negacyclic number-theoretic transform: between the coefficients of a polynomial in Z_q\[X\]/(X^N + 1) and its
//! values at the primitive 2N-th roots of unity.

use crate::{
    Backend, Modulus, RingError, Word,
    backend::{Kernels, VectorTables},
    roots::{Roots, reverse_bits},
};

/// A transform for one prime and one degree N.
///
/// With psi the smallest primitive 2N-th root of unity modulo q, [`NttPlan::forward`] puts the value at
/// psi^(2 rev(i) + 1) into place i, where rev reverses the log2 N bits of i. This order is part of the formats of
/// keys, so every back end keeps it.
#[derive(Debug)]
pub struct NttPlan<W: Word> {
    roots: Roots<W>,
    /// The roots again, as the back end's registers take them.
    tables: VectorTables<W>,
    kernels: &'static Kernels<W>,
    backend: Backend,
}

impl<W: Word> NttPlan<W> {
    /// The smallest degree that every kernel handles.
    pub const MIN_DEGREE: usize = 64;
    /// The shortest polynomials that [`NttPlan::forward_short`] gains from: more than a leaf of any back end.
    const MIN_PERIOD: usize = 128;
    /// The largest supported degree.
    pub const MAX_DEGREE: usize = 1 << 17;

    /// A plan for the fastest back end.
    pub fn new(modulus: u64, degree: usize) -> Result<Self, RingError> {
        Self::with_backend(modulus, degree, Backend::best())
    }

    /// A plan for a back end of the caller's choice, which must be available.
    pub fn with_backend(modulus: u64, degree: usize, backend: Backend) -> Result<Self, RingError> {
        if !degree.is_power_of_two() || !(Self::MIN_DEGREE..=Self::MAX_DEGREE).contains(&degree) {
            return Err(RingError::Degree(degree));
        }
        let backend = backend.checked()?;
        let roots = Roots::new(Modulus::new(modulus)?, degree)?;
        let kernels = W::kernels(backend);
        Ok(Self { tables: (kernels.prepare)(&roots), roots, kernels, backend })
    }

    /// N.
    pub fn degree(&self) -> usize {
        self.roots.degree()
    }

    /// q.
    pub fn modulus(&self) -> &Modulus<W> {
        &self.roots.modulus
    }

    /// The back end that was chosen.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    pub(crate) fn kernels(&self) -> &'static Kernels<W> {
        self.kernels
    }

    /// Coefficients to evaluations, in place; N residues in, N residues out.
    pub fn forward(&self, values: &mut [W]) {
        assert_eq!(values.len(), self.degree(), "a transform takes as many values as its degree");
        (self.kernels.forward)(&self.roots, &self.tables, values, values.len());
    }

    /// [`NttPlan::forward`] of the first `len` coefficients and zeros in the places behind, which may hold anything: the fewer
    /// there are, the fewer stages take work, as X^n - w divides X^N + 1 for every n and leaves a polynomial of degree below n as
    /// it is.
    pub fn forward_short(&self, values: &mut [W], len: usize) {
        let degree = self.degree();
        assert!(values.len() == degree && len <= degree, "at most as many coefficients as the degree");
        let mut period = degree;
        while period / 4 >= len.max(Self::MIN_PERIOD) {
            period /= 4;
        }
        let (first, rest) = values.split_at_mut(period);
        first[len..].fill(W::default());
        rest.chunks_exact_mut(period).for_each(|copy| copy.copy_from_slice(first));
        (self.kernels.forward)(&self.roots, &self.tables, values, period);
    }

    /// Evaluations to coefficients, in place; N residues in, N residues out.
    pub fn inverse(&self, values: &mut [W]) {
        assert_eq!(values.len(), self.degree(), "a transform takes as many values as its degree");
        (self.kernels.inverse)(&self.roots, &self.tables, values);
    }

    /// Takes residues modulo an odd `modulus` below q, each in (-modulus/2, modulus/2), to residues modulo q.
    pub fn lift(&self, values: &[W], modulus: W, out: &mut [W]) {
        let (t, q): (u64, u64) = (modulus.into(), self.modulus().as_u64());
        assert!(t % 2 == 1 && t < q && values.len() == out.len(), "{t} must be odd and below {q}");
        (self.kernels.lift)(values, W::truncate(t / 2), W::truncate(q - t), out);
    }

    /// [`NttPlan::lift`] of residues that are below 2^32.
    pub fn lift_words(&self, values: &[u32], modulus: W, out: &mut [W]) {
        let (t, q): (u64, u64) = (modulus.into(), self.modulus().as_u64());
        assert!(t % 2 == 1 && t < q && values.len() == out.len(), "{t} must be odd and below {q}");
        (self.kernels.lift_words)(values, W::truncate(t / 2), W::truncate(q - t), out);
    }

    /// For i in 0..N the odd exponent e such that place i of an evaluation vector holds the value at psi^e.
    pub fn evaluation_exponents(degree: usize) -> impl Iterator<Item = u64> {
        let bits = degree.ilog2();
        (0..degree as u64).map(move |index| 2 * reverse_bits(index, bits) + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        backend::portable,
        primes::{ntt_primes, primitive_root},
    };

    fn random<W: Word>(plan: &NttPlan<W>, seed: u64) -> Vec<W> {
        let mut state = seed;
        (0..plan.degree())
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                plan.modulus().reduce(state ^ state >> 29)
            })
            .collect()
    }

    /// The product in Z_q[X]/(X^N + 1) by definition.
    fn schoolbook<W: Word>(modulus: &Modulus<W>, a: &[W], b: &[W]) -> Vec<W> {
        let degree = a.len();
        let mut product = vec![W::default(); degree];
        for (i, &a) in a.iter().enumerate() {
            for (j, &b) in b.iter().enumerate() {
                let term = modulus.mul(a, b);
                let place = &mut product[(i + j) % degree];
                *place = if i + j < degree { modulus.add(*place, term) } else { modulus.sub(*place, term) };
            }
        }
        product
    }

    fn check_product<W: Word>(bits: u32, degree: usize, backend: Backend, seed: u64) {
        let q = ntt_primes(bits, degree, 1).unwrap()[0];
        let plan = NttPlan::<W>::with_backend(q, degree, backend).unwrap();
        let (mut a, mut b) = (random(&plan, seed), random(&plan, !seed));
        let expected = schoolbook(plan.modulus(), &a, &b);
        plan.forward(&mut a);
        plan.forward(&mut b);
        (plan.kernels().mul)(plan.modulus(), &mut a, &b);
        plan.inverse(&mut a);
        assert_eq!(a, expected, "{bits} bits, degree {degree}, {backend}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn products_agree_with_the_schoolbook(seed: u64, log_degree in 6u32..=9) {
            for backend in Backend::available() {
                for bits in [20, 29, 30, 31] {
                    check_product::<u32>(bits, 1 << log_degree, backend, seed);
                }
                for bits in [20, 31, 45, 49, 50] {
                    check_product::<u64>(bits, 1 << log_degree, backend, seed);
                }
            }
        }
    }

    #[test]
    fn short_polynomials_are_those_with_zeros_behind() {
        fn check<W: Word>(bits: u32) {
            for degree in [64, 128, 512, 1024, 8192, 1 << 15] {
                let Ok(primes) = ntt_primes(bits, degree, 1) else { continue };
                for backend in Backend::available() {
                    let plan = NttPlan::<W>::with_backend(primes[0], degree, backend).unwrap();
                    let all = random(&plan, 5);
                    for len in [0, 1, 100, 128, 129, 512, 2048, 2049, degree] {
                        let len = len.min(degree);
                        let mut expected = all[..len].to_vec();
                        expected.resize(degree, W::default());
                        plan.forward(&mut expected);
                        let mut found = all.clone();
                        plan.forward_short(&mut found, len);
                        assert_eq!(found, expected, "{bits} bits, {len} of {degree}, {backend}");
                    }
                }
            }
        }
        check::<u32>(30);
        check::<u32>(31);
        check::<u64>(49);
        check::<u64>(50);
    }

    fn check_backends<W: Word>(bits: u32, degree: usize) {
        let Ok(primes) = ntt_primes(bits, degree, 1) else { return };
        let scalar = NttPlan::<W>::with_backend(primes[0], degree, Backend::Scalar).unwrap();
        let largest = vec![W::truncate(primes[0] - 1); degree];
        for input in [random(&scalar, 1), random(&scalar, 2), largest, vec![W::default(); degree]] {
            let (mut forward, mut inverse) = (input.clone(), input.clone());
            scalar.forward(&mut forward);
            scalar.inverse(&mut inverse);
            for backend in Backend::available() {
                let plan = NttPlan::<W>::with_backend(primes[0], degree, backend).unwrap();
                let mut values = input.clone();
                plan.forward(&mut values);
                assert_eq!(values, forward, "forward, {bits} bits, degree {degree}, {backend}");
                plan.inverse(&mut values);
                assert_eq!(values, input, "round trip, {bits} bits, degree {degree}, {backend}");
                plan.inverse(&mut values);
                assert_eq!(values, inverse, "inverse, {bits} bits, degree {degree}, {backend}");
            }
        }
    }

    #[test]
    fn back_ends_agree_at_every_degree() {
        for log_degree in 6..=17 {
            for bits in [20, 25, 29, 30, 31] {
                check_backends::<u32>(bits, 1 << log_degree);
            }
            for bits in [20, 31, 36, 49, 50] {
                check_backends::<u64>(bits, 1 << log_degree);
            }
        }
    }

    #[test]
    fn shared_loops_agree_in_every_shape_of_registers() {
        fn check<W: Word>(degree: usize) {
            let q = ntt_primes(30, degree, 1).unwrap()[0];
            let plan = NttPlan::<W>::with_backend(q, degree, Backend::Scalar).unwrap();
            let input = random(&plan, 3);
            let (mut forward, mut inverse) = (input.clone(), input.clone());
            plan.forward(&mut forward);
            plan.inverse(&mut inverse);
            portable::check(&plan.roots, &input, &forward, &inverse);
        }
        for log_degree in 6..=14 {
            check::<u32>(1 << log_degree);
            check::<u64>(1 << log_degree);
        }
    }

    #[test]
    fn places_hold_the_values_at_the_documented_roots() {
        let (q, degree) = (12289, 64);
        let plan = NttPlan::<u32>::new(q, degree).unwrap();
        let modulus = plan.modulus();
        let psi = primitive_root(modulus, 2 * degree as u64).unwrap();
        let coefficients = random(&plan, 7);
        let mut values = coefficients.clone();
        plan.forward(&mut values);
        for (place, exponent) in NttPlan::<u32>::evaluation_exponents(degree).enumerate() {
            let point = modulus.pow(psi, exponent);
            let horner = coefficients.iter().rev().fold(0, |sum, &c| modulus.add(modulus.mul(sum, point), c));
            assert_eq!(values[place], horner);
        }
    }

    #[test]
    fn lifting_keeps_the_smallest_representative() {
        for backend in Backend::available() {
            let plan = NttPlan::<u32>::with_backend(786_433, 64, backend).unwrap();
            let values: Vec<u32> = (0..64).map(|i| (i * 193) % 12_289).chain([6144, 6145, 12_288]).collect();
            let mut out = vec![0; values.len()];
            plan.lift(&values, 12_289, &mut out);
            let mut words = vec![0; values.len()];
            plan.lift_words(&values, 12_289, &mut words);
            assert_eq!(words, out);
            let t = 4_295_049_217; // Above 2^32, and any odd number will do.
            let plan64 =
                NttPlan::<u64>::with_backend(ntt_primes(47, 64, 1).unwrap()[0], 64, backend).unwrap();
            let long = [0, 1, u32::MAX >> 1, 1 << 31, (1 << 31) + 50_000, u32::MAX];
            let (mut words, mut lifted) = ([0; 6], [0; 6]);
            plan64.lift_words(&long, t, &mut words);
            plan64.lift(&long.map(u64::from), t, &mut lifted);
            assert_eq!(words, lifted, "{backend}");
            let small = Modulus::<u32>::new(12_289).unwrap();
            for (&value, lifted) in values.iter().zip(out) {
                assert_eq!(small.to_signed(value), plan.modulus().to_signed(lifted), "{backend}");
            }
        }
    }

    #[test]
    fn refuses_unsupported_degrees_and_moduli() {
        assert_eq!(NttPlan::<u32>::new(12289, 96).err(), Some(RingError::Degree(96)));
        assert_eq!(NttPlan::<u32>::new(12289, 32).err(), Some(RingError::Degree(32)));
        assert!(matches!(NttPlan::<u32>::new(12289, 1 << 12), Err(RingError::NoRootOfUnity { .. })));
        assert!(matches!(NttPlan::<u32>::new(12287, 64), Err(RingError::Modulus { .. })));
    }
}
