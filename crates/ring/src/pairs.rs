//! Two sums of products at once, and their images under automorphisms: the hot loop of the stream digest's detector.
//!
//! With plain rows d_k and encrypted rows x_k, [`correlate`] computes
//!
//! ```text
//! out_0 = sum over k of d_k x_k,    out_1 = sum over k of d_k x_(k+1)
//! ```
//!
//! element by element. Two rows of d and three of x give both with three products instead of four (Winograd's F(2, 2)):
//!
//! ```text
//! d_0 x_0 + d_1 x_1 = (x_0 - x_1) d_0 + x_1 (d_0 + d_1),
//! d_0 x_1 + d_1 x_2 = x_1 (d_0 + d_1) + (x_2 - x_1) d_1.
//! ```
//!
//! [`PlainPairs`] and [`EncryptedPairs`] store these three *planes* of factors as signed residues in (-q/2, q/2), cut into cache
//! lines like [`crate::Tiles`]. Encrypted rows carry a factor of 2^32, which the reduction of the sums takes off again
//! (Montgomery's form).
//!
//! A *chunk* is 32 consecutive places: some automorphisms keep evaluations within them ([`ChunkMap`]), and can be applied to sums
//! before these are written to memory.

use std::ops::Range;

use crate::{
    AlignedVec, Automorphism, EncryptedPairs, Modulus, NttPlan, PlainPairs, RingError,
    backend::pairs::{Constants, Job, PairKernels},
    buffer::Buffer,
    planes::{CHUNK, LINE, PLANES},
};

impl PlainPairs {
    /// Replaces a matrix: an even number of rows of residues, at most two for each pair.
    pub fn set_matrix(&mut self, plan: &NttPlan<u32>, matrix: usize, rows: &[impl AsRef<[u32]>]) {
        let rows: Vec<&[u32]> = rows.iter().map(AsRef::as_ref).collect();
        assert!(matrix < self.used.len() && rows.len().is_multiple_of(2) && rows.len() <= 2 * self.pairs);
        assert!(rows.iter().all(|row| row.len() * self.stride() == self.data.len() * LINE));
        self.used[matrix] = rows.len() / 2;
        let (stride, first) = (self.stride(), matrix * PLANES * self.pairs * LINE);
        let write = PairKernels::of(plan.backend()).write_plain;
        write(plan.modulus().value(), &rows, self.pairs, &mut self.data[first..], stride);
    }
}

impl EncryptedPairs {
    /// The three rows of residues that each pair of plain rows meets, times 2^32: see [`EncryptedPairs::factor`].
    pub fn new(plan: &NttPlan<u32>, triples: &[[&[u32]; 3]]) -> Self {
        let degree = plan.degree();
        assert!(degree.is_multiple_of(CHUNK) && triples.iter().flatten().all(|row| row.len() == degree));
        let mut data = Buffer::any(PLANES * triples.len() * degree);
        (PairKernels::of(plan.backend()).write_encrypted)(plan.modulus().value(), triples, &mut data);
        Self { pairs: triples.len(), degree, data }
    }

    /// 2^32 modulo the prime: what rows are to be multiplied by beforehand.
    pub fn factor(modulus: &Modulus<u32>) -> u32 {
        modulus.reduce(1 << 32)
    }
}

/// An automorphism that keeps evaluations within chunks of 32 places.
#[derive(Debug, Clone)]
pub struct ChunkMap {
    /// For each place, where in its chunk its value comes from.
    pub(crate) sources: AlignedVec<u32>,
}

impl ChunkMap {
    /// The map of an automorphism.
    ///
    /// # Errors
    ///
    /// [`RingError::Chunks`] for an automorphism that takes evaluations further.
    pub fn new(automorphism: &Automorphism) -> Result<Self, RingError> {
        let sources = automorphism.sources();
        let stays = |(place, &source): (usize, &u32)| place / CHUNK == source as usize / CHUNK;
        if !sources.len().is_multiple_of(CHUNK) || !sources.iter().enumerate().all(stays) {
            return Err(RingError::Chunks { element: automorphism.element(), chunk: CHUNK });
        }
        let sources = sources.iter().map(|source| source % CHUNK as u32);
        Ok(Self { sources: AlignedVec::from_iter(64, sources) })
    }
}

/// For each of some matrices of d and each x: both sums. `outputs` has two vectors for each matrix and each x: the first matrix's
/// come first, of these the first x's.
pub fn correlate(
    plan: &NttPlan<u32>,
    plain: &PlainPairs,
    matrices: Range<usize>,
    encrypted: &[&EncryptedPairs],
    outputs: &mut [&mut [u32]],
) {
    run(plan, plain, matrices, [encrypted, &[]], None, outputs);
}

