//! How large noise gets on the way from a query to an answer.

use restante_bfv::noise::{
    fresh_bits, key_switching_bits, plaintext_bits, product_bits, rescaled_bits, sum_bits,
};

use crate::search::preset::Preset;
use crate::search::scheme::Scheme;
use crate::search::shape::Shape;

/// Estimates of noise, as log2 of the standard deviation of a phase's coefficients. Coefficients are taken as independent; tests
/// compare with what is measured, for random and for the most regular chunks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseEstimate {
    /// An indicator after expansion.
    pub indicator: f64,
    /// An entry of a table.
    pub entry: f64,
    /// A sum over h2, with full chunks of random words.
    pub inner: f64,
    /// A finished column.
    pub column: f64,
    /// log2 of half the inner modulus, which no coefficient may reach.
    pub bound: f64,
}

impl NoiseEstimate {
    /// The bits left between the bound and ten standard deviations: a normal coefficient is beyond those once in 2^75 times.
    pub fn margin_bits(&self) -> f64 {
        self.bound - self.column - 10f64.log2()
    }
}

impl Shape {
    /// The noise of an answer to queries of this shape, if every bucket is full.
    pub fn noise(&self, preset: &Preset) -> NoiseEstimate {
        let (degree, t) = (preset.degree, preset.plaintext_modulus());
        let moduli = preset.inner_bits.len() as u32 + 1;
        let longest = preset.inner_bits.into_iter().max().unwrap_or(0).max(preset.dropped_bits);
        let digit_bits = f64::from(longest.div_ceil(preset.pieces));
        let special = f64::from(preset.special_bits);
        let switched = key_switching_bits(degree, t, (moduli * preset.pieces) as usize, digit_bits, special);
        // The error of the s-th of 2^k - 1 automorphisms is in 2^k - s terms.
        let terms = f64::from(1 << preset.packing_bits);
        let indicator = sum_bits(&[
            fresh_bits(t) + f64::from(preset.packing_bits) / 2.0,
            switched + (terms * (terms - 1.0) / 2.0).log2() / 2.0,
        ]);
        let relinearised = key_switching_bits(degree, t, Scheme::DIGITS, longest.into(), special);
        let product = sum_bits(&[product_bits(degree, indicator, indicator), relinearised]);
        let entry = rescaled_bits(degree, t, product, preset.dropped_bits.into());
        let inner = product_bits(degree >> self.sharing_bits, entry, plaintext_bits(t))
            + f64::from(self.inner_bits()) / 2.0;
        let column = product_bits(degree, entry, inner) + f64::from(self.outer_bits()) / 2.0;
        let bound = f64::from(preset.inner_bits.iter().sum::<u32>()) - 1.0;
        NoiseEstimate { indicator, entry, inner, column, bound }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use chacha20::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};
    use restante_bfv::Leveled;
    use restante_ring::{Backend, Evaluation, Poly};

    use super::*;
    use crate::search::packing::Expander;
    use crate::search::preset::Preset;
    use crate::search::query::{Query, secret_key};
    use crate::search::responder::entry;

    #[test]
    fn every_shape_has_a_margin() {
        for hash_bits in 8..=24 {
            let noise = Shape::new(hash_bits, 1).unwrap().noise(&Preset::standard());
            assert!(noise.margin_bits() > 3.0, "{hash_bits} bits: {noise:?}");
        }
    }

    type Pair = [Poly<u64, Evaluation>; 2];

    fn multiply_add(sum: &mut Pair, entry: &Pair, chunk: &Poly<u64, Evaluation>) {
        sum.iter_mut().zip(entry).for_each(|(sum, part)| sum.mul_add_assign(part, chunk));
    }

