//! Secret keys: generation, encryption, decryption.

use restante_ring::{Coefficient, Evaluation, Poly, Word, sample::Seed};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::{
    Ciphertext, Context, ERROR, SeededCiphertext,
    ciphertext::uniform,
    security::{ERROR_PURPOSE, SECRET_PURPOSE},
};

/// A uniform ternary secret s.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct SecretKey<W: Word> {
    #[zeroize(skip)]
    context: Context<W>,
    coefficients: Vec<i64>,
    /// s over QP.
    key: Poly<W, Evaluation>,
    /// s over Q.
    ciphertext: Poly<W, Evaluation>,
    /// Where errors come from: a stream for each thing that is encrypted.
    errors: Seed,
}

impl<W: Word> SecretKey<W> {
    /// The secret key that a seed determines.
    ///
    /// Two contexts never share a secret, nor an error, even under one seed: see [`SecretKey::over`] for one secret in
    /// several.
    pub fn generate(context: &Context<W>, seed: &Seed) -> Self {
        let mut coefficients = vec![0; context.degree()];
        seed.stream(SECRET_PURPOSE, &place(context)).ternary(&mut coefficients);
        Self::from_coefficients(context, coefficients, seed)
    }

    /// The same secret over another context of the same degree, with errors of its own.
    pub fn over(&self, context: &Context<W>) -> Self {
        assert_eq!(context.degree(), self.context.degree(), "one secret has one degree");
        Self::from_coefficients(context, self.coefficients.clone(), &self.errors)
    }

    /// The secret s(X^d) of a ring whose degree is d times that of `small`'s: a secret of the small ring that the large
    /// one's ciphertexts can be switched to. Its errors are its own.
    pub fn embed(context: &Context<W>, small: &Self) -> Self {
        let (degree, least) = (context.degree(), small.coefficients.len());
        assert!(degree >= least, "a ring of degree {least} is not part of one of degree {degree}");
        let spread = degree / least;
        let mut coefficients = vec![0; degree];
        for (index, &value) in small.coefficients.iter().enumerate() {
            coefficients[index * spread] = value;
        }
        Self::from_coefficients(context, coefficients, &small.errors)
    }

    fn from_coefficients(context: &Context<W>, coefficients: Vec<i64>, seed: &Seed) -> Self {
        let key = Poly::from_signed(context.key_basis(), &coefficients).into_evaluation();
        let ciphertext = key.part(0..context.ciphertext_basis().limbs());
        let errors = seed.derive("bfv/errors", &place(context));
        Self { context: context.clone(), coefficients, key, ciphertext, errors }
    }

    /// The context that the key was made for.
    pub fn context(&self) -> &Context<W> {
        &self.context
    }

    /// The N coefficients of s, in {-1, 0, 1}.
    pub fn coefficients(&self) -> &[i64] {
        &self.coefficients
    }

    /// s over QP.
    pub(crate) fn over_key_basis(&self) -> &Poly<W, Evaluation> {
        &self.key
    }

    /// Encrypts the plaintext with these N coefficients modulo t.
    ///
    /// `public` becomes part of the ciphertext and determines c1 and, with the key's own seed, the error, so that the
    /// same call gives the same ciphertext. It must be used for no other plaintext: two ciphertexts with one `public`
    /// give away the difference of their plaintexts. A fresh random seed will do, or one that is derived from all that
    /// is encrypted.
    pub fn encrypt(&self, public: Seed, coefficients: &[W]) -> SeededCiphertext<W> {
        let basis = self.context.ciphertext_basis();
        let mut c0 = uniform(&public, &[], basis);
        c0.mul_assign(&self.ciphertext);
        c0.negate();
        let mut message = self.context.encoder().to_summand(coefficients);
        let mut error = Poly::from_signed(basis, &self.error(&public, &[]));
        message.add_assign(&error);
        // With the error, c0 and c1 give s.
        error.zeroize();
        let mut message = message.into_evaluation();
        c0.add_assign(&message);
        message.zeroize();
        SeededCiphertext { seed: public, c0 }
    }

    /// Fresh errors for one row of one object, which its public seed names.
    pub(crate) fn error(&self, public: &Seed, row: &[u64]) -> Zeroizing<Vec<i64>> {
        let mut error = Zeroizing::new(vec![0; self.context.degree()]);
        let object = self.errors.derive("bfv/object", &words(public));
        object.stream(ERROR_PURPOSE, row).gaussian(ERROR, &mut error);
        error
    }

    /// The plaintext's N coefficients modulo t.
    pub fn decrypt(&self, ciphertext: &Ciphertext<W, Evaluation>) -> Vec<W> {
        // With t x = Q m + r and r in (-Q/2, Q/2): m = -r Q^-1 modulo t.
        let mut remainder = self.scaled_phase(ciphertext);
        let mut converted = self.context.to_plaintext().convert_centered(&remainder);
        remainder.zeroize();
        let t = self.context.plaintext_plan().modulus();
        let product = self.context.ciphertext_basis().product_modulo(t);
        let factor = t.multiplier(t.neg(t.inv(product)));
        let plaintext = converted.limb(0).iter().map(|&residue| factor.mul(t, residue)).collect();
        converted.zeroize();
        plaintext
    }

