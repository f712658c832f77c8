//! Parameters and everything that is precomputed from them.

use std::sync::Arc;

use restante_ring::{Backend, BaseConverter, Basis, Divider, Multiplier, NttPlan, Shortener, Word};

use crate::{BfvError, Encoder, max_modulus_bits};

/// Whether parameters must reach 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// [`max_modulus_bits`] is enforced.
    Classical128,
    /// No limit: for tests of large circuits in small rings.
    InsecureForTests,
}

/// A parameter set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// A name for messages.
    pub name: String,
    /// N, a power of two.
    pub degree: usize,
    /// t, a prime that is 1 modulo 2N, so that plaintexts have N slots.
    pub plaintext_modulus: u64,
    /// The primes of Q.
    pub ciphertext_moduli: Vec<u64>,
    /// The primes of P, which key-switching keys have in addition.
    pub special_moduli: Vec<u64>,
    /// The security that the set must have.
    pub security: Security,
}

impl Parameters {
    /// log2(QP), what security depends on.
    pub fn key_modulus_bits(&self) -> f64 {
        self.ciphertext_moduli.iter().chain(&self.special_moduli).map(|&q| (q as f64).log2()).sum()
    }
}

/// A checked parameter set with its precomputation. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Context<W: Word>(Arc<Inner<W>>);

#[derive(Debug)]
struct Inner<W: Word> {
    parameters: Parameters,
    ciphertext: Basis<W>,
    key: Basis<W>,
    encoder: Encoder<W>,
    /// From QP to Q.
    special_divider: Divider<W>,
    /// From Q to t.
    to_plaintext: BaseConverter<W>,
    /// t modulo each prime of Q.
    plaintext_modulus: Vec<Multiplier<W>>,
    shortener: Shortener<W>,
    key_shortener: Shortener<W>,
}

impl<W: Word> Context<W> {
    /// Checks the parameters and precomputes for one back end.
    pub fn new(parameters: Parameters, backend: Backend) -> Result<Self, BfvError> {
        let allowed = max_modulus_bits(parameters.degree);
        let found = parameters.key_modulus_bits();
        if parameters.security == Security::Classical128 && found > f64::from(allowed) {
            let (name, degree) = (parameters.name, parameters.degree);
            return Err(BfvError::Insecure { name, degree, allowed, found });
        }
        let t = parameters.plaintext_modulus;
        let smallest = parameters.ciphertext_moduli.iter().copied().min().unwrap_or(0);
        if t >= smallest {
            return Err(BfvError::PlaintextModulus { found: t, smallest });
        }
        let degree = parameters.degree;
        let ciphertext = Basis::new(&parameters.ciphertext_moduli, degree, backend)?;
        let special = Basis::new(&parameters.special_moduli, degree, backend)?;
        let plaintext = Basis::new(&[t], degree, backend)?;
        let key = ciphertext.join(&special)?;
        Ok(Self(Arc::new(Inner {
            encoder: Encoder::new(&plaintext, &ciphertext),
            special_divider: Divider::new(&ciphertext, &special)?,
            to_plaintext: BaseConverter::new(&ciphertext, &plaintext)?,
            plaintext_modulus: ciphertext
                .plans()
                .iter()
                .map(|plan| plan.modulus().multiplier(plan.modulus().reduce(t)))
                .collect(),
            shortener: Shortener::new(&ciphertext),
            key_shortener: Shortener::new(&key),
            key,
            ciphertext,
            parameters,
        })))
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.0.parameters
    }

    /// N.
    pub fn degree(&self) -> usize {
        self.0.parameters.degree
    }

    /// The primes of Q.
    pub fn ciphertext_basis(&self) -> &Basis<W> {
        &self.0.ciphertext
    }

    /// The primes of Q, then those of P.
    pub fn key_basis(&self) -> &Basis<W> {
        &self.0.key
    }

    /// The transform modulo t.
    pub fn plaintext_plan(&self) -> &NttPlan<W> {
        self.0.encoder.plan()
    }

    pub(crate) fn plaintext_basis(&self) -> &Basis<W> {
        self.0.encoder.basis()
    }

    /// Between slots, coefficients and ciphertext rings.
    pub fn encoder(&self) -> &Encoder<W> {
        &self.0.encoder
    }

    /// Divides by P: from QP to Q.
    pub fn special_divider(&self) -> &Divider<W> {
        &self.0.special_divider
    }

    pub(crate) fn to_plaintext(&self) -> &BaseConverter<W> {
        &self.0.to_plaintext
    }

    pub(crate) fn plaintext_modulus_factors(&self) -> &[Multiplier<W>] {
        &self.0.plaintext_modulus
    }

    /// From Q to the short moduli of digests.
    pub fn shortener(&self) -> &Shortener<W> {
        &self.0.shortener
    }

    /// From QP to the short moduli of digests.
    pub fn key_shortener(&self) -> &Shortener<W> {
        &self.0.key_shortener
    }
}