    /// One full row of chunks, then as many rows, with the worst chunks that there are: returns the least budget.
    fn measure(hash_bits: u32) -> f64 {
        let (preset, bucket) = (Preset::standard(), 0xa5_5a3c & ((1 << hash_bits) - 1));
        let scheme = Scheme::new(preset.clone(), Backend::best()).unwrap();
        let shape = Shape::new(hash_bits, 1).unwrap();
        let estimate = shape.noise(&preset);
        println!("{hash_bits} bits, estimate: {estimate:.1?}, margin {:.1}", estimate.margin_bits());
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        let (state, query) = Query::new(&scheme, shape, &[bucket], b"", b"", &mut rng).unwrap();
        let secret = secret_key(&scheme, &state.secret);
        let (chain, basis) = (scheme.chain(), scheme.chain().basis(Scheme::INNER));
        let expander = Expander::new(&scheme);
        let mut indicators = query.packed(&scheme, 0).iter().flat_map(|packed| {
            let expanded = expander.expand(query.galois(), packed.expand(), scheme.packing());
            expanded.into_iter().map(|indicator| chain.enter(&indicator, Scheme::TOP))
        });
        let digits = shape.digit_bits().map(|bits| indicators.by_ref().take(1 << bits).collect::<Vec<_>>());
        let noise = secret.leveled_noise(chain, &digits[0][1]);
        println!("indicator: {noise:.1?}");
        assert!((noise.deviation_bits - estimate.indicator).abs() < 1.0);

        let factor = |words: &[u64]| chain.to_factor(Scheme::INNER, words);
        let random = |rng: &mut ChaCha20Rng| {
            factor(&(0..preset.degree).map(|_| u64::from(rng.next_u32())).collect::<Vec<_>>())
        };
        // The largest word in all places; alternating with its opposite; one chunk everywhere.
        let largest = factor(&vec![1 << 31; preset.degree]);
        let alternating: Vec<u64> = (0..preset.degree as u64)
            .map(|i| (1 << 31) + (i % 2) * (preset.plaintext_modulus() - (1 << 32)))
            .collect();
        let repeated = [largest, factor(&alternating), random(&mut rng)];

        let zero = Poly::zero(basis);
        let zeros = [zero.clone(), zero];
        let leveled = |parts: &[Poly<u64, Evaluation>]| Leveled::new(parts.to_vec(), Scheme::INNER, 1);
        let (mut different, mut sum) = (zeros.clone(), zeros.clone());
        for h2 in 0..1 << shape.inner_bits() {
            let entry = entry(&scheme, query.relinearisation(), &digits[2], &digits[3], h2);
            if h2 == 1 {
                let noise = secret.leveled_noise(chain, &leveled(&entry));
                println!("entry: {noise:.1?}");
                assert!((noise.deviation_bits - estimate.entry).abs() < 1.0);
            }
            multiply_add(&mut different, &entry, &random(&mut rng));
            sum.iter_mut().zip(&entry).for_each(|(sum, part)| sum.add_assign(part));
        }
        let mut rows = vec![different];
        rows.extend(repeated.iter().map(|chunk| {
            let mut row = zeros.clone();
            multiply_add(&mut row, &sum, chunk);
            row
        }));
        let mut outer = zeros.clone();
        for h1 in 0..1 << shape.outer_bits() {
            let entry = entry(&scheme, query.relinearisation(), &digits[0], &digits[1], h1);
            outer.iter_mut().zip(&entry).for_each(|(sum, part)| sum.add_assign(part));
        }
        let mut least = f64::INFINITY;
        for (row, name) in rows.iter().zip(["random", "largest", "alternating", "one chunk"]) {
            let inner = secret.leveled_noise(chain, &leveled(row));
            // The same row for every h1.
            let column = chain.multiply(&leveled(&outer), &leveled(row));
            let column = chain.relinearise(&column, query.relinearisation());
            let noise = secret.leveled_noise(chain, &column);
            println!("{name}: inner {inner:.1?}\n  column {noise:.1?}, left {:.1}", noise.budget_bits());
            let excess = if name == "random" { 0.5 } else { 2.0 };
            assert!(inner.deviation_bits < estimate.inner + excess);
            assert!(noise.deviation_bits < estimate.column + excess);
            least = least.min(noise.budget_bits());
        }
        least
    }

    #[test]
    fn noise_is_as_estimated() {
        assert!(measure(12) > 6.0);
    }

    #[test]
    #[ignore = "takes a minute: 8,192 products of indicators"]
    fn noise_leaves_a_margin_at_24_bits() {
        assert!(measure(24) > 3.0);
    }
}
