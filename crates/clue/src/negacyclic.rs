//! Single coefficients of products in Z_q\[X\]/(X^n + 1), for a fixed factor and a handful of coefficients.
//!
//! Coefficient c of f g is the inner product of g with row c of the negacyclic matrix of f: entry i of the
//! row is f_{c-i} for i <= c and -f_{n+c-i} beyond. One factor is ternary, the other consists of residues, so
//! the sum of n products stays below n q in magnitude, which fits a 32-bit integer, and is reduced once. No
//! branch, index or division depends on the values.

use restante_ring::{Modulus, Multiplier};
use zeroize::Zeroizing;

use crate::COORDINATES;

/// The rows 0 to l-1 of a polynomial's negacyclic matrix.
pub(crate) struct Rows {
    rows: [Zeroizing<Vec<i32>>; COORDINATES],
    modulus: Modulus<u32>,
    one: Multiplier<u32>,
}

impl Rows {
    /// From the coefficients of the fixed factor; n q must be below 2^31, as it is in every preset.
    pub(crate) fn new(modulus: &Modulus<u32>, coefficients: impl Fn(usize) -> i32, degree: usize) -> Self {
        let row = |c| {
            let entry = |i| if i <= c { coefficients(c - i) } else { -coefficients(degree + c - i) };
            Zeroizing::new((0..degree).map(entry).collect())
        };
        Self { rows: std::array::from_fn(row), modulus: *modulus, one: modulus.multiplier(1) }
    }

    /// The coefficients 0 to l-1 of the product, as residues.
    pub(crate) fn product(&self, other: &[i32]) -> [u32; COORDINATES] {
        let offset = other.len() as u32 * self.modulus.value();
        std::array::from_fn(|c| {
            let sum: i32 = self.rows[c].iter().zip(other).map(|(&a, &b)| a * b).sum();
            self.one.mul(&self.modulus, offset.wrapping_add_signed(sum))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_product_by_definition_at_the_extremes() {
        let (q, degree) = (786_433i64, 1024);
        let modulus = Modulus::new(q as u64).unwrap();
        let residue = |i: usize| [q - 1, 0, 1, (i as i64 * 7919) % q][i % 4] as i32;
        let cases: [&dyn Fn(usize) -> i32; 4] =
            [&|_| 1, &|_| -1, &|i| (i % 3) as i32 - 1, &|i| if i < 2 { 1 } else { -1 }];
        for ternary in cases {
            for largest in [true, false] {
                let residue = |i| if largest { q as i32 - 1 } else { residue(i) };
                let mut expected = [0i64; COORDINATES];
                for i in 0..degree {
                    for j in 0..degree {
                        let sign = if i + j < degree { 1 } else { -1 };
                        if let Some(sum) = expected.get_mut((i + j) % degree) {
                            *sum += sign * i64::from(residue(i)) * i64::from(ternary(j));
                        }
                    }
                }
                let expected = expected.map(|sum| sum.rem_euclid(q) as u32);
                let other: Vec<i32> = (0..degree).map(ternary).collect();
                assert_eq!(Rows::new(&modulus, residue, degree).product(&other), expected);
                let other: Vec<i32> = (0..degree).map(residue).collect();
                assert_eq!(Rows::new(&modulus, ternary, degree).product(&other), expected);
            }
        }
    }
}
