//! Sixteen residues of 32 bits, by the arithmetic of `avx2::word32`.
//!
//! The high halves of products come from `vpmuludq` on even and odd lanes, merged by one masked shuffle. The low halves
//! come from `vpmulld`: it is two micro-operations, as are the two `vpmuludq` that could replace it, but these would
//! need further shuffles. Multiplication by a root so takes 9 micro-operations, against 10 for Montgomery's form with
//! `vpmuludq` alone.

#![allow(unsafe_op_in_unsafe_fn, reason = "all functions share the contract of Lanes and Sums")]

use std::arch::x86_64::*;

use crate::{
    Modulus, Multiplier,
    backend::lanes::{Lanes, Sums},
};

const EVEN: __mmask16 = 0x5555;
const ODD: __mmask16 = 0xaaaa;

/// Residues between the passes of a transform are in [0, 4q) on the way forward and in [0, 2q) on the way back,
/// which needs q < 2^30; if `STRICT`, for q < 2^31, in [0, 2q) and in [0, q).
#[derive(Clone, Copy)]
pub(super) struct Lanes32<const STRICT: bool> {
    q: __m512i,
    twice_q: __m512i,
    /// floor(2^(bits + 31) / q), in (2^31, 2^32).
    barrett: __m512i,
    /// bits - 1.
    shift: __m128i,
}

/// Roots w, and floor(w 2^32 / q) for the even and for the odd lanes, each in even lanes.
#[derive(Clone, Copy)]
pub(super) struct Root32 {
    factor: __m512i,
    even_quotient: __m512i,
    odd_quotient: __m512i,
}

impl<const STRICT: bool> Lanes32<STRICT> {
    /// x - bound where x is at least that.
    #[inline(always)]
    unsafe fn reduce_once(self, x: __m512i, bound: __m512i) -> __m512i {
        _mm512_min_epu32(x, _mm512_sub_epi32(x, bound))
    }

    /// y w in [0, 2q) for any y.
    #[inline(always)]
    unsafe fn mul_lazy(self, y: __m512i, root: Root32) -> __m512i {
        let even = _mm512_mul_epu32(y, root.even_quotient);
        let odd = _mm512_mul_epu32(_mm512_srli_epi64(y, 32), root.odd_quotient);
        let estimate = high_halves(even, odd);
        _mm512_sub_epi32(_mm512_mullo_epi32(y, root.factor), _mm512_mullo_epi32(estimate, self.q))
    }

    /// y w in [0, q) if `STRICT`, in [0, 2q) otherwise.
    #[inline(always)]
    unsafe fn mul_root(self, y: __m512i, root: Root32) -> __m512i {
        let product = self.mul_lazy(y, root);
        if STRICT { self.reduce_once(product, self.q) } else { product }
    }

    /// The most that `mul_root` stays below.
    #[inline(always)]
    fn bound(self) -> __m512i {
        if STRICT { self.q } else { self.twice_q }
    }

    /// a b for residues; see `avx2::word32` for the error of the quotient.
    #[inline(always)]
    unsafe fn mul_residues(self, a: __m512i, b: __m512i) -> __m512i {
        let even = self.barrett_rest(_mm512_mul_epu32(a, b));
        let odd = self.barrett_rest(_mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32)));
        let rest = low_halves(even, odd);
        let rest = if STRICT { rest } else { self.reduce_once(rest, self.twice_q) };
        self.reduce_once(rest, self.q)
    }

    /// A product of residues less an estimate of its quotient times q: below 5q/2, or below 2q if `STRICT`.
    #[inline(always)]
    unsafe fn barrett_rest(self, product: __m512i) -> __m512i {
        let high = _mm512_srl_epi64(product, self.shift);
        let estimate = _mm512_srli_epi64(_mm512_mul_epu32(high, self.barrett), 32);
        let rest = _mm512_sub_epi64(product, _mm512_mul_epu32(estimate, self.q));
        if STRICT {
            // 5q/2 may take 33 bits.
            _mm512_min_epu64(rest, _mm512_sub_epi64(rest, _mm512_srli_epi64(self.twice_q, 32)))
        } else {
            rest
        }
    }
}

/// The high halves of the 64-bit lanes, `even`'s in the even places.
#[inline(always)]
unsafe fn high_halves(even: __m512i, odd: __m512i) -> __m512i {
    let (even, odd) = (_mm512_castsi512_ps(even), _mm512_castsi512_ps(odd));
    _mm512_castps_si512(_mm512_mask_movehdup_ps(odd, EVEN, even))
}

/// The low halves of the 64-bit lanes, `even`'s in the even places.
#[inline(always)]
unsafe fn low_halves(even: __m512i, odd: __m512i) -> __m512i {
    let (even, odd) = (_mm512_castsi512_ps(even), _mm512_castsi512_ps(odd));
    _mm512_castps_si512(_mm512_mask_moveldup_ps(even, ODD, odd))
}

