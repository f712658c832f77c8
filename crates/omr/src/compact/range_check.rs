//! The range check: z_c = product over i = 0 ..= r of (x_c^2 - i^2), which is zero where x_c is within the range.
//!
//! A polynomial in y = x^2 of degree r + 1, evaluated as Paterson and Stockmeyer do (SIAM J. Comput. 2,
//! 1973): as a binary tree of q(y) y^(2^k) + r(y), whose leaves are sums of powers up to y^7 with
//! coefficients modulo t. Those make up, at no cost, for the different factors of what is added. Only q's
//! side of a sum needs two parts: the sums are relinearised where they are multiplied again.

use restante_bfv::Leveled;
use restante_ring::Modulus;

use super::{CompactContext, PreparedKey, parameters::LEAF};

/// The coefficients modulo t of the product over i = 0 ..= r of (y - i^2), from the constant one up.
pub(super) fn polynomial(t: &Modulus<u64>, range: u32) -> Vec<u64> {
    let mut coefficients = vec![1];
    for i in 0..=u64::from(range) {
        let minus_root = t.neg(t.reduce(i * i));
        let mut next = vec![0; coefficients.len() + 1];
        for (power, &coefficient) in coefficients.iter().enumerate() {
            next[power + 1] = t.add(next[power + 1], coefficient);
            next[power] = t.add(next[power], t.mul(coefficient, minus_root));
        }
        coefficients = next;
    }
    coefficients
}

/// z of one coordinate, at the level of checks, with factor 1.
pub(super) fn check(context: &CompactContext, key: &PreparedKey, x: &Leveled<u64>) -> Leveled<u64> {
    let t = context.circuit().context().plaintext_plan().modulus();
    let coefficients = polynomial(t, context.parameters().clue.range());
    Powers::new(context, key, x).evaluate(&coefficients, 1, context.schedule().checks, true)
}

/// The powers of y that the tree needs.
struct Powers<'a> {
    context: &'a CompactContext,
    key: &'a PreparedKey,
    /// y to y^7 at the level of powers.
    low: Vec<Leveled<u64>>,
    /// y^8, y^16, ..., each one level below the one before.
    high: Vec<Leveled<u64>>,
}

impl<'a> Powers<'a> {
    fn new(context: &'a CompactContext, key: &'a PreparedKey, x: &Leveled<u64>) -> Self {
        let (chain, schedule) = (context.circuit(), context.schedule());
        let relinearisation = &key.key.relinearisation;
        // low[i] is y^i, as high up as it can be.
        let times = |a: &Leveled<u64>, b: &Leveled<u64>| {
            let level = a.level().max(b.level());
            let product = chain.multiply(&chain.rescale(a, level), &chain.rescale(b, level));
            chain.relinearise_and_rescale(&product, relinearisation, level + 1)
        };
        let mut low = vec![times(x, x)];
        for power in 2..=LEAF {
            let half = power.next_power_of_two() / 2;
            low.push(times(&low[half - 1], &low[power - half - 1]));
        }
        let mut low: Vec<_> = low.iter().map(|power| chain.rescale(power, schedule.powers)).collect();
        let mut high: Vec<_> = low.pop().into_iter().collect();
        for level in schedule.powers + 1..schedule.checks {
            let square = chain.square(&high[high.len() - 1]);
            high.push(chain.relinearise_and_rescale(&square, relinearisation, level));
        }
        Self { context, key, low, high }
    }

    /// The polynomial with these coefficients, at a level, with a factor, and with two parts if `two_parts`.
    fn evaluate(&self, coefficients: &[u64], factor: u64, level: usize, two_parts: bool) -> Leveled<u64> {
        let (chain, powers) = (self.context.circuit(), self.context.schedule().powers);
        let t = chain.context().plaintext_plan().modulus();
        let doublings = coefficients.len().div_ceil(LEAF).next_power_of_two().ilog2() as usize;
        // Where the sum is made, before it goes down to `level`, and the factor that it needs there.
        let made = powers + doublings.saturating_sub(1);
        let factor = t.mul(factor, t.inv(chain.rescaling_factor(made, level)));
        if doublings == 0 {
            return chain.rescale(&self.leaf(coefficients, factor), level);
        }
        let (remainder, quotient) = coefficients.split_at(LEAF << (doublings - 1));
        let power = &self.high[doublings - 1];
        let quotient = self.evaluate(quotient, t.mul(factor, t.inv(power.factor())), made, true);
        let mut sum = chain.multiply(&quotient, power);
        sum.add_assign(&self.evaluate(remainder, factor, made, false));
        if two_parts {
            chain.relinearise_and_rescale(&sum, &self.key.key.relinearisation, level)
        } else {
            chain.rescale(&sum, level)
        }
    }

    /// A polynomial of at most eight coefficients at the level of powers.
    fn leaf(&self, coefficients: &[u64], factor: u64) -> Leveled<u64> {
        let chain = self.context.circuit();
        let t = chain.context().plaintext_plan().modulus();
        let padded = coefficients.iter().skip(1).copied().chain([0]);
        let terms: Vec<_> = self
            .low
            .iter()
            .zip(padded)
            .map(|(power, coefficient)| (power, t.mul(coefficient, t.mul(factor, t.inv(power.factor())))))
            .collect();
        let sum = chain.scalar_sum(&terms);
        let mut sum = Leveled::new(sum.into_parts(), self.context.schedule().powers, factor);
        chain.add_constant(&mut sum, coefficients[0]);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_polynomial_vanishes_on_the_range_alone() {
        let t = Modulus::<u64>::new(786_433).unwrap();
        for range in [0, 1, 131] {
            let coefficients = polynomial(&t, range);
            assert_eq!(coefficients.len(), range as usize + 2);
            for x in (0..400).chain([t.as_u64() / 2]) {
                let y = t.mul(t.reduce(x), t.reduce(x));
                let value = coefficients.iter().rev().fold(0, |sum, &c| t.add(t.mul(sum, y), c));
                assert_eq!(value == 0, x <= u64::from(range), "{x}");
            }
        }
    }
}
