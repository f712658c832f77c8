//! Making clues.

use restante_ring::{Multiplier, NttPlan, sample::Stream};
use zeroize::Zeroizing;

use crate::{COORDINATES, Clue, ClueKey, ClueParameters, negacyclic::Rows};

/// A clue key with everything precomputed that does not depend on the clue.
///
/// A clue takes two transforms for a' = a r + e1; of b r only l coefficients are needed, and each is an inner product.
pub struct ClueMaker {
    parameters: ClueParameters,
    plan: NttPlan<u32>,
    /// Evaluations of a.
    a: Vec<Multiplier<u32>>,
    b: Rows,
    tag: [u32; COORDINATES],
}

/// What a sender draws for one clue.
pub(crate) struct Randomness {
    /// n ternary values.
    pub(crate) r: Zeroizing<Vec<i64>>,
    /// n errors for a', then l for b'.
    pub(crate) errors: Zeroizing<Vec<i64>>,
}

impl ClueMaker {
    pub(crate) fn new(key: &ClueKey) -> Self {
        Self::with_uniform(key, key.a())
    }

    /// For a given polynomial a instead of the one that the key's seed expands to.
    pub(crate) fn with_uniform(key: &ClueKey, mut a: Vec<u32>) -> Self {
        let parameters = *key.parameters();
        let plan = parameters.plan();
        plan.forward(&mut a);
        let modulus = plan.modulus();
        let a = a.into_iter().map(|value| modulus.multiplier(value)).collect();
        let b = Rows::new(modulus, |i| key.b()[i] as i32, parameters.degree());
        Self { parameters, a, b, tag: *key.tag(), plan }
    }

    /// The parameters of the clues.
    pub fn parameters(&self) -> &ClueParameters {
        &self.parameters
    }

    /// A clue that is pertinent to the key's owner. No two clues may come from streams with the same seed, purpose
    /// and place.
    pub fn make(&self, stream: &mut Stream) -> Clue {
        let degree = self.parameters.degree();
        let mut r = Zeroizing::new(vec![0; degree]);
        stream.ternary(&mut r);
        let mut errors = Zeroizing::new(vec![0; degree + COORDINATES]);
        stream.gaussian(self.parameters.error(), &mut errors);
        self.make_from(&Randomness { r, errors })
    }

    /// The clue that the given randomness makes.
    pub(crate) fn make_from(&self, Randomness { r, errors }: &Randomness) -> Clue {
        let modulus = self.plan.modulus();
        let (a_errors, b_errors) = errors.split_at(self.parameters.degree());

        // a' replaces r in place, so that no copy of r is left behind.
        let mut a: Vec<u32> = r.iter().map(|&value| modulus.from_signed(value)).collect();
        self.plan.forward(&mut a);
        a.iter_mut().zip(&self.a).for_each(|(value, a)| *value = a.mul(modulus, *value));
        self.plan.inverse(&mut a);
        for (value, &error) in a.iter_mut().zip(a_errors) {
            *value = modulus.add(*value, modulus.from_signed(error));
        }

        let r = Zeroizing::new(r.iter().map(|&value| value as i32).collect::<Vec<_>>());
        let mut b = self.b.product(&r);
        for c in 0..COORDINATES {
            b[c] = modulus.add(modulus.add(b[c], modulus.from_signed(b_errors[c])), self.tag[c]);
        }
        Clue::rounded(self.parameters, a, b)
    }
}

impl std::fmt::Debug for ClueMaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClueMaker").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}
