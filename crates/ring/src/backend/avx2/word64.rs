//! Four residues of up to 50 bits, as integers in double-precision registers.
//!
//! The idea is van der Hoeven, Lecerf and Quintin's (Modular SIMD arithmetic in Mathemagix, 2016, section 3.2); FLINT's
//! `fft_small` transforms with it too. A product y w of integers is h + l with h = y w rounded and l = y w - h, which a
//! fused multiply-add gives exactly. With t = h/q rounded to an integer,
//!
//! ```text
//! y w - t q = (h - t q) + l.
//! ```
//!
//! **Why this is exact.** Let u = 2^-53, q < 2^50, |w| <= q/2, |y| <= B q with B <= 4, and z = y w / q, so that
//! |z| <= B q/2 < 2^51.
//!
//! * The argument of the rounding is z (1 + a)(1 + b) with |a|, |b| <= u, one error from h and one from the rounded
//!   1/q: the multiply-add by which the constant 3 * 2^51 is added and which so rounds to an integer (|z| < 2^51) makes
//!   no other. So |y w - t q| <= q (1/2 + |z| (2u + u^2)) <= q (1/2 + B/8): as q <= 2^50 - 127, because it is 1 modulo
//!   128, the terms of second order fit in the last inequality, which holds even strictly.
//! * |l| is at most half a unit in the last place of h, and |h| < 2^101, so |l| <= 2^47. h and t q are integers, and
//!   |h - t q| <= |y w - t q| + |l| < 2^53: the multiply-add gives it exactly. So is the last sum: it is an integer
//!   of size at most q.
//! * Reduction of x itself, t = round(x/q), x - t q, errs by less: |x - t q| <= q/2 + 1 for |x| <= 4q.
//!
//! No value is ever -0: a difference of equal numbers is +0, and sums of +0 and -0 are +0.
//!
//! **Ranges** in multiples of q, leaving out the last 2^-40 or so. Forward: values are at most 2.2 between passes.
//! In `forward4` the first value is reduced to 1/2. So after the first stage it and its partner are at most
//! 1/2 + (1/2 + 2.2/8) < 1.3, the others 2.2 + 1/2 + 2.2/8 < 3; after the second, 1.3 + 1/2 + 3/8 < 2.2. A
//! `forward2` between registers reduces, and the two stages within registers need not: 2.2, then 3, then 3.9, at most
//! 4 as multiplication and `store_residues` need. Inverse: at most 1 between passes; each stage doubles the
//! sums, which are reduced after the second, and multiplies differences of at most 4, to 1/2 + 4/8 = 1.

#![allow(unsafe_op_in_unsafe_fn, reason = "all functions share the contract of Lanes and Sums")]

use std::arch::x86_64::*;

use crate::{
    Modulus, Multiplier,
    backend::lanes::{Lanes, Sums},
};

/// Added and subtracted, it rounds numbers below 2^51 to integers.
const ROUNDING: f64 = 3.0 * (1u64 << 51) as f64;
/// 2^52: the bits of 2^52 + x are those of 2^52 plus x, for integers x in [0, 2^52).
const OFFSET: f64 = (1u64 << 52) as f64;

#[derive(Clone, Copy)]
pub(super) struct Lanes64 {
    q: __m256d,
    /// 1/q, rounded.
    inverse_q: __m256d,
}

impl Lanes64 {
    /// y/q rounded to an integer.
    #[inline(always)]
    unsafe fn quotient(self, y: __m256d) -> __m256d {
        let rounding = _mm256_set1_pd(ROUNDING);
        _mm256_sub_pd(_mm256_fmadd_pd(y, self.inverse_q, rounding), rounding)
    }

    /// y modulo q, of size q/2 + 1 at most.
    #[inline(always)]
    unsafe fn reduce(self, y: __m256d) -> __m256d {
        _mm256_fnmadd_pd(self.quotient(y), self.q, y)
    }

