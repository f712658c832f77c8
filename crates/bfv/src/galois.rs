//! Slot rotations: automorphisms of the ciphertext ring followed by key switching.

use restante_ring::{Automorphism, Evaluation, Poly, Word, sample::Seed};
use restante_wire::Reader;
use zeroize::Zeroize;

use crate::{BfvError, Ciphertext, Context, Decomposition, KeySwitchingKey, SecretKey};

/// A key for one automorphism X -> X^g.
#[derive(Debug, Clone)]
pub struct GaloisKey<W: Word> {
    automorphism: Automorphism,
    key: KeySwitchingKey<W>,
}

impl<W: Word> GaloisKey<W> {
    /// The Galois element that rotates both rows of slots to the left by `columns`.
    pub fn rotation_element(degree: usize, columns: usize) -> u64 {
        let order = 2 * degree as u64;
        (0..columns % (degree / 2)).fold(1, |power, _| power * 3 % order)
    }

    /// The Galois element that swaps the rows of slots.
    pub fn row_swap_element(degree: usize) -> u64 {
        2 * degree as u64 - 1
    }

    /// A key for X -> X^`element`; see [`KeySwitchingKey::generate`] for `digits` and `public`.
    pub fn generate(
        secret: &SecretKey<W>,
        element: u64,
        digits: usize,
        public: Seed,
    ) -> Result<Self, BfvError> {
        let automorphism = Automorphism::new(element, secret.context().degree())?;
        let mut source = automorphism.apply_evaluation(secret.over_key_basis());
        let key = KeySwitchingKey::generate(secret, &source, digits, public);
        source.zeroize();
        Ok(Self { key: key?, automorphism })
    }

    /// Encrypts f(X^g) where the argument encrypts f.
    pub fn apply(&self, ciphertext: &Ciphertext<W, Evaluation>) -> Ciphertext<W, Evaluation> {
        let digits = self.digits(&ciphertext.c1);
        Ciphertext { c0: self.apply_first(&ciphertext.c0, &digits), c1: self.apply_second(&digits) }
    }

    /// The digits that [`GaloisKey::apply`] takes from a ciphertext's c1.
    pub fn digits(&self, c1: &Poly<W, Evaluation>) -> Decomposition<W> {
        // Rotated before it is cut into digits, so that there is less to rotate.
        self.key.decompose(&self.automorphism.apply_evaluation(c1).into_coefficient())
    }

    /// c0 of [`GaloisKey::apply`], from c0 and the digits of c1.
    pub fn apply_first(&self, c0: &Poly<W, Evaluation>, digits: &Decomposition<W>) -> Poly<W, Evaluation> {
        let mut result = self.key.switch_half(digits, 0);
        result.add_assign(&self.automorphism.apply_evaluation(c0));
        result
    }

    /// c1 of [`GaloisKey::apply`], from the digits of c1: the same for all keys with the same uniform halves.
    pub fn apply_second(&self, digits: &Decomposition<W>) -> Poly<W, Evaluation> {
        self.key.switch_half(digits, 1)
    }

    /// The costly part of [`GaloisKey::apply`] that does not depend on the automorphism: compute it once for all
    /// rotations of one ciphertext.
    pub fn decompose(&self, ciphertext: &Ciphertext<W, Evaluation>) -> Decomposition<W> {
        self.key.decompose(&ciphertext.c1.clone().into_coefficient())
    }

    /// [`GaloisKey::apply`] with the decomposition of the ciphertext, made by any Galois key with as many digits.
    pub fn apply_hoisted(
        &self,
        ciphertext: &Ciphertext<W, Evaluation>,
        decomposition: &Decomposition<W>,
    ) -> Ciphertext<W, Evaluation> {
        let rotated = decomposition.map(|digit| self.automorphism.apply_evaluation(digit));
        let mut result = self.key.switch(&rotated);
        result.c0.add_assign(&self.automorphism.apply_evaluation(&ciphertext.c0));
        result
    }

    /// The automorphism.
    pub fn automorphism(&self) -> &Automorphism {
        &self.automorphism
    }

    /// The key-switching key, for its wire form and its rows.
    pub fn key(&self) -> &KeySwitchingKey<W> {
        &self.key
    }

    /// Reads a key whose body [`KeySwitchingKey::encode_body`] wrote.
    pub fn decode_body(
        context: &Context<W>,
        element: u64,
        digits: usize,
        seed: Seed,
        reader: &mut Reader<'_>,
    ) -> Result<Self, BfvError> {
        let automorphism = Automorphism::new(element, context.degree())?;
        Ok(Self { key: KeySwitchingKey::decode_body(context, digits, seed, reader)?, automorphism })
    }
}
