//! Kernels of [`crate::correlate`], written once over [`PairLanes`].
//!
//! # Sums stay below 2^63
//!
//! Factors are at most (q-1)/2 in magnitude, so that 32 products sum up to at most 8 (q-1)^2. For q = 2^30 - d this leaves
//! 2^34 (d+1) - 8 (d+1)^2 to 2^63. A fold takes a sum s = 2^32 h + l to h r + l, where r is 2^32 modulo q in (-q/2, q/2): at most
//! 2^31 |r| + 2^32 in magnitude. While 4 d <= q/2, r is 4 d, and 2^33 d + 2^32 is less than what is left. For larger d, more than
//! 2^60 + 2^32 is left, and |r| is below 2^29. So 32 products can be added to a folded sum.
//!
//! The reduction of a folded sum s takes m = s/q modulo 2^32, signed, and (s - m q)/2^32, which is less than |r|/2 + 1 + q/2 <= q in
//! magnitude: s/2^32 modulo q, up to one q.

#![allow(unsafe_op_in_unsafe_fn, reason = "all functions share the contract of PairLanes")]
#![allow(clippy::needless_range_loop, reason = "loops of fixed length over several arrays, to be unrolled")]

use std::ops::Range;

use crate::{
    AlignedVec, EncryptedPairs, Modulus, PlainPairs,
    planes::{CHUNK, LINE, PLANES},
};

/// Products between two folds of a sum.
const PERIOD: usize = 32;
/// Columns whose sums are kept in registers together.
const GROUP: usize = 4;
/// Words between the sums of two matrices.
const STRIDE: usize = GROUP * 2 * CHUNK;

/// The constants that reduce a prime's sums.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Constants {
    pub(super) q: u32,
    /// q^-1 modulo 2^32.
    pub(super) inverse: u32,
    /// 2^32 modulo q, in (-q/2, q/2).
    pub(super) fold: i32,
}

impl Constants {
    pub(crate) fn new(modulus: &Modulus<u32>) -> Self {
        let q = modulus.value();
        // Newton's iteration: each step doubles the number of right bits, of which q itself has three.
        let inverse =
            (0..4).fold(q, |inverse, _| inverse.wrapping_mul(2u32.wrapping_sub(q.wrapping_mul(inverse))));
        Self { q, inverse, fold: modulus.to_signed(modulus.reduce(1 << 32)) as i32 }
    }
}

/// The sums of some matrices and columns; see [`crate::correlate`] and [`crate::correlate_horner`]. Outputs are those of the separate
/// columns, matrix after matrix, then those of the others.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) constants: Constants,
    pub(crate) degree: usize,
    pub(crate) plain: &'a PlainPairs,
    pub(crate) matrices: Range<usize>,
    pub(crate) encrypted: &'a [&'a EncryptedPairs],
    /// How many of the first columns have an output for each matrix.
    pub(crate) separate: usize,
    /// For Horner's rule over the matrices, for the other columns.
    pub(crate) sigma: &'a [u32],
}

