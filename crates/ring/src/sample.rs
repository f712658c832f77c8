//! Seeds, domain-separated streams and the samplers that draw from them.
//!
//! A [`Seed`] never feeds two samplers with the same bytes: every use names its purpose and its place (which key,
//! digit, limb, ...), and gets the stream of ChaCha20 under the key
//!
//! ```text
//! BLAKE3-keyed(seed, "restante/1/stream/" || purpose || 0x00 || the indices as little-endian 64-bit integers).
//! ```
//!
//! A derived seed is the same function with `derive` in the place of `stream`, so that a derived seed that is published
//! says nothing about any stream.
//!
//! Expanding one seed alike for two rows of a key-switching key would give the secret key away: the rows'
//! difference is free of the uniform half.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng, TryCryptoRng};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::{Modulus, Word};

/// 32 bytes of entropy.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Seed([u8; 32]);

impl Seed {
    /// A fresh seed.
    pub fn random<R: TryCryptoRng>(rng: &mut R) -> Result<Self, R::Error> {
        let mut bytes = [0; 32];
        rng.try_fill_bytes(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The bytes: part of a file if the seed is public, secret otherwise.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The stream for one purpose and place.
    pub fn stream(&self, purpose: &str, indices: &[u64]) -> Stream {
        Stream { rng: ChaCha20Rng::from_seed(self.keyed("stream", purpose, indices)) }
    }

    /// An independent seed for one purpose and place.
    pub fn derive(&self, purpose: &str, indices: &[u64]) -> Self {
        Self(self.keyed("derive", purpose, indices))
    }

    fn keyed(&self, kind: &str, purpose: &str, indices: &[u64]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        [b"restante/1/", kind.as_bytes(), b"/", purpose.as_bytes(), &[0]].iter().for_each(|part| {
            hasher.update(part);
        });
        indices.iter().for_each(|index| {
            hasher.update(&index.to_le_bytes());
        });
        let key = *hasher.finalize().as_bytes();
        hasher.zeroize();
        key
    }
}

impl From<[u8; 32]> for Seed {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// A deterministic stream of random bytes and the samplers on it.
#[derive(Debug)]
pub struct Stream {
    rng: ChaCha20Rng,
}

impl Stream {
    /// The next bytes.
    pub fn bytes(&mut self, out: &mut [u8]) {
        self.rng.fill_bytes(out);
    }

    /// Uniform residues modulo q.
    ///
    /// Words are read little-endian, cut to the length of q, and taken if they are below q. Words come in batches of
    /// as many as are still missing; the time depends on rejected words only, which say nothing about the taken ones.
    pub fn uniform<W: Word>(&mut self, modulus: &Modulus<W>, out: &mut [W]) {
        let word_bytes = size_of::<W>();
        let mask = u64::MAX >> (64 - modulus.bits());
        let mut buffer = vec![0; size_of_val(out)];
        let mut filled = 0;
        while filled < out.len() {
            let batch = &mut buffer[..(out.len() - filled) * word_bytes];
            self.bytes(batch);
            for word in batch.chunks_exact(word_bytes) {
                let mut bytes = [0; 8];
                bytes[..word_bytes].copy_from_slice(word);
                let candidate = u64::from_le_bytes(bytes) & mask;
                if is_taken(candidate < modulus.as_u64()) {
                    out[filled] = W::truncate(candidate);
                    filled += 1;
                }
            }
        }
        buffer.zeroize();
    }

    /// Values -1, 0 and 1, each with probability 1/3.
    ///
    /// A byte below 3^5 gives five of them; others are rejected, which is independent of the values taken.
    pub fn ternary(&mut self, out: &mut [i64]) {
        let mut buffer = [0u8; 64];
        let mut values = out.iter_mut();
        'fill: loop {
            self.bytes(&mut buffer);
            for &byte in buffer.iter().filter(|&&byte| is_taken(byte < 243)) {
                let mut rest = u32::from(byte);
                for _ in 0..5 {
                    // floor(rest / 3) for rest < 256, without a division whose time could depend on it.
                    let third = (rest * 171) >> 9;
                    match values.next() {
                        Some(value) => *value = i64::from(rest - 3 * third) - 1,
                        None => break 'fill,
                    }
                    rest = third;
                }
            }
        }
        buffer.zeroize();
    }

    /// Values of a discrete Gaussian on the integers.
    ///
    /// One 64-bit word chooses the magnitude by comparison with every threshold of the cumulative table, a further bit
    /// the sign: no branch and no index depends on the values. The tail beyond 2^-64 is cut.
    pub fn gaussian(&mut self, gaussian: Gaussian, out: &mut [i64]) {
        let thresholds = gaussian.thresholds();
        let mut buffer = [0u8; 65 * 8];
        for chunk in out.chunks_mut(64) {
            self.bytes(&mut buffer);
            let mut words = buffer.chunks_exact(8).map(|bytes| {
                let mut word = [0; 8];
                word.copy_from_slice(bytes);
                u64::from_le_bytes(word)
            });
            let signs = words.next_back().unwrap_or_default();
            for (i, (value, word)) in chunk.iter_mut().zip(words).enumerate() {
                let magnitude: i64 = thresholds.iter().map(|&threshold| i64::from(word >= threshold)).sum();
                let sign = -((signs >> i & 1) as i64);
                *value = (magnitude ^ sign) - sign;
            }
        }
        buffer.zeroize();
    }
}

/// Whether a candidate is taken. It may be known: which candidates are rejected says nothing about what the others are, and is the
/// only thing that a branch of a sampler depends on.
#[inline(always)]
fn is_taken(taken: bool) -> bool {
    #[cfg(restante_ctgrind)]
    return restante_ctgrind::declassified(taken);
    #[cfg(not(restante_ctgrind))]
    taken
}

/// The discrete Gaussians that are tabulated: weight of x proportional to exp(-x^2 / (2 sigma^2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gaussian {
    /// sigma = 0.5, for clues: on the integers, a standard deviation of 0.464.
    Half,
    /// sigma = 3.2, the error of the homomorphic encryption standard.
    Standard,
}

impl Gaussian {
    /// sigma, which the standard deviation equals closely only where it is above 1.
    pub fn sigma(self) -> f64 {
        match self {
            Self::Half => 0.5,
            Self::Standard => 3.2,
        }
    }

