//! Ciphertexts inside a deep circuit, in the form of Brakerski, Gentry and Vaikuntanathan (ePrint 2011/277).
//!
//! c0 + c1 s (+ c2 s^2) = f m + t e modulo Q, with a public factor f modulo t. A product of two such ciphertexts needs no
//! change of basis and no transform. The two forms are the same up to a constant: t times a BFV ciphertext of m is
//! one of -Q m in this form (Alperin-Sheriff and Peikert, ePrint 2013/372, appendix A), and t^-1 times one in this form is
//! a BFV ciphertext of -Q^-1 f m.
//!
//! Noise, as the standard deviation of a coefficient of the phase f m + t e, is what [`noise`] estimates and what
//! [`crate::SecretKey::leveled_noise`] measures.

use restante_ring::{Coefficient, Evaluation, Multiplier, Poly, Word};

use restante_wire::{Reader, WireError};
use zeroize::Zeroize;

use crate::{
    Chain, Ciphertext, GaloisKey, KeySwitchingKey, SecretKey, noise,
    packing::{decode_poly, encode_poly, poly_bytes},
    secret_key::{centered, sizes},
};

/// A ciphertext of two parts, or three after a product, at one level of a [`Chain`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leveled<W: Word> {
    pub(crate) parts: Vec<Poly<W, Evaluation>>,
    pub(crate) level: usize,
    /// f.
    pub(crate) factor: W,
}

impl<W: Word> Leveled<W> {
    /// A ciphertext from its parts.
    pub fn new(parts: Vec<Poly<W, Evaluation>>, level: usize, factor: W) -> Self {
        Self { parts, level, factor }
    }

    /// c0, c1 and perhaps c2.
    pub fn parts(&self) -> &[Poly<W, Evaluation>] {
        &self.parts
    }

    /// c0, c1 and perhaps c2.
    pub fn into_parts(self) -> Vec<Poly<W, Evaluation>> {
        self.parts
    }

    /// The level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// f: what the plaintext is multiplied by, modulo t.
    pub fn factor(&self) -> W {
        self.factor
    }

    /// self += other, of the same level and factor.
    pub fn add_assign(&mut self, other: &Self) {
        self.check(other);
        let common = self.parts.len().min(other.parts.len());
        self.parts.iter_mut().zip(&other.parts).for_each(|(a, b)| a.add_assign(b));
        self.parts.extend(other.parts[common..].iter().cloned());
    }

    /// self -= other, of the same level and factor.
    pub fn sub_assign(&mut self, other: &Self) {
        self.check(other);
        let common = self.parts.len().min(other.parts.len());
        self.parts.iter_mut().zip(&other.parts).for_each(|(a, b)| a.sub_assign(b));
        self.parts.extend(other.parts[common..].iter().cloned().map(|mut part| {
            part.negate();
            part
        }));
    }

    /// self = -self.
    pub fn negate(&mut self) {
        self.parts.iter_mut().for_each(Poly::negate);
    }

    /// Multiplies by a plaintext, from [`Chain::to_factor`].
    pub fn mul_plain(&mut self, factor: &Poly<W, Evaluation>) {
        self.parts.iter_mut().for_each(|part| part.mul_assign(factor));
    }

    /// Bytes of the wire form of a ciphertext of two parts.
    pub fn wire_bytes(chain: &Chain<W>, level: usize) -> usize {
        8 + 2 * poly_bytes(chain.basis(level))
    }

    /// Appends the wire form: the factor (64 bits), then the parts, packed.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.factor.into().to_le_bytes());
        self.parts.iter().for_each(|part| encode_poly(part, out));
    }

    /// Reads a ciphertext of two parts.
    pub fn decode(chain: &Chain<W>, level: usize, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (found, t) = (reader.u64()?, chain.context().plaintext_plan().modulus().as_u64());
        if found == 0 || found >= t {
            let expected = format!("1 to {}", t - 1);
            return Err(WireError::OutOfRange { what: "factor of a ciphertext", found, expected });
        }
        let mut part = || decode_poly(chain.basis(level), reader);
        Ok(Self { parts: vec![part()?, part()?], level, factor: W::truncate(found) })
    }

    fn check(&self, other: &Self) {
        assert_eq!(self.level, other.level, "summands must be at one level");
        assert_eq!(self.factor, other.factor, "summands must have one factor");
    }
}

impl<W: Word> Chain<W> {
    /// A fresh or other BFV ciphertext over all primes of Q, as one of the level that has all of them.
    pub fn enter(&self, ciphertext: &Ciphertext<W, Evaluation>, level: usize) -> Leveled<W> {
        assert!(self.basis(level) == self.context().ciphertext_basis(), "the level must have every prime");
        let q = &self.level(level).plaintext[..self.basis(level).limbs()];
        let parts = [&ciphertext.c0, &ciphertext.c1].map(|part| {
            let mut part = part.clone();
            part.scale(q);
            part
        });
        let t = self.context().plaintext_plan().modulus();
        let one = t.reduce(1);
        let product = self.basis(level).moduli().fold(one, |product, q| t.mul(product, t.reduce(q)));
        Leveled { parts: parts.into(), level, factor: t.neg(product) }
    }

