//! Unpacking values of up to 24 bits, times a factor modulo q.
//!
//! Eight of them take as many bytes as one has bits, so every eighth starts at a byte and at the same place in it:
//! which bytes a lane needs, and by how much they are to be shifted, is the same for every group of eight.

use crate::{Backend, Multiplier, packed::Unpacker};

/// See [`Unpacker::unpack`].
pub(crate) fn unpack(
    backend: Backend,
    unpacker: &Unpacker,
    bytes: &[u8],
    first: usize,
    factor: Multiplier<u32>,
    out: &mut [u32],
) {
    let done = match backend {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: either back end is chosen only if the processor has AVX2.
        Backend::Avx2 | Backend::Avx512 => unsafe { unpack_avx2(unpacker, bytes, first, factor, out) },
        _ => 0,
    };
    for (index, out) in (first..).zip(out).skip(done) {
        *out = factor.mul(&unpacker.modulus, unpack_one(unpacker, bytes, index));
    }
}

/// The definition.
fn unpack_one(unpacker: &Unpacker, bytes: &[u8], index: usize) -> u32 {
    let start = index * unpacker.width as usize;
    let (byte, shift) = (start / 8, start % 8);
    let word = match bytes.get(byte..byte + 4) {
        Some(word) => u32::from_le_bytes([word[0], word[1], word[2], word[3]]),
        None => bytes.iter().skip(byte).rev().fold(0, |word, &byte| word << 8 | u32::from(byte)),
    };
    ((word >> shift) & ((1 << unpacker.width) - 1)) << unpacker.dropped
}

/// Asks for the cache lines of `bytes`.
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address has no effect but on the cache; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Unpacks whole groups of eight while their bytes can be loaded; gives the number of residues done.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn unpack_avx2(
    unpacker: &Unpacker,
    bytes: &[u8],
    first: usize,
    factor: Multiplier<u32>,
    out: &mut [u32],
) -> usize {
    use std::arch::x86_64::*;

    let width = unpacker.width as usize;
    let start = first * width;
    let bit_of = |lane: usize| start % 8 + lane * width;
    // Lanes 0 to 3 take their bytes from a load at the group's first byte, lanes 4 to 7 from one at lane 4's first byte.
    let upper = bit_of(4) / 8;
    let mut order = [0u8; 32];
    let mut shifts = [0i32; 8];
    for lane in 0..8 {
        let base = if lane < 4 { 0 } else { upper };
        let byte = bit_of(lane) / 8 - base;
        for i in 0..4 {
            order[4 * lane + i] = (byte + i) as u8;
        }
        shifts[lane] = (bit_of(lane) % 8) as i32;
    }
    // SAFETY: both arrays have 32 bytes.
    let (order, shifts) =
        unsafe { (_mm256_loadu_si256(order.as_ptr().cast()), _mm256_loadu_si256(shifts.as_ptr().cast())) };
    let mask = _mm256_set1_epi32((1 << width) - 1);
    let modulus = _mm256_set1_epi32(unpacker.modulus.value() as i32);
    let quotient = _mm256_set1_epi32(factor.quotient as i32);
    let factor = _mm256_set1_epi32(factor.factor as i32);
    let dropped = _mm_cvtsi32_si128(unpacker.dropped as i32);
    let mut done = 0;
    for out in out.chunks_exact_mut(8) {
        let byte = start / 8 + done / 8 * width;
        let Some(group) = bytes.get(byte..byte + upper + 16) else { break };
        // SAFETY: `group` has 16 bytes at 0 and at `upper`.
        let (low, high) = unsafe {
            (_mm_loadu_si128(group.as_ptr().cast()), _mm_loadu_si128(group[upper..].as_ptr().cast()))
        };
        let words = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), order);
        let value = _mm256_and_si256(_mm256_srlv_epi32(words, shifts), mask);
        let value = _mm256_sll_epi32(value, dropped);
        // Shoup's product, as Multiplier::mul has it; the estimate's high halves come from even and odd lanes.
        let even = _mm256_srli_epi64::<32>(_mm256_mul_epu32(value, quotient));
        let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(value), quotient);
        let estimate = _mm256_blend_epi32::<0b1010_1010>(even, odd);
        let value =
            _mm256_sub_epi32(_mm256_mullo_epi32(value, factor), _mm256_mullo_epi32(estimate, modulus));
        let value = _mm256_min_epu32(value, _mm256_sub_epi32(value, modulus));
        // SAFETY: `out` has eight elements.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), value) };
        done += 8;
    }
    done
}