    /// y w modulo q.
    #[inline(always)]
    unsafe fn mul_signed(self, y: __m256d, w: __m256d) -> __m256d {
        let high = _mm256_mul_pd(y, w);
        let low = _mm256_fmsub_pd(y, w, high);
        _mm256_add_pd(_mm256_fnmadd_pd(self.quotient(high), self.q, high), low)
    }

    /// x as an integer in [0, q), for |x| < q.
    #[inline(always)]
    unsafe fn to_residues(self, x: __m256d) -> __m256i {
        // Negative numbers have their sign bit set, and only they, as there is no -0.
        let x = _mm256_blendv_pd(x, _mm256_add_pd(x, self.q), x);
        let offset = _mm256_set1_pd(OFFSET);
        _mm256_castpd_si256(_mm256_xor_pd(_mm256_add_pd(x, offset), offset))
    }

    /// x where it is not negative, otherwise `alternative`, for integers.
    #[inline(always)]
    unsafe fn or_if_negative(self, x: __m256i, alternative: __m256i) -> __m256i {
        let x = _mm256_castsi256_pd(x);
        _mm256_castpd_si256(_mm256_blendv_pd(x, _mm256_castsi256_pd(alternative), x))
    }

    #[inline(always)]
    unsafe fn integer_q(self) -> __m256i {
        let offset = _mm256_set1_pd(OFFSET);
        _mm256_castpd_si256(_mm256_xor_pd(_mm256_add_pd(self.q, offset), offset))
    }
}

/// Integers in [0, 2^52) as floating-point numbers.
#[inline(always)]
unsafe fn to_float(words: __m256i) -> __m256d {
    let offset = _mm256_set1_pd(OFFSET);
    _mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(words), offset), offset)
}

#[inline(always)]
unsafe fn load(from: *const u64) -> __m256i {
    _mm256_loadu_si256(from.cast())
}

#[inline(always)]
unsafe fn store(to: *mut u64, words: __m256i) {
    _mm256_storeu_si256(to.cast(), words);
}

impl Lanes for Lanes64 {
    type Word = u64;
    type Vector = __m256d;
    type Root = __m256d;

    const LANES: usize = 4;
    const ROOT_WORDS: usize = 1;
    const IS_EXPANDED: bool = true;

    #[inline(always)]
    unsafe fn new(modulus: &Modulus<u64>) -> Self {
        let q = modulus.value() as f64;
        Self { q: _mm256_set1_pd(q), inverse_q: _mm256_set1_pd(1.0 / q) }
    }

    /// The representative in (-q/2, q/2), as a floating-point number.
    fn encode(modulus: &Modulus<u64>, root: Multiplier<u64>) -> [u64; 2] {
        [(modulus.to_signed(root.factor) as f64).to_bits(), 0]
    }

    #[inline(always)]
    unsafe fn root(self, from: *const u64) -> __m256d {
        _mm256_set1_pd(f64::from_bits(*from))
    }

    #[inline(always)]
    unsafe fn record_roots<const LEVEL: usize>(self, record: *const u64) -> __m256d {
        self.load(record.add(LEVEL * Self::LANES))
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u64) -> __m256d {
        _mm256_loadu_pd(from.cast())
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u64, values: __m256d) {
        _mm256_storeu_pd(to.cast(), values);
    }

    #[inline(always)]
    unsafe fn load_residues(self, from: *const u64) -> __m256d {
        to_float(load(from))
    }

    #[inline(always)]
    unsafe fn store_residues(self, to: *mut u64, values: __m256d) {
        store(to, self.to_residues(self.reduce(values)));
    }

