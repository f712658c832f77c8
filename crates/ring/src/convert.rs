//! Moving polynomials between products of primes, and dividing with rounding.
//!
//! A coefficient x modulo Q = q_1 ... q_l is known by its residues. With y_i = \[x (Q/q_i)^-1\] modulo q_i,
//!
//! ```text
//! sum of y_i Q/q_i = x + v Q,    0 <= v < l for x in [0, Q),
//! ```
//!
//! so the left side, taken modulo a new prime, is x up to a few multiples of Q: the *approximate* conversion
//! (Bajard, Eynard, Hasan and Zucca, ePrint 2016/510, section 3). The *centered* conversion subtracts
//! v = round(sum of y_i/q_i) multiples, found in floating point, and gives the representative in (-Q/2, Q/2)
//! (Halevi, Polyakov and Shoup, ePrint 2018/117, section 2.2). The sum of l terms is off by less
//! than l (l + 2) 2^-53, and an x within that part of Q from ±Q/2 may come out as the other of its two neighbours ±Q/2,
//! which every caller tolerates: both are the same modulo Q and of the same size.

use std::ops::Range;

use crate::{
    AlignedVec, Basis, Coefficient, Evaluation, Multiplier, Poly, RingError, Word, parallel::for_each,
};

/// Takes residues modulo the primes of one basis to residues modulo those of another.
#[derive(Debug, Clone)]
pub struct BaseConverter<W: Word> {
    from: Basis<W>,
    to: Basis<W>,
    /// (Q/q_i)^-1 modulo q_i.
    inverses: Vec<Multiplier<W>>,
    /// 1/q_i.
    reciprocals: Vec<f64>,
    /// For each target prime p: Q/q_i modulo p for each i, then -Q modulo p.
    weights: Vec<Vec<Multiplier<W>>>,
}

impl<W: Word> BaseConverter<W> {
    /// Precomputes the constants. The bases have one degree and no prime in common.
    pub fn new(from: &Basis<W>, to: &Basis<W>) -> Result<Self, RingError> {
        from.join(to)?;
        let weights = to.plans().iter().map(|plan| {
            let modulus = plan.modulus();
            let cofactors = (0..from.limbs()).map(|limb| from.cofactor_modulo(limb, modulus));
            let minus_product = modulus.neg(from.product_modulo(modulus));
            cofactors.chain([minus_product]).map(|weight| modulus.multiplier(weight)).collect()
        });
        Ok(Self {
            from: from.clone(),
            to: to.clone(),
            inverses: from.cofactor_inverses(),
            reciprocals: from.moduli().map(|q| 1.0 / q as f64).collect(),
            weights: weights.collect(),
        })
    }

    /// Residues of x + v Q, where x is the representative in [0, Q) and 0 <= v < limbs.
    pub fn convert_approximate(&self, poly: &Poly<W, Coefficient>) -> Poly<W, Coefficient> {
        self.convert(poly, false)
    }

    /// Residues of the representative of x in (-Q/2, Q/2).
    pub fn convert_centered(&self, poly: &Poly<W, Coefficient>) -> Poly<W, Coefficient> {
        self.convert(poly, true)
    }

    fn convert(&self, poly: &Poly<W, Coefficient>, centered: bool) -> Poly<W, Coefficient> {
        assert!(*poly.basis() == self.from, "the polynomial must be over the converter's source basis");
        let mut out = Poly::any(&self.to);
        let rows = self.from.limbs() + usize::from(centered);
        for_each_tile(&mut out, |places, outputs| {
            let mut scaled = Scaled::new(poly, places, &self.inverses);
            if centered {
                scaled.push_overflow(&self.reciprocals);
            }
            let scaled = scaled.rows();
            for ((plan, weights), values) in self.to.plans().iter().zip(&self.weights).zip(outputs) {
                (plan.kernels().combine)(plan.modulus(), values, &scaled, &weights[..rows]);
            }
        });
        out
    }
}

/// Coefficients that are converted at a time: few enough that a row for each of a dozen primes stays in a second-level cache.
const TILE: usize = 2048;