/// The kernels of one back end.
#[derive(Debug)]
pub(crate) struct PairKernels {
    /// Writes the planes of rows; the last two arguments are a matrix's first line and the distance of tiles.
    pub(crate) write_plain: fn(u32, &[&[u32]], usize, &mut [u32], usize),
    /// Writes the planes of triples of rows.
    pub(crate) write_encrypted: fn(u32, &[[&[u32]; 3]], &mut [u32]),
    pub(crate) correlate: fn(&Job<'_>, &mut [&mut [u32]]),
}

/// The definition, for any processor.
pub(super) const SCALAR: PairKernels = PairKernels {
    write_plain,
    write_encrypted,
    // SAFETY: plain integers need no special instructions.
    correlate: |job, outputs| unsafe { correlate::<Words>(job, outputs) },
};

/// Makes the kernels of a vector back end out of its lanes.
#[cfg(target_arch = "x86_64")]
macro_rules! pair_kernels {
    ($lanes:ty, features $features:literal) => {
        pub(in crate::backend) const KERNELS: $crate::backend::pairs::PairKernels = {
            use $crate::backend::pairs::{self, Job, PairKernels};

            #[target_feature(enable = $features)]
            fn write_plain(q: u32, rows: &[&[u32]], pairs: usize, to: &mut [u32], stride: usize) {
                pairs::write_plain(q, rows, pairs, to, stride);
            }

            #[target_feature(enable = $features)]
            fn write_encrypted(q: u32, triples: &[[&[u32]; 3]], to: &mut [u32]) {
                pairs::write_encrypted(q, triples, to);
            }

            #[target_feature(enable = $features)]
            fn correlate(job: &Job<'_>, outputs: &mut [&mut [u32]]) {
                // SAFETY: the processor has this function's features, which are those that the lanes need.
                unsafe { pairs::correlate::<$lanes>(job, outputs) }
            }

            // SAFETY, for every entry: `kernels` is called with a back end that was checked to be available.
            PairKernels {
                // SAFETY: see above.
                write_plain: |q, rows, pairs, to, stride| unsafe { write_plain(q, rows, pairs, to, stride) },
                // SAFETY: see above.
                write_encrypted: |q, triples, to| unsafe { write_encrypted(q, triples, to) },
                // SAFETY: see above.
                correlate: |job, outputs| unsafe { correlate(job, outputs) },
            }
        };
    };
}

#[cfg(target_arch = "x86_64")]
pub(super) use pair_kernels;

/// Registers of signed residues and sums of their products.
///
/// # Safety
///
/// The processor has the instructions of the back end; pointers are to as many words as the method takes.
pub(super) trait PairLanes: Copy {
    /// Signed residues, every second of which counts.
    type Register: Copy;
    /// A sum for each of these.
    type Sum: Copy;

    /// Words in a register: half of them are in even places.
    const LANES: usize;
    /// Whether there are registers for the sums of two matrices with four columns.
    const WIDE: bool;

