//! The limit that keeps parameters at 128 bits of security.

/// The largest log2(QP) that gives 128 bits of classical security for a uniform ternary secret and errors of standard
/// deviation 3.2. Zero for other degrees.
///
/// The Homomorphic Encryption Standard (Albrecht et al., 2018, table 1) and its successor (Bossuat et al., ePrint
/// 2024/463) allow 54, 109, 218, 438, 881 and 1747 bits. Under the MATZOV cost model, newer than the former's, their limits
/// come out at 125 to 126 bits for the smaller degrees (`scripts/estimates.txt`), so the limits here are 1 to 2.5 %
/// shorter, as a search with the estimator for 128 bits against the primal and the dual attack gave them.
pub fn max_modulus_bits(degree: usize) -> u32 {
    match degree {
        2048 => 53,
        4096 => 106,
        8192 => 213,
        16384 => 429,
        32768 => 862,
        65536 => 1739,
        _ => 0,
    }
}
