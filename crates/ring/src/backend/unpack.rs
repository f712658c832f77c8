//! Unpacking values of up to 24 bits, times a factor modulo q.
//!
//! Eight of them take as many bytes as one has bits, so every eighth starts at a byte and at the same place in it:
//! which bytes a lane needs, and by how much they are to be shifted, is the same for every group of eight.

use crate::{Backend, Modulus, Multiplier};

/// How an array is packed, with what the kernel derives from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packing {
    /// Bits of a packed value.
    pub(crate) width: u32,
    /// Low bits that were cut off before.
    dropped: u32,
    pub(crate) modulus: Modulus<u32>,
    /// For each bit of a byte that a run may start at.
    patterns: [Pattern; 8],
}

impl Packing {
    pub(crate) fn new(width: u32, dropped: u32, modulus: Modulus<u32>) -> Self {
        let patterns = std::array::from_fn(|bit| Pattern::new(width as usize, bit));
        Self { width, dropped, modulus, patterns }
    }
}

/// Where eight consecutive values lie, if the first starts at a certain bit of a byte. Lanes 0 to 3 are taken from 16 bytes
/// at the first one's byte, lanes 4 to 7 from 16 bytes `upper` further on.
#[derive(Debug, Clone, Copy, Default)]
struct Pattern {
    upper: usize,
    /// For each lane, its four bytes in its half's 16.
    bytes: [[u8; 4]; 8],
    /// For each lane, the bit of its first byte that it starts at.
    shifts: [u32; 8],
}

impl Pattern {
    fn new(width: usize, bit: usize) -> Self {
        let byte = |lane: usize| (bit + lane * width) / 8;
        // As far back as lane 7 allows, so that little is read past the values.
        let upper = (byte(7) + 4).saturating_sub(16);
        Self {
            upper,
            bytes: std::array::from_fn(|lane| {
                let base = if lane < 4 { 0 } else { upper };
                std::array::from_fn(|i| (byte(lane) - base + i) as u8)
            }),
            shifts: std::array::from_fn(|lane| ((bit + lane * width) % 8) as u32),
        }
    }
}

/// See [`crate::Unpacker::unpack`].
pub(crate) fn unpack(
    backend: Backend,
    packing: &Packing,
    bytes: &[u8],
    first: usize,
    factor: Multiplier<u32>,
    out: &mut [u32],
) {
    let done = match backend {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Unpacker::new` refuses back ends whose instructions the processor lacks; both have AVX2.
        Backend::Avx2 | Backend::Avx512 => unsafe { unpack_avx2(packing, bytes, first, factor, out) },
        _ => 0,
    };
    for (index, out) in (first + done..).zip(&mut out[done..]) {
        *out = factor.mul(&packing.modulus, unpack_one(packing, bytes, index));
    }
}

/// The definition.
fn unpack_one(packing: &Packing, bytes: &[u8], index: usize) -> u32 {
    let start = index * packing.width as usize;
    let (byte, shift) = (start / 8, start % 8);
    let word = match bytes.get(byte..byte + 4) {
        Some(word) => u32::from_le_bytes([word[0], word[1], word[2], word[3]]),
        None => bytes.iter().skip(byte).rev().fold(0, |word, &byte| word << 8 | u32::from(byte)),
    };
    ((word >> shift) & ((1 << packing.width) - 1)) << packing.dropped
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
    packing: &Packing,
    bytes: &[u8],
    first: usize,
    factor: Multiplier<u32>,
    out: &mut [u32],
) -> usize {
    use std::arch::x86_64::*;

    let width = packing.width as usize;
    let start = first * width;
    let pattern = &packing.patterns[start % 8];
    // SAFETY: both arrays have 32 bytes.
    let (order, shifts) = unsafe {
        (
            _mm256_loadu_si256(pattern.bytes.as_ptr().cast()),
            _mm256_loadu_si256(pattern.shifts.as_ptr().cast()),
        )
    };
    let upper = pattern.upper;
    let mask = _mm256_set1_epi32((1 << width) - 1);
    let modulus = _mm256_set1_epi32(packing.modulus.value() as i32);
    let quotient = _mm256_set1_epi32(factor.quotient as i32);
    let factor = _mm256_set1_epi32(factor.factor as i32);
    let dropped = _mm_cvtsi32_si128(packing.dropped as i32);
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

/// See [`crate::transpose_lines`].
pub(crate) fn transpose_lines(backend: Backend, lines: &[u32], out: &mut [[u32; 16]]) {
    let done = match backend {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has AVX2; `lines` has 16 lines.
        Backend::Avx2 | Backend::Avx512 if Backend::Avx2.is_available() => unsafe {
            transpose_avx2(lines, out)
        },
        _ => 0,
    };
    let steps = out.len();
    for (step, column) in out.iter_mut().enumerate().skip(done) {
        *column = std::array::from_fn(|line| lines[line * steps + step]);
    }
}

/// Transposes squares of eight by eight; gives the number of columns done.
///
/// # Safety
///
/// `lines` has 16 times as many values as `out` has columns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn transpose_avx2(lines: &[u32], out: &mut [[u32; 16]]) -> usize {
    use std::arch::x86_64::*;

    let steps = out.len();
    let done = steps / 8 * 8;
    for (step, half) in (0..done).step_by(8).flat_map(|step| [(step, 0), (step, 8)]) {
        let mut rows = [_mm256_setzero_si256(); 8];
        for (line, row) in rows.iter_mut().enumerate() {
            // SAFETY: line half + line has values step .. step + 8.
            *row = unsafe { _mm256_loadu_si256(lines.as_ptr().add((half + line) * steps + step).cast()) };
        }
        // Pairs of values, then pairs of pairs, then halves.
        let mut pairs = rows;
        for i in (0..8).step_by(2) {
            pairs[i] = _mm256_unpacklo_epi32(rows[i], rows[i + 1]);
            pairs[i + 1] = _mm256_unpackhi_epi32(rows[i], rows[i + 1]);
        }
        let mut quads = pairs;
        for i in (0..8).step_by(4) {
            quads[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
            quads[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
            quads[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
            quads[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
        }
        for i in 0..4 {
            let low = _mm256_permute2x128_si256::<0x20>(quads[i], quads[i + 4]);
            let high = _mm256_permute2x128_si256::<0x31>(quads[i], quads[i + 4]);
            // SAFETY: columns step + i and step + i + 4 have eight values from `half` on.
            unsafe {
                _mm256_storeu_si256(out[step + i][half..].as_mut_ptr().cast(), low);
                _mm256_storeu_si256(out[step + i + 4][half..].as_mut_ptr().cast(), high);
            }
        }
    }
    done
}