    unsafe fn new(constants: Constants) -> Self;
    /// The words in even places.
    unsafe fn even(from: *const i32) -> Self::Register;
    /// Those in odd places.
    unsafe fn odd(from: *const i32) -> Self::Register;
    unsafe fn zero() -> Self::Sum;
    /// sum + a b.
    unsafe fn add(sum: Self::Sum, a: Self::Register, b: Self::Register) -> Self::Sum;
    /// The same modulo q, and small.
    unsafe fn fold(self, sum: Self::Sum) -> Self::Sum;
    /// Stores the residues of folded sums, over 2^32.
    unsafe fn finish(self, even: Self::Sum, odd: Self::Sum, to: *mut u32);
    /// out = terms\[0\] + sigma(terms\[1\] + ... sigma(out)) for a chunk, with `count` terms `STRIDE` words apart.
    unsafe fn horner(self, sigma: *const u32, terms: *const u32, count: usize, out: *mut u32);
}

/// Where the lines of the next sums are.
#[derive(Clone, Copy)]
struct Ahead<const N: usize> {
    columns: [*const i32; N],
    /// Of each column, for each matrix.
    lines: usize,
    plain: *const i32,
    /// For each matrix.
    plain_lines: usize,
}

impl<const N: usize> Ahead<N> {
    /// Asks for as many lines as there are pairs to wait for.
    #[inline(always)]
    fn ask(&self, plane: usize, pair: usize) {
        if plane == 1 && pair < self.lines {
            for column in self.columns {
                prefetch(column.wrapping_add(pair * LINE));
            }
        }
        if plane == 2 && pair < self.plain_lines {
            prefetch(self.plain.wrapping_add(pair * LINE));
        }
    }
}

/// See [`PairKernels`].
///
/// # Safety
///
/// The contract of [`PairLanes`].
#[inline(always)]
pub(super) unsafe fn correlate<P: PairLanes>(job: &Job<'_>, outputs: &mut [&mut [u32]]) {
    let lanes = P::new(job.constants);
    let (count, columns) = (job.matrices.len(), job.encrypted.len());
    // For a chunk: each matrix's sums with the columns of a group.
    let mut sums = AlignedVec::from_iter(64, std::iter::repeat_n(0u32, count * STRIDE));
    for chunk in 0..job.degree / CHUNK {
        let mut first = 0;
        while first < columns {
            let width = match columns - first {
                GROUP.. => GROUP,
                2.. => 2,
                _ => 1,
            };
            for tile in [2 * chunk, 2 * chunk + 1] {
                let to = sums.as_mut_ptr().add(tile % 2 * LINE);
                match width {
                    GROUP => tile_sums::<P, GROUP>(lanes, job, tile, first, to),
                    2 => tile_sums::<P, 2>(lanes, job, tile, first, to),
                    _ => tile_sums::<P, 1>(lanes, job, tile, first, to),
                }
            }
            for place in 0..2 * width {
                let (from, place) = (sums.as_ptr().add(place * CHUNK), 2 * first + place);
                let places = chunk * CHUNK..(chunk + 1) * CHUNK;
                if place < 2 * job.separate {
                    for matrix in 0..count {
                        let line = std::slice::from_raw_parts(from.add(matrix * STRIDE), CHUNK);
                        outputs[2 * matrix * job.separate + place][places.clone()].copy_from_slice(line);
                    }
                } else {
                    let output = &mut outputs[2 * count * job.separate + place - 2 * job.separate];
                    let sigma = job.sigma[places.clone()].as_ptr();
                    lanes.horner(sigma, from, count, output[places].as_mut_ptr());
                }
            }
            first += width;
        }
    }
}

/// A cache line of the sums of all matrices with `N` columns, `STRIDE` words apart for each matrix.
#[inline(always)]
unsafe fn tile_sums<P: PairLanes, const N: usize>(
    lanes: P,
    job: &Job<'_>,
    tile: usize,
    first: usize,
    to: *mut u32,
) {
    let (plain, count) = (job.plain, job.matrices.len());
    let vector = PLANES * plain.pairs * LINE;
    let column = |index: usize, tile: usize| {
        job.encrypted[index].data.as_ptr().cast::<i32>().wrapping_add(tile * vector)
    };
    let mut x = [std::ptr::null(); N];
    // The second line of a chunk is next after the first; then the first one of the next columns, or of the next chunk.
    let mut ahead = [std::ptr::null(); N];
    for n in 0..N {
        x[n] = column(first + n, tile);
        let following = first + N + n;
        ahead[n] = match (tile % 2, following < job.encrypted.len()) {
            (0, _) => column(first + n, tile + 1),
            (_, true) => column(following, tile - 1),
            (_, false) => column(n.min(job.encrypted.len() - 1), tile + 1),
        };
    }
    let calls = count * 2 * job.encrypted.len().div_ceil(GROUP);
    let share = (2 * count * PLANES * plain.pairs).div_ceil(calls.max(1)).min(PERIOD);
    let done = (first / GROUP * 2 + tile % 2) * count;
    let next = plain.data.as_ptr().cast::<i32>().wrapping_add((tile / 2 + 1) * 2 * plain.stride());
    let mut matrix = 0;
    while matrix < count {
        let index = job.matrices.start + matrix;
        let pairs = plain.used[index];
        let two = P::WIDE && matrix + 1 < count && plain.used[index + 1] == pairs;
        let lines = (PLANES * plain.pairs).div_ceil(count);
        let ahead = Ahead {
            columns: ahead.map(|column| column.wrapping_add(matrix * lines * LINE)),
            lines: if N == 1 { 0 } else { lines },
            plain: next.wrapping_add((done + matrix) * share * LINE),
            plain_lines: share,
        };
        let d = plain.data[tile * plain.stride() + index * vector..].as_ptr().cast();
        let to = to.add(matrix * STRIDE);
        if two {
            let ahead = Ahead { lines: 2 * ahead.lines, plain_lines: 2 * ahead.plain_lines, ..ahead };
            pair_sums::<P, 2, N>(lanes, d, x, [pairs, plain.pairs], to, ahead);
            matrix += 2;
        } else {
            pair_sums::<P, 1, N>(lanes, d, x, [pairs, plain.pairs], to, ahead);
            matrix += 1;
        }
    }
}

/// A cache line of the sums of `M` consecutive matrices and `N` columns, each with `pairs` pairs in room for more.
#[inline(always)]
unsafe fn pair_sums<P: PairLanes, const M: usize, const N: usize>(
    lanes: P,
    d: *const i32,
    x: [*const i32; N],
    [pairs, room]: [usize; 2],
    to: *mut u32,
    ahead: Ahead<N>,
) {
    let mut part = 0;
    while part < LINE {
        let mut common = [[[P::zero(); 2]; N]; M];
        for plane in [1, 0, 2] {
            // The middle products belong to both sums.
            let mut sum = common;
            let mut pair = 0;
            while pair < pairs {
                let end = pairs.min(pair + PERIOD);
                while pair < end {
                    let line = (plane * room + pair) * LINE + part;
                    let mut even = [P::even(d.add(line)); M];
                    let mut odd = [P::odd(d.add(line)); M];
                    for m in 1..M {
                        let d = d.add(m * PLANES * room * LINE + line);
                        (even[m], odd[m]) = (P::even(d), P::odd(d));
                    }
                    for n in 0..N {
                        let x = x[n].add(line);
                        let (x_even, x_odd) = (P::even(x), P::odd(x));
                        for m in 0..M {
                            sum[m][n][0] = P::add(sum[m][n][0], even[m], x_even);
                            sum[m][n][1] = P::add(sum[m][n][1], odd[m], x_odd);
                        }
                    }
                    if part == 0 {
                        ahead.ask(plane, pair);
                    }
                    pair += 1;
                }
                for m in 0..M {
                    for n in 0..N {
                        sum[m][n] = [lanes.fold(sum[m][n][0]), lanes.fold(sum[m][n][1])];
                    }
                }
            }
            if plane == 1 {
                common = sum;
            } else {
                for m in 0..M {
                    for n in 0..N {
                        let to = to.add(m * STRIDE + (2 * n + plane / 2) * CHUNK + part);
                        lanes.finish(sum[m][n][0], sum[m][n][1], to);
                    }
                }
            }
        }
        part += P::LANES;
    }
}

/// Asks for a line, of which any part may be missing, for the second-level cache.
#[inline(always)]
fn prefetch(line: *const i32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// A residue in (-q/2, q/2), as a signed word.
#[inline(always)]
fn centre(q: u32, value: u32) -> u32 {
    let lower = value.wrapping_sub(q);
    if value > q / 2 { lower } else { value }
}

#[inline(always)]
pub(super) fn write_plain(q: u32, rows: &[&[u32]], pairs: usize, to: &mut [u32], stride: usize) {
    let Some(degree) = rows.first().map(|row| row.len()) else { return };
    for tile in 0..degree / LINE {
        let (first, rest) = to[tile * stride..].split_at_mut(pairs * LINE);
        let (both, rest) = rest.split_at_mut(pairs * LINE);
        let lines = first.chunks_exact_mut(LINE).zip(both.chunks_exact_mut(LINE));
        for ((rows, (first, both)), second) in
            rows.chunks_exact(2).zip(lines).zip(rest.chunks_exact_mut(LINE))
        {
            let [a, b] = [rows[0], rows[1]].map(|row| &row[tile * LINE..(tile + 1) * LINE]);
            for lane in 0..LINE {
                let sum = a[lane] + b[lane];
                first[lane] = centre(q, a[lane]);
                both[lane] = centre(q, sum.min(sum.wrapping_sub(q)));
                second[lane] = centre(q, b[lane]);
            }
        }
    }
}

#[inline(always)]
pub(super) fn write_encrypted(q: u32, triples: &[[&[u32]; 3]], to: &mut [u32]) {
    let width = triples.len() * LINE;
    let difference = |a: u32, b: u32| {
        let difference = a.wrapping_sub(b);
        centre(q, difference.min(difference.wrapping_add(q)))
    };
    for (tile, to) in to.chunks_exact_mut(PLANES * width.max(1)).enumerate() {
        let (first, rest) = to.split_at_mut(width);
        let (both, second) = rest.split_at_mut(width);
        for (pair, rows) in triples.iter().enumerate() {
            let [x0, x1, x2] = rows.map(|row| &row[tile * LINE..(tile + 1) * LINE]);
            let place = pair * LINE..(pair + 1) * LINE;
            let (first, both, second) =
                (&mut first[place.clone()], &mut both[place.clone()], &mut second[place]);
            for lane in 0..LINE {
                first[lane] = difference(x0[lane], x1[lane]);
                both[lane] = centre(q, x1[lane]);
                second[lane] = difference(x2[lane], x1[lane]);
            }
        }
    }
}

/// Horner's rule for a chunk, through memory.
///
/// # Safety
///
/// As for [`PairLanes::horner`].
#[inline(always)]
pub(super) unsafe fn horner(q: u32, sigma: *const u32, terms: *const u32, count: usize, out: *mut u32) {
    let (sigma, out) = (&*sigma.cast::<[u32; CHUNK]>(), &mut *out.cast::<[u32; CHUNK]>());
    let mut sum = *out;
    for index in (0..count).rev() {
        let term = &*terms.add(index * STRIDE).cast::<[u32; CHUNK]>();
        let moved: [u32; CHUNK] = std::array::from_fn(|place| sum[sigma[place] as usize % CHUNK]);
        for place in 0..CHUNK {
            let value = moved[place] + term[place];
            sum[place] = value.min(value.wrapping_sub(q));
        }
    }
    *out = sum;
}

/// Words between the terms of [`PairLanes::horner`].
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only vector back ends use it"))]
pub(super) const TERMS: usize = STRIDE;

/// Two words at a time, in plain integers: the definition.
#[derive(Clone, Copy)]
struct Words(Constants);

impl PairLanes for Words {
    type Register = i64;
    type Sum = i64;

    const LANES: usize = 2;
    const WIDE: bool = false;

    unsafe fn new(constants: Constants) -> Self {
        Self(constants)
    }

    #[inline(always)]
    unsafe fn even(from: *const i32) -> i64 {
        (*from).into()
    }

    #[inline(always)]
    unsafe fn odd(from: *const i32) -> i64 {
        (*from.add(1)).into()
    }

    #[inline(always)]
    unsafe fn zero() -> i64 {
        0
    }

    #[inline(always)]
    unsafe fn add(sum: i64, a: i64, b: i64) -> i64 {
        sum + a * b
    }

    #[inline(always)]
    unsafe fn fold(self, sum: i64) -> i64 {
        (sum >> 32) * i64::from(self.0.fold) + (sum & 0xffff_ffff)
    }

    #[inline(always)]
    unsafe fn finish(self, even: i64, odd: i64, to: *mut u32) {
        for (lane, sum) in [even, odd].into_iter().enumerate() {
            let quotient = (sum as u32).wrapping_mul(self.0.inverse).cast_signed();
            let rest = ((sum - i64::from(quotient) * i64::from(self.0.q)) >> 32) as u32;
            *to.add(lane) = rest.min(rest.wrapping_add(self.0.q));
        }
    }

    #[inline(always)]
    unsafe fn horner(self, sigma: *const u32, terms: *const u32, count: usize, out: *mut u32) {
        horner(self.0.q, sigma, terms, count, out);
    }
}
