//! One block per vector: AES-NI with the three-operand encoding of AVX.

use std::arch::x86_64::*;

use super::kernel::{self, Lanes};

kernel::back_end!(Block, "aes,avx", ["aes", "avx"]);

#[derive(Clone, Copy)]
struct Block(__m128i);

impl Lanes for Block {
    const BLOCKS: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const u128) -> Self {
        // SAFETY: the caller promises one readable block and the instructions.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn broadcast(block: u128) -> Self {
        // SAFETY: a reference is readable; the caller promises the instructions.
        unsafe { Self::load(&block) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u128) {
        // SAFETY: the caller promises one writable block.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u128) {
        // SAFETY: the caller promises one writable, aligned block.
        unsafe { _mm_stream_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    fn fence() {
        // SAFETY: every x86-64 CPU has SSE.
        unsafe { _mm_sfence() };
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a value of this type exists, so the CPU has the instructions.
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm_and_si128(self.0, other.0) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm_sub_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn aes_round(self, key: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm_aesenc_si128(self.0, key.0) })
    }

    #[inline(always)]
    fn aes_last_round(self, key: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm_aesenclast_si128(self.0, key.0) })
    }

    #[inline(always)]
    fn sigma(self) -> Self {
        // Swapped halves, then the old left half XORed onto the new one.
        // SAFETY: as in `xor`.
        Self(unsafe {
            _mm_xor_si128(_mm_shuffle_epi32(self.0, 0x4e), _mm_and_si128(self.0, _mm_set_epi64x(-1, 0)))
        })
    }

    #[inline(always)]
    fn control_mask(self) -> Self {
        // The highest 32 bits everywhere, then their highest bit in all places.
        // SAFETY: as in `xor`.
        Self(unsafe { _mm_srai_epi32(_mm_shuffle_epi32(self.0, 0xff), 31) })
    }

    #[inline(always)]
    fn interleave(a: Self, b: Self, c: Self) -> [Self; 3] {
        [a, b, c]
    }
}
