//! Ciphertexts, and what can be done with them without a key.

use restante_ring::{Coefficient, Evaluation, Form, Poly, Word, sample::Seed};
use restante_wire::{Reader, WireError};

use crate::{
    Context,
    packing::{decode_poly, encode_poly, poly_bytes},
};

/// A ciphertext (c0, c1): c0 + c1 s = Q/t m + noise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ciphertext<W: Word, F: Form> {
    /// The half that holds the message.
    pub c0: Poly<W, F>,
    /// The half that the secret multiplies.
    pub c1: Poly<W, F>,
}

impl<W: Word, F: Form> Ciphertext<W, F> {
    /// The ciphertext (0, 0), which encrypts zero under every key.
    pub fn zero(context: &Context<W>) -> Self {
        Self { c0: Poly::zero(context.ciphertext_basis()), c1: Poly::zero(context.ciphertext_basis()) }
    }

    /// self += other.
    pub fn add_assign(&mut self, other: &Self) {
        self.c0.add_assign(&other.c0);
        self.c1.add_assign(&other.c1);
    }

    /// self -= other.
    pub fn sub_assign(&mut self, other: &Self) {
        self.c0.sub_assign(&other.c0);
        self.c1.sub_assign(&other.c1);
    }

    /// self = -self.
    pub fn negate(&mut self) {
        self.c0.negate();
        self.c1.negate();
    }

    /// Adds a plaintext, given by [`crate::Encoder::to_summand`] in the ciphertext's form.
    pub fn add_plain(&mut self, summand: &Poly<W, F>) {
        self.c0.add_assign(summand);
    }
}

impl<W: Word> Ciphertext<W, Evaluation> {
    /// Multiplies by a plaintext, given by [`crate::Encoder::to_factor`].
    pub fn mul_plain(&mut self, factor: &Poly<W, Evaluation>) {
        self.c0.mul_assign(factor);
        self.c1.mul_assign(factor);
    }

    /// self += ciphertext * factor.
    pub fn mul_plain_add(&mut self, ciphertext: &Self, factor: &Poly<W, Evaluation>) {
        self.c0.mul_add_assign(&ciphertext.c0, factor);
        self.c1.mul_add_assign(&ciphertext.c1, factor);
    }

    /// The same ciphertext by its coefficients.
    pub fn into_coefficient(self) -> Ciphertext<W, Coefficient> {
        Ciphertext { c0: self.c0.into_coefficient(), c1: self.c1.into_coefficient() }
    }
}

impl<W: Word> Ciphertext<W, Coefficient> {
    /// The same ciphertext by its evaluations.
    pub fn into_evaluation(self) -> Ciphertext<W, Evaluation> {
        Ciphertext { c0: self.c0.into_evaluation(), c1: self.c1.into_evaluation() }
    }
}

/// A fresh ciphertext whose c1 is expanded from a seed: half the size, and the same bytes again when saved again.
#[derive(Debug, Clone)]
pub struct SeededCiphertext<W: Word> {
    pub(crate) seed: Seed,
    pub(crate) c0: Poly<W, Evaluation>,
}

impl<W: Word> SeededCiphertext<W> {
    /// c0.
    pub fn first(&self) -> &Poly<W, Evaluation> {
        &self.c0
    }

    /// Expands c1.
    pub fn expand(&self) -> Ciphertext<W, Evaluation> {
        let c1 = uniform(&self.seed, &[], self.c0.basis());
        Ciphertext { c0: self.c0.clone(), c1 }
    }

    /// Bytes of the wire form, without the seed.
    pub fn body_bytes(context: &Context<W>) -> usize {
        poly_bytes(context.ciphertext_basis())
    }

    /// Appends the wire form without the seed, which the enclosing object derives.
    pub fn encode_body(&self, out: &mut Vec<u8>) {
        encode_poly(&self.c0, out);
    }

    /// Reads what [`SeededCiphertext::encode_body`] wrote.
    pub fn decode_body(context: &Context<W>, seed: Seed, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { seed, c0: decode_poly(context.ciphertext_basis(), reader)? })
    }
}

/// The uniform half of a ciphertext or of one row of a key: every limb from a stream of its own.
pub(crate) fn uniform<W: Word>(
    seed: &Seed,
    row: &[u64],
    basis: &restante_ring::Basis<W>,
) -> Poly<W, Evaluation> {
    Poly::from_limbs(basis, |limb, plan, values| {
        let indices: Vec<u64> = row.iter().copied().chain([limb as u64]).collect();
        seed.stream("bfv/uniform", &indices).uniform(plan.modulus(), values);
    })
}
