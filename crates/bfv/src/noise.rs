//! Noise estimates for [`crate::Leveled`] ciphertexts: log2 of the standard deviation of the phase's coefficients.
//!
//! Coefficients are taken as independent and normal, secrets as uniform ternary, and slots of plaintexts as uniform;
//! the tests compare each estimate with what is measured.

/// The phase of a fresh ciphertext: t times an error of deviation 3.2, and m.
pub fn fresh_bits(plaintext_modulus: u64) -> f64 {
    let t = plaintext_modulus as f64;
    (t * (3.2f64 * 3.2 + 1.0 / 12.0).sqrt()).log2()
}

/// The noise that the rounding of both parts to multiples of t adds: t sqrt((1 + 2N/3)/12).
pub fn rounding_bits(degree: usize, plaintext_modulus: u64) -> f64 {
    (plaintext_modulus as f64 * ((1.0 + 2.0 * degree as f64 / 3.0) / 12.0).sqrt()).log2()
}

/// A product of two phases, or of a phase and a plaintext with the given deviation.
pub fn product_bits(degree: usize, a: f64, b: f64) -> f64 {
    a + b + (degree as f64).log2() / 2.0
}

/// A square: half of the terms of each coefficient come twice.
pub fn square_bits(degree: usize, a: f64) -> f64 {
    product_bits(degree, a, a) + 0.5
}

/// Coefficients of a plaintext with random slots.
pub fn plaintext_bits(plaintext_modulus: u64) -> f64 {
    (plaintext_modulus as f64 / 12f64.sqrt()).log2()
}

/// A sum of independent summands.
pub fn sum_bits(summands: &[f64]) -> f64 {
    summands.iter().map(|bits| 4f64.powf(*bits)).sum::<f64>().log2() / 2.0
}

/// Rescaling by `dropped_bits`.
pub fn rescaled_bits(degree: usize, plaintext_modulus: u64, noise: f64, dropped_bits: f64) -> f64 {
    sum_bits(&[noise - dropped_bits, rounding_bits(degree, plaintext_modulus)])
}

/// The noise that key switching adds, with `digits` digits of at most `digit_bits` bits.
pub fn key_switching_bits(
    degree: usize,
    plaintext_modulus: u64,
    digits: usize,
    digit_bits: f64,
    special_bits: f64,
) -> f64 {
    let t = plaintext_modulus as f64;
    let own = (t * 3.2 * (digits as f64 * degree as f64 / 12.0).sqrt()).log2() + digit_bits - special_bits;
    sum_bits(&[own, rounding_bits(degree, plaintext_modulus)])
}
