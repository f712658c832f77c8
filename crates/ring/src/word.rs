//! The machine words that residues are stored in.

use std::fmt::{Debug, Display};

use zeroize::Zeroize;

use crate::{
    backend::{Backend, Kernels},
    buffer::Pool,
};

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// A machine word for residues: it decides how long primes may be, and which kernels serve them.
///
/// * `u32`: primes below 2^31. Sixteen lanes of a 512-bit register; the class for short moduli and for machines
///   without a wide multiplier (wasm).
/// * `u64`: primes below 2^50, the longest that the 52-bit multiplier of AVX-512 IFMA and the 53-bit one of
///   floating-point units serve with room for lazy sums.
pub trait Word:
    sealed::Sealed
    + Copy
    + Default
    + Eq
    + Ord
    + Debug
    + Display
    + Zeroize
    + Send
    + Sync
    + TryFrom<u64, Error: Debug>
    + Into<u64>
    + 'static
{
    /// Length of the word in bits.
    const BITS: u32;
    /// Length of the longest prime that the word serves.
    const MAX_PRIME_BITS: u32;

    /// The low bits of `value`.
    fn truncate(value: u64) -> Self;

    /// The value plus `gap` if it is above `half`, without a branch; all are below half of the word's range.
    #[doc(hidden)]
    fn lift(self, half: Self, gap: Self) -> Self;

    #[doc(hidden)]
    fn kernels(backend: Backend) -> &'static Kernels<Self>;

    #[doc(hidden)]
    fn pool() -> &'static Pool<Self>;
}

impl Word for u32 {
    const BITS: u32 = 32;
    const MAX_PRIME_BITS: u32 = 31;

    fn truncate(value: u64) -> Self {
        value as u32
    }

    #[inline(always)]
    fn lift(self, half: Self, gap: Self) -> Self {
        self + (gap & ((half.wrapping_sub(self) as i32 >> 31) as u32))
    }

    fn kernels(backend: Backend) -> &'static Kernels<Self> {
        Kernels::<u32>::of(backend)
    }

    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<u32> = Pool::new();
        &POOL
    }
}

impl Word for u64 {
    const BITS: u32 = 64;
    const MAX_PRIME_BITS: u32 = 50;

    fn truncate(value: u64) -> Self {
        value
    }

    #[inline(always)]
    fn lift(self, half: Self, gap: Self) -> Self {
        self + (gap & ((half.wrapping_sub(self) as i64 >> 63) as u64))
    }

    fn kernels(backend: Backend) -> &'static Kernels<Self> {
        Kernels::<u64>::of(backend)
    }

    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<u64> = Pool::new();
        &POOL
    }
}
