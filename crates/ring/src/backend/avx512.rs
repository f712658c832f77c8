//! Kernels for AVX-512 F, BW, DQ, VL and IFMA.

pub(super) mod pairs;
mod word32;
mod word64;

use super::{scalar, table::vector_kernels};

vector_kernels! {
    KERNELS_32: Kernels<u32>, features "avx512f,avx512bw,avx512dq,avx512vl",
    lanes { 30 => word32::Lanes32<false>; word32::Lanes32<true> },
    sums word32::Sums32, otherwise scalar::KERNELS_32
}

vector_kernels! {
    KERNELS_64: Kernels<u64>, features "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma",
    lanes { 49 => word64::Lanes64<false>; word64::Lanes64<true> },
    sums word64::Sums64, otherwise scalar::KERNELS_64
}
