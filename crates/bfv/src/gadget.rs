//! Automorphisms with little noise where the special modulus must be short: digits finer than a prime.
//!
//! A residue modulo prime q_i of Q is cut into `pieces` signed digits of w_i bits, w_i the least that suffices. Row (i, j) of a key
//! encrypts P 2^(j w_i) g_i s(X^g), where g_i is 1 modulo q_i and 0 modulo the other primes, so that the sum of digits times
//! rows is P c1(X^g) s(X^g) plus noise below 2^w times the error; the division by P takes that down to the size of the rounding
//! error for a P of about w + log2(sqrt(rows)) bits, not one as long as q_i (Bajard, Eynard, Hasan and Zucca, ePrint
//! 2016/510, section 4.1, without a special modulus; Gentry, Halevi and Smart, ePrint 2012/099, section 3.1, for P).

use restante_ring::{Automorphism, Basis, Evaluation, Poly, Word, sample::Seed};
use restante_wire::{Reader, WireError};
use zeroize::Zeroize;

use crate::{
    BfvError, Ciphertext, Context, SecretKey,
    ciphertext::uniform,
    packing::{decode_poly, encode_poly, poly_bytes},
};

/// A key for one automorphism X -> X^g, with several digits for each prime of Q.
#[derive(Debug, Clone)]
pub struct FineGaloisKey<W: Word> {
    context: Context<W>,
    automorphism: Automorphism,
    pieces: u32,
    /// (c0, c1) of each row, over QP: the pieces of the first prime from low to high, those of the second, and so on.
    rows: Vec<[Poly<W, Evaluation>; 2]>,
}

impl<W: Word> FineGaloisKey<W> {
    /// A key for X -> X^`element` with `pieces` digits for each prime of Q.
    ///
    /// `public` becomes part of the key and determines its uniform halves and, with the secret's seed, its errors: see
    /// [`SecretKey::encrypt`]. It must be used for no other element and no other number of pieces.
    pub fn generate(
        secret: &SecretKey<W>,
        element: u64,
        pieces: u32,
        public: &Seed,
    ) -> Result<Self, BfvError> {
        let context = secret.context();
        check_pieces(context, pieces)?;
        let automorphism = Automorphism::new(element, context.degree())?;
        let basis = context.key_basis();
        let mut source = automorphism.apply_evaluation(secret.over_key_basis());
        let rows = (0..rows(context, pieces)).map(|row| {
            let (own, piece) = (row / pieces as usize, row as u32 % pieces);
            let c1 = uniform(public, &[row as u64], basis);
            let mut c0 = c1.clone();
            c0.mul_assign(secret.over_key_basis());
            c0.negate();
            let mut error = Poly::from_signed(basis, &secret.error(public, &[row as u64])).into_evaluation();
            c0.add_assign(&error);
            error.zeroize();
            // The gadget is zero modulo every other prime.
            let plan = &basis.plans()[own];
            let modulus = plan.modulus();
            let shift = piece * digit_bits(modulus.bits(), pieces);
            let factor = context
                .parameters()
                .special_moduli
                .iter()
                .fold(modulus.reduce(1 << shift), |product, &p| modulus.mul(product, modulus.reduce(p)));
            let mut gadget = source.limb(own).to_vec();
            plan.scale(&mut gadget, modulus.multiplier(factor));
            plan.add(c0.limb_mut(own), &gadget);
            gadget.zeroize();
            [c0, c1]
        });
        let rows = rows.collect();
        source.zeroize();
        Ok(Self { context: context.clone(), automorphism, pieces, rows })
    }

