//! Eight residues of 32 bits, by Shoup's multiplication with lazy ranges (Harvey, Faster arithmetic for
//! number-theoretic transforms, 2014).

#![allow(unsafe_op_in_unsafe_fn, reason = "all functions share the contract of Lanes and Sums")]

use std::arch::x86_64::*;

use crate::{
    Modulus, Multiplier,
    backend::lanes::{Lanes, Sums},
};

/// Residues between the passes of a transform are in [0, 4q) on the way forward and in [0, 2q) on the way back,
/// which needs q < 2^30; if `STRICT`, for q < 2^31, in [0, 2q) and in [0, q).
#[derive(Clone, Copy)]
pub(super) struct Lanes32<const STRICT: bool> {
    q: __m256i,
    twice_q: __m256i,
    /// floor(2^(bits + 31) / q), in (2^31, 2^32).
    barrett: __m256i,
    /// bits - 1.
    shift: __m128i,
}

/// Roots w, and floor(w 2^32 / q) for the even and for the odd lanes, each in even lanes.
#[derive(Clone, Copy)]
pub(super) struct Root32 {
    factor: __m256i,
    even_quotient: __m256i,
    odd_quotient: __m256i,
}

impl<const STRICT: bool> Lanes32<STRICT> {
    /// x - bound where x is at least that.
    #[inline(always)]
    unsafe fn reduce_once(self, x: __m256i, bound: __m256i) -> __m256i {
        _mm256_min_epu32(x, _mm256_sub_epi32(x, bound))
    }

    /// y w in [0, 2q) for any y.
    #[inline(always)]
    unsafe fn mul_lazy(self, y: __m256i, root: Root32) -> __m256i {
        let even = _mm256_mul_epu32(y, root.even_quotient);
        let odd = _mm256_mul_epu32(_mm256_srli_epi64(y, 32), root.odd_quotient);
        let estimate = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0b1010_1010);
        _mm256_sub_epi32(_mm256_mullo_epi32(y, root.factor), _mm256_mullo_epi32(estimate, self.q))
    }

    /// y w in [0, q) if `STRICT`, in [0, 2q) otherwise.
    #[inline(always)]
    unsafe fn mul_root(self, y: __m256i, root: Root32) -> __m256i {
        let product = self.mul_lazy(y, root);
        if STRICT { self.reduce_once(product, self.q) } else { product }
    }

    /// The most that `mul_root` stays below.
    #[inline(always)]
    fn bound(self) -> __m256i {
        if STRICT { self.q } else { self.twice_q }
    }

    /// a b for residues, by Barrett's reduction. With x = q/2^bits in (1/2, 1), the estimate of the quotient is below
    /// it by less than 1 + 1/2x + x^2 <= 5/2 (rounding down; low bits of the product; low bits of the constant).
    #[inline(always)]
    unsafe fn mul_residues(self, a: __m256i, b: __m256i) -> __m256i {
        let even = self.barrett_rest(_mm256_mul_epu32(a, b));
        let odd = self.barrett_rest(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32)));
        let rest = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0b1010_1010);
        let rest = if STRICT { rest } else { self.reduce_once(rest, self.twice_q) };
        self.reduce_once(rest, self.q)
    }

    /// A product of residues less an estimate of its quotient times q: below 5q/2, or below 2q if `STRICT`.
    #[inline(always)]
    unsafe fn barrett_rest(self, product: __m256i) -> __m256i {
        let high = _mm256_srl_epi64(product, self.shift);
        let estimate = _mm256_srli_epi64(_mm256_mul_epu32(high, self.barrett), 32);
        let rest = _mm256_sub_epi64(product, _mm256_mul_epu32(estimate, self.q));
        if STRICT {
            // 5q/2 may take 33 bits. The sign bit chooses.
            let less = _mm256_sub_epi64(rest, _mm256_srli_epi64(self.twice_q, 32));
            blend_by_sign(less, rest, less)
        } else {
            rest
        }
    }
}

/// Per 64-bit lane: b where the top bit of `sign` is set, otherwise a.
#[inline(always)]
unsafe fn blend_by_sign(a: __m256i, b: __m256i, sign: __m256i) -> __m256i {
    _mm256_castpd_si256(_mm256_blendv_pd(
        _mm256_castsi256_pd(a),
        _mm256_castsi256_pd(b),
        _mm256_castsi256_pd(sign),
    ))
}

#[inline(always)]
unsafe fn load(from: *const u32) -> __m256i {
    _mm256_loadu_si256(from.cast())
}

#[inline(always)]
unsafe fn store(to: *mut u32, values: __m256i) {
    _mm256_storeu_si256(to.cast(), values);
}

#[inline(always)]
unsafe fn splat(word: u32) -> __m256i {
    _mm256_set1_epi32(word.cast_signed())
}

impl<const STRICT: bool> Lanes for Lanes32<STRICT> {
    type Word = u32;
    type Vector = __m256i;
    type Root = Root32;

