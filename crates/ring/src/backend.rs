//! The choice of the instructions that kernels use: one table of functions for each back end and word.
//!
//! A table is chosen once, when a plan or basis is built, and each call does work on a whole vector, so that the
//! indirect call costs nothing. `scalar` is the definition: plain loops that any processor runs. The others must
//! agree with it bit for bit.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod elementwise;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only vector back ends implement it"))]
mod lanes;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only vector back ends use it"))]
mod ntt;
pub(crate) mod pairs;
#[cfg(test)]
pub(crate) mod portable;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod sums;
#[cfg(target_arch = "x86_64")]
mod table;
mod unpack;

use std::{fmt, str::FromStr};

pub(crate) use ntt::VectorTables;
pub(crate) use unpack::{Packing, prefetch, transpose_lines, unpack};

use crate::{Modulus, Multiplier, RingError, Word, roots::Roots, tile_rows::TileRows};

/// A set of processor instructions that kernels are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// Plain integer code, for any processor.
    Scalar,
    /// AVX2 and FMA: 8 lanes of 32 bits; 4 lanes of 50-bit residues in floating-point registers.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and IFMA: 16 lanes of 32 bits; 8 lanes of 50-bit residues.
    Avx512,
}

impl Backend {
    const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// Whether this processor has the instructions.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512ifma")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Every back end that this processor can run, slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|backend| backend.is_available())
    }

    /// The fastest back end that this processor can run.
    pub fn best() -> Self {
        Self::available().last().unwrap_or(Self::Scalar)
    }

    /// This back end, if the processor can run it.
    pub fn checked(self) -> Result<Self, RingError> {
        if self.is_available() { Ok(self) } else { Err(RingError::Unavailable(self)) }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        })
    }
}

impl FromStr for Backend {
    type Err = RingError;

    fn from_str(name: &str) -> Result<Self, RingError> {
        Self::ALL
            .into_iter()
            .find(|backend| backend.to_string() == name)
            .ok_or_else(|| RingError::UnknownBackend(name.into()))?
            .checked()
    }
}

/// The kernels of one back end for one word.
///
/// All vectors of a call have the same length, a power of two of at least [`crate::NttPlan::MIN_DEGREE`]. Inputs
/// and outputs are residues in [0, q).
#[derive(Debug)]
pub struct Kernels<W: Word> {
    /// The back end's own tables for a transform.
    pub prepare: fn(&Roots<W>) -> VectorTables<W>,
    /// Coefficients to evaluations, in place. The coefficients repeat with the given period: see [`ntt::forward`].
    pub forward: fn(&Roots<W>, &VectorTables<W>, &mut [W], usize),
    /// Evaluations to coefficients, in place.
    pub inverse: fn(&Roots<W>, &VectorTables<W>, &mut [W]),
    /// a += b.
    pub add: fn(&Modulus<W>, &mut [W], &[W]),
    /// a -= b.
    pub sub: fn(&Modulus<W>, &mut [W], &[W]),
    /// a *= b, element by element.
    pub mul: fn(&Modulus<W>, &mut [W], &[W]),
    /// a += b * c, element by element.
    pub mul_add: fn(&Modulus<W>, &mut [W], &[W], &[W]),
    /// a *= w.
    pub scale: fn(&Modulus<W>, &mut [W], Multiplier<W>),
    /// Takes residues modulo an odd t < q in (-t/2, t/2) to residues modulo q; `half` is (t-1)/2 and `gap` q - t.
    pub lift: fn(values: &[W], half: W, gap: W, out: &mut [W]),
    /// The same for residues in half-size words.
    pub lift_words: fn(values: &[u32], half: W, gap: W, out: &mut [W]),
    /// out = sum over rows i of rows[i] * weights[i]; the rows hold any words below 2^50, not residues only.
    pub combine: fn(&Modulus<W>, &mut [W], &[&[W]], &[Multiplier<W>]),
    /// See [`crate::multiply_accumulate`]: matrices of plain rows, encrypted columns, and for each matrix one output vector per
    /// column.
    pub multiply_accumulate: fn(&Modulus<W>, &[TileRows<'_, W>], &[TileRows<'_, W>], &mut [&mut [W]]),
    /// See [`crate::multiply_accumulate_rows`].
    pub multiply_accumulate_rows: fn(&Modulus<W>, &[(&[W], usize)], TileRows<'_, W>, &mut [&mut [W]]),
}

impl Kernels<u32> {
    pub(crate) fn of(backend: Backend) -> &'static Self {
        match backend {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => &avx2::KERNELS_32,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => &avx512::KERNELS_32,
            _ => &scalar::KERNELS_32,
        }
    }
}

impl Kernels<u64> {
    pub(crate) fn of(backend: Backend) -> &'static Self {
        match backend {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => &avx2::KERNELS_64,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => &avx512::KERNELS_64,
            _ => &scalar::KERNELS_64,
        }
    }
}

impl pairs::PairKernels {
    pub(crate) fn of(backend: Backend) -> &'static Self {
        match backend {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => &avx2::pairs::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => &avx512::pairs::KERNELS,
            _ => &pairs::SCALAR,
        }
    }
}
