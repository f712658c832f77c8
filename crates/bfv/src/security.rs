//! The limit that keeps parameters at 128 bits of security.

/// The largest log2(QP) that gives 128 bits of classical security for a uniform ternary secret and error of standard
/// deviation 3.2: Homomorphic Encryption Standard (Albrecht et al., 2018), table 1; degree 65536 from its continuation,
/// Bossuat et al., Security Guidelines for Implementing Homomorphic Encryption, ePrint 2024/463, table 5.2.
/// Zero for other degrees.
pub fn max_modulus_bits(degree: usize) -> u32 {
    match degree {
        1024 => 27,
        2048 => 54,
        4096 => 109,
        8192 => 218,
        16384 => 438,
        32768 => 881,
        65536 => 1747,
        _ => 0,
    }
}
