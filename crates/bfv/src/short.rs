//! Ciphertexts for the wire, switched to short power-of-two moduli.
//!
//! Decryption of (c0, c1) modulo (2^w0, 2^w1) computes t (c0/2^w0 + c1 s/2^w1) and rounds. Rounding c0 to w0 bits
//! adds an error of standard deviation t/(2^w0 sqrt 12); rounding c1 adds that of t/(2^w1 sqrt 12) times the length of
//! s, about sqrt(2N/3). So c0 may be shorter than c1 by half of log2(2N/3) bits for the same share of the error.

use std::sync::Arc;

use restante_ring::{Coefficient, NttPlan, RingError, Word, primes::ntt_primes};
use restante_wire::{BitReader, BitWriter, Reader, WireError, packed_bytes};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::{BfvError, Ciphertext, Context, SecretKey};

/// The lengths of the two halves, in bits per coefficient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortModuli {
    c0_bits: u32,
    c1_bits: u32,
}

impl ShortModuli {
    /// w0 and w1, with 1 <= w0 <= w1 <= 48.
    pub fn new(c0_bits: u32, c1_bits: u32) -> Result<Self, BfvError> {
        if !(1..=c1_bits).contains(&c0_bits) || c1_bits > 48 {
            return Err(BfvError::ShortModuli { c0_bits, c1_bits });
        }
        Ok(Self { c0_bits, c1_bits })
    }

    /// w0.
    pub fn c0_bits(&self) -> u32 {
        self.c0_bits
    }

    /// w1.
    pub fn c1_bits(&self) -> u32 {
        self.c1_bits
    }

    /// Bytes of a ciphertext of this length.
    pub fn ciphertext_bytes(&self, degree: usize) -> usize {
        packed_bytes(degree, self.c0_bits) + packed_bytes(degree, self.c1_bits)
    }

    /// The standard deviation that the rounding to these moduli adds to t (c0 + c1 s)/Q, before it is rounded to the
    /// plaintext; decryption fails where the whole deviation reaches 1/2.
    pub fn rounding_deviation(&self, degree: usize, plaintext_modulus: u64) -> f64 {
        let t = plaintext_modulus as f64;
        let c0 = t / 2f64.powi(self.c0_bits as i32);
        let c1 = t / 2f64.powi(self.c1_bits as i32);
        ((c0 * c0 + c1 * c1 * (2.0 * degree as f64 / 3.0)) / 12.0).sqrt()
    }
}

/// A ciphertext by its coefficients modulo 2^w0 and 2^w1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortCiphertext {
    c0: Vec<u64>,
    /// Recipients may have it in common.
    c1: Arc<Vec<u64>>,
}

impl ShortCiphertext {
    /// Switches a ciphertext down, rounding.
    pub fn new<W: Word>(
        context: &Context<W>,
        ciphertext: &Ciphertext<W, Coefficient>,
        moduli: ShortModuli,
    ) -> Self {
        let shortener = context.shortener();
        Self {
            c0: shortener.shorten(&ciphertext.c0, moduli.c0_bits),
            c1: Arc::new(shortener.shorten(&ciphertext.c1, moduli.c1_bits)),
        }
    }

    /// A ciphertext of its coefficients: those of c0 below 2^w0, those of c1 below 2^w1.
    pub fn from_halves(c0: Vec<u64>, c1: Arc<Vec<u64>>) -> Self {
        assert_eq!(c0.len(), c1.len(), "halves of one degree");
        Self { c0, c1 }
    }

    /// Appends the wire form: c0, then c1, packed.
    pub fn encode(&self, moduli: ShortModuli, out: &mut Vec<u8>) {
        for (half, bits) in [(&self.c0, moduli.c0_bits), (&*self.c1, moduli.c1_bits)] {
            let mut writer = BitWriter::new(out);
            half.iter().for_each(|&value| writer.write(value, bits));
            writer.finish();
        }
    }

    /// Reads a ciphertext of `degree` coefficients.
    pub fn decode(degree: usize, moduli: ShortModuli, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut half = |bits| {
            let mut packed = BitReader::new(reader, degree, bits)?;
            let values = (0..degree).map(|_| packed.read(bits)).collect();
            packed.finish().map(|()| values)
        };
        Ok(Self { c0: half(moduli.c0_bits)?, c1: Arc::new(half(moduli.c1_bits)?) })
    }
}