/// Calls `fill` with each range of places and all limbs there, several ranges at a time where the crate has threads.
pub(crate) fn for_each_tile<W: Word>(
    poly: &mut Poly<W, Coefficient>,
    fill: impl Fn(Range<usize>, &mut [&mut [W]]) + Send + Sync,
) {
    let (degree, limbs) = (poly.basis().degree(), poly.basis().limbs());
    let width = degree.min(TILE);
    let mut tiles: Vec<(Range<usize>, Vec<&mut [W]>)> =
        (0..degree).step_by(width).map(|first| (first..first + width, Vec::with_capacity(limbs))).collect();
    for (_, values) in poly.limbs_mut() {
        tiles
            .iter_mut()
            .zip(values.chunks_exact_mut(width))
            .for_each(|((_, tile), values)| tile.push(values));
    }
    for_each(width * limbs, tiles.into_iter(), |(places, mut outputs)| fill(places, &mut outputs));
}

/// y_i = \[x (Q/q_i)^-1\] modulo q_i for some places: a row for each prime.
pub(crate) struct Scaled<W: Word> {
    width: usize,
    data: AlignedVec<W>,
}

impl<W: Word> Scaled<W> {
    pub(crate) fn new(poly: &Poly<W, Coefficient>, places: Range<usize>, factors: &[Multiplier<W>]) -> Self {
        let width = places.len();
        let mut data = AlignedVec::with_capacity(64, (factors.len() + 3) * width);
        for ((plan, values), factor) in poly.limbs().zip(factors) {
            let start = data.len();
            data.extend_from_slice(&values[places.clone()]);
            (plan.kernels().scale)(plan.modulus(), &mut data[start..], *factor);
        }
        Self { width, data }
    }

    /// Appends the row of v = round(sum of y_i/q_i).
    pub(crate) fn push_overflow(&mut self, reciprocals: &[f64]) {
        // Added to an integer below 2^52 as the low bits of a double, 2^52 makes it a number; added to a number, it rounds that to an
        // integer in the low bits. Processors without conversions of 64-bit integers in vectors do so in these two steps.
        const SHIFT: f64 = (1u64 << 52) as f64;
        let mut sums = [0.0; TILE];
        for (row, reciprocal) in self.data.chunks_exact(self.width).zip(reciprocals) {
            let number = |y: W| f64::from_bits(y.into() | SHIFT.to_bits()) - SHIFT;
            sums.iter_mut().zip(row).for_each(|(sum, &y)| *sum += number(y) * reciprocal);
        }
        let rounded = |sum: f64| W::truncate((sum + SHIFT).to_bits() ^ SHIFT.to_bits());
        self.data.extend_from_slice(&sums.map(rounded)[..self.width]);
    }

    pub(crate) fn push(&mut self, row: &[W]) {
        self.data.extend_from_slice(row);
    }

    pub(crate) fn rows(&self) -> Vec<&[W]> {
        self.data.chunks_exact(self.width).collect()
    }
}

/// Divides by the product P of the last primes of a basis, rounding to the nearest integer.
#[derive(Debug, Clone)]
pub struct Divider<W: Word> {
    converter: BaseConverter<W>,
    /// P^-1 modulo each remaining prime.
    inverses: Vec<Multiplier<W>>,
}

impl<W: Word> Divider<W> {
    /// For polynomials over `kept` joined with `divisor`.
    pub fn new(kept: &Basis<W>, divisor: &Basis<W>) -> Result<Self, RingError> {
        let converter = BaseConverter::new(divisor, kept)?;
        let inverses = kept.plans().iter().map(|plan| {
            let modulus = plan.modulus();
            modulus.multiplier(modulus.inv(divisor.product_modulo(modulus)))
        });
        Ok(Self { converter, inverses: inverses.collect() })
    }

    /// round(x / P) for each coefficient.
    pub fn divide_coefficient(&self, poly: &Poly<W, Coefficient>) -> Poly<W, Coefficient> {
        let kept = self.converter.to.limbs();
        let rest = self.converter.convert_centered(&poly.part(kept..poly.basis().limbs()));
        let mut quotient = poly.part(0..kept);
        quotient.sub_assign(&rest);
        quotient.scale(&self.inverses);
        quotient
    }

