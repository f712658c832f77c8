//! Chains of moduli: the levels that a deep circuit goes down, each with what key switching needs there.
//!
//! A level is any set of the primes of Q. Going down need not drop whole primes only: a level may bring in a short
//! prime that the one above does not have, so that each step shortens the modulus by just what the circuit needs
//! (Halevi and Shoup, ePrint 2020/1481, section 5).

use std::sync::Arc;

use restante_ring::{BaseConverter, Basis, Divider, Evaluation, Multiplier, Poly, Rescaler, Word};

use crate::{BfvError, Context};

/// The levels of a context, from the longest modulus to the shortest. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Chain<W: Word>(Arc<Inner<W>>);

#[derive(Debug)]
struct Inner<W: Word> {
    context: Context<W>,
    digits: usize,
    levels: Vec<Level<W>>,
}

/// One level.
#[derive(Debug)]
pub(crate) struct Level<W: Word> {
    /// The places of the level's primes in Q.
    pub(crate) limbs: Vec<usize>,
    pub(crate) basis: Basis<W>,
    /// The level's primes, then those of P.
    pub(crate) extended: Basis<W>,
    /// The digits that have primes at this level.
    pub(crate) digits: Vec<LevelDigit<W>>,
    /// Divides by P.
    pub(crate) special: Divider<W>,
    /// t^-1 modulo each prime of the level.
    pub(crate) plaintext_inverses: Vec<Multiplier<W>>,
    /// t modulo each prime of the level, then of P.
    pub(crate) plaintext: Vec<Multiplier<W>>,
    /// P modulo each prime of the level.
    pub(crate) special_product: Vec<Multiplier<W>>,
    /// To the base t.
    pub(crate) to_plaintext: BaseConverter<W>,
}

/// The part of a key-switching digit that a level has.
#[derive(Debug)]
pub(crate) struct LevelDigit<W: Word> {
    /// The row of a key.
    pub(crate) row: usize,
    /// Places in the level.
    pub(crate) own: Vec<usize>,
    /// For each place of the extended basis, where its lifted residues are: a place in `own` or one of the converter's target.
    pub(crate) sources: Vec<Source>,
    /// To all other primes of the extended basis.
    pub(crate) lift: BaseConverter<W>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    Own(usize),
    Lifted(usize),
}

impl<W: Word> Chain<W> {
    /// The levels with the primes of Q at these places, for key-switching keys with that many digits.
    ///
    /// The first level must hold every prime that fresh ciphertexts are made with if they are to enter there.
    pub fn new(context: &Context<W>, levels: &[Vec<usize>], digits: usize) -> Result<Self, BfvError> {
        let q = context.ciphertext_basis();
        if digits == 0 || digits > q.limbs() {
            return Err(BfvError::Digits { digits, limbs: q.limbs() });
        }
        let special = context.key_basis().part(q.limbs()..context.key_basis().limbs());
        let t = context.parameters().plaintext_modulus;
        let levels = levels.iter().map(|limbs| {
            if limbs.is_empty() || limbs.iter().any(|&limb| limb >= q.limbs()) {
                return Err(BfvError::Level { limbs: limbs.clone(), available: q.limbs() });
            }
            let basis = q.select(limbs);
            let extended = basis.join(&special)?;
            let parts = (0..digits).map(|row| (row, digit_range(q.limbs(), digits, row)));
            let parts = parts.filter_map(|(row, range)| {
                let own: Vec<usize> =
                    (0..limbs.len()).filter(|&place| range.contains(&limbs[place])).collect();
                (!own.is_empty()).then_some((row, own))
            });
            let parts = parts.map(|(row, own)| {
                let others: Vec<usize> = (0..extended.limbs()).filter(|place| !own.contains(place)).collect();
                let sources = (0..extended.limbs()).map(|place| match own.iter().position(|&o| o == place) {
                    Some(index) => Source::Own(index),
                    None => Source::Lifted(others.iter().take_while(|&&other| other < place).count()),
                });
                let lift = BaseConverter::new(&basis.select(&own), &extended.select(&others))?;
                Ok(LevelDigit { row, sources: sources.collect(), own, lift })
            });
            let constants = |basis: &Basis<W>, value: &dyn Fn(&restante_ring::Modulus<W>) -> W| {
                basis.plans().iter().map(|p| p.modulus().multiplier(value(p.modulus()))).collect::<Vec<_>>()
            };
            Ok(Level {
                digits: parts.collect::<Result<_, BfvError>>()?,
                special: Divider::new(&basis, &special)?,
                plaintext_inverses: constants(&basis, &|q| q.inv(q.reduce(t))),
                plaintext: constants(&extended, &|q| q.reduce(t)),
                special_product: constants(&basis, &|q| {
                    special.moduli().fold(q.reduce(1), |product, p| q.mul(product, q.reduce(p)))
                }),
                to_plaintext: BaseConverter::new(&basis, context.plaintext_basis())?,
                limbs: limbs.clone(),
                extended,
                basis,
            })
        });
        let levels = levels.collect::<Result<_, BfvError>>()?;
        Ok(Self(Arc::new(Inner { context: context.clone(), digits, levels })))
    }

    /// The context.
    pub fn context(&self) -> &Context<W> {
        &self.0.context
    }

    /// The number of levels.
    pub fn levels(&self) -> usize {
        self.0.levels.len()
    }

    /// The number of digits of its key-switching keys.
    pub fn digits(&self) -> usize {
        self.0.digits
    }

    /// The primes of a level.
    pub fn basis(&self, level: usize) -> &Basis<W> {
        &self.0.levels[level].basis
    }

    pub(crate) fn level(&self, level: usize) -> &Level<W> {
        &self.0.levels[level]
    }

    /// From one level to another, for ciphertexts without anything left over from key switching.
    pub(crate) fn rescaler(&self, from: usize, to: usize) -> Rescaler<W> {
        self.make_rescaler(self.basis(from), to)
    }

    /// From a level's primes and P to another level.
    pub(crate) fn extended_rescaler(&self, from: usize, to: usize) -> Rescaler<W> {
        self.make_rescaler(&self.level(from).extended, to)
    }

    fn make_rescaler(&self, from: &Basis<W>, to: usize) -> Rescaler<W> {
        let t = self.context().plaintext_plan().modulus();
        Rescaler::new(from, self.basis(to), t).expect("levels are distinct sets of a context's primes")
    }

    /// The plaintext with these coefficients modulo t as a factor at one level.
    pub fn to_factor(&self, level: usize, coefficients: &[W]) -> Poly<W, Evaluation> {
        let encoder = self.context().encoder();
        Poly::build(self.basis(level), |_, plan, values| encoder.lift(coefficients, plan, values))
    }
}

/// The primes of Q that digit `index` of `count` has: nearly as many as the others, the first digits one more.
pub(crate) fn digit_range(limbs: usize, count: usize, index: usize) -> std::ops::Range<usize> {
    (index * limbs).div_ceil(count)..((index + 1) * limbs).div_ceil(count)
}
