//! Making clues.

use restante_ring::{Modulus, Multiplier, NttPlan, sample::Stream};
use restante_wire::{
    binding::{Binding, Period},
    merkle::Hash,
};
use zeroize::Zeroizing;

use crate::{COORDINATES, Clue, ClueKey, ClueParameters, negacyclic::Rows, tags::Tags};

/// A clue key with everything precomputed that does not depend on the clue.
///
/// A clue takes two transforms for a' = a r + e1; of b r only l coefficients are needed, and each is an inner product.
pub struct ClueMaker {
    parameters: ClueParameters,
    plan: NttPlan<u32>,
    /// Evaluations of a.
    a: Vec<Multiplier<u32>>,
    b: Rows,
    tags: Tags,
}

/// A sender's randomness for one clue.
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
        Self { parameters, a, b, tags: key.own_tags().clone(), plan }
    }

    /// The parameters of the clues.
    pub fn parameters(&self) -> &ClueParameters {
        &self.parameters
    }

    /// A clue that is pertinent to the key's owner, but for its tag, which depends on the message. No two clues may come
    /// from streams with the same seed, purpose and place.
    pub fn draft(&self, period: Period, stream: &mut Stream) -> ClueDraft {
        let degree = self.parameters.degree();
        let mut r = Zeroizing::new(vec![0; degree]);
        stream.ternary(&mut r);
        let mut errors = Zeroizing::new(vec![0; degree + COORDINATES]);
        stream.gaussian(self.parameters.error(), &mut errors);
        self.draft_from(period, &Randomness { r, errors })
    }

    /// The draft that the given randomness makes.
    pub(crate) fn draft_from(&self, period: Period, Randomness { r, errors }: &Randomness) -> ClueDraft {
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
        let mut b = Zeroizing::new(self.b.product(&r));
        for (value, &error) in b.iter_mut().zip(b_errors) {
            *value = modulus.add(*value, modulus.from_signed(error));
        }
        ClueDraft {
            clue: Clue::rounded(self.parameters, period, a, [0; COORDINATES]),
            b,
            tags: self.tags.clone(),
            modulus: *modulus,
        }
    }
}

impl ClueKey {
    /// Precomputes what every clue needs.
    pub fn prepare(&self) -> ClueMaker {
        ClueMaker::new(self)
    }
}

/// A clue without its tag. Its bound part is settled; the payload, which may depend on that, settles the tag.
pub struct ClueDraft {
    /// The clue with zeros for b'.
    clue: Clue,
    /// b' without the tag: with the clue it would give the tag away.
    b: Zeroizing<[u32; COORDINATES]>,
    tags: Tags,
    modulus: Modulus<u32>,
}

impl ClueDraft {
    /// The hash of the clue's bound part, one part of the binding.
    pub fn bound_hash(&self) -> Hash {
        self.clue.bound_hash()
    }

    /// The clue of the message with that binding. One draft makes one clue: from two with the same a' anybody could
    /// compute the difference of their tags, a linear equation for T.
    pub fn bind(self, binding: &Binding) -> Clue {
        let tag = self.tags.of(&self.modulus, &self.clue.parameters().binding_vector(binding));
        let b = std::array::from_fn(|c| self.modulus.add(self.b[c], tag[c]));
        self.clue.with_coordinates(b)
    }
}

impl std::fmt::Debug for ClueDraft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClueDraft").field("clue", &self.clue).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ClueMaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClueMaker").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}