    /// The ciphertext in BFV form, and the factor that its plaintext has then: decryption gives factor times m.
    pub fn leave(&self, ciphertext: &Leveled<W>) -> (Ciphertext<W, Evaluation>, W) {
        assert_eq!(ciphertext.parts.len(), 2, "relinearise first");
        let level = self.level(ciphertext.level);
        let [c0, c1] = [0, 1].map(|part| {
            let mut part = ciphertext.parts[part].clone();
            part.scale(&level.plaintext_inverses);
            part
        });
        let t = self.context().plaintext_plan().modulus();
        let product = level.basis.moduli().fold(t.reduce(1), |product, q| t.mul(product, t.reduce(q)));
        (Ciphertext { c0, c1 }, t.mul(t.neg(t.inv(product)), ciphertext.factor))
    }

    /// The same ciphertext as one of another chain that has the same primes at `level`.
    pub fn adopt(&self, ciphertext: Leveled<W>, level: usize) -> Leveled<W> {
        assert!(ciphertext.parts[0].basis() == self.basis(level), "the levels must have the same primes");
        Leveled { level, ..ciphertext }
    }

    /// The product, of three parts.
    pub fn multiply(&self, a: &Leveled<W>, b: &Leveled<W>) -> Leveled<W> {
        assert_eq!(a.level, b.level, "factors must be at one level");
        assert!(a.parts.len() == 2 && b.parts.len() == 2, "relinearise first");
        let t = self.context().plaintext_plan().modulus();
        let ([a0, a1], [b0, b1]) = ([&a.parts[0], &a.parts[1]], [&b.parts[0], &b.parts[1]]);
        let product = |x: &Poly<W, Evaluation>, y: &Poly<W, Evaluation>| {
            let mut product = x.clone();
            product.mul_assign(y);
            product
        };
        let mut middle = product(a0, b1);
        middle.mul_add_assign(a1, b0);
        Leveled {
            parts: vec![product(a0, b0), middle, product(a1, b1)],
            level: a.level,
            factor: t.mul(a.factor, b.factor),
        }
    }

    /// The square, of three parts.
    pub fn square(&self, a: &Leveled<W>) -> Leveled<W> {
        self.multiply(a, a)
    }

    /// Multiplies by a small integer or, at the cost of log2(t) bits of noise, by any residue modulo t.
    pub fn mul_scalar(&self, ciphertext: &mut Leveled<W>, scalar: W) {
        let factors = self.scalar(ciphertext.level, scalar);
        ciphertext.parts.iter_mut().for_each(|part| part.scale(&factors));
    }

    /// The sum of ciphertexts times residues modulo t, as a ciphertext with factor 1: the residues must make up for the
    /// ciphertexts' factors.
    pub fn scalar_sum(&self, terms: &[(&Leveled<W>, W)]) -> Leveled<W> {
        let level = terms[0].0.level;
        assert!(terms.iter().all(|(term, _)| term.level == level && term.parts.len() == 2));
        let scalars: Vec<_> = terms.iter().map(|(_, scalar)| self.scalar(level, *scalar)).collect();
        let parts = [0, 1].map(|part| {
            Poly::build(self.basis(level), |limb, plan, values| {
                let rows: Vec<&[W]> = terms.iter().map(|(term, _)| term.parts[part].limb(limb)).collect();
                let weights: Vec<_> = scalars.iter().map(|scalar| scalar[limb]).collect();
                plan.combine(values, &rows, &weights);
            })
        });
        Leveled { parts: parts.into(), level, factor: self.context().plaintext_plan().modulus().reduce(1) }
    }

    /// Adds the plaintext with these N coefficients modulo t.
    pub fn add_plain(&self, ciphertext: &mut Leveled<W>, coefficients: &[W]) {
        let t = self.context().plaintext_plan().modulus();
        let scaled: Vec<W> = coefficients.iter().map(|&m| t.mul(m, ciphertext.factor)).collect();
        ciphertext.parts[0].add_assign(&self.to_factor(ciphertext.level, &scaled));
    }

    /// Adds a constant, the same in every slot.
    pub fn add_constant(&self, ciphertext: &mut Leveled<W>, constant: W) {
        let t = self.context().plaintext_plan().modulus();
        let factors = self.scalar(ciphertext.level, t.mul(constant, ciphertext.factor));
        // The evaluations of a constant are all equal to it.
        let ones = Poly::<W, Evaluation>::build(self.basis(ciphertext.level), |limb, _, values| {
            values.fill(factors[limb].factor);
        });
        ciphertext.parts[0].add_assign(&ones);
    }