/// For each x of `folded`, with y_g both sums for matrix g of the range and an automorphism sigma,
///
/// ```text
/// out = y_0 + sigma(y_1 + sigma(y_2 + ... sigma(out)))
/// ```
///
/// by Horner's rule; and for each x of `separate` both sums for each matrix, as [`correlate`] gives them. `outputs` has the latter, then
/// two vectors of residues for each x of `folded`.
pub fn correlate_horner(
    plan: &NttPlan<u32>,
    plain: &PlainPairs,
    matrices: Range<usize>,
    [separate, folded]: [&[&EncryptedPairs]; 2],
    sigma: &ChunkMap,
    outputs: &mut [&mut [u32]],
) {
    run(plan, plain, matrices, [separate, folded], Some(sigma), outputs);
}

fn run(
    plan: &NttPlan<u32>,
    plain: &PlainPairs,
    matrices: Range<usize>,
    [separate, folded]: [&[&EncryptedPairs]; 2],
    sigma: Option<&ChunkMap>,
    outputs: &mut [&mut [u32]],
) {
    let degree = plan.degree();
    let sums = 2 * (separate.len() * matrices.len() + folded.len());
    assert_eq!(outputs.len(), sums, "two sums for each matrix and separate x, and for each other x");
    assert!(plan.modulus().bits() <= 30, "sums are bounded for primes below 2^30");
    assert!(matrices.end <= plain.used.len() && plain.data.len() * LINE == plain.stride() * degree);
    assert!(outputs.iter().all(|output| output.len() == degree));
    let sigma = sigma.map_or(&[][..], |sigma| &sigma.sources);
    assert!(folded.is_empty() || sigma.len() == degree, "a map for another degree");
    let encrypted = [separate, folded].concat();
    assert!(encrypted.iter().all(|x| x.pairs == plain.pairs && x.degree == degree));
    let job = Job {
        constants: Constants::new(plan.modulus()),
        degree,
        plain,
        matrices,
        encrypted: &encrypted,
        separate: separate.len(),
        sigma,
    };
    (PairKernels::of(plan.backend()).correlate)(&job, outputs);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backend, primes::ntt_primes, sample::Seed};

    const DEGREE: usize = 64;

    /// Rows of random residues, or rows of one value each by turns.
    fn rows(modulus: &Modulus<u32>, count: usize, salt: u64, pattern: Option<&[u32]>) -> Vec<Vec<u32>> {
        (0..count)
            .map(|row| match pattern {
                Some(pattern) => vec![pattern[row % pattern.len()]; DEGREE],
                None => {
                    let mut values = vec![0; DEGREE];
                    Seed::from([3; 32]).stream("test", &[salt, row as u64]).uniform(modulus, &mut values);
                    values
                }
            })
            .collect()
    }

    /// The definition, in wide integers.
    fn expected(q: u64, d: &[Vec<u32>], x: &[[&[u32]; 3]], coordinate: usize) -> Vec<u32> {
        let at = |place: usize| {
            let products = d.chunks_exact(2).zip(x).flat_map(|(d, x)| {
                [0, 1].map(|k| u128::from(d[k][place]) * u128::from(x[k + coordinate][place]))
            });
            (products.sum::<u128>() % u128::from(q)) as u32
        };
        (0..DEGREE).map(at).collect()
    }

    /// Matrices of different numbers of rows against columns of encrypted ones, on every back end.
    fn check(q: u64, pairs: usize, columns: usize, patterns: [Option<&[u32]>; 2]) {
        let modulus = Modulus::<u32>::new(q).unwrap();
        // Of the first matrices all rows, of the others all but the last pair.
        let used = [pairs, pairs, pairs, pairs.saturating_sub(1), pairs.saturating_sub(1)];
        let matrices: Vec<_> =
            (0..).zip(used).map(|(g, used)| rows(&modulus, 2 * used, g, patterns[0])).collect();
        let x: Vec<_> =
            (0..columns as u64).map(|c| rows(&modulus, 3 * pairs, 100 + c, patterns[1])).collect();
        // Rows of residues that hold nothing but what was computed with wide integers.
        let triples: Vec<Vec<[&[u32]; 3]>> = x
            .iter()
            .map(|x| x.chunks_exact(3).map(|t| [&t[0][..], &t[1][..], &t[2][..]]).collect())
            .collect();
        // 1 + 64 modulo 128 keeps the 32 places of each chunk.
        let sigma = Automorphism::new(65, DEGREE).unwrap();
        let map = ChunkMap::new(&sigma).unwrap();
        let factor = modulus.multiplier(EncryptedPairs::factor(&modulus));
        for backend in Backend::available() {
            let plan = NttPlan::<u32>::with_backend(q, DEGREE, backend).unwrap();
            let mut plain = PlainPairs::new(used.len(), pairs, DEGREE);
            for (g, rows) in matrices.iter().enumerate() {
                plain.set_matrix(&plan, g, rows);
            }
            let scaled: Vec<Vec<Vec<u32>>> = x
                .iter()
                .map(|x| x.iter().map(|row| row.iter().map(|&v| factor.mul(&modulus, v)).collect()).collect())
                .collect();
            let encrypted: Vec<_> = scaled
                .iter()
                .map(|x| x.chunks_exact(3).map(|t| [&t[0][..], &t[1][..], &t[2][..]]).collect::<Vec<_>>())
                .map(|triples| EncryptedPairs::new(&plan, &triples))
                .collect();
            let encrypted: Vec<_> = encrypted.iter().collect();
            for range in [0..5, 1..4, 2..3, 4..4] {
                let mut found = vec![vec![7; DEGREE]; 2 * columns * range.len()];
                let mut slices: Vec<_> = found.iter_mut().map(Vec::as_mut_slice).collect();
                correlate(&plan, &plain, range.clone(), &encrypted, &mut slices);
                for (place, found) in found.iter().enumerate() {
                    let (g, c) = (range.start + place / 2 / columns, place / 2 % columns);
                    let expected = expected(q, &matrices[g], &triples[c], place % 2);
                    assert_eq!(*found, expected, "{backend}, {pairs} pairs, matrix {g}, x {c}");
                }
                let start = rows(&modulus, 2 * columns, 55, None);
                let separate = columns / 2;
                let mut folded = start.clone();
                let mut each = vec![vec![7; DEGREE]; 2 * separate * range.len()];
                let outputs = each.iter_mut().chain(&mut folded[2 * separate..]);
                let mut slices: Vec<_> = outputs.map(Vec::as_mut_slice).collect();
                let split = [&encrypted[..separate], &encrypted[separate..]];
                correlate_horner(&plan, &plain, range.clone(), split, &map, &mut slices);
                for (place, each) in each.iter().enumerate() {
                    let (g, c) = (place / 2 / separate, place / 2 % separate);
                    assert_eq!(*each, found[2 * (g * columns + c) + place % 2]);
                }
                for (place, mut sum) in start.into_iter().enumerate().skip(2 * separate) {
                    for g in range.clone().rev() {
                        let mut moved = vec![0; DEGREE];
                        sigma.permute(&sum, &mut moved);
                        let terms = expected(q, &matrices[g], &triples[place / 2], place % 2);
                        sum = moved.iter().zip(terms).map(|(&a, b)| modulus.add(a, b)).collect();
                    }
                    assert_eq!(folded[place], sum, "{backend}, {pairs} pairs, output {place}");
                }
            }
        }
    }

    #[test]
    fn both_sums_agree_with_wide_integers() {
        let primes = ntt_primes(30, DEGREE, 2).unwrap();
        for pairs in [1, 2, 31, 32, 33, 34, 65, 100] {
            for columns in [1, 2, 4, 5, 9] {
                check(primes[pairs % 2], pairs, columns, [None, None]);
            }
        }
        for bits in [10, 20, 29] {
            check(ntt_primes(bits, DEGREE, 1).unwrap()[0], 33, 5, [None, None]);
        }
    }

    /// The largest factors, of all signs, in every place: sums of 32 products come within 2^50 of 2^63.
    #[test]
    fn the_largest_factors_do_not_overflow() {
        for q in ntt_primes(30, DEGREE, 2).unwrap() {
            let modulus = Modulus::<u32>::new(q).unwrap();
            let half = modulus.value() / 2;
            for (v, w) in [(half, half), (half, half + 1), (half + 1, half), (half + 1, half + 1)] {
                let x = [modulus.add(v, v), v, modulus.add(v, v)];
                for pairs in [32, 33, 64, 100] {
                    // Factors (v, v, v) against (w, w, 0) and (0, w, w). The scaling of x is taken off first.
                    let unscale = modulus.inv(EncryptedPairs::factor(&modulus));
                    let x = x.map(|value| modulus.mul(value, unscale));
                    check(q, pairs, 5, [Some(&[w, 0]), Some(&x)]);
                    check(q, pairs, 5, [Some(&[0, w]), Some(&x)]);
                }
            }
        }
    }

    #[test]
    fn automorphisms_that_leave_chunks_are_refused() {
        let map = |element| ChunkMap::new(&Automorphism::new(element, 4096).unwrap());
        assert!(map(257).is_ok());
        assert_eq!(map(3).err(), Some(RingError::Chunks { element: 3, chunk: CHUNK }));
        assert!(ChunkMap::new(&Automorphism::new(1, 16).unwrap()).is_err());
    }
}