#[inline(always)]
unsafe fn load(from: *const u32) -> __m512i {
    _mm512_loadu_si512(from.cast())
}

#[inline(always)]
unsafe fn store(to: *mut u32, values: __m512i) {
    _mm512_storeu_si512(to.cast(), values);
}

#[inline(always)]
unsafe fn splat(word: u32) -> __m512i {
    _mm512_set1_epi32(word.cast_signed())
}

/// Where the roots of levels 0 to 2 lie in the first half of a record.
const ORDERS: [[u32; 16]; 3] = [
    [2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3],
    [4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7],
    [8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15],
];

impl<const STRICT: bool> Lanes for Lanes32<STRICT> {
    type Word = u32;
    type Vector = __m512i;
    type Root = Root32;

    const LANES: usize = 16;
    const ROOT_WORDS: usize = 2;
    const IS_EXPANDED: bool = false;

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
        let quotients = record.add(2 * Self::LANES);
        if LEVEL == 3 {
            let quotient = load(quotients.add(16));
            return Root32 {
                factor: load(record.add(16)),
                even_quotient: quotient,
                odd_quotient: _mm512_srli_epi64(quotient, 32),
            };
        }
        let order = load(ORDERS[LEVEL].as_ptr());
        let quotient = _mm512_permutexvar_epi32(order, load(quotients));
        Root32 {
            factor: _mm512_permutexvar_epi32(order, load(record)),
            even_quotient: quotient,
            odd_quotient: quotient,
        }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u32) -> __m512i {
        load(from)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32, values: __m512i) {
        store(to, values);
    }

    #[inline(always)]
    unsafe fn load_residues(self, from: *const u32) -> __m512i {
        load(from)
    }

    #[inline(always)]
    unsafe fn store_residues(self, to: *mut u32, values: __m512i) {
        let values = if STRICT { values } else { self.reduce_once(values, self.twice_q) };
        store(to, self.reduce_once(values, self.q));
    }

    #[inline(always)]
    unsafe fn exchange<const LEVEL: usize>(self, x: __m512i, y: __m512i) -> (__m512i, __m512i) {
        match LEVEL {
            0 => (_mm512_shuffle_i64x2(x, y, 0b01_00_01_00), _mm512_shuffle_i64x2(x, y, 0b11_10_11_10)),
            1 => (
                _mm512_mask_shuffle_i64x2(x, 0b1100_1100, y, y, 0b10_10_00_00),
                _mm512_mask_shuffle_i64x2(y, 0b0011_0011, x, x, 0b11_11_01_01),
            ),
            2 => (_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y)),
            _ => {
                let (x, y) = (_mm512_castsi512_ps(x), _mm512_castsi512_ps(y));
                (
                    _mm512_castps_si512(_mm512_mask_moveldup_ps(x, ODD, y)),
                    _mm512_castps_si512(_mm512_mask_movehdup_ps(y, EVEN, x)),
                )
            }
        }
    }

    #[inline(always)]
    unsafe fn restore<const LEVEL: usize>(self, x: __m512i, y: __m512i) -> (__m512i, __m512i) {
        self.exchange::<LEVEL>(x, y)
    }

    #[inline(always)]
    unsafe fn forward2<const LEFT: usize>(self, x: __m512i, y: __m512i, root: Root32) -> (__m512i, __m512i) {
        // Half of the range, so that the sum and the difference take the whole.
        let bound = self.bound();
        let x = self.reduce_once(x, bound);
        let product = self.mul_root(y, root);
        (_mm512_add_epi32(x, product), _mm512_sub_epi32(_mm512_add_epi32(x, bound), product))
    }

    #[inline(always)]
    unsafe fn forward4_first(self, [a, b, c, d]: [__m512i; 4], root: Root32) -> [__m512i; 4] {
        let (a, c) = self.forward2::<0>(a, c, root);
        let (b, d) = self.forward2::<0>(b, d, root);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn forward4_second(self, [a, b, c, d]: [__m512i; 4], roots: [Root32; 2]) -> [__m512i; 4] {
        let (a, b) = self.forward2::<0>(a, b, roots[0]);
        let (c, d) = self.forward2::<0>(c, d, roots[1]);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn inverse2<const DONE: usize>(self, x: __m512i, y: __m512i, root: Root32) -> (__m512i, __m512i) {
        let bound = self.bound();
        let sum = self.reduce_once(_mm512_add_epi32(x, y), bound);
        (sum, self.mul_root(_mm512_sub_epi32(_mm512_add_epi32(x, bound), y), root))
    }

    #[inline(always)]
    unsafe fn inverse4_first(self, [a, b, c, d]: [__m512i; 4], roots: [Root32; 2]) -> [__m512i; 4] {
        let (a, b) = self.inverse2::<0>(a, b, roots[0]);
        let (c, d) = self.inverse2::<0>(c, d, roots[1]);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn inverse4_second(self, [a, b, c, d]: [__m512i; 4], root: Root32) -> [__m512i; 4] {
        let (a, c) = self.inverse2::<0>(a, c, root);
        let (b, d) = self.inverse2::<0>(b, d, root);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn inverse4_last(self, [a, b, c, d]: [__m512i; 4], root: Root32, scale: Root32) -> [__m512i; 4] {
        [
            self.mul_root(_mm512_add_epi32(a, c), scale),
            self.mul_root(_mm512_add_epi32(b, d), scale),
            self.mul_root(_mm512_sub_epi32(_mm512_add_epi32(a, self.bound()), c), root),
            self.mul_root(_mm512_sub_epi32(_mm512_add_epi32(b, self.bound()), d), root),
        ]
    }

    #[inline(always)]
    unsafe fn add(self, a: *mut u32, b: *const u32) {
        store(a, self.reduce_once(_mm512_add_epi32(load(a), load(b)), self.q));
    }

    #[inline(always)]
    unsafe fn sub(self, a: *mut u32, b: *const u32) {
        // A negative difference is the larger of the two as an unsigned number.
        let difference = _mm512_sub_epi32(load(a), load(b));
        store(a, _mm512_min_epu32(difference, _mm512_add_epi32(difference, self.q)));
    }

    #[inline(always)]
    unsafe fn mul(self, a: *mut u32, b: *const u32) {
        store(a, self.mul_residues(load(a), load(b)));
    }

    #[inline(always)]
    unsafe fn mul_add(self, a: *mut u32, b: *const u32, c: *const u32) {
        let product = self.mul_residues(load(b), load(c));
        store(a, self.reduce_once(_mm512_add_epi32(load(a), product), self.q));
    }

    #[inline(always)]
    unsafe fn scale(self, a: *mut u32, factor: Root32) {
        store(a, self.reduce_once(self.mul_lazy(load(a), factor), self.q));
    }
}

/// Sums of 64-bit products for the even and the odd lanes, kept below 2^63 as in `avx2::word32`.
#[derive(Clone, Copy)]
pub(super) struct Sums32 {
    lanes: Lanes32<true>,
    period: usize,
    /// The largest multiple of q below 2^63.
    multiple: __m512i,
    one: Root32,
    /// 2^32 modulo q.
    two_to_32: Root32,
}

impl Sums for Sums32 {
    type Word = u32;
    type Plain = [__m512i; 2];
    type Sum = [__m512i; 2];

    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn new(modulus: &Modulus<u32>, largest: u64) -> Self {
        let q = modulus.as_u64();
        let lanes = Lanes32::<true>::new(modulus);
        let root = |value| Lanes32::<true>::encode(modulus, modulus.multiplier(modulus.reduce(value)));
        let (one, two_to_32) = (root(1), root(1 << 32));
        Self {
            lanes,
            period: (((1 << 63) - q) / ((q - 1) * largest)) as usize,
            multiple: _mm512_set1_epi64(((1u64 << 63) / q * q).cast_signed()),
            one: lanes.root(one.as_ptr()),
            two_to_32: lanes.root(two_to_32.as_ptr()),
        }
    }

    #[inline(always)]
    fn period(&self) -> usize {
        self.period
    }

    #[inline(always)]
    unsafe fn plain(self, from: *const u32) -> [__m512i; 2] {
        let plain = load(from);
        [plain, _mm512_srli_epi64(plain, 32)]
    }

    #[inline(always)]
    unsafe fn weight(self, factor: u32) -> [__m512i; 2] {
        [splat(factor); 2]
    }

    #[inline(always)]
    unsafe fn zero(self) -> [__m512i; 2] {
        [_mm512_setzero_si512(); 2]
    }

    #[inline(always)]
    unsafe fn add(self, [even, odd]: [__m512i; 2], a: [__m512i; 2], b: *const u32) -> [__m512i; 2] {
        let b = load(b);
        [
            _mm512_add_epi64(even, _mm512_mul_epu32(a[0], b)),
            _mm512_add_epi64(odd, _mm512_mul_epu32(a[1], _mm512_srli_epi64(b, 32))),
        ]
    }

    #[inline(always)]
    unsafe fn fold(self, [even, odd]: [__m512i; 2], _: usize) -> [__m512i; 2] {
        [
            _mm512_min_epu64(even, _mm512_sub_epi64(even, self.multiple)),
            _mm512_min_epu64(odd, _mm512_sub_epi64(odd, self.multiple)),
        ]
    }

    #[inline(always)]
    unsafe fn finish(self, to: *mut u32, [even, odd]: [__m512i; 2]) {
        let low = self.lanes.mul_root(low_halves(even, odd), self.one);
        let high = self.lanes.mul_root(high_halves(even, odd), self.two_to_32);
        store(to, self.lanes.reduce_once(_mm512_add_epi32(low, high), self.lanes.q));
    }
}