    /// A residue modulo t, as its representative in (-t/2, t/2), modulo each prime of a level.
    fn scalar(&self, level: usize, scalar: W) -> Vec<Multiplier<W>> {
        let signed = self.context().plaintext_plan().modulus().to_signed(scalar);
        let plans = self.basis(level).plans().iter();
        plans.map(|plan| plan.modulus().multiplier(plan.modulus().from_signed(signed))).collect()
    }

    /// Goes down to another level.
    pub fn rescale(&self, ciphertext: &Leveled<W>, level: usize) -> Leveled<W> {
        if level == ciphertext.level {
            return ciphertext.clone();
        }
        let rescaler = self.rescaler(ciphertext.level, level);
        let t = self.context().plaintext_plan().modulus();
        Leveled {
            parts: ciphertext.parts.iter().map(|part| rescaler.rescale(part)).collect(),
            level,
            factor: t.mul(ciphertext.factor, rescaler.factor()),
        }
    }

    /// The number that [`Chain::rescale`] multiplies the factor by.
    pub fn rescaling_factor(&self, from: usize, to: usize) -> W {
        let t = self.context().plaintext_plan().modulus();
        if from == to { t.reduce(1) } else { self.rescaler(from, to).factor() }
    }

    /// Makes two parts of three, with a key from [`KeySwitchingKey::relinearisation`].
    pub fn relinearise(&self, ciphertext: &Leveled<W>, key: &KeySwitchingKey<W>) -> Leveled<W> {
        let Some(square) = ciphertext.parts.get(2) else { return ciphertext.clone() };
        let mut parts: Vec<_> = key.switch_at(self, ciphertext.level, square).into();
        parts.iter_mut().zip(&ciphertext.parts).for_each(|(part, own)| part.add_assign(own));
        Leveled { parts, ..*ciphertext }
    }

    /// [`Chain::relinearise`] and [`Chain::rescale`], with one division for both.
    pub fn relinearise_and_rescale(
        &self,
        ciphertext: &Leveled<W>,
        key: &KeySwitchingKey<W>,
        level: usize,
    ) -> Leveled<W> {
        let Some(square) = ciphertext.parts.get(2) else { return self.rescale(ciphertext, level) };
        let from = self.level(ciphertext.level);
        let rescaler = self.extended_rescaler(ciphertext.level, level);
        let sums = key.products_at(self, ciphertext.level, square);
        let limbs = from.basis.limbs();
        let parts = sums.into_iter().zip(&ciphertext.parts).map(|(mut sum, own)| {
            // P c0 is zero modulo the primes of P.
            let raised = Poly::build(&from.extended, |limb, plan, values| {
                if limb >= limbs {
                    values.fill(W::default());
                } else {
                    values.copy_from_slice(own.limb(limb));
                    plan.scale(values, from.special_product[limb]);
                }
            });
            sum.scale(&from.plaintext);
            sum.add_assign(&raised);
            rescaler.rescale(&sum)
        });
        let t = self.context().plaintext_plan().modulus();
        // The sum was P times the ciphertext.
        let special = &self.context().parameters().special_moduli;
        let factor = special.iter().fold(rescaler.factor(), |f, &p| t.mul(f, t.reduce(p)));
        Leveled { parts: parts.collect(), level, factor: t.mul(ciphertext.factor, factor) }
    }

    /// f(X^g) where the argument encrypts f, with a key for g.
    pub fn rotate(&self, ciphertext: &Leveled<W>, key: &GaloisKey<W>) -> Leveled<W> {
        assert_eq!(ciphertext.parts.len(), 2, "relinearise first");
        let [c0, c1] = [0, 1].map(|part| key.automorphism().apply_evaluation(&ciphertext.parts[part]));
        let [mut d0, d1] = key.key().switch_at(self, ciphertext.level, &c1);
        d0.add_assign(&c0);
        Leveled { parts: vec![d0, d1], ..*ciphertext }
    }

    /// The same plaintext under the target secret of a key from this chain's secret.
    pub fn switch_key(&self, ciphertext: &Leveled<W>, key: &KeySwitchingKey<W>) -> Leveled<W> {
        assert_eq!(ciphertext.parts.len(), 2, "relinearise first");
        let [mut d0, d1] = key.switch_at(self, ciphertext.level, &ciphertext.parts[1]);
        d0.add_assign(&ciphertext.parts[0]);
        Leveled { parts: vec![d0, d1], ..*ciphertext }
    }

    /// log2 of the standard deviation of the phase that rescaling leaves at least.
    pub fn rounding_noise_bits(&self) -> f64 {
        noise::rounding_bits(self.context().degree(), self.context().parameters().plaintext_modulus)
    }
}

