//! From a ring of degree N to one of degree N/d, for what the small ring is large enough to protect.
//!
//! With a secret s(X^d) that lies in the small ring (see [`crate::SecretKey::embed`] and [`crate::Chain::switch_key`]),
//! the coefficients of c0 and c1 with indices divisible by d are a ciphertext over the small ring, in Y = X^d, of the
//! plaintext's coefficients with those indices (Gentry, Halevi, Peikert and Smart, ePrint 2012/240).

use restante_ring::{Coefficient, Poly, Word};

use crate::{Ciphertext, Context};

/// The part of a ciphertext, whose secret lies in the ring of `small`, that lies there too. Both must have the same primes.
pub fn to_subring<W: Word>(
    small: &Context<W>,
    ciphertext: &Ciphertext<W, Coefficient>,
) -> Ciphertext<W, Coefficient> {
    let basis = small.ciphertext_basis();
    assert!(ciphertext.c0.basis().moduli().eq(basis.moduli()), "both rings must have the same primes");
    let spread = ciphertext.c0.basis().degree() / small.degree();
    let [c0, c1] = [&ciphertext.c0, &ciphertext.c1].map(|part| {
        Poly::from_limbs(basis, |limb, _, values| {
            let source = part.limb(limb).iter().step_by(spread);
            values.iter_mut().zip(source).for_each(|(value, &coefficient)| *value = coefficient);
        })
    });
    Ciphertext { c0, c1 }
}