    const LANES: usize = 8;
    const ROOT_WORDS: usize = 2;
    // Spreading roots would take shuffles across the halves of registers, which are slow on many processors.
    const IS_EXPANDED: bool = true;

    #[inline(always)]
    unsafe fn new(modulus: &Modulus<u32>) -> Self {
        let q = modulus.value();
        Self {
            q: splat(q),
            twice_q: splat(2 * q),
            barrett: splat(((1 << (modulus.bits() + 31)) / u64::from(q)) as u32),
            shift: _mm_cvtsi32_si128(modulus.bits().cast_signed() - 1),
        }
    }

    fn encode(_: &Modulus<u32>, root: Multiplier<u32>) -> [u32; 2] {
        [root.factor, root.quotient]
    }

    #[inline(always)]
    unsafe fn root(self, from: *const u32) -> Root32 {
        let quotient = splat(*from.add(1));
        Root32 { factor: splat(*from), even_quotient: quotient, odd_quotient: quotient }
    }

    #[inline(always)]
    unsafe fn record_roots<const LEVEL: usize>(self, record: *const u32) -> Root32 {
        let quotient = load(record.add((3 + LEVEL) * Self::LANES));
        Root32 {
            factor: load(record.add(LEVEL * Self::LANES)),
            even_quotient: quotient,
            // Before the last level neighbours have the same root.
            odd_quotient: if LEVEL == 2 { _mm256_srli_epi64(quotient, 32) } else { quotient },
        }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u32) -> __m256i {
        load(from)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32, values: __m256i) {
        store(to, values);
    }

    #[inline(always)]
    unsafe fn load_residues(self, from: *const u32) -> __m256i {
        load(from)
    }

    #[inline(always)]
    unsafe fn store_residues(self, to: *mut u32, values: __m256i) {
        let values = if STRICT { values } else { self.reduce_once(values, self.twice_q) };
        store(to, self.reduce_once(values, self.q));
    }

