//! The uniform halves of detection keys, which all keys with the same public seed have in common, and what a detector makes of
//! them once for all of these keys.

use std::sync::{Arc, Mutex, PoisonError};

use restante_bfv::{Context, Decomposition, GaloisKey, KeySwitchingKey, SeededCiphertext};
use restante_ring::{
    EncryptedPairs, Evaluation, Modulus, Multiplier, Poly, Tiles, multiply_accumulate_rows, sample::Seed,
};
use restante_wire::{ParameterId, Reader, WireError};

use crate::diagonals::TAG_ROTATIONS;

/// Names the public seed that the uniform halves of a detection key come from: a hash of the parameters and of these values, so
/// that nobody can choose it. Keys with the same one are detected for together at little more than the cost of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicSeed {
    /// For whom keys are: the public key of a relay, or zeros.
    pub domain: [u8; 32],
    /// When they are used.
    pub period: u64,
}

impl PublicSeed {
    /// That of keys which are for no relay in particular, nor for a time: all that this version makes.
    pub const COMMON: Self = Self { domain: [0; 32], period: 0 };

    /// Bytes in a key's file.
    pub(super) const BYTES: usize = 40;

    /// The seed itself.
    pub(super) fn seed(&self, parameters: ParameterId) -> Seed {
        let parameters = u64::from_le_bytes(parameters.0);
        Seed::from(self.domain).derive("omr/public", &[parameters, self.period])
    }

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..32].copy_from_slice(&self.domain);
        bytes[32..].copy_from_slice(&self.period.to_le_bytes());
        bytes
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { domain: reader.array()?, period: reader.u64()? })
    }
}

/// A detection key, as detectors see it.
pub(super) struct KeyParts<'a> {
    pub(super) public: PublicSeed,
    pub(super) bfv: &'a Context<u32>,
    pub(super) baby_steps: usize,
    /// S and V.
    pub(super) secret: &'a SeededCiphertext<u32>,
    pub(super) tags: &'a SeededCiphertext<u32>,
    pub(super) baby: &'a GaloisKey<u32>,
    pub(super) giant: &'a GaloisKey<u32>,
}

/// Shared by keys with one public seed: made from their second halves alone, so that it depends on no secret.
#[derive(Debug)]
pub(super) struct PublicHalves {
    pub(super) name: PublicSeed,
    /// For each rotation by one of S, then for each of V, the digits of what is rotated.
    digits: Vec<Decomposition<u32>>,
    /// For each prime, the second halves of S's and V's rotations.
    pub(super) rows: Vec<EncryptedPairs>,
    /// Its second half.
    pub(super) giant: GaloisKey<u32>,
}

impl PublicHalves {
    /// Those of a key's public seed; any key with that seed gives the same.
    fn new(key: &KeyParts<'_>) -> Self {
        let steps = key.baby_steps;
        let (mut digits, mut rows) = (Vec::new(), Vec::new());
        for (ciphertext, rotations) in [(key.secret, steps), (key.tags, TAG_ROTATIONS - 1)] {
            rows.push(ciphertext.expand().c1);
            for _ in 0..rotations {
                let rotation = key.baby.digits(&rows[rows.len() - 1]);
                rows.push(key.baby.apply_second(&rotation));
                digits.push(rotation);
            }
        }
        let rows = pairs(key, rows);
        Self { name: key.public, digits, rows, giant: key.giant.clone() }
    }

