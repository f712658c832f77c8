//! The oracle of tests: whole numbers from their residues, by the Chinese remainder theorem.

use num_bigint::BigInt;
use num_integer::Integer;

use crate::{Coefficient, Poly, Word};

/// The representative in (-Q/2, Q/2) of one coefficient.
pub(crate) fn centered<W: Word>(poly: &Poly<W, Coefficient>, place: usize) -> BigInt {
    let product: BigInt = poly.basis().moduli().map(BigInt::from).product();
    let sum: BigInt = poly
        .limbs()
        .map(|(plan, values)| {
            let q = BigInt::from(plan.modulus().as_u64());
            let cofactor = &product / &q;
            let inverse = cofactor.modpow(&(&q - 2), &q);
            cofactor * inverse * BigInt::from(values[place].into())
        })
        .sum();
    let value = sum.mod_floor(&product);
    if &value * 2 > product { value - product } else { value }
}
