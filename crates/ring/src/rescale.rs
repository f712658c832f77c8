//! Changing the modulus of a ciphertext whose phase is m + t e: division with rounding that keeps residues modulo t.
//!
//! From the primes A to the primes B, with D the product of those in A only and U that of those in B only, x becomes
//! (U x - d)/D with d = U x modulo D and d = 0 modulo t. With r the representative of U x in (-D/2, D/2) and k that of
//! -r/D modulo t in (-t/2, t/2), d = r + D k. The rounding error d/D is at most (t + 1)/2 (Brakerski, Gentry and
//! Vaikuntanathan, ePrint 2011/277, section 4; adding primes to reach a modulus of any length: Halevi and Shoup,
//! ePrint 2020/1481, section 5).

use crate::{
    AlignedVec, Basis, Coefficient, Evaluation, Modulus, Multiplier, Poly, RingError, Word,
    convert::{Scaled, for_each_tile},
    parallel::for_each,
};

/// Residues that are scaled at a time.
const PIECE: usize = 1024;

/// Divides by the primes that are dropped, multiplies by those that are added, and keeps residues modulo t.
#[derive(Debug, Clone)]
pub struct Rescaler<W: Word> {
    from: Basis<W>,
    to: Basis<W>,
    /// The dropped primes' places in the source, and their basis.
    dropped: Vec<usize>,
    dropped_basis: Basis<W>,
    /// Each target prime's place in the source, if it is there.
    kept: Vec<Option<usize>>,
    /// For each dropped prime d, U (D/d)^-1 modulo d, and 1/d.
    scales: Vec<Multiplier<W>>,
    reciprocals: Vec<f64>,
    plaintext: Modulus<W>,
    /// For each dropped prime d, -d^-1 modulo t; then 1.
    plaintext_weights: Vec<Multiplier<W>>,
    /// For each target prime: -d^-1 for each dropped prime; then 1, -1 and t.
    weights: Vec<Vec<Multiplier<W>>>,
    /// U/D modulo each target prime.
    ratios: Vec<Multiplier<W>>,
    /// U/D modulo t.
    factor: W,
}

impl<W: Word> Rescaler<W> {
    /// Precomputes the constants. At least one prime must be dropped, and t must be none of the primes.
    pub fn new(from: &Basis<W>, to: &Basis<W>, plaintext: &Modulus<W>) -> Result<Self, RingError> {
        let place = |basis: &Basis<W>, q: u64| basis.moduli().position(|other| other == q);
        let kept: Vec<_> = to.moduli().map(|q| place(from, q)).collect();
        let dropped: Vec<_> = (0..from.limbs())
            .filter(|&limb| place(to, from.plans()[limb].modulus().as_u64()).is_none())
            .collect();
        let t = plaintext.as_u64();
        if dropped.is_empty()
            || from.degree() != to.degree()
            || from.moduli().chain(to.moduli()).any(|q| q == t)
        {
            return Err(RingError::Basis);
        }
        let dropped_basis = from.select(&dropped);
        let added: Vec<u64> =
            to.moduli().zip(&kept).filter(|(_, kept)| kept.is_none()).map(|(q, _)| q).collect();
        let product = |modulus: &Modulus<W>, factors: &mut dyn Iterator<Item = u64>| {
            factors.fold(modulus.reduce(1), |product, q| modulus.mul(product, modulus.reduce(q)))
        };
        let ratio = |modulus: &Modulus<W>| {
            let up = product(modulus, &mut added.iter().copied());
            modulus.mul(up, modulus.inv(product(modulus, &mut dropped_basis.moduli())))
        };
        let minus_inverse =
            |modulus: &Modulus<W>, d: u64| modulus.multiplier(modulus.neg(modulus.inv(modulus.reduce(d))));
        let scales = dropped_basis.plans().iter().map(|plan| {
            let d = plan.modulus();
            let others = product(d, &mut dropped_basis.moduli().filter(|&other| other != d.as_u64()));
            let up = product(d, &mut added.iter().copied());
            d.multiplier(d.mul(up, d.inv(others)))
        });
        let weights = to.plans().iter().map(|plan| {
            let q = plan.modulus();
            let inverses = dropped_basis.moduli().map(|d| minus_inverse(q, d));
            let one = q.reduce(1);
            inverses.chain([one, q.neg(one), q.reduce(t)].map(|weight| q.multiplier(weight))).collect()
        });
        let one = plaintext.multiplier(plaintext.reduce(1));
        Ok(Self {
            scales: scales.collect(),
            reciprocals: dropped_basis.moduli().map(|d| 1.0 / d as f64).collect(),
            plaintext_weights: dropped_basis
                .moduli()
                .map(|d| minus_inverse(plaintext, d))
                .chain([one])
                .collect(),
            weights: weights.collect(),
            ratios: to.plans().iter().map(|plan| plan.modulus().multiplier(ratio(plan.modulus()))).collect(),
            factor: ratio(plaintext),
            plaintext: *plaintext,
            from: from.clone(),
            to: to.clone(),
            dropped,
            dropped_basis,
            kept,
        })
    }

    /// U/D modulo t: what the plaintext is multiplied by.
    pub fn factor(&self) -> W {
        self.factor
    }

    /// The primes of the result.
    pub fn target(&self) -> &Basis<W> {
        &self.to
    }

