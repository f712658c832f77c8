//! Four blocks per vector: VAES on the 512-bit registers of AVX-512.

use std::arch::x86_64::*;

use super::kernel::{self, Lanes};

kernel::back_end!(FourBlocks, "vaes,avx2,avx512f", ["vaes", "avx2", "avx512f"]);

#[derive(Clone, Copy)]
struct FourBlocks(__m512i);

impl Lanes for FourBlocks {
    const BLOCKS: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const u128) -> Self {
        // SAFETY: the caller promises four readable blocks and the instructions.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn broadcast(block: u128) -> Self {
        // SAFETY: a reference is readable; the caller promises the instructions.
        Self(unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128((&raw const block).cast())) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u128) {
        // SAFETY: the caller promises four writable blocks.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u128) {
        // Allocators align to one block, seldom to four.
        // SAFETY: the caller promises four writable blocks, each aligned.
        unsafe {
            _mm_stream_si128(to.cast(), _mm512_castsi512_si128(self.0));
            _mm_stream_si128(to.add(1).cast(), _mm512_extracti32x4_epi32(self.0, 1));
            _mm_stream_si128(to.add(2).cast(), _mm512_extracti32x4_epi32(self.0, 2));
            _mm_stream_si128(to.add(3).cast(), _mm512_extracti32x4_epi32(self.0, 3));
        }
    }

    #[inline(always)]
    fn fence() {
        // SAFETY: every x86-64 CPU has SSE.
        unsafe { _mm_sfence() };
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a value of this type exists, so the CPU has the instructions.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm512_and_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm512_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm512_sub_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn aes_round(self, key: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm512_aesenc_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn aes_last_round(self, key: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm512_aesenclast_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn sigma(self) -> Self {
        // Swapped halves, then the old left half XORed onto the new one.
        // SAFETY: as in `xor`.
        Self(unsafe {
            _mm512_xor_si512(
                _mm512_shuffle_epi32(self.0, 0x4e),
                _mm512_and_si512(self.0, _mm512_set_epi64(-1, 0, -1, 0, -1, 0, -1, 0)),
            )
        })
    }

    #[inline(always)]
    fn control_mask(self) -> Self {
        // The highest 32 bits of each block everywhere in it, then their highest bit in all places.
        // SAFETY: as in `xor`.
        Self(unsafe { _mm512_srai_epi32(_mm512_shuffle_epi32(self.0, 0xff), 31) })
    }

    #[inline(always)]
    fn interleave(a: Self, b: Self, c: Self) -> [Self; 3] {
        // Two steps per result: the blocks of a and b to their places, then those of c. Indices count 64-bit lanes,
        // 0 to 7 of the first operand and 8 to 15 of the second; the places of c are left arbitrary in the first step.
        // SAFETY: as in `xor`.
        unsafe {
            let (a, b, c) = (a.0, b.0, c.0);
            let a0_b0_a1 = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 1, 8, 9, 0, 0, 2, 3), b);
            let b1_a2_b2 = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(10, 11, 0, 0, 4, 5, 12, 13), b);
            let a3_b3 = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 0, 6, 7, 14, 15, 0, 0), b);
            [
                Self(_mm512_permutex2var_epi64(a0_b0_a1, _mm512_setr_epi64(0, 1, 2, 3, 8, 9, 6, 7), c)),
                Self(_mm512_permutex2var_epi64(b1_a2_b2, _mm512_setr_epi64(0, 1, 10, 11, 4, 5, 6, 7), c)),
                Self(_mm512_permutex2var_epi64(a3_b3, _mm512_setr_epi64(12, 13, 2, 3, 4, 5, 14, 15), c)),
            ]
        }
    }
}
