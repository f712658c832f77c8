//! The zero test: from z_0 and z_1 to one bit, 1 where both are zero.
//!
//! With eta no square modulo t, x^2 - eta y^2 = 0 only if both are zero: else eta would be (x/y)^2. So one power by
//! Fermat's little theorem, z^(t-1), serves both coordinates. For eta = 5, x = z_0 + z_1/2 and y = z_1/2 the form is z_0^2 +
//! z_0 z_1 - z_1^2, whose coefficients add nearly no noise.

use restante_bfv::Leveled;
use restante_ring::Modulus;

use super::{CompactContext, PreparedKey};

/// A quadratic non-residue modulo t: what the form is anisotropic by.
#[cfg(test)]
pub(super) const ETA: u64 = 5;

/// z_0^2 + z_0 z_1 - z_1^2.
pub(super) fn form(t: &Modulus<u64>, [z0, z1]: [u64; 2]) -> u64 {
    t.sub(t.mul(z0, t.add(z0, z1)), t.mul(z1, z1))
}

/// The form of both coordinates' checks.
pub(super) fn join(context: &CompactContext, key: &PreparedKey, checks: &[Leveled<u64>; 2]) -> Leveled<u64> {
    let chain = context.circuit();
    let mut sum = checks[0].clone();
    sum.add_assign(&checks[1]);
    let mut form = chain.multiply(&checks[0], &sum);
    form.sub_assign(&chain.square(&checks[1]));
    chain.relinearise_and_rescale(&form, &key.key.relinearisation, context.schedule().joined)
}

/// 1 - z^(t-1), where t - 1 = 3 2^18.
pub(super) fn is_zero(context: &CompactContext, key: &PreparedKey, z: &Leveled<u64>) -> Leveled<u64> {
    is_zero_watched(context, key, z, |_| ())
}

/// The same, with a look at z^2, z^3, z^6, z^12, ..., z^(t-1).
pub(super) fn is_zero_watched(
    context: &CompactContext,
    key: &PreparedKey,
    z: &Leveled<u64>,
    mut watch: impl FnMut(&Leveled<u64>),
) -> Leveled<u64> {
    let chain = context.circuit();
    let mut times = |a: &Leveled<u64>, b: &Leveled<u64>| {
        let product = chain.multiply(&chain.rescale(a, b.level()), b);
        let product = chain.relinearise_and_rescale(&product, &key.key.relinearisation, b.level() + 1);
        watch(&product);
        product
    };
    let square = times(z, z);
    let mut power = times(z, &square);
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
        // By definition: no residue's square is eta.
        assert!((0..t.as_u64()).all(|x| t.mul(x, x) != ETA));
        let half = t.inv(2);
        for z0 in (0..t.as_u64()).step_by(9973) {
            for z1 in (0..t.as_u64()).step_by(7919) {
                let joined = form(&t, [z0, z1]);
                assert_eq!(joined == 0, z0 == 0 && z1 == 0);
                let (x, y) = (t.add(z0, t.mul(z1, half)), t.mul(z1, half));
                assert_eq!(joined, t.sub(t.mul(x, x), t.mul(ETA, t.mul(y, y))));
            }
        }
        assert_eq!(t.as_u64() - 1, 3 << 18);
    }
}
