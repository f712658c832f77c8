//! Hybrid key switching (Han and Ki, ePrint 2019/688, section 3): from a ciphertext part that another secret s'
//! multiplies to a ciphertext under s.
//!
//! The primes of Q are split into `digits` consecutive groups with products Q_j. Row j of a key encrypts P g_j s',
//! where g_j is 1 modulo the primes of group j and 0 modulo the others. A polynomial c is lifted from each group to
//! QP, as its representative d_j in (-Q_j/2, Q_j/2); the sum of d_j times row j is P c s' plus noise below about
//! sum of Q_j times the error, and the division by P takes that back to the size of the rounding error.

use std::sync::OnceLock;

use restante_ring::{BaseConverter, Coefficient, Evaluation, Multiplier, Poly, Word, sample::Seed};
use restante_wire::{Reader, WireError};
use zeroize::Zeroize;

use crate::{
    BfvError, Chain, Ciphertext, Context, SecretKey,
    chain::{Source, digit_range},
    ciphertext::uniform,
    packing::{decode_poly, encode_poly, poly_bytes},
};

/// A key that switches from one secret to another.
#[derive(Debug, Clone)]
pub struct KeySwitchingKey<W: Word> {
    context: Context<W>,
    seed: Seed,
    digits: Vec<Digit<W>>,
    rows: Vec<Row<W>>,
}

/// A row, over QP.
#[derive(Debug, Clone)]
struct Row<W: Word> {
    c0: Poly<W, Evaluation>,
    /// Uniform: made from the seed when it is needed. Many keys with the same seed need it once for all of them.
    c1: OnceLock<Poly<W, Evaluation>>,
}

/// A group of the primes of Q.
#[derive(Debug, Clone)]
struct Digit<W: Word> {
    limbs: std::ops::Range<usize>,
    /// To every other prime of QP, in order.
    lift: BaseConverter<W>,
}

/// A polynomial cut into digits over QP: what switching and hoisted rotations start from.
#[derive(Debug, Clone)]
pub struct Decomposition<W: Word> {
    digits: Vec<Poly<W, Evaluation>>,
}

impl<W: Word> KeySwitchingKey<W> {
    /// A key from `source` (s' over QP, in evaluation form) to `secret`.
    ///
    /// `digits`, from 1 to the number of ciphertext moduli, trades size and time for noise. `public` becomes part of
    /// the key and determines its uniform halves and, with the secret's seed, its errors: see [`SecretKey::encrypt`]. It
    /// must be used for no other source and no other number of digits.
    pub fn generate(
        secret: &SecretKey<W>,
        source: &Poly<W, Evaluation>,
        digits: usize,
        public: Seed,
    ) -> Result<Self, BfvError> {
        let context = secret.context();
        let basis = context.key_basis();
        let digits = split(context, digits)?;
        let special: Vec<u64> = context.parameters().special_moduli.clone();
        let rows = digits.iter().enumerate().map(|(index, digit)| {
            let row = [index as u64];
            let c1 = uniform(&public, &row, basis);
            let mut c0 = c1.clone();
            c0.mul_assign(secret.over_key_basis());
            c0.negate();
            let mut error = Poly::from_signed(basis, &secret.error(&public, &row)).into_evaluation();
            c0.add_assign(&error);
            error.zeroize();
            let mut gadget = source.clone();
            let factors: Vec<Multiplier<W>> = basis
                .plans()
                .iter()
                .enumerate()
                .map(|(limb, plan)| {
                    let modulus = plan.modulus();
                    let one = modulus.reduce(u64::from(digit.limbs.contains(&limb)));
                    let product =
                        special.iter().fold(one, |product, &p| modulus.mul(product, modulus.reduce(p)));
                    modulus.multiplier(product)
                })
                .collect();
            gadget.scale(&factors);
            c0.add_assign(&gadget);
            gadget.zeroize();
            Row { c0, c1: c1.into() }
        });
        let rows = rows.collect();
        Ok(Self { context: context.clone(), seed: public, digits, rows })
    }

