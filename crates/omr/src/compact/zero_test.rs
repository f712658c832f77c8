//! The zero test: from z_0 and z_1 to one bit, 1 where both are zero.
//!
//! With eta no square modulo t, z_0^2 - eta z_1^2 = 0 only if both are zero: else eta would be (z_0/z_1)^2. So one
//! power by Fermat's little theorem, z^(t-1), serves both coordinates.

use restante_bfv::Leveled;
use restante_ring::Modulus;

use super::{CompactContext, PreparedKey};

/// The smallest quadratic non-residue modulo t.
pub(super) fn non_residue(t: &Modulus<u64>) -> u64 {
    let minus_one = t.neg(1);
    // Half of all residues are none.
    (2..).find(|&eta| t.pow(eta, (t.as_u64() - 1) / 2) == minus_one).unwrap_or(0)
}

/// z = z_0^2 - eta z_1^2.
pub(super) fn join(context: &CompactContext, key: &PreparedKey, checks: &[Leveled<u64>; 2]) -> Leveled<u64> {
    let chain = context.circuit();
    let eta = non_residue(chain.context().plaintext_plan().modulus());
    let mut difference = chain.square(&checks[0]);
    let mut second = chain.square(&checks[1]);
    chain.mul_scalar(&mut second, eta);
    difference.sub_assign(&second);
    chain.relinearise_and_rescale(&difference, &key.key.relinearisation, context.schedule().joined)
}

/// 1 - z^(t-1), where t - 1 = 3 2^18.
pub(super) fn is_zero(context: &CompactContext, key: &PreparedKey, z: &Leveled<u64>) -> Leveled<u64> {
    let chain = context.circuit();
    let times = |a: &Leveled<u64>, b: &Leveled<u64>| {
        let product = chain.multiply(&chain.rescale(a, b.level()), b);
        chain.relinearise_and_rescale(&product, &key.key.relinearisation, b.level() + 1)
    };
    let mut power = times(z, &times(z, z));
    while power.level() + 1 < chain.levels() {
        power = times(&power, &power);
    }
    power.negate();
    chain.add_constant(&mut power, 1);
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eta_is_no_square_and_the_join_is_zero_for_zeros_alone() {
        let t = Modulus::<u64>::new(786_433).unwrap();
        let eta = non_residue(&t);
        // By definition: no residue's square is eta.
        assert!((0..t.as_u64()).all(|x| t.mul(x, x) != eta));
        assert!((2..eta).all(|smaller| (0..t.as_u64()).any(|x| t.mul(x, x) == smaller)));
        for z0 in (0..t.as_u64()).step_by(9973) {
            for z1 in (0..t.as_u64()).step_by(7919) {
                let joined = t.sub(t.mul(z0, z0), t.mul(eta, t.mul(z1, z1)));
                assert_eq!(joined == 0, z0 == 0 && z1 == 0);
            }
        }
        assert_eq!(t.as_u64() - 1, 3 << 18);
    }
}