/// A secret key ready to decrypt short ciphertexts.
///
/// c1 s is computed over the integers: with c1 in [-2^31, 2^31) its coefficients are below N 2^31 in magnitude, which one
/// prime of 50 bits holds. A longer c1 is cut in two.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct ShortDecryptor {
    #[zeroize(skip)]
    plan: NttPlan<u64>,
    #[zeroize(skip)]
    plaintext_modulus: u64,
    secret: Vec<u64>,
}

impl ShortDecryptor {
    /// Prepares a secret key.
    pub fn new<W: Word>(secret: &SecretKey<W>) -> Result<Self, RingError> {
        let context = secret.context();
        let degree = context.degree();
        let prime = ntt_primes(50, degree, 1)?[0];
        let plan = NttPlan::with_backend(prime, degree, context.ciphertext_basis().backend())?;
        let mut evaluated: Vec<u64> =
            secret.coefficients().iter().map(|&value| plan.modulus().from_signed(value)).collect();
        plan.forward(&mut evaluated);
        Ok(Self { plan, plaintext_modulus: context.parameters().plaintext_modulus, secret: evaluated })
    }

    /// The product with s over the integers, for small coefficients.
    fn times_secret(&self, coefficients: impl Iterator<Item = i64>) -> Zeroizing<Vec<i64>> {
        let modulus = self.plan.modulus();
        let mut product: Zeroizing<Vec<u64>> =
            Zeroizing::new(coefficients.map(|value| modulus.from_signed(value)).collect());
        self.plan.forward(&mut product);
        for (value, &secret) in product.iter_mut().zip(&self.secret) {
            *value = modulus.mul(*value, secret);
        }
        self.plan.inverse(&mut product);
        Zeroizing::new(product.iter().map(|&value| modulus.to_signed(value)).collect())
    }

    /// The plaintext's coefficients modulo t, and how far they were from being integers.
    pub fn decrypt(&self, ciphertext: &ShortCiphertext, moduli: ShortModuli) -> ShortPlaintext {
        let ShortModuli { c0_bits, c1_bits } = moduli;
        // c1 = low + 2^32 high, both signed, modulo 2^w1.
        let low_bits = c1_bits.min(32);
        let signed = |value: u64, bits: u32| ((value << (64 - bits)) as i64) >> (64 - bits);
        let mut product = self.times_secret(ciphertext.c1.iter().map(|&c1| signed(c1, low_bits)));
        if c1_bits > low_bits {
            let highs = ciphertext.c1.iter().map(|&c1| {
                signed(c1.wrapping_sub(signed(c1, low_bits) as u64) >> low_bits, c1_bits - low_bits)
            });
            let high = self.times_secret(highs);
            product.iter_mut().zip(high.iter()).for_each(|(low, high)| *low += high << low_bits);
        }
        let mask = (1u64 << c1_bits) - 1;
        let t = self.plaintext_modulus;
        let unit = 2f64.powi(-(c1_bits as i32));
        let mut squares = 0.0;
        let coefficients = product.iter().zip(&ciphertext.c0).map(|(&product, &c0)| {
            let phase = (product as u64).wrapping_add(c0 << (c1_bits - c0_bits)) & mask;
            let scaled = u128::from(phase) * u128::from(t) + (1 << (c1_bits - 1));
            let rounded = (scaled >> c1_bits) as u64;
            let error = (scaled as u64 & mask) as f64 * unit - 0.5;
            squares += error * error;
            // rounded is at most t, which stands for 0.
            rounded & ((rounded.wrapping_sub(t) as i64 >> 63) as u64)
        });
        let coefficients = Zeroizing::new(coefficients.collect());
        ShortPlaintext { coefficients, error_deviation: (squares / self.plan.degree() as f64).sqrt() }
    }
}

/// A decrypted [`ShortCiphertext`].
#[derive(Clone)]
pub struct ShortPlaintext {
    /// Coefficients modulo t.
    pub coefficients: Zeroizing<Vec<u64>>,
    /// Standard deviation of the distances from integers, before they were rounded away. It is 0.29 for a ciphertext that
    /// has nothing to do with the key, or that has too much noise.
    pub error_deviation: f64,
}

impl std::fmt::Debug for ShortPlaintext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShortPlaintext")
            .field("error_deviation", &self.error_deviation)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ShortDecryptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShortDecryptor").finish_non_exhaustive()
    }
}
