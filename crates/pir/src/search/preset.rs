//! The lattice parameters of the encrypted half.

use restante_bfv::{DISTRIBUTIONS, Security, ShortModuli};
use restante_ring::primes;
use restante_wire::ParameterId;

use crate::PirError;

/// The lattice parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preset {
    /// A name for messages.
    pub name: &'static str,
    /// N.
    pub degree: usize,
    /// Lengths of the primes of ciphertexts after the first product: the inner modulus.
    pub inner_bits: [u32; 3],
    /// Length of the prime that the first product is divided by.
    pub dropped_bits: u32,
    /// Length of the special prime of keys.
    pub special_bits: u32,
    /// Digits of the automorphism key for each prime.
    pub pieces: u32,
    /// log2 of the number of indicators in a ciphertext of a query.
    pub packing_bits: u32,
    /// Bits of a coefficient of the two halves of an answer.
    pub answer_bits: (u32, u32),
    /// The security that the set must have.
    pub security: Security,
}

impl Preset {
    /// The parameters that are used: 128 bits of security, 32 KiB in a ciphertext, up to 2^24 buckets. `docs/search.md` has
    /// the noise.
    pub fn standard() -> Self {
        Self {
            name: "search-8192",
            degree: 8192,
            inner_bits: [47; 3],
            dropped_bits: 50,
            special_bits: 22,
            pieces: 3,
            packing_bits: 5,
            answer_bits: (36, 41),
            security: Security::Classical128,
        }
    }

    /// The same circuit in a ring of degree 512, which protects nothing: for tests that end in seconds.
    pub fn insecure_for_tests() -> Self {
        Self { name: "search-512", degree: 512, security: Security::InsecureForTests, ..Self::standard() }
    }

    /// t: the smallest prime above 2^32 that is 1 modulo 2N.
    pub fn plaintext_modulus(&self) -> u64 {
        let order = 2 * self.degree as u64;
        let first = (1u64 << 32) / order;
        (first..).map(|k| k * order + 1).find(|&t| t > 1 << 32 && primes::is_prime(t)).unwrap_or(0)
    }

    /// Names the set in files.
    pub fn id(&self) -> ParameterId {
        let Self { name, degree, inner_bits: [a, b, c], dropped_bits, special_bits, pieces, .. } = self;
        let (packing_bits, (c0_bits, c1_bits)) = (self.packing_bits, self.answer_bits);
        ParameterId::of(&format!(
            "restante/1/search {name}: N {degree}, t {}, Q {a} {b} {c} {dropped_bits}, P {special_bits}, pieces {pieces}, packing \
             {packing_bits}, answer {c0_bits} {c1_bits}, {DISTRIBUTIONS}",
            self.plaintext_modulus()
        ))
    }

    pub(crate) fn short_moduli(&self) -> Result<ShortModuli, PirError> {
        Ok(ShortModuli::new(self.answer_bits.0, self.answer_bits.1)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use restante_bfv::max_modulus_bits;
    use restante_ring::Backend;

    use super::*;
    use crate::search::Scheme;

    #[test]
    fn the_standard_set_is_within_the_limit_and_holds_four_bytes_a_coefficient() {
        let preset = Preset::standard();
        let scheme = Scheme::new(preset.clone(), Backend::best()).unwrap();
        let parameters = scheme.context().parameters();
        assert_eq!(parameters.security, Security::Classical128);
        assert!(parameters.key_modulus_bits() <= f64::from(max_modulus_bits(preset.degree)));
        let t = preset.plaintext_modulus();
        assert!(primes::is_prime(t) && t > 1 << 32 && t % (2 * 8192) == 1);
        assert!((1u64 << 32 >> 14..t >> 14).all(|k| k << 14 < 1 << 32 || !primes::is_prime((k << 14) + 1)));
    }
}