/// The noise of a ciphertext, as the secret key shows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhaseNoise {
    /// log2 of the largest coefficient of f m + t e.
    pub max_bits: f64,
    /// log2 of the root of the mean square.
    pub deviation_bits: f64,
    /// log2 of the largest value at a complex root of X^N + 1, over sqrt(N): what squaring squares. With uncorrelated coefficients it is
    /// two bits above the deviation; more of it says that a circuit nears its limit at one root.
    pub root_bits: f64,
    /// log2 of Q/2, where decryption begins to fail.
    pub bound_bits: f64,
}

impl PhaseNoise {
    /// The bits that are left.
    pub fn budget_bits(&self) -> f64 {
        self.bound_bits - self.max_bits
    }
}

impl<W: Word> SecretKey<W> {
    /// The plaintext's N coefficients modulo t, without the ciphertext's factor.
    pub fn decrypt_leveled(&self, chain: &Chain<W>, ciphertext: &Leveled<W>) -> Vec<W> {
        let mut phase = self.phase_at(chain, ciphertext);
        let mut converted = chain.level(ciphertext.level).to_plaintext.convert_centered(&phase);
        phase.zeroize();
        let t = chain.context().plaintext_plan().modulus();
        let inverse = t.multiplier(t.inv(ciphertext.factor));
        let plaintext = converted.limb(0).iter().map(|&residue| inverse.mul(t, residue)).collect();
        converted.zeroize();
        plaintext
    }

    /// The noise of a ciphertext: a tool for tests, like [`SecretKey::noise`].
    pub fn leveled_noise(&self, chain: &Chain<W>, ciphertext: &Leveled<W>) -> PhaseNoise {
        let phase = self.phase_at(chain, ciphertext);
        let (max, deviation) = sizes(&phase);
        PhaseNoise {
            max_bits: max.log2(),
            deviation_bits: deviation.log2(),
            root_bits: largest_at_roots(centered(&phase)).log2(),
            bound_bits: chain.basis(ciphertext.level).log2() - 1.0,
        }
    }

    fn phase_at(&self, chain: &Chain<W>, ciphertext: &Leveled<W>) -> Poly<W, Coefficient> {
        let mut secret = self.over_key_basis().select(&chain.level(ciphertext.level).limbs);
        let mut parts = ciphertext.parts.iter().rev();
        let mut phase = parts.next().cloned().unwrap_or_else(|| Poly::zero(chain.basis(ciphertext.level)));
        for part in parts {
            phase.mul_assign(&secret);
            phase.add_assign(part);
        }
        secret.zeroize();
        phase.into_coefficient()
    }
}

/// The largest |v(zeta)| over the complex roots zeta of X^N + 1, over sqrt(N).
fn largest_at_roots(coefficients: Vec<f64>) -> f64 {
    let degree = coefficients.len();
    let turn = |numerator: usize, denominator: usize| {
        let angle = std::f64::consts::PI * numerator as f64 / denominator as f64;
        (angle.cos(), angle.sin())
    };
    // v(e^(i pi (2k + 1)/N)) is the discrete Fourier transform of v_j e^(i pi j/N).
    let twisted = coefficients.into_iter().enumerate().map(|(j, value)| {
        let (cos, sin) = turn(j, degree);
        (value * cos, value * sin)
    });
    let mut values: Vec<(f64, f64)> = twisted.collect();
    // Decimation in frequency; the order of the results does not matter.
    let mut length = degree;
    while length > 1 {
        let half = length / 2;
        let turns: Vec<_> = (0..half).map(|j| turn(2 * j, length)).collect();
        for block in values.chunks_exact_mut(length) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), (cos, sin)) in low.iter_mut().zip(high).zip(&turns) {
                let difference = (a.0 - b.0, a.1 - b.1);
                *a = (a.0 + b.0, a.1 + b.1);
                *b = (difference.0 * cos - difference.1 * sin, difference.0 * sin + difference.1 * cos);
            }
        }
        length = half;
    }
    let largest = values.iter().fold(0f64, |max, (re, im)| max.max(re.hypot(*im)));
    largest / (degree as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_roots_are_those_of_the_definition() {
        let coefficients: Vec<f64> = (0..64).map(|i| f64::from(i * i * 37 % 101) - 50.0).collect();
        let value = |k: usize| {
            let angle = |j: usize| std::f64::consts::PI * ((2 * k + 1) * j) as f64 / 64.0;
            let parts = coefficients.iter().enumerate();
            let (re, im) =
                parts.fold((0.0, 0.0), |(re, im), (j, v)| (re + v * angle(j).cos(), im + v * angle(j).sin()));
            f64::hypot(re, im)
        };
        let expected = (0..64).map(value).fold(0.0, f64::max) / 8.0;
        assert!((largest_at_roots(coefficients.clone()) / expected - 1.0).abs() < 1e-9);
    }
}
