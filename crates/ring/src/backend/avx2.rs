//! Kernels for AVX2 and FMA.

pub(super) mod pairs;
mod word32;
mod word64;

use super::{scalar, table::vector_kernels};

vector_kernels! {
    KERNELS_32: Kernels<u32>, features "avx2,fma",
    lanes { 30 => word32::Lanes32<false>; word32::Lanes32<true> },
    sums word32::Sums32, otherwise scalar::KERNELS_32
}

vector_kernels! {
    KERNELS_64: Kernels<u64>, features "avx2,fma",
    lanes { ; word64::Lanes64 }, sums word64::Sums64, otherwise scalar::KERNELS_64
}