    /// (U x - d)/D for each coefficient x.
    pub fn rescale(&self, poly: &Poly<W, Evaluation>) -> Poly<W, Evaluation> {
        assert!(*poly.basis() == self.from, "the polynomial must be over the source primes");
        let dropped = Poly::<W, Coefficient>::build(&self.dropped_basis, |limb, plan, values| {
            values.copy_from_slice(poly.limb(self.dropped[limb]));
            plan.inverse(values);
        });
        let mut corrections = Poly::<W, Coefficient>::any(&self.to);
        let plans = self.to.plans();
        let half = self.plaintext.as_u64() / 2;
        for_each_tile(&mut corrections, |places, outputs| {
            // With y_i the residue of U x (D/d_i)^-1 modulo d_i: r/D = (sum of y_i/d_i) - v.
            let mut scaled = Scaled::new(&dropped, places.clone(), &self.scales);
            scaled.push_overflow(&self.reciprocals);
            // k, as a residue and the t to subtract from it.
            let mut residues = AlignedVec::from_iter(64, std::iter::repeat_n(W::default(), places.len()));
            let combine = plans[0].kernels().combine;
            combine(&self.plaintext, &mut residues, &scaled.rows(), &self.plaintext_weights);
            scaled.push(&residues);
            residues.iter_mut().for_each(|k| *k = W::truncate(half.wrapping_sub((*k).into()) >> 63));
            scaled.push(&residues);
            let rows = scaled.rows();
            // -(r/D + k)
            for ((plan, weights), values) in plans.iter().zip(&self.weights).zip(outputs) {
                (plan.kernels().combine)(plan.modulus(), values, &rows, weights);
            }
        });
        let mut result = corrections.into_evaluation();
        let limbs = result.limbs_mut().enumerate();
        for_each(poly.basis().degree(), limbs, |(limb, (plan, values))| {
            if let Some(place) = self.kept[limb] {
                // A multiple of the source's residues, a piece that stays in the first-level cache at a time.
                let mut term = [W::default(); PIECE];
                let width = PIECE.min(values.len());
                for (values, source) in values.chunks_mut(width).zip(poly.limb(place).chunks(width)) {
                    let term = &mut term[..width];
                    term.copy_from_slice(source);
                    (plan.kernels().scale)(plan.modulus(), term, self.ratios[limb]);
                    (plan.kernels().add)(plan.modulus(), values, term);
                }
            }
        });
        result
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use num_integer::Integer;

    use super::*;
    use crate::{Backend, crt::centered, primes::ntt_primes, sample::Seed};

    const DEGREE: usize = 64;
    const PLAINTEXT: u64 = 786_433;

    fn check<W: Word>(bits: u32, backend: Backend) {
        let primes = ntt_primes(bits, DEGREE, 6).unwrap();
        let basis = Basis::<W>::new(&primes, DEGREE, backend).unwrap();
        let t = Modulus::<W>::new(PLAINTEXT).unwrap();
        for (from, to) in [
            (vec![0, 1, 2], vec![0, 1]),
            (vec![0, 1, 2, 3], vec![1]),
            (vec![0, 1, 3, 4], vec![5, 1, 2]),
            (vec![2, 3], vec![0]),
        ] {
            let (from, to) = (basis.select(&from), basis.select(&to));
            let rescaler = Rescaler::new(&from, &to, &t).unwrap();
            let x = Poly::<W, Coefficient>::build(&from, |limb, plan, values| {
                Seed::from([9; 32]).stream("test", &[limb as u64]).uniform(plan.modulus(), values);
            });
            let y = rescaler.rescale(&x.clone().into_evaluation()).into_coefficient();
            let [source, target] = [&from, &to].map(|b| b.moduli().map(BigInt::from).product::<BigInt>());
            for place in 0..DEGREE {
                let x = centered(&x, place);
                // The same fraction of the modulus, up to (t + 1)/2 and multiples of the target modulus.
                let scaled = centered(&y, place) * &source - &x * &target;
                let distance = scaled.mod_floor(&(&source * &target));
                let distance = distance.clone().min(&source * &target - distance);
                assert!(distance * 2 <= &source * (PLAINTEXT + 1), "place {place}");
                // y D = U x - d with d divisible by t, for the y that is nearest to U x/D.
                let [d, u] = [(&from, &to), (&to, &from)].map(|(a, b)| {
                    a.moduli().filter(|q| b.moduli().all(|p| p != *q)).map(BigInt::from).product::<BigInt>()
                });
                let near: BigInt = (&x * &u * 2i32 + &d).div_floor(&(&d * 2));
                let y = centered(&y, place);
                let doubled: BigInt = (&near - &y) * 2i32 + &target;
                let y = &y + &target * doubled.div_floor(&(&target * 2i32));
                assert_eq!((y * &d - x * &u).mod_floor(&BigInt::from(PLAINTEXT)), BigInt::from(0));
            }
            assert_eq!(BigInt::from(rescaler.factor().into()), {
                let p = BigInt::from(PLAINTEXT);
                let inverse = source.mod_floor(&p).modpow(&(&p - 2), &p);
                (target * inverse).mod_floor(&p)
            });
        }
        let same = basis.part(0..2);
        assert_eq!(Rescaler::new(&same, &basis.part(0..3), &t).err(), Some(RingError::Basis));
    }

    #[test]
    fn agrees_with_big_integers() {
        for backend in Backend::available() {
            check::<u32>(30, backend);
            for bits in [24, 36, 50] {
                check::<u64>(bits, backend);
            }
        }
    }
}