    /// How much noise a ciphertext carries. A tool for tests and for choosing parameters: what it reports must not
    /// influence anything that others see.
    pub fn noise(&self, ciphertext: &Ciphertext<W, Evaluation>) -> Noise {
        let remainder = self.scaled_phase(ciphertext);
        let (max, deviation) = sizes(&remainder);
        let t_bits = (self.context.parameters().plaintext_modulus as f64).log2();
        let bound_bits = self.context.ciphertext_basis().log2() - 1.0 - t_bits;
        Noise { max_bits: max.log2() - t_bits, deviation_bits: deviation.log2() - t_bits, bound_bits }
    }

    /// t (c0 + c1 s) modulo Q.
    fn scaled_phase(&self, ciphertext: &Ciphertext<W, Evaluation>) -> Poly<W, Coefficient> {
        let mut phase = ciphertext.c0.clone();
        phase.mul_add_assign(&ciphertext.c1, &self.ciphertext);
        let mut phase = phase.into_coefficient();
        phase.scale(self.context.plaintext_modulus_factors());
        phase
    }
}

impl<W: Word> std::fmt::Debug for SecretKey<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretKey").finish_non_exhaustive()
    }
}

/// The noise of a ciphertext: the distance of c0 + c1 s from Q/t m.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// log2 of the largest coefficient.
    pub max_bits: f64,
    /// log2 of the root of the mean square.
    pub deviation_bits: f64,
    /// log2 of Q/2t, where decryption begins to fail.
    pub bound_bits: f64,
}

impl Noise {
    /// The bits that are left: the noise budget.
    pub fn budget_bits(&self) -> f64 {
        self.bound_bits - self.max_bits
    }
}

/// A context's identity, as indices of a stream.
fn place<W: Word>(context: &Context<W>) -> Vec<u64> {
    let parameters = context.parameters();
    [context.degree() as u64, parameters.plaintext_modulus]
        .into_iter()
        .chain(context.key_basis().moduli())
        .chain([parameters.ciphertext_moduli.len() as u64])
        .collect()
}

/// A seed as indices of a stream.
fn words(seed: &Seed) -> Vec<u64> {
    let words = seed.as_bytes().chunks_exact(8);
    words.map(|bytes| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))).collect()
}

/// The largest magnitude of a coefficient's representative in (-Q/2, Q/2), and the root of the mean square.
pub(crate) fn sizes<W: Word>(poly: &Poly<W, Coefficient>) -> (f64, f64) {
    let values = centered(poly);
    let max = values.iter().fold(0f64, |max, value| max.max(value.abs()));
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (max, (squares / values.len() as f64).sqrt())
}

/// The representatives in (-Q/2, Q/2), rounded.
pub(crate) fn centered<W: Word>(poly: &Poly<W, Coefficient>) -> Vec<f64> {
    let mut opposite = poly.clone();
    opposite.negate();
    magnitudes(poly).zip(magnitudes(&opposite)).map(|(x, y)| if x <= y { x } else { -y }).collect()
}

/// The representative in [0, Q) of each coefficient, rounded to a floating-point number, by Garner's algorithm: exact
/// digits in mixed radix, so that small values come out small however large Q is.
fn magnitudes<W: Word>(poly: &Poly<W, Coefficient>) -> impl Iterator<Item = f64> + '_ {
    // For each prime, the products of the first 0, 1, ... primes before it, and the inverse of the product of all of those.
    let tables: Vec<(Vec<W>, W)> = (0..poly.basis().limbs())
        .map(|limb| {
            let modulus = poly.basis().plans()[limb].modulus();
            let mut weights = vec![modulus.reduce(1)];
            for q in poly.basis().moduli().take(limb) {
                weights.push(modulus.mul(weights[weights.len() - 1], modulus.reduce(q)));
            }
            let inverse = modulus.inv(weights[limb]);
            (weights, inverse)
        })
        .collect();
    (0..poly.basis().degree()).map(move |place| {
        let mut digits: Vec<u64> = Vec::with_capacity(poly.basis().limbs());
        for ((plan, values), (weights, inverse)) in poly.limbs().zip(&tables) {
            let modulus = plan.modulus();
            let known = digits.iter().zip(weights).fold(W::default(), |known, (&digit, &weight)| {
                modulus.add(known, modulus.mul(modulus.reduce(digit), weight))
            });
            digits.push(modulus.mul(modulus.sub(values[place], known), *inverse).into());
        }
        let digits = digits.iter().zip(poly.basis().moduli()).rev();
        digits.fold(0.0, |value, (&digit, q)| value * q as f64 + digit as f64)
    })
}
