//! The choices that the security of parameters depends on: how secrets and errors are drawn, and the limit that keeps the modulus at 128 bits
//! of security.

use restante_ring::sample::Gaussian;

/// How secrets and errors of every parameter set are drawn. It belongs into the description that names a set: with another sampler,
/// the streams that are expanded from an id have to be others, too, or two keys would have the same uniform halves and correlated errors.
pub const DISTRIBUTIONS: &str = "secret=ternary error=3.2";

/// The distribution of errors.
pub const ERROR: Gaussian = Gaussian::Standard;

/// The purposes of the streams that a secret and errors come from. They name the samplers for the same reason.
pub(crate) const SECRET_PURPOSE: &str = "bfv/secret/ternary";
pub(crate) const ERROR_PURPOSE: &str = "bfv/error/gaussian-3.2";

/// The degrees that [`max_modulus_bits`] has a limit for.
pub const DEGREES: [usize; 6] = [2048, 4096, 8192, 16384, 32768, 65536];

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_degree_has_a_limit_and_no_other() {
        let limited = (0..24).map(|bits| 1 << bits).filter(|&degree| max_modulus_bits(degree) > 0);
        assert_eq!(limited.collect::<Vec<usize>>(), DEGREES);
    }

    /// crates/restante/tests/estimates.rs looks for the estimates of these limits.
    #[test]
    fn names_say_how_errors_are_drawn() {
        assert_eq!(DISTRIBUTIONS, format!("secret=ternary error={}", ERROR.sigma()));
        assert!(SECRET_PURPOSE.ends_with("/ternary"));
        assert!(ERROR_PURPOSE.ends_with(&format!("/gaussian-{}", ERROR.sigma())));
    }
}
