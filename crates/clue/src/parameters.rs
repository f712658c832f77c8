//! The parameter sets, which are data in this one place.

use std::{fmt, str::FromStr};

use restante_ring::{NttPlan, sample::Gaussian};
use restante_wire::{ParameterId, binding::Binding, packed_bytes};

use crate::ClueError;

/// l, the number of coordinates of b' and of the tag.
pub const COORDINATES: usize = 2;

/// kappa, the number of residues of a binding's vector h: q^kappa = 2^137 of them.
pub const BINDING: usize = Binding::WORDS;

/// The bytes of an encoded clue's period, which comes first; a' follows.
pub const PERIOD_BYTES: usize = 4;

/// A choice of ring, of how many low bits a clue drops, and of the range of pertinent distances.
///
/// Only the presets exist. In all of them secrets and r are ternary and errors are [`Gaussian::Half`].
///
/// The range is chosen by `scripts/clue_range.py` from the exact distribution of the distances, such that an honest
/// clue is missed, over both coordinates, with probability at most 2^-40 for a key whose vectors are unusually long, and
/// with less than that for an average one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClueParameters {
    name: &'static str,
    degree: usize,
    modulus: u32,
    range: u32,
    dropped_bits: u32,
}

impl ClueParameters {
    /// Clues of 2,569 bytes.
    ///
    /// Distances have standard deviation 17.14; false negatives 2^-44.4, false positives 1.12e-7 (2^-23.1) a message.
    pub const STANDARD: Self =
        Self { name: "standard", degree: 1024, modulus: 786_433, range: 131, dropped_bits: 0 };

    /// Clues of 2,057 bytes, with more false positives.
    ///
    /// Distances have standard deviation 122.36; false negatives 2^-42.4, false positives 5.39e-6 (2^-17.5) a message.
    pub const SHORT: Self = Self { name: "short", range: 912, dropped_bits: 4, ..Self::STANDARD };

    /// Every preset.
    pub const ALL: [Self; 2] = [Self::STANDARD, Self::SHORT];

    /// The preset of that name.
    pub fn by_name(name: &str) -> Result<Self, ClueError> {
        let preset = Self::ALL.into_iter().find(|preset| preset.name == name);
        preset.ok_or_else(|| ClueError::UnknownParameters(name.into()))
    }