    #[inline(always)]
    unsafe fn exchange<const LEVEL: usize>(self, x: __m256d, y: __m256d) -> (__m256d, __m256d) {
        if LEVEL == 0 {
            (_mm256_permute2f128_pd(x, y, 0x20), _mm256_permute2f128_pd(x, y, 0x31))
        } else {
            (_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y))
        }
    }

    #[inline(always)]
    unsafe fn restore<const LEVEL: usize>(self, x: __m256d, y: __m256d) -> (__m256d, __m256d) {
        self.exchange::<LEVEL>(x, y)
    }

    #[inline(always)]
    unsafe fn forward2<const LEFT: usize>(self, x: __m256d, y: __m256d, root: __m256d) -> (__m256d, __m256d) {
        let x = if LEFT < 2 { x } else { self.reduce(x) };
        let product = self.mul_signed(y, root);
        (_mm256_add_pd(x, product), _mm256_sub_pd(x, product))
    }

    #[inline(always)]
    unsafe fn forward4_first(self, [a, b, c, d]: [__m256d; 4], root: __m256d) -> [__m256d; 4] {
        let (a, c) = self.forward2::<0>(self.reduce(a), c, root);
        let (b, d) = self.forward2::<0>(b, d, root);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn forward4_second(self, [a, b, c, d]: [__m256d; 4], roots: [__m256d; 2]) -> [__m256d; 4] {
        let (a, b) = self.forward2::<0>(a, b, roots[0]);
        let (c, d) = self.forward2::<0>(c, d, roots[1]);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn inverse2<const DONE: usize>(self, x: __m256d, y: __m256d, root: __m256d) -> (__m256d, __m256d) {
        let sum = _mm256_add_pd(x, y);
        let sum = if DONE == 0 { sum } else { self.reduce(sum) };
        (sum, self.mul_signed(_mm256_sub_pd(x, y), root))
    }

    #[inline(always)]
    unsafe fn inverse4_first(self, [a, b, c, d]: [__m256d; 4], roots: [__m256d; 2]) -> [__m256d; 4] {
        let (a, b) = self.inverse2::<0>(a, b, roots[0]);
        let (c, d) = self.inverse2::<0>(c, d, roots[1]);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn inverse4_second(self, [a, b, c, d]: [__m256d; 4], root: __m256d) -> [__m256d; 4] {
        [
            self.reduce(_mm256_add_pd(a, c)),
            self.reduce(_mm256_add_pd(b, d)),
            self.mul_signed(_mm256_sub_pd(a, c), root),
            self.mul_signed(_mm256_sub_pd(b, d), root),
        ]
    }

    #[inline(always)]
    unsafe fn inverse4_last(self, [a, b, c, d]: [__m256d; 4], root: __m256d, scale: __m256d) -> [__m256d; 4] {
        [
            self.mul_signed(_mm256_add_pd(a, c), scale),
            self.mul_signed(_mm256_add_pd(b, d), scale),
            self.mul_signed(_mm256_sub_pd(a, c), root),
            self.mul_signed(_mm256_sub_pd(b, d), root),
        ]
    }

    #[inline(always)]
    unsafe fn add(self, a: *mut u64, b: *const u64) {
        let sum = _mm256_add_epi64(load(a), load(b));
        store(a, self.or_if_negative(_mm256_sub_epi64(sum, self.integer_q()), sum));
    }

    #[inline(always)]
    unsafe fn sub(self, a: *mut u64, b: *const u64) {
        let difference = _mm256_sub_epi64(load(a), load(b));
        store(a, self.or_if_negative(difference, _mm256_add_epi64(difference, self.integer_q())));
    }

    #[inline(always)]
    unsafe fn mul(self, a: *mut u64, b: *const u64) {
        // Here |w| may reach q rather than q/2, but |y| too is at most q: the result is at most 3q/4.
        store(a, self.to_residues(self.mul_signed(to_float(load(a)), to_float(load(b)))));
    }

    #[inline(always)]
    unsafe fn mul_add(self, a: *mut u64, b: *const u64, c: *const u64) {
        let product = self.mul_signed(to_float(load(b)), to_float(load(c)));
        self.store_residues(a, _mm256_add_pd(to_float(load(a)), product));
    }

    #[inline(always)]
    unsafe fn scale(self, a: *mut u64, factor: __m256d) {
        store(a, self.to_residues(self.mul_signed(to_float(load(a)), factor)));
    }
}

/// Sums of products a b < 2^100 as 2^48 `high` + `low`.
///
/// Adding 2^100 to a product in one multiply-add rounds it to a multiple 2^48 H, and leaves H, at most 2^52, in the low
/// bits of the result: these add up as integers. The rest l = a b - 2^48 H is exact, and at most 2^47; up to 32 of
/// them, and one remainder of at most q/2 + 1, add up exactly as floating-point numbers.
#[derive(Clone, Copy)]
pub(super) struct Sums64 {
    lanes: Lanes64,
    /// The largest multiple of q up to 2^63.
    multiple: __m256i,
    /// 2^48 and 2^80 modulo q.
    two_to_48: __m256d,
    two_to_80: __m256d,
}

/// 2^100.
const SPLIT: f64 = (1u128 << 100) as f64;

/// Two accumulators; only `fold` takes the constant's bits out of `high`.
#[derive(Clone, Copy)]
pub(super) struct Sum64 {
    high: __m256i,
    low: __m256d,
}

impl Sums for Sums64 {
    type Word = u64;
    type Plain = __m256d;
    type Sum = Sum64;

    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn new(modulus: &Modulus<u64>, _: u64) -> Self {
        let q = modulus.as_u64();
        let two_to_48 = modulus.reduce(1 << 48);
        let two_to_80 = modulus.mul(two_to_48, modulus.reduce(1 << 32));
        Self {
            lanes: Lanes64::new(modulus),
            multiple: _mm256_set1_epi64x(((1u64 << 63) / q * q).cast_signed()),
            two_to_48: _mm256_set1_pd(modulus.to_signed(two_to_48) as f64),
            two_to_80: _mm256_set1_pd(modulus.to_signed(two_to_80) as f64),
        }
    }

    #[inline(always)]
    fn period(&self) -> usize {
        32
    }

    #[inline(always)]
    unsafe fn plain(self, from: *const u64) -> __m256d {
        to_float(load(from))
    }

    #[inline(always)]
    unsafe fn weight(self, factor: u64) -> __m256d {
        _mm256_set1_pd(factor as f64)
    }

    #[inline(always)]
    unsafe fn zero(self) -> Sum64 {
        Sum64 { high: _mm256_setzero_si256(), low: _mm256_setzero_pd() }
    }

    #[inline(always)]
    unsafe fn add(self, sum: Sum64, a: __m256d, b: *const u64) -> Sum64 {
        let b = to_float(load(b));
        let split = _mm256_set1_pd(SPLIT);
        let rounded = _mm256_fmadd_pd(a, b, split);
        let low = _mm256_fmsub_pd(a, b, _mm256_sub_pd(rounded, split));
        Sum64 {
            high: _mm256_add_epi64(sum.high, _mm256_castpd_si256(rounded)),
            low: _mm256_add_pd(sum.low, low),
        }
    }

    /// Brings `high` below 2^63, as for 32-bit words: 32 terms add less than 2^58.
    #[inline(always)]
    unsafe fn fold(self, sum: Sum64, terms: usize) -> Sum64 {
        let constants = SPLIT.to_bits().wrapping_mul(terms as u64).cast_signed();
        let high = _mm256_sub_epi64(sum.high, _mm256_set1_epi64x(constants));
        let less = _mm256_sub_epi64(high, self.multiple);
        // The top bit is set only where `high` is at least 2^63.
        Sum64 { high: self.lanes.or_if_negative(high, less), low: self.lanes.reduce(sum.low) }
    }

    #[inline(always)]
    unsafe fn finish(self, to: *mut u64, sum: Sum64) {
        let words = _mm256_set1_epi64x((1 << 32) - 1);
        let low = self.lanes.mul_signed(to_float(_mm256_and_si256(sum.high, words)), self.two_to_48);
        let high = self.lanes.mul_signed(to_float(_mm256_srli_epi64(sum.high, 32)), self.two_to_80);
        self.lanes.store_residues(to, _mm256_add_pd(sum.low, _mm256_add_pd(low, high)));
    }
}
