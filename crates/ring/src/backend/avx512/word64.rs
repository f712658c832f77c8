//! Eight residues of up to 50 bits, by Shoup's multiplication with the 52-bit multiply-add of IFMA.
//!
//! Only the low 52 bits of a lane count: all arithmetic is modulo 2^52, and the multiplier reads no other bits, so
//! nothing is masked before `store_residues`. With w' = floor(w 2^52 / q) and e = floor(y w' / 2^52),
//!
//! ```text
//! x + y w - e q  =  x + low(y w) + low(e (2^52 - q))    modulo 2^52,
//! ```
//!
//! three multiply-adds; y w - e q is in [0, 2q) for any y below 2^52. The difference of the butterfly is
//! x - (y w - e q) + 2q = 2x + 2q - (the sum). The same with w = 1 reduces x to [0, 2q) in two multiply-adds, where a
//! comparison would take three instructions, one of them for a single port.
//!
//! **Ranges** in multiples of q, each an upper bound that is not reached. If `STRICT` (q < 2^50, so 4q < 2^52): forward
//! 4 between stages, each stage reduces x to 2. Backward 2, each stage reduces the sum of 4. Otherwise (q < 2^49, so
//! 8q < 2^52), forward: 6 between passes. `forward4` reduces the first value to 2; after the first stage it and its
//! partner are below 4, the others below 6 + 2; after the second all are below 6. Within registers one stage of
//! three reduces: at most 6 + 2 before it, then 4, 6 and 8. Backward: 2 between passes, one reduction of 8 after
//! two stages; in registers 1, 2, 4, then 8 reduced to 2.

#![allow(unsafe_op_in_unsafe_fn, reason = "all functions share the contract of Lanes and Sums")]

use std::arch::x86_64::*;

use crate::{
    Modulus, Multiplier,
    backend::lanes::{Lanes, Sums},
};

/// The low 52 bits.
const MASK: u64 = (1 << 52) - 1;

#[derive(Clone, Copy)]
pub(super) struct Lanes64<const STRICT: bool> {
    q: __m512i,
    twice_q: __m512i,
    /// 2^52 - q.
    minus_q: __m512i,
    /// floor(2^52 / q).
    inverse: __m512i,
    /// floor(2^(2 bits) / q).
    barrett: __m512i,
    /// 52 - bits.
    shift: __m128i,
}

/// Roots w and floor(w 2^52 / q).
#[derive(Clone, Copy)]
pub(super) struct Root64 {
    factor: __m512i,
    quotient: __m512i,
}

impl<const STRICT: bool> Lanes64<STRICT> {
    /// x + y w, where y w counts as a number below 2q.
    #[inline(always)]
    unsafe fn mul_add_root(self, x: __m512i, y: __m512i, root: Root64) -> __m512i {
        let estimate = _mm512_madd52hi_epu64(_mm512_setzero_si512(), y, root.quotient);
        let sum = _mm512_madd52lo_epu64(x, y, root.factor);
        _mm512_madd52lo_epu64(sum, estimate, self.minus_q)
    }

    /// y w, below 2q.
    #[inline(always)]
    unsafe fn mul_root(self, y: __m512i, root: Root64) -> __m512i {
        self.mul_add_root(_mm512_setzero_si512(), y, root)
    }

    /// x, below 2q.
    #[inline(always)]
    unsafe fn reduce(self, x: __m512i) -> __m512i {
        let estimate = _mm512_madd52hi_epu64(_mm512_setzero_si512(), x, self.inverse);
        _mm512_madd52lo_epu64(x, estimate, self.minus_q)
    }

    /// x - y + 2q.
    #[inline(always)]
    unsafe fn difference(self, x: __m512i, y: __m512i) -> __m512i {
        _mm512_sub_epi64(_mm512_add_epi64(x, self.twice_q), y)
    }

    /// x - y + 4q, or + 2q if `STRICT`.
    #[inline(always)]
    unsafe fn wide_difference(self, x: __m512i, y: __m512i) -> __m512i {
        let multiple = if STRICT { self.twice_q } else { _mm512_add_epi64(self.twice_q, self.twice_q) };
        _mm512_sub_epi64(_mm512_add_epi64(x, multiple), y)
    }

