//! Element-by-element kernels, written once over [`Lanes`].

#![allow(unsafe_op_in_unsafe_fn, reason = "all functions share the contract of Lanes")]

use super::lanes::Lanes;
use crate::{Modulus, Multiplier};

/// a = operation(a, b).
macro_rules! binary {
    ($(#[doc = $doc:literal] $name:ident)*) => {$(
        #[doc = $doc]
        ///
        /// # Safety
        ///
        /// The contract of [`Lanes`].
        #[inline(always)]
        pub(super) unsafe fn $name<L: Lanes>(modulus: &Modulus<L::Word>, a: &mut [L::Word], b: &[L::Word]) {
            assert!(a.len() == b.len() && a.len() % L::LANES == 0);
            let lanes = L::new(modulus);
            let mut place = 0;
            while place < a.len() {
                lanes.$name(a.as_mut_ptr().add(place), b.as_ptr().add(place));
                place += L::LANES;
            }
        }
    )*};
}

binary! {
    #[doc = "a += b."] add
    #[doc = "a -= b."] sub
    #[doc = "a *= b."] mul
}

/// a += b c.
///
/// # Safety
///
/// The contract of [`Lanes`].
#[inline(always)]
pub(super) unsafe fn mul_add<L: Lanes>(
    modulus: &Modulus<L::Word>,
    a: &mut [L::Word],
    b: &[L::Word],
    c: &[L::Word],
) {
    assert!(a.len() == b.len() && a.len() == c.len() && a.len() % L::LANES == 0);
    let lanes = L::new(modulus);
    let mut place = 0;
    while place < a.len() {
        lanes.mul_add(a.as_mut_ptr().add(place), b.as_ptr().add(place), c.as_ptr().add(place));
        place += L::LANES;
    }
}

/// a *= w.
///
/// # Safety
///
/// The contract of [`Lanes`].
#[inline(always)]
pub(super) unsafe fn scale<L: Lanes>(
    modulus: &Modulus<L::Word>,
    a: &mut [L::Word],
    factor: Multiplier<L::Word>,
) {
    assert!(a.len() % L::LANES == 0);
    let lanes = L::new(modulus);
    let encoded = L::encode(modulus, factor);
    let factor = lanes.root(encoded.as_ptr());
    let mut place = 0;
    while place < a.len() {
        lanes.scale(a.as_mut_ptr().add(place), factor);
        place += L::LANES;
    }
}