    /// The largest magnitude that comes up.
    pub fn bound(self) -> u64 {
        self.thresholds().len() as u64
    }

    /// 2^64 times the probability that the magnitude is at most k, for k = 0, 1, ...
    ///
    /// Rounded from 80 decimal digits, as `testvectors/scripts/seeds.py` computes them again.
    fn thresholds(self) -> &'static [u64] {
        const HALF: [u64; 4] =
            [14509668528679584298, 18437008728676018070, 18446743631745268522, 18446744073709184110];
        const STANDARD: [u64; 29] = [
            2299745670858532016,
            6680047332305665756,
            10463485708449051510,
            13427346068982637068,
            15533146652400393117,
            16890100805085113268,
            17683152571309225367,
            18103517357756372193,
            18305604903538831958,
            18393718149535493410,
            18428562412348008240,
            18441059528045416881,
            18445124679491746412,
            18446323991269193928,
            18446644895835422177,
            18446722772640223466,
            18446739913349222024,
            18446743335017225381,
            18446743954508772591,
            18446744056232281064,
            18446744071381690597,
            18446744073427939741,
            18446744073678614003,
            18446744073706465555,
            18446744073709272136,
            18446744073709528640,
            18446744073709549901,
            18446744073709551500,
            18446744073709551609,
        ];
        match self {
            Self::Half => &HALF,
            Self::Standard => &STANDARD,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed() -> Seed {
        Seed::from([9; 32])
    }

    #[test]
    fn streams_differ_by_purpose_and_place() {
        let draws: Vec<[u8; 32]> = [
            ("a", &[][..]),
            ("a", &[0]),
            ("a", &[1]),
            ("a", &[0, 0]),
            ("a", &[0, 1]),
            ("b", &[0]),
            ("ab", &[]),
        ]
        .iter()
        .map(|(purpose, indices)| {
            let mut bytes = [0; 32];
            seed().stream(purpose, indices).bytes(&mut bytes);
            let derived = *seed().derive(purpose, indices).as_bytes();
            assert_ne!(bytes, derived);
            bytes
        })
        .collect();
        for (i, a) in draws.iter().enumerate() {
            assert!(draws[..i].iter().all(|b| a != b));
        }
    }

    #[test]
    fn uniform_residues_fill_the_range_evenly() {
        let modulus = Modulus::<u32>::new(12289).unwrap();
        let mut values = vec![0; 1 << 17];
        seed().stream("test", &[]).uniform(&modulus, &mut values);
        // 16 buckets; the statistic has 15 degrees of freedom and exceeds 50 with probability 10^-5.
        let mut buckets = [0f64; 16];
        values.iter().for_each(|&value| buckets[value as usize * 16 / 12289] += 1.0);
        let expected = values.len() as f64 / 16.0;
        let statistic: f64 = buckets.iter().map(|count| (count - expected).powi(2) / expected).sum();
        assert!(statistic < 50.0, "{statistic}");
        assert!(values.iter().all(|&value| value < 12289));
    }

    #[test]
    fn ternary_values_are_equally_likely_and_uncorrelated() {
        let mut values = vec![7; 90_001];
        seed().stream("test", &[]).ternary(&mut values);
        for wanted in -1..=1 {
            let count = values.iter().filter(|&&value| value == wanted).count() as f64;
            assert!((count - 30_000.0).abs() < 6.0 * (90_000.0f64 * 2.0 / 9.0).sqrt(), "{wanted}: {count}");
        }
        let product: i64 = values.windows(2).map(|pair| pair[0] * pair[1]).sum();
        assert!((product as f64).abs() < 6.0 * (90_000.0f64 * 4.0 / 9.0).sqrt());
    }

    #[test]
    fn gaussian_frequencies_follow_the_density() {
        for gaussian in [Gaussian::Half, Gaussian::Standard] {
            let sigma = gaussian.sigma();
            let mut values = vec![0; 1 << 18];
            seed().stream("test", &[]).gaussian(gaussian, &mut values);
            let weight = |x: i64| (-(x as f64).powi(2) / (2.0 * sigma * sigma)).exp();
            let total: f64 = (-100..=100).map(weight).sum();
            for x in -12..=12 {
                let probability = weight(x) / total;
                let expected = values.len() as f64 * probability;
                let found = values.iter().filter(|&&value| value == x).count() as f64;
                let deviation = (expected * (1.0 - probability)).sqrt();
                assert!((found - expected).abs() <= 6.0 * deviation + 1.0, "{x}: {found}, not {expected}");
            }
            assert!(values.iter().all(|value| value.unsigned_abs() <= gaussian.bound()));
        }
    }

    #[test]
    fn debug_output_hides_the_seed() {
        assert_eq!(format!("{:?}", seed()), "Seed(..)");
    }
}
