//! Sixteen signed residues, and their products for the even and for the odd lanes.

#![allow(unsafe_op_in_unsafe_fn, reason = "all functions share the contract of PairLanes")]

use std::arch::x86_64::*;

use crate::backend::pairs::{Constants, PairLanes, TERMS, pair_kernels};

pair_kernels! { Pairs, features "avx512f,avx512bw,avx512dq,avx512vl" }

const ODD: __mmask16 = 0xaaaa;

#[derive(Clone, Copy)]
pub(super) struct Pairs {
    q: __m512i,
    inverse: __m512i,
    fold: __m512i,
}

#[inline(always)]
unsafe fn load(from: *const u32) -> __m512i {
    _mm512_loadu_si512(from.cast())
}

impl PairLanes for Pairs {
    type Register = __m512i;
    type Sum = __m512i;

    const LANES: usize = 16;
    const WIDE: bool = true;

    #[inline(always)]
    unsafe fn new(constants: Constants) -> Self {
        Self {
            q: _mm512_set1_epi32(constants.q.cast_signed()),
            inverse: _mm512_set1_epi32(constants.inverse.cast_signed()),
            fold: _mm512_set1_epi32(constants.fold),
        }
    }

    #[inline(always)]
    unsafe fn even(from: *const i32) -> __m512i {
        _mm512_loadu_si512(from.cast())
    }

    #[inline(always)]
    unsafe fn odd(from: *const i32) -> __m512i {
        // A shuffle that takes its argument from memory.
        _mm512_castps_si512(_mm512_movehdup_ps(_mm512_loadu_ps(from.cast())))
    }

    #[inline(always)]
    unsafe fn zero() -> __m512i {
        _mm512_setzero_si512()
    }

    #[inline(always)]
    unsafe fn add(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi64(sum, _mm512_mul_epi32(a, b))
    }

    #[inline(always)]
    unsafe fn fold(self, sum: __m512i) -> __m512i {
        let low = _mm512_and_si512(sum, _mm512_set1_epi64(0xffff_ffff));
        _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(sum, 32), self.fold), low)
    }

    #[inline(always)]
    unsafe fn finish(self, even: __m512i, odd: __m512i, to: *mut u32) {
        let rest = |sum| {
            let quotient = _mm512_mullo_epi32(sum, self.inverse);
            _mm512_sub_epi64(sum, _mm512_mul_epi32(quotient, self.q))
        };
        let (even, odd) = (rest(even), rest(odd));
        let rest = _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), ODD, odd);
        _mm512_storeu_si512(to.cast(), _mm512_min_epu32(rest, _mm512_add_epi32(rest, self.q)));
    }

    #[inline(always)]
    unsafe fn horner(self, sigma: *const u32, terms: *const u32, count: usize, out: *mut u32) {
        let (low_places, high_places) = (load(sigma), load(sigma.add(16)));
        let (mut low, mut high) = (load(out), load(out.add(16)));
        for index in (0..count).rev() {
            let term = terms.add(index * TERMS);
            let a = _mm512_add_epi32(_mm512_permutex2var_epi32(low, low_places, high), load(term));
            let b = _mm512_add_epi32(_mm512_permutex2var_epi32(low, high_places, high), load(term.add(16)));
            low = _mm512_min_epu32(a, _mm512_sub_epi32(a, self.q));
            high = _mm512_min_epu32(b, _mm512_sub_epi32(b, self.q));
        }
        _mm512_storeu_si512(out.cast(), low);
        _mm512_storeu_si512(out.add(16).cast(), high);
    }
}
