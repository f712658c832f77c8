//! Two blocks per vector: VAES on the 256-bit registers of AVX2.

use std::arch::x86_64::*;

use super::kernel::{self, Lanes};

kernel::back_end!(TwoBlocks, "vaes,avx2", ["vaes", "avx2"]);

#[derive(Clone, Copy)]
struct TwoBlocks(__m256i);

impl Lanes for TwoBlocks {
    const BLOCKS: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const u128) -> Self {
        // SAFETY: the caller promises two readable blocks and the instructions.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn broadcast(block: u128) -> Self {
        // SAFETY: a reference is readable; the caller promises the instructions.
        Self(unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128((&raw const block).cast())) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u128) {
        // SAFETY: the caller promises two writable blocks.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u128) {
        // Allocators align to one block, seldom to two.
        // SAFETY: the caller promises two writable blocks, each aligned.
        unsafe {
            _mm_stream_si128(to.cast(), _mm256_castsi256_si128(self.0));
            _mm_stream_si128(to.add(1).cast(), _mm256_extracti128_si256(self.0, 1));
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
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm256_and_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm256_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm256_sub_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn aes_round(self, key: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm256_aesenc_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn aes_last_round(self, key: Self) -> Self {
        // SAFETY: as in `xor`.
        Self(unsafe { _mm256_aesenclast_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn sigma(self) -> Self {
        // Swapped halves, then the old left half XORed onto the new one.
        // SAFETY: as in `xor`.
        Self(unsafe {
            _mm256_xor_si256(
                _mm256_shuffle_epi32(self.0, 0x4e),
                _mm256_and_si256(self.0, _mm256_set_epi64x(-1, 0, -1, 0)),
            )
        })
    }

    #[inline(always)]
    fn control_mask(self) -> Self {
        // The highest 32 bits of each block everywhere in it, then their highest bit in all places.
        // SAFETY: as in `xor`.
        Self(unsafe { _mm256_srai_epi32(_mm256_shuffle_epi32(self.0, 0xff), 31) })
    }

    #[inline(always)]
    fn interleave(a: Self, b: Self, c: Self) -> [Self; 3] {
        // SAFETY: as in `xor`.
        unsafe {
            [
                Self(_mm256_permute2x128_si256(a.0, b.0, 0x20)),
                Self(_mm256_permute2x128_si256(c.0, a.0, 0x30)),
                Self(_mm256_permute2x128_si256(b.0, c.0, 0x31)),
            ]
        }
    }
}
