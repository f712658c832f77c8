//! Eight signed residues, and their products for the even and for the odd lanes.

#![allow(unsafe_op_in_unsafe_fn, reason = "all functions share the contract of PairLanes")]

use std::arch::x86_64::*;

use crate::backend::pairs::{Constants, PairLanes, horner, pair_kernels};

pair_kernels! { Pairs, features "avx2,fma" }

#[derive(Clone, Copy)]
pub(super) struct Pairs {
    constants: Constants,
    q: __m256i,
    inverse: __m256i,
    fold: __m256i,
}

impl PairLanes for Pairs {
    type Register = __m256i;
    type Sum = __m256i;

    const LANES: usize = 8;
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn new(constants: Constants) -> Self {
        Self {
            constants,
            q: _mm256_set1_epi32(constants.q.cast_signed()),
            inverse: _mm256_set1_epi32(constants.inverse.cast_signed()),
            fold: _mm256_set1_epi32(constants.fold),
        }
    }

    #[inline(always)]
    unsafe fn even(from: *const i32) -> __m256i {
        _mm256_loadu_si256(from.cast())
    }

    #[inline(always)]
    unsafe fn odd(from: *const i32) -> __m256i {
        _mm256_castps_si256(_mm256_movehdup_ps(_mm256_loadu_ps(from.cast())))
    }

    #[inline(always)]
    unsafe fn zero() -> __m256i {
        _mm256_setzero_si256()
    }

    #[inline(always)]
    unsafe fn add(sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
        _mm256_add_epi64(sum, _mm256_mul_epi32(a, b))
    }

    #[inline(always)]
    unsafe fn fold(self, sum: __m256i) -> __m256i {
        let low = _mm256_blend_epi32::<0b1010_1010>(sum, _mm256_setzero_si256());
        _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(sum, 32), self.fold), low)
    }

    #[inline(always)]
    unsafe fn finish(self, even: __m256i, odd: __m256i, to: *mut u32) {
        let rest = |sum| {
            let quotient = _mm256_mul_epu32(sum, self.inverse);
            _mm256_sub_epi64(sum, _mm256_mul_epi32(quotient, self.q))
        };
        let (even, odd) = (rest(even), rest(odd));
        let rest = _mm256_blend_epi32::<0b1010_1010>(_mm256_srli_epi64(even, 32), odd);
        _mm256_storeu_si256(to.cast(), _mm256_min_epu32(rest, _mm256_add_epi32(rest, self.q)));
    }

    #[inline(always)]
    unsafe fn horner(self, sigma: *const u32, terms: *const u32, count: usize, out: *mut u32) {
        horner(self.constants.q, sigma, terms, count, out);
    }
}