    /// For each prime of Q, P times the first halves of S's and V's rotations by one.
    pub(super) fn first_halves(&self, key: &KeyParts<'_>) -> Vec<EncryptedPairs> {
        let (of_secret, of_tags) = self.digits.split_at(key.baby_steps);
        let (basis, kept) = (key.bfv.key_basis(), key.bfv.ciphertext_basis());
        let special = basis.part(kept.limbs()..basis.limbs());
        let baby_rows: Vec<_> = (0..basis.limbs()).map(|limb| tiles(key.baby.key(), limb)).collect();
        let times_special = multipliers(key.bfv, |_| key.bfv.parameters().special_moduli.iter().product());
        let mut rows: Vec<Poly<u32, Evaluation>> = Vec::with_capacity(key.baby_steps + 1 + TAG_ROTATIONS);
        for (ciphertext, digits) in [(key.secret, of_secret), (key.tags, of_tags)] {
            let mut first = ciphertext.first().clone();
            first.scale(&times_special);
            rows.push(first);
            for rotation in digits {
                // GaloisKey::apply_first times P, which spares the division. What is rotated is a multiple of P already.
                let mut rotated = key.baby.automorphism().apply_evaluation(&rows[rows.len() - 1]);
                let mut rest = Poly::zero(&special);
                for (limb, (plan, sum)) in rotated.limbs_mut().chain(rest.limbs_mut()).enumerate() {
                    let digits: Vec<_> =
                        rotation.digits().iter().map(|digit| digit.limb(limb)).zip(0..).collect();
                    multiply_accumulate_rows(plan, &digits, &baby_rows[limb], &mut [sum]);
                }
                key.bfv.special_divider().round_to_multiple(&mut rotated, rest);
                rows.push(rotated);
            }
        }
        pairs(key, rows)
    }
}

/// Modulo one prime, the first halves of a key's rows.
fn tiles(key: &KeySwitchingKey<u32>, limb: usize) -> Tiles<u32> {
    let rows: Vec<_> = key.first_halves().map(|first| first.limb(limb)).collect();
    let mut tiles = Tiles::unfilled(rows.len(), rows[0].len());
    tiles.set_rows(0, &rows);
    tiles
}

/// For each prime of Q, a factor.
fn multipliers(bfv: &Context<u32>, factor: impl Fn(&Modulus<u32>) -> u64) -> Vec<Multiplier<u32>> {
    let moduli = bfv.ciphertext_basis().plans().iter().map(|plan| plan.modulus());
    moduli.map(|modulus| modulus.multiplier(modulus.reduce(factor(modulus)))).collect()
}

/// The rows of S's and V's rotations by one, as the pairs that plaintexts meet.
fn pairs(key: &KeyParts<'_>, mut rows: Vec<Poly<u32, Evaluation>>) -> Vec<EncryptedPairs> {
    let (basis, steps) = (key.bfv.ciphertext_basis(), key.baby_steps);
    let factors = multipliers(key.bfv, |modulus| EncryptedPairs::factor(modulus).into());
    rows.iter_mut().for_each(|row| row.scale(&factors));
    let firsts = (0..steps).step_by(2).chain([steps + 1]);
    basis
        .plans()
        .iter()
        .enumerate()
        .map(|(limb, plan)| {
            let triples: Vec<_> =
                firsts.clone().map(|first| [0, 1, 2].map(|row| rows[first + row].limb(limb))).collect();
            EncryptedPairs::new(plan, &triples)
        })
        .collect()
}

/// The public halves that were needed last.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Vec<Arc<PublicHalves>>>>);

impl Kept {
    /// Those of a relay's present period and the next one, and some of others.
    const MOST: usize = 4;

    /// Those of a key, made if they are not there.
    pub(super) fn of(&self, key: &KeyParts<'_>) -> Arc<PublicHalves> {
        if let Some(halves) = self.find(key.public) {
            return self.put(halves);
        }
        // Not under the lock: a thread that waits for others' work may take up work that needs the lock. Several threads may so make
        // the same at once; one of them is kept.
        let made = Arc::new(PublicHalves::new(key));
        let halves = self.find(key.public).unwrap_or(made);
        self.put(halves)
    }

    fn find(&self, name: PublicSeed) -> Option<Arc<PublicHalves>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|halves| halves.name == name).cloned()
    }

    /// Puts them first, and forgets those that were needed longest ago.
    fn put(&self, halves: Arc<PublicHalves>) -> Arc<PublicHalves> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|other| other.name != halves.name);
        kept.insert(0, halves.clone());
        kept.truncate(Self::MOST);
        halves
    }
}