    /// A ciphertext of f(X^g), where the argument encrypts f.
    pub fn apply(&self, ciphertext: &Ciphertext<W, Evaluation>) -> Ciphertext<W, Evaluation> {
        let basis = self.context.key_basis();
        let c1 = self.automorphism.apply_coefficient(&ciphertext.c1.clone().into_coefficient());
        let digits: Vec<_> =
            c1.limbs().flat_map(|(plan, residues)| self.cut(plan.modulus(), residues)).collect();
        let digits: Vec<Poly<W, Evaluation>> =
            digits.iter().map(|digit| Poly::from_signed(basis, digit).into_evaluation()).collect();
        let [mut d0, d1] = [0, 1].map(|half| {
            let mut sum = Poly::zero(basis);
            for (digit, row) in digits.iter().zip(&self.rows) {
                sum.mul_add_assign(digit, &row[half]);
            }
            self.context.special_divider().divide_evaluation(&sum)
        });
        d0.add_assign(&self.automorphism.apply_evaluation(&ciphertext.c0));
        Ciphertext { c0: d0, c1: d1 }
    }

    /// The digits of residues modulo one prime of Q, from low to high: each but the last in [-2^(w-1), 2^(w-1)).
    fn cut(&self, modulus: &restante_ring::Modulus<W>, residues: &[W]) -> Vec<Vec<i64>> {
        let bits = digit_bits(modulus.bits(), self.pieces);
        let mut rest: Vec<i64> = residues.iter().map(|&residue| modulus.to_signed(residue)).collect();
        let mut digits = Vec::with_capacity(self.pieces as usize);
        for _ in 1..self.pieces {
            let digit: Vec<i64> = rest.iter().map(|&value| (value << (64 - bits)) >> (64 - bits)).collect();
            rest.iter_mut().zip(&digit).for_each(|(value, digit)| *value = (*value - digit) >> bits);
            digits.push(digit);
        }
        digits.push(rest);
        digits
    }

    /// (c0, c1) of each row: rows of ciphertexts over QP, for tests that look for relations among them.
    pub fn rows(&self) -> &[[Poly<W, Evaluation>; 2]] {
        &self.rows
    }

    /// Bytes of the wire form, without the seed.
    pub fn body_bytes(context: &Context<W>, pieces: u32) -> usize {
        rows(context, pieces) * poly_bytes(context.key_basis())
    }

    /// Appends the wire form without the seed, which the enclosing object derives: c0 of each row.
    pub fn encode_body(&self, out: &mut Vec<u8>) {
        self.rows.iter().for_each(|[c0, _]| encode_poly(c0, out));
    }

    /// Reads a key whose body [`FineGaloisKey::encode_body`] wrote.
    pub fn decode_body(
        context: &Context<W>,
        element: u64,
        pieces: u32,
        seed: &Seed,
        reader: &mut Reader<'_>,
    ) -> Result<Self, BfvError> {
        check_pieces(context, pieces)?;
        let automorphism = Automorphism::new(element, context.degree())?;
        let basis = context.key_basis();
        let rows = (0..rows(context, pieces))
            .map(|row| Ok([decode_poly(basis, reader)?, uniform(seed, &[row as u64], basis)]))
            .collect::<Result<_, WireError>>()?;
        Ok(Self { context: context.clone(), automorphism, pieces, rows })
    }
}

/// w, so that signed digits of w bits make up residues of `bits` bits in (-q/2, q/2).
fn digit_bits(bits: u32, pieces: u32) -> u32 {
    bits.div_ceil(pieces)
}

fn rows<W: Word>(context: &Context<W>, pieces: u32) -> usize {
    context.ciphertext_basis().limbs() * pieces as usize
}

/// Digits must be below every prime, those of P included, and their number within what is useful.
fn check_pieces<W: Word>(context: &Context<W>, pieces: u32) -> Result<(), BfvError> {
    let bits = |basis: &Basis<W>| basis.plans().iter().map(|plan| plan.modulus().bits()).collect::<Vec<_>>();
    let longest = bits(context.ciphertext_basis()).into_iter().max().unwrap_or(0);
    let shortest = bits(context.key_basis()).into_iter().min().unwrap_or(0);
    if pieces == 0 || pieces > longest || digit_bits(longest, pieces) >= shortest {
        return Err(BfvError::Pieces { pieces, longest, shortest });
    }
    Ok(())
}