    #[inline(always)]
    unsafe fn exchange<const LEVEL: usize>(self, x: __m256i, y: __m256i) -> (__m256i, __m256i) {
        if LEVEL < 2 {
            return self.restore::<LEVEL>(x, y);
        }
        // x0 x2 y0 y2 and x1 x3 y1 y3 in each half.
        let (x, y) = (_mm256_castsi256_ps(x), _mm256_castsi256_ps(y));
        (
            _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0b10_00_10_00)),
            _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0b11_01_11_01)),
        )
    }

    #[inline(always)]
    unsafe fn restore<const LEVEL: usize>(self, x: __m256i, y: __m256i) -> (__m256i, __m256i) {
        match LEVEL {
            0 => (_mm256_permute2x128_si256(x, y, 0x20), _mm256_permute2x128_si256(x, y, 0x31)),
            1 => (_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y)),
            _ => (_mm256_unpacklo_epi32(x, y), _mm256_unpackhi_epi32(x, y)),
        }
    }

    #[inline(always)]
    unsafe fn forward2<const LEFT: usize>(self, x: __m256i, y: __m256i, root: Root32) -> (__m256i, __m256i) {
        // Half of the range, so that the sum and the difference take the whole.
        let bound = self.bound();
        let x = self.reduce_once(x, bound);
        let product = self.mul_root(y, root);
        (_mm256_add_epi32(x, product), _mm256_sub_epi32(_mm256_add_epi32(x, bound), product))
    }

    #[inline(always)]
    unsafe fn forward4_first(self, [a, b, c, d]: [__m256i; 4], root: Root32) -> [__m256i; 4] {
        let (a, c) = self.forward2::<0>(a, c, root);
        let (b, d) = self.forward2::<0>(b, d, root);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn forward4_second(self, [a, b, c, d]: [__m256i; 4], roots: [Root32; 2]) -> [__m256i; 4] {
        let (a, b) = self.forward2::<0>(a, b, roots[0]);
        let (c, d) = self.forward2::<0>(c, d, roots[1]);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn inverse2<const DONE: usize>(self, x: __m256i, y: __m256i, root: Root32) -> (__m256i, __m256i) {
        let bound = self.bound();
        let sum = self.reduce_once(_mm256_add_epi32(x, y), bound);
        (sum, self.mul_root(_mm256_sub_epi32(_mm256_add_epi32(x, bound), y), root))
    }

    #[inline(always)]
    unsafe fn inverse4_first(self, [a, b, c, d]: [__m256i; 4], roots: [Root32; 2]) -> [__m256i; 4] {
        let (a, b) = self.inverse2::<0>(a, b, roots[0]);
        let (c, d) = self.inverse2::<0>(c, d, roots[1]);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn inverse4_second(self, [a, b, c, d]: [__m256i; 4], root: Root32) -> [__m256i; 4] {
        let (a, c) = self.inverse2::<0>(a, c, root);
        let (b, d) = self.inverse2::<0>(b, d, root);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn inverse4_last(self, [a, b, c, d]: [__m256i; 4], root: Root32, scale: Root32) -> [__m256i; 4] {
        [
            self.mul_root(_mm256_add_epi32(a, c), scale),
            self.mul_root(_mm256_add_epi32(b, d), scale),
            self.mul_root(_mm256_sub_epi32(_mm256_add_epi32(a, self.bound()), c), root),
            self.mul_root(_mm256_sub_epi32(_mm256_add_epi32(b, self.bound()), d), root),
        ]
    }

    #[inline(always)]
    unsafe fn add(self, a: *mut u32, b: *const u32) {
        store(a, self.reduce_once(_mm256_add_epi32(load(a), load(b)), self.q));
    }

    #[inline(always)]
    unsafe fn sub(self, a: *mut u32, b: *const u32) {
        // A negative difference is the larger of the two as an unsigned number.
        let difference = _mm256_sub_epi32(load(a), load(b));
        store(a, _mm256_min_epu32(difference, _mm256_add_epi32(difference, self.q)));
    }

    #[inline(always)]
    unsafe fn mul(self, a: *mut u32, b: *const u32) {
        store(a, self.mul_residues(load(a), load(b)));
    }

    #[inline(always)]
    unsafe fn mul_add(self, a: *mut u32, b: *const u32, c: *const u32) {
        let product = self.mul_residues(load(b), load(c));
        store(a, self.reduce_once(_mm256_add_epi32(load(a), product), self.q));
    }

    #[inline(always)]
    unsafe fn scale(self, a: *mut u32, factor: Root32) {
        store(a, self.reduce_once(self.mul_lazy(load(a), factor), self.q));
    }
}

/// Sums of 64-bit products for the even and the odd lanes. Once the top bit of a sum is set, `fold` subtracts the
/// largest multiple M of q below 2^63. A sum is below 2^63 after that: it is below 2^64 - q before, as `period`
/// products are at most 2^63 - q together, and M > 2^63 - q.
#[derive(Clone, Copy)]
pub(super) struct Sums32 {
    lanes: Lanes32<true>,
    period: usize,
    /// M.
    multiple: __m256i,
    one: Root32,
    /// 2^32 modulo q.
    two_to_32: Root32,
}

impl Sums for Sums32 {
    type Word = u32;
    type Plain = [__m256i; 2];
    type Sum = [__m256i; 2];

    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn new(modulus: &Modulus<u32>, largest: u64) -> Self {
        let q = modulus.as_u64();
        let lanes = Lanes32::<true>::new(modulus);
        let root = |value| Lanes32::<true>::encode(modulus, modulus.multiplier(modulus.reduce(value)));
        let (one, two_to_32) = (root(1), root(1 << 32));
        Self {
            lanes,
            period: (((1 << 63) - q) / ((q - 1) * largest)) as usize,
            multiple: _mm256_set1_epi64x(((1u64 << 63) / q * q).cast_signed()),
            one: lanes.root(one.as_ptr()),
            two_to_32: lanes.root(two_to_32.as_ptr()),
        }
    }

    #[inline(always)]
    fn period(&self) -> usize {
        self.period
    }

    #[inline(always)]
    unsafe fn plain(self, from: *const u32) -> [__m256i; 2] {
        let plain = load(from);
        [plain, _mm256_srli_epi64(plain, 32)]
    }

    #[inline(always)]
    unsafe fn weight(self, factor: u32) -> [__m256i; 2] {
        [splat(factor); 2]
    }

    #[inline(always)]
    unsafe fn zero(self) -> [__m256i; 2] {
        [_mm256_setzero_si256(); 2]
    }

    #[inline(always)]
    unsafe fn add(self, [even, odd]: [__m256i; 2], a: [__m256i; 2], b: *const u32) -> [__m256i; 2] {
        let b = load(b);
        [
            _mm256_add_epi64(even, _mm256_mul_epu32(a[0], b)),
            _mm256_add_epi64(odd, _mm256_mul_epu32(a[1], _mm256_srli_epi64(b, 32))),
        ]
    }

    #[inline(always)]
    unsafe fn fold(self, [even, odd]: [__m256i; 2], _: usize) -> [__m256i; 2] {
        [
            blend_by_sign(even, _mm256_sub_epi64(even, self.multiple), even),
            blend_by_sign(odd, _mm256_sub_epi64(odd, self.multiple), odd),
        ]
    }

    #[inline(always)]
    unsafe fn finish(self, to: *mut u32, [even, odd]: [__m256i; 2]) {
        let low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0b1010_1010);
        let high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0b1010_1010);
        let low = self.lanes.mul_root(low, self.one);
        let high = self.lanes.mul_root(high, self.two_to_32);
        store(to, self.lanes.reduce_once(_mm256_add_epi32(low, high), self.lanes.q));
    }
}
