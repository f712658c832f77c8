//! The rings of a preset, with everything that querier and responder precompute.

use std::sync::Arc;

use restante_bfv::{Chain, Ciphertext, Context, Leveled, Parameters, ShortModuli};
use restante_ring::{Backend, Evaluation, Modulus, Poly, RingError, primes};

use crate::PirError;
use crate::search::preset::Preset;

/// A preset with its precomputation, for every query of every shape. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Scheme(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    preset: Preset,
    context: Context<u64>,
    /// Of the moduli after the first product: what answers are decrypted and shortened in.
    answers: Context<u64>,
    chain: Chain<u64>,
    short: ShortModuli,
    product_factor: u64,
    answer_factor: u64,
}

impl Scheme {
    /// The level that a query's ciphertexts are at.
    pub(crate) const TOP: usize = 0;
    /// The level that tables and sums are at.
    pub(crate) const INNER: usize = 1;
    /// Digits of the relinearisation key: one for each prime.
    pub(crate) const DIGITS: usize = 4;

    /// Checks the preset and precomputes for one back end.
    ///
    /// # Errors
    ///
    /// [`PirError::Bfv`] if the parameters do not suit each other or are not secure, or the back end is not available.
    pub fn new(preset: Preset, backend: Backend) -> Result<Self, PirError> {
        let mut moduli = Vec::new();
        for bits in preset.inner_bits.into_iter().chain([preset.dropped_bits, preset.special_bits]) {
            moduli.push(next_prime(bits, preset.degree, &moduli)?);
        }
        let parameters = |name: &str, ciphertext: &[u64]| Parameters {
            name: name.into(),
            degree: preset.degree,
            plaintext_modulus: preset.plaintext_modulus(),
            ciphertext_moduli: ciphertext.to_vec(),
            special_moduli: moduli[4..].to_vec(),
            security: preset.security,
        };
        let context = Context::new(parameters(preset.name, &moduli[..4]), backend)?;
        let answers = Context::new(parameters(preset.name, &moduli[..3]), backend)?;
        let chain = Chain::new(&context, &[vec![0, 1, 2, 3], vec![0, 1, 2]], Self::DIGITS)?;
        let t = context.plaintext_plan().modulus();
        let entered = chain.enter(&Ciphertext::zero(&context), Self::TOP).factor();
        let product_factor = t.mul(t.mul(entered, entered), chain.rescaling_factor(Self::TOP, Self::INNER));
        let zero = Poly::<u64, Evaluation>::zero(chain.basis(Self::INNER));
        let sum = Leveled::new(vec![zero.clone(), zero], Self::INNER, t.mul(product_factor, product_factor));
        let (_, answer_factor) = chain.leave(&sum);
        let short = preset.short_moduli()?;
        Ok(Self(Arc::new(Inner { preset, context, answers, chain, short, product_factor, answer_factor })))
    }

    /// The preset.
    pub fn preset(&self) -> &Preset {
        &self.0.preset
    }

    /// The ring that queries are encrypted in, with all its primes.
    pub fn parameters(&self) -> &Parameters {
        self.context().parameters()
    }

    /// The back end.
    pub fn backend(&self) -> Backend {
        self.context().ciphertext_basis().backend()
    }

    pub(crate) fn context(&self) -> &Context<u64> {
        &self.0.context
    }

    pub(crate) fn answers(&self) -> &Context<u64> {
        &self.0.answers
    }

    pub(crate) fn chain(&self) -> &Chain<u64> {
        &self.0.chain
    }

    pub(crate) fn short_moduli(&self) -> ShortModuli {
        self.0.short
    }

    /// Arithmetic modulo t.
    pub(crate) fn plaintext(&self) -> &Modulus<u64> {
        self.0.context.plaintext_plan().modulus()
    }

    /// The factor of the plaintexts of tables: products of two fresh ciphertexts.
    pub(crate) fn product_factor(&self) -> u64 {
        self.0.product_factor
    }

    /// The factor of the plaintexts of answers, modulo t.
    pub(crate) fn answer_factor(&self) -> u64 {
        self.0.answer_factor
    }

    /// Indicators in a ciphertext of a query.
    pub(crate) fn packing(&self) -> usize {
        1 << self.0.preset.packing_bits
    }

    /// g: the automorphism X -> X^g generates those by which a query is expanded.
    pub(crate) fn galois_element(&self) -> u64 {
        let preset = self.preset();
        (preset.degree as u64 >> (preset.packing_bits - 1)) + 1
    }
}

/// The longest prime of so many bits that is not taken.
fn next_prime(bits: u32, degree: usize, taken: &[u64]) -> Result<u64, PirError> {
    let primes = primes::ntt_primes(bits, degree, 1 + taken.iter().filter(|q| q.ilog2() + 1 == bits).count());
    let free = primes.map_err(restante_bfv::BfvError::from)?.into_iter().find(|q| !taken.contains(q));
    Ok(free.ok_or(restante_bfv::BfvError::from(RingError::TooFewPrimes {
        bits,
        order: 2 * degree as u64,
        count: taken.len() + 1,
    }))?)
}