    /// A key that takes s^2 to s: see [`Chain::relinearise`].
    pub fn relinearisation(secret: &SecretKey<W>, digits: usize, public: Seed) -> Result<Self, BfvError> {
        let mut square = secret.over_key_basis().clone();
        square.mul_assign(secret.over_key_basis());
        let key = Self::generate(secret, &square, digits, public);
        square.zeroize();
        key
    }

    /// A key from one secret to another of the same context.
    pub fn generate_to(
        source: &SecretKey<W>,
        target: &SecretKey<W>,
        digits: usize,
        public: Seed,
    ) -> Result<Self, BfvError> {
        Self::generate(target, source.over_key_basis(), digits, public)
    }

    /// Number of rows.
    pub fn digits(&self) -> usize {
        self.digits.len()
    }

    /// c0 of each row, over QP.
    pub fn first_halves(&self) -> impl ExactSizeIterator<Item = &Poly<W, Evaluation>> {
        self.rows.iter().map(|row| &row.c0)
    }

    /// (c0, c1) of each row: rows of ciphertexts over QP.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = [&Poly<W, Evaluation>; 2]> {
        (0..self.rows.len()).map(|row| [0, 1].map(|half| self.half(row, half)))
    }

    fn half(&self, row: usize, half: usize) -> &Poly<W, Evaluation> {
        let Row { c0, c1 } = &self.rows[row];
        if half == 0 {
            return c0;
        }
        c1.get().unwrap_or_else(|| {
            // Outside of the cell: a thread that waits for others' work may take up work that needs the same half.
            let made = uniform(&self.seed, &[row as u64], self.context.key_basis());
            c1.get_or_init(|| made)
        })
    }

    /// Cuts a polynomial into this key's digits.
    pub fn decompose(&self, poly: &Poly<W, Coefficient>) -> Decomposition<W> {
        let basis = self.context.key_basis();
        let digits = self.digits.iter().map(|digit| {
            let part = poly.part(digit.limbs.clone());
            let lifted = digit.lift.convert_centered(&part);
            let (own, start) = (digit.limbs.len(), digit.limbs.start);
            let all = Poly::<W, Coefficient>::from_limbs(basis, |limb, _, values| {
                values.copy_from_slice(if limb < start {
                    lifted.limb(limb)
                } else if limb < start + own {
                    part.limb(limb - start)
                } else {
                    lifted.limb(limb - own)
                });
            });
            all.into_evaluation()
        });
        Decomposition { digits: digits.collect() }
    }

    /// A ciphertext (c0, c1) with c0 + c1 s = c s' + noise, where c is what was decomposed by this key or by one with
    /// as many digits.
    pub fn switch(&self, decomposition: &Decomposition<W>) -> Ciphertext<W, Evaluation> {
        assert_eq!(decomposition.digits.len(), self.rows.len(), "decomposed for another number of digits");
        Ciphertext { c0: self.switch_half(decomposition, 0), c1: self.switch_half(decomposition, 1) }
    }

    /// c0 (`half` 0) or c1 (`half` 1) of [`KeySwitchingKey::switch`] alone. c1 does not depend on the secret.
    pub fn switch_half(&self, decomposition: &Decomposition<W>, half: usize) -> Poly<W, Evaluation> {
        assert_eq!(decomposition.digits.len(), self.rows.len(), "decomposed for another number of digits");
        let sum = Poly::build(self.context.key_basis(), |limb, plan, sum| {
            for (index, digit) in decomposition.digits.iter().enumerate() {
                let row = self.half(index, half).limb(limb);
                if index == 0 {
                    sum.copy_from_slice(digit.limb(limb));
                    plan.mul(sum, row);
                } else {
                    plan.mul_add(sum, digit.limb(limb), row);
                }
            }
        });
        self.context.special_divider().divide_evaluation(&sum)
    }

    /// At a level: (d0, d1) with d0 + d1 s = c s' + t e, for a chain of this key's context and number of digits.
    ///
    /// The digits are those of t^-1 c, so that what is switched with errors e comes out, times t, with errors t e.
    pub(crate) fn switch_at(
        &self,
        chain: &Chain<W>,
        level: usize,
        poly: &Poly<W, Evaluation>,
    ) -> [Poly<W, Evaluation>; 2] {
        let tables = chain.level(level);
        let limbs = tables.basis.limbs();
        self.products_at(chain, level, poly).map(|sum| {
            let mut quotient = tables.special.divide_evaluation(&sum);
            quotient.scale(&tables.plaintext[..limbs]);
            quotient
        })
    }

    /// The same before the division by P and the multiplication by t, over the primes of the level and of P.
    pub(crate) fn products_at(
        &self,
        chain: &Chain<W>,
        level: usize,
        poly: &Poly<W, Evaluation>,
    ) -> [Poly<W, Evaluation>; 2] {
        assert_eq!(chain.digits(), self.rows.len(), "a chain for another number of digits");
        let tables = chain.level(level);
        assert!(*poly.basis() == tables.basis && *chain.context().key_basis() == *self.context.key_basis());
        let mut evaluated = poly.clone();
        evaluated.scale(&tables.plaintext_inverses);
        let coefficients = evaluated.clone().into_coefficient();
        let lifted: Vec<_> = tables
            .digits
            .iter()
            .map(|digit| digit.lift.convert_centered(&coefficients.select(&digit.own)).into_evaluation())
            .collect();
        let (limbs, all) = (tables.basis.limbs(), chain.context().ciphertext_basis().limbs());
        [0, 1].map(|half| {
            Poly::build(&tables.extended, |limb, plan, sum| {
                let place = if limb < limbs { tables.limbs[limb] } else { all + limb - limbs };
                for (index, (digit, lifted)) in tables.digits.iter().zip(&lifted).enumerate() {
                    let values = match digit.sources[limb] {
                        Source::Own(index) => evaluated.limb(digit.own[index]),
                        Source::Lifted(index) => lifted.limb(index),
                    };
                    let row = self.half(digit.row, half).limb(place);
                    if index == 0 {
                        sum.copy_from_slice(values);
                        plan.mul(sum, row);
                    } else {
                        plan.mul_add(sum, values, row);
                    }
                }
            })
        })
    }

    /// Bytes of the wire form, without the seed.
    pub fn body_bytes(context: &Context<W>, digits: usize) -> usize {
        digits * poly_bytes(context.key_basis())
    }

    /// Appends the wire form without the seed, which the enclosing object derives: c0 of each row.
    pub fn encode_body(&self, out: &mut Vec<u8>) {
        self.first_halves().for_each(|c0| encode_poly(c0, out));
    }

    /// Reads what [`KeySwitchingKey::encode_body`] wrote.
    pub fn decode_body(
        context: &Context<W>,
        digits: usize,
        seed: Seed,
        reader: &mut Reader<'_>,
    ) -> Result<Self, BfvError> {
        let basis = context.key_basis();
        let digits = split(context, digits)?;
        let rows = digits.iter().map(|_| Ok(Row { c0: decode_poly(basis, reader)?, c1: OnceLock::new() }));
        let rows = rows.collect::<Result<_, WireError>>()?;
        Ok(Self { context: context.clone(), seed, digits, rows })
    }

    /// The seed that the uniform halves come from.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }
}

impl<W: Word> Decomposition<W> {
    /// The digits, over QP: what the rows of a key are multiplied by.
    pub fn digits(&self) -> &[Poly<W, Evaluation>] {
        &self.digits
    }

    /// Applies a map of evaluations to every digit: hoisting, since automorphisms permute evaluations and keep digits
    /// small.
    pub(crate) fn map(&self, apply: impl Fn(&Poly<W, Evaluation>) -> Poly<W, Evaluation>) -> Self {
        Self { digits: self.digits.iter().map(apply).collect() }
    }
}

/// The primes of Q in `count` groups of nearly equal size.
fn split<W: Word>(context: &Context<W>, count: usize) -> Result<Vec<Digit<W>>, BfvError> {
    let (key, limbs) = (context.key_basis(), context.ciphertext_basis().limbs());
    if count == 0 || count > limbs {
        return Err(BfvError::Digits { digits: count, limbs });
    }
    (0..count)
        .map(|index| {
            let range = digit_range(limbs, count, index);
            let after = key.part(range.end..key.limbs());
            let others = if range.start == 0 { after } else { key.part(0..range.start).join(&after)? };
            Ok(Digit { lift: BaseConverter::new(&key.part(range.clone()), &others)?, limbs: range })
        })
        .collect()
}