    /// The same for a polynomial in evaluation form; only the divisor's residues leave that form.
    pub fn divide_evaluation(&self, poly: &Poly<W, Evaluation>) -> Poly<W, Evaluation> {
        let kept = self.converter.to.limbs();
        let rest = poly.part(kept..poly.basis().limbs()).into_coefficient();
        let mut quotient = poly.part(0..kept);
        quotient.sub_assign(&self.converter.convert_centered(&rest).into_evaluation());
        quotient.scale(&self.inverses);
        quotient
    }

    /// P round(x / P), for an x whose residues modulo the remaining primes are `kept` and modulo the divisor's `rest`: what
    /// [`Divider::divide_evaluation`] gives, times P.
    pub fn round_to_multiple(&self, kept: &mut Poly<W, Evaluation>, rest: Poly<W, Evaluation>) {
        kept.sub_assign(&self.converter.convert_centered(&rest.into_coefficient()).into_evaluation());
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use num_integer::Integer;

    use super::*;
    use crate::{Backend, crt::centered, primes::ntt_primes, sample::Seed};

    const DEGREE: usize = 64;

    fn random<W: Word>(basis: &Basis<W>) -> Poly<W, Coefficient> {
        let seed = Seed::from([5; 32]);
        Poly::from_limbs(basis, |limb, plan, values| {
            seed.stream("test", &[limb as u64]).uniform(plan.modulus(), values);
        })
    }

    fn check<W: Word>(bits: u32, backend: Backend) {
        let primes = ntt_primes(bits, DEGREE, 7).unwrap();
        let basis = Basis::<W>::new(&primes, DEGREE, backend).unwrap();
        for split in 1..7 {
            let (from, to) = (basis.part(0..split), basis.part(split..7));
            let converter = BaseConverter::new(&from, &to).unwrap();
            let poly = random(&from);
            let exact = converter.convert_centered(&poly);
            let approximate = converter.convert_approximate(&poly);
            let product: BigInt = from.moduli().map(BigInt::from).product();
            for place in 0..DEGREE {
                let expected = centered(&poly, place);
                for (plan, values) in exact.limbs() {
                    let p = BigInt::from(plan.modulus().as_u64());
                    assert_eq!(BigInt::from(values[place].into()), expected.mod_floor(&p));
                }
                let representative = expected.mod_floor(&product);
                let overflow = (0..split).find(|&v| {
                    approximate.limbs().all(|(plan, values)| {
                        let p = BigInt::from(plan.modulus().as_u64());
                        BigInt::from(values[place].into()) == (&representative + v * &product).mod_floor(&p)
                    })
                });
                assert!(overflow.is_some(), "no v in 0..{split} fits");
            }

            let whole = random(&basis);
            let divider = Divider::new(&from, &to).unwrap();
            let quotient = divider.divide_coefficient(&whole);
            let divisor: BigInt = to.moduli().map(BigInt::from).product();
            for place in 0..DEGREE {
                let doubled: BigInt = centered(&whole, place) * 2 + &divisor;
                let rounded = doubled.div_floor(&(&divisor * 2));
                for (plan, values) in quotient.limbs() {
                    let q = BigInt::from(plan.modulus().as_u64());
                    assert_eq!(BigInt::from(values[place].into()), rounded.mod_floor(&q));
                }
            }
            let whole = whole.into_evaluation();
            assert_eq!(divider.divide_evaluation(&whole).into_coefficient(), quotient);
            let mut multiple = whole.part(0..split);
            divider.round_to_multiple(&mut multiple, whole.part(split..7));
            multiple.scale(&divider.inverses);
            assert_eq!(multiple.into_coefficient(), quotient);
        }
    }

    #[test]
    fn agrees_with_big_integers() {
        for backend in Backend::available() {
            for bits in [20, 30, 31] {
                check::<u32>(bits, backend);
            }
            for bits in [20, 50] {
                check::<u64>(bits, backend);
            }
        }
    }
}