    /// The forward butterfly.
    #[inline(always)]
    unsafe fn butterfly(self, x: __m512i, y: __m512i, root: Root64) -> (__m512i, __m512i) {
        let sum = self.mul_add_root(x, y, root);
        (sum, self.difference(_mm512_add_epi64(x, x), sum))
    }

    #[inline(always)]
    unsafe fn reduce_if(self, condition: bool, x: __m512i) -> __m512i {
        if condition { self.reduce(x) } else { x }
    }

    /// x - bound where x is at least that.
    #[inline(always)]
    unsafe fn reduce_once(self, x: __m512i, bound: __m512i) -> __m512i {
        _mm512_min_epu64(x, _mm512_sub_epi64(x, bound))
    }

    /// The residue of a number below 2q modulo 2^52.
    #[inline(always)]
    unsafe fn to_residues(self, x: __m512i) -> __m512i {
        self.reduce_once(_mm512_and_si512(x, splat(MASK)), self.q)
    }

    /// a b for residues, by Barrett's reduction from the product's highest 52 bits of 2 `bits`. With x = q/2^bits in
    /// (1/2, 1), the estimate of the quotient is below it by less than 1 + 1/2 + x^2 <= 5/2 (rounding down; low bits of
    /// the product; low bits of the constant).
    #[inline(always)]
    unsafe fn mul_residues(self, a: __m512i, b: __m512i) -> __m512i {
        let zero = _mm512_setzero_si512();
        let (c, d) = (_mm512_sll_epi64(a, self.shift), _mm512_sll_epi64(b, self.shift));
        let high = _mm512_madd52hi_epu64(zero, c, d);
        let estimate = _mm512_madd52hi_epu64(zero, high, self.barrett);
        let rest = _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(zero, a, b), estimate, self.minus_q);
        let rest = _mm512_and_si512(rest, splat(MASK));
        self.reduce_once(self.reduce_once(rest, self.twice_q), self.q)
    }
}

#[inline(always)]
unsafe fn load(from: *const u64) -> __m512i {
    _mm512_loadu_si512(from.cast())
}

#[inline(always)]
unsafe fn store(to: *mut u64, words: __m512i) {
    _mm512_storeu_si512(to.cast(), words);
}

#[inline(always)]
unsafe fn splat(word: u64) -> __m512i {
    _mm512_set1_epi64(word.cast_signed())
}

/// Where the roots of levels 0 and 1 lie in the first half of a record.
const ORDERS: [[u64; 8]; 2] = [[2, 2, 2, 2, 3, 3, 3, 3], [4, 4, 5, 5, 6, 6, 7, 7]];

impl<const STRICT: bool> Lanes for Lanes64<STRICT> {
    type Word = u64;
    type Vector = __m512i;
    type Root = Root64;

    const LANES: usize = 8;
    const ROOT_WORDS: usize = 2;
    const IS_EXPANDED: bool = false;

    #[inline(always)]
    unsafe fn new(modulus: &Modulus<u64>) -> Self {
        let q = modulus.value();
        Self {
            q: splat(q),
            twice_q: splat(2 * q),
            minus_q: splat((1 << 52) - q),
            inverse: splat((1 << 52) / q),
            barrett: splat(modulus.barrett()),
            shift: _mm_cvtsi32_si128(52 - modulus.bits().cast_signed()),
        }
    }

    fn encode(_: &Modulus<u64>, root: Multiplier<u64>) -> [u64; 2] {
        [root.factor, root.quotient >> 12]
    }

    #[inline(always)]
    unsafe fn root(self, from: *const u64) -> Root64 {
        Root64 { factor: splat(*from), quotient: splat(*from.add(1)) }
    }