    /// The preset with that id, if there is one.
    pub fn by_id(id: ParameterId) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.id() == id)
    }

    /// The preset's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// n, the number of coefficients of a'.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// q.
    pub fn modulus(&self) -> u32 {
        self.modulus
    }

    /// The largest magnitude of a pertinent clue's distances.
    pub fn range(&self) -> u32 {
        self.range
    }

    /// d: a clue holds the coefficients of a' without their d low bits.
    pub fn dropped_bits(&self) -> u32 {
        self.dropped_bits
    }

    /// Security of clue keys and clues, in bits: the least of the attacks in `scripts/estimates.txt` for n = 1024, q =
    /// 786433, ternary secrets and the errors' true deviation of 0.464, with twice as many samples as there are (MATZOV
    /// cost model).
    pub fn security_bits(&self) -> u32 {
        142
    }

    /// The probability that a clue for somebody else passes.
    pub fn false_positive_rate(&self) -> f64 {
        (f64::from(2 * self.range + 1) / f64::from(self.modulus)).powi(COORDINATES as i32)
    }

    /// The bytes of an encoded clue.
    pub fn clue_bytes(&self) -> usize {
        self.bound_bytes() + packed_bytes(COORDINATES, self.residue_bits())
    }

    /// The bytes of an encoded clue's bound part, which it begins with: the period and a'.
    pub fn bound_bytes(&self) -> usize {
        PERIOD_BYTES + packed_bytes(self.degree, self.stored_bits())
    }

    /// The bytes of an encoded clue key.
    pub fn clue_key_bytes(&self) -> usize {
        32 + packed_bytes(self.degree, self.residue_bits())
            + packed_bytes(COORDINATES * BINDING, self.residue_bits())
    }

    /// h: the binding's words modulo q. A residue is more likely than another by at most 2^-44 of its probability.
    pub fn binding_vector(&self, binding: &Binding) -> [u32; BINDING] {
        // Whoever has the message knows the words: this division may take its time.
        binding.words().map(|word| (word % u64::from(self.modulus)) as u32)
    }

    /// Names this parameter set in files.
    pub fn id(&self) -> ParameterId {
        ParameterId::of(&format!("{} range={}", self.description(), self.range))
    }

    /// Names what keys depend on, which the range does not belong to: another range leaves a seed's address as it is.
    pub(crate) fn key_id(&self) -> ParameterId {
        ParameterId::of(&self.description())
    }

    fn description(&self) -> String {
        let Self { degree, modulus, dropped_bits, .. } = self;
        format!(
            "restante/2/clue degree={degree} modulus={modulus} coordinates={COORDINATES} binding={BINDING} \
             secret=ternary error={} dropped_bits={dropped_bits}",
            self.error().sigma()
        )
    }

    /// The distribution of the errors.
    pub(crate) fn error(&self) -> Gaussian {
        Gaussian::Half
    }

    /// sigma of the errors, a discrete Gaussian.
    pub fn error_sigma(&self) -> f64 {
        self.error().sigma()
    }

    /// Length of a residue in bits.
    pub(crate) fn residue_bits(&self) -> u32 {
        u32::BITS - self.modulus.leading_zeros()
    }

    /// Length of a coefficient of a' in bits, as a clue holds it.
    pub(crate) fn stored_bits(&self) -> u32 {
        self.residue_bits() - self.dropped_bits
    }

    /// A residue without its low bits, rounded: what a clue holds of it.
    #[inline(always)]
    pub(crate) fn round(&self, residue: u32) -> u32 {
        let half = (1 << self.dropped_bits) >> 1;
        (residue + half) >> self.dropped_bits
    }

    /// The transform of the ring, for the fastest back end.
    pub(crate) fn plan(&self) -> NttPlan<u32> {
        NttPlan::new(self.modulus.into(), self.degree).expect("every preset has a ring, as its test shows")
    }
}

impl fmt::Display for ClueParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for ClueParameters {
    type Err = ClueError;

    fn from_str(name: &str) -> Result<Self, ClueError> {
        Self::by_name(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_consistent() {
        for preset in ClueParameters::ALL {
            assert_eq!(preset.plan().degree(), preset.degree());
            assert_eq!(ClueParameters::by_name(preset.name()), Ok(preset));
            assert_eq!(ClueParameters::by_id(preset.id()), Some(preset));
            // Rounding up never reaches q, so that what a clue holds is used without reduction.
            let largest = preset.round(preset.modulus() - 1);
            assert!(largest << preset.dropped_bits() < preset.modulus());
            assert!(largest >> preset.stored_bits() == 0);
            // Distances of the whole range fit many times, and sums of n residues fit 31 bits (see `negacyclic`).
            assert!(preset.range() < preset.modulus() / 64);
            assert!(preset.degree() as u64 * u64::from(preset.modulus()) < 1 << 30);
        }
        assert_ne!(ClueParameters::STANDARD.id(), ClueParameters::SHORT.id());
        assert!(matches!(ClueParameters::by_name("long"), Err(ClueError::UnknownParameters(_))));
        assert_eq!(ClueParameters::by_id(ParameterId::NONE), None);
    }

    #[test]
    fn sizes_are_the_documented_ones() {
        assert_eq!(ClueParameters::STANDARD.clue_bytes(), 2569);
        assert_eq!(ClueParameters::SHORT.clue_bytes(), 2057);
        assert_eq!(ClueParameters::STANDARD.bound_bytes(), 2564);
        assert_eq!(ClueParameters::SHORT.bound_bytes(), 2052);
        assert_eq!(ClueParameters::STANDARD.clue_key_bytes(), 2627);
    }
}