    #[inline(always)]
    unsafe fn record_roots<const LEVEL: usize>(self, record: *const u64) -> Root64 {
        let quotients = record.add(2 * Self::LANES);
        if LEVEL == 2 {
            return Root64 { factor: load(record.add(8)), quotient: load(quotients.add(8)) };
        }
        let order = load(ORDERS[LEVEL].as_ptr());
        Root64 {
            factor: _mm512_permutexvar_epi64(order, load(record)),
            quotient: _mm512_permutexvar_epi64(order, load(quotients)),
        }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u64) -> __m512i {
        load(from)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u64, values: __m512i) {
        store(to, values);
    }

    #[inline(always)]
    unsafe fn load_residues(self, from: *const u64) -> __m512i {
        load(from)
    }

    #[inline(always)]
    unsafe fn store_residues(self, to: *mut u64, values: __m512i) {
        store(to, self.to_residues(self.reduce(values)));
    }

    #[inline(always)]
    unsafe fn exchange<const LEVEL: usize>(self, x: __m512i, y: __m512i) -> (__m512i, __m512i) {
        match LEVEL {
            0 => (_mm512_shuffle_i64x2(x, y, 0b01_00_01_00), _mm512_shuffle_i64x2(x, y, 0b11_10_11_10)),
            1 => (
                _mm512_mask_shuffle_i64x2(x, 0b1100_1100, y, y, 0b10_10_00_00),
                _mm512_mask_shuffle_i64x2(y, 0b0011_0011, x, x, 0b11_11_01_01),
            ),
            _ => (_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y)),
        }
    }

    #[inline(always)]
    unsafe fn restore<const LEVEL: usize>(self, x: __m512i, y: __m512i) -> (__m512i, __m512i) {
        self.exchange::<LEVEL>(x, y)
    }

    #[inline(always)]
    unsafe fn forward2<const LEFT: usize>(self, x: __m512i, y: __m512i, root: Root64) -> (__m512i, __m512i) {
        self.butterfly(self.reduce_if(STRICT || LEFT == 2, x), y, root)
    }

    #[inline(always)]
    unsafe fn forward4_first(self, [a, b, c, d]: [__m512i; 4], root: Root64) -> [__m512i; 4] {
        let (a, c) = self.butterfly(self.reduce(a), c, root);
        let (b, d) = self.butterfly(self.reduce_if(STRICT, b), d, root);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn forward4_second(self, [a, b, c, d]: [__m512i; 4], roots: [Root64; 2]) -> [__m512i; 4] {
        let (a, b) = self.butterfly(self.reduce_if(STRICT, a), b, roots[0]);
        let (c, d) = self.butterfly(self.reduce_if(STRICT, c), d, roots[1]);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn inverse2<const DONE: usize>(self, x: __m512i, y: __m512i, root: Root64) -> (__m512i, __m512i) {
        let sum = self.reduce_if(STRICT || DONE >= 2, _mm512_add_epi64(x, y));
        let difference = if DONE == 2 { self.wide_difference(x, y) } else { self.difference(x, y) };
        (sum, self.mul_root(difference, root))
    }

    #[inline(always)]
    unsafe fn inverse4_first(self, [a, b, c, d]: [__m512i; 4], roots: [Root64; 2]) -> [__m512i; 4] {
        let (a, b) = self.inverse2::<0>(a, b, roots[0]);
        let (c, d) = self.inverse2::<0>(c, d, roots[1]);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn inverse4_second(self, [a, b, c, d]: [__m512i; 4], root: Root64) -> [__m512i; 4] {
        [
            self.reduce(_mm512_add_epi64(a, c)),
            self.reduce(_mm512_add_epi64(b, d)),
            self.mul_root(self.wide_difference(a, c), root),
            self.mul_root(self.difference(b, d), root),
        ]
    }

    #[inline(always)]
    unsafe fn inverse4_last(self, [a, b, c, d]: [__m512i; 4], root: Root64, scale: Root64) -> [__m512i; 4] {
        [
            self.mul_root(_mm512_add_epi64(a, c), scale),
            self.mul_root(_mm512_add_epi64(b, d), scale),
            self.mul_root(self.wide_difference(a, c), root),
            self.mul_root(self.difference(b, d), root),
        ]
    }

    #[inline(always)]
    unsafe fn add(self, a: *mut u64, b: *const u64) {
        store(a, self.reduce_once(_mm512_add_epi64(load(a), load(b)), self.q));
    }

    #[inline(always)]
    unsafe fn sub(self, a: *mut u64, b: *const u64) {
        // A negative difference is the larger of the two as an unsigned number.
        let difference = _mm512_sub_epi64(load(a), load(b));
        store(a, _mm512_min_epu64(difference, _mm512_add_epi64(difference, self.q)));
    }

    #[inline(always)]
    unsafe fn mul(self, a: *mut u64, b: *const u64) {
        store(a, self.mul_residues(load(a), load(b)));
    }

    #[inline(always)]
    unsafe fn mul_add(self, a: *mut u64, b: *const u64, c: *const u64) {
        let product = self.mul_residues(load(b), load(c));
        store(a, self.reduce_once(_mm512_add_epi64(load(a), product), self.q));
    }

    #[inline(always)]
    unsafe fn scale(self, a: *mut u64, factor: Root64) {
        store(a, self.to_residues(self.mul_root(load(a), factor)));
    }
}

/// Sums of products a b < 2^100 as 2^52 `high` + `low`. `low` takes less than 2^52 with each product, so it has room
/// for 2^11 of them between two folds; `high` takes less than 2^48, so it has room for [`crate::Tiles::MAX_ROWS`].
#[derive(Clone, Copy)]
pub(super) struct Sums64 {
    lanes: Lanes64<true>,
    /// 2^52 and 2^104 modulo q.
    two_to_52: Root64,
    two_to_104: Root64,
}

/// Two accumulators.
#[derive(Clone, Copy)]
pub(super) struct Sum64 {
    high: __m512i,
    low: __m512i,
}

impl Sums for Sums64 {
    type Word = u64;
    type Plain = __m512i;
    type Sum = Sum64;

    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn new(modulus: &Modulus<u64>, _: u64) -> Self {
        let lanes = Lanes64::<true>::new(modulus);
        let root = |residue| Lanes64::<true>::encode(modulus, modulus.multiplier(residue));
        let two_to_52 = modulus.reduce(1 << 52);
        let (first, second) = (root(two_to_52), root(modulus.mul(two_to_52, two_to_52)));
        Self { lanes, two_to_52: lanes.root(first.as_ptr()), two_to_104: lanes.root(second.as_ptr()) }
    }

    #[inline(always)]
    fn period(&self) -> usize {
        1 << 11
    }

    #[inline(always)]
    unsafe fn plain(self, from: *const u64) -> __m512i {
        load(from)
    }

    #[inline(always)]
    unsafe fn weight(self, factor: u64) -> __m512i {
        splat(factor)
    }

    #[inline(always)]
    unsafe fn zero(self) -> Sum64 {
        Sum64 { high: _mm512_setzero_si512(), low: _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn add(self, sum: Sum64, a: __m512i, b: *const u64) -> Sum64 {
        let b = load(b);
        Sum64 { high: _mm512_madd52hi_epu64(sum.high, a, b), low: _mm512_madd52lo_epu64(sum.low, a, b) }
    }

    #[inline(always)]
    unsafe fn fold(self, sum: Sum64, _: usize) -> Sum64 {
        Sum64 {
            high: _mm512_add_epi64(sum.high, _mm512_srli_epi64(sum.low, 52)),
            low: _mm512_and_si512(sum.low, splat(MASK)),
        }
    }

    #[inline(always)]
    unsafe fn finish(self, to: *mut u64, sum: Sum64) {
        // The multiplier takes the low 52 bits of `high` by itself.
        let rest = self.lanes.mul_add_root(self.lanes.reduce(sum.low), sum.high, self.two_to_52);
        let top = _mm512_srli_epi64(sum.high, 52);
        let rest = self.lanes.mul_add_root(self.lanes.reduce(rest), top, self.two_to_104);
        self.lanes.store_residues(to, rest);
    }
}
