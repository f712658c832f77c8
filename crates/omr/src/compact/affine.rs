//! The affine step: x_c = b'_c - (a' s)_c - <T_c, h> for every message of a block, as in [`crate::stream`], with words of 64
//! bits.

use restante_bfv::Leveled;
use restante_clue::BoundClue;
use restante_ring::{Column, NttPlan, Poly, Tiles, for_each, multiply_accumulate};
use restante_wire::ParameterId;

use super::{CompactContext, CompactDetectionKey, detection_key::packing_elements, slots::Slots};
use crate::{
    KeyId, OmrError,
    diagonals::{BOUND_ROWS, ENTRIES, Layout, TAG_ROTATIONS},
};

/// Rows that are put into tiles at a time.
pub(super) const GROUP: usize = 8;

/// A detection key with its baby steps made: the largest part of a detector's memory, which depends on the recipient alone.
#[derive(Debug)]
pub struct PreparedKey {
    id: KeyId,
    pub(super) parameters: ParameterId,
    pub(super) key: CompactDetectionKey,
    /// For each prime, the first and second halves of rot_b(S) for b = 0 ..= baby steps, and of V's rotations.
    baby_steps: Vec<[Tiles<u64>; 2]>,
    /// The factor of S and V.
    factor: u64,
}

impl PreparedKey {
    /// Makes the baby steps. Uses the current thread pool's threads.
    pub fn new(key: CompactDetectionKey) -> Self {
        let context = key.context.clone();
        let chain = context.circuit();
        let steps = context.parameters().baby_steps + 1;
        let degree = context.degree();
        let mut baby_steps: Vec<_> = (0..chain.basis(0).limbs())
            .map(|_| [(); 2].map(|()| Tiles::new(steps + TAG_ROTATIONS, degree)))
            .collect();
        let mut factor = 0;
        for (ciphertext, rows) in [(&key.secret, 0..steps), (&key.tags, steps..steps + TAG_ROTATIONS)] {
            let mut rotated = chain.enter(&ciphertext.expand(), 0);
            factor = rotated.factor();
            for row in rows.clone() {
                if row > rows.start {
                    rotated = chain.rotate(&rotated, &key.baby);
                }
                for_each(degree, baby_steps.iter_mut().enumerate(), |(limb, halves)| {
                    for (tiles, part) in halves.iter_mut().zip(rotated.parts()) {
                        tiles.set_row(row, part.limb(limb));
                    }
                });
            }
        }
        Self { id: key.id(), parameters: context.id(), baby_steps, factor, key }
    }

    /// The key's id.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The detection key.
    pub fn key(&self) -> &CompactDetectionKey {
        &self.key
    }

    /// The detection key, without the baby steps and their memory.
    pub fn into_key(self) -> CompactDetectionKey {
        self.key
    }

    /// The memory that a prepared key's baby steps take, and the bytes of a stored precompute of them.
    pub fn precompute_bytes(context: &CompactContext) -> usize {
        let rows = context.parameters().baby_steps + 1 + TAG_ROTATIONS;
        2 * context.circuit().basis(0).limbs() * Tiles::<u64>::bytes(rows, context.degree())
    }

    /// The memory that a prepared key takes with its evaluation keys and encrypted secrets.
    pub fn memory_bytes(context: &CompactContext) -> usize {
        let limbs = |context: &restante_bfv::Context<u64>| context.key_basis().limbs();
        let circuit = context.circuit().context();
        let long = 3 * context.parameters().digits * limbs(circuit);
        let short = 2 * limbs(context.pertinency().context());
        let packing = (packing_elements(context).count() + 1) * limbs(context.packing().context());
        let limbs = 2 * (long + short + packing) + 2 * circuit.ciphertext_basis().limbs();
        Self::precompute_bytes(context) + limbs * context.degree() * size_of::<u64>()
    }
}

/// The affine step for one set of parameters.
#[derive(Debug)]
pub(super) struct Affine {
    context: CompactContext,
    layout: Layout,
    /// The transform modulo t, in short words.
    plaintext: NttPlan<u32>,
}

impl Affine {
    pub(super) fn new(context: &CompactContext) -> Result<Self, OmrError> {
        let bfv = context.circuit().context();
        let (clue, steps) = (context.parameters().clue, context.parameters().baby_steps);
        let backend = bfv.ciphertext_basis().backend();
        Ok(Self {
            layout: Layout::new(bfv.encoder().slot_places(), clue, steps, backend)?,
            plaintext: NttPlan::with_backend(clue.modulus().into(), context.degree(), backend)?,
            context: context.clone(),
        })
    }

    /// x_0 and x_1 of each key, in the slots of their messages, at the level of distances.
    pub(super) fn distances(
        &self,
        keys: &[&PreparedKey],
        clues: &[BoundClue<'_>],
        slots: &Slots,
    ) -> Vec<[Leveled<u64>; 2]> {
        let chain = self.context.circuit();
        let modulus = self.plaintext.modulus();
        let one = modulus.multiplier(1);
        let clues = &self.layout.clues(&slots.scatter(clues), vec![one; self.context.degree()]);
        let steps = self.context.parameters().baby_steps;
        let giants = self.context.parameters().clue.degree() / steps;
        let mut rows = vec![vec![0; self.context.degree()]; steps + BOUND_ROWS];
        let mut sums: Vec<Option<[Leveled<u64>; 2]>> = keys.iter().map(|_| None).collect();
        for giant in (0..giants).rev() {
            let (diagonals, bound) = rows.split_at_mut(steps);
            self.layout.fill(clues, giant * steps, diagonals);
            let used = if giant < ENTRIES {
                self.layout.fill_bound(clues, giant, bound);
                steps + BOUND_ROWS
            } else {
                steps
            };
            for_each(self.context.degree(), rows[..used].iter_mut(), |row| self.plaintext.inverse(row));
            let inner = self.inner_products(keys, rows[..used].split_at(steps));
            for ((key, sum), mut inner) in keys.iter().zip(&mut sums).zip(inner) {
                // Horner's rule: what is there belongs to higher giant steps.
                if let Some(sum) = sum.take() {
                    for (inner, sum) in inner.iter_mut().zip(sum) {
                        inner.add_assign(&chain.rotate(&sum, &key.key.giant));
                    }
                }
                *sum = Some(inner);
            }
        }
        let coordinates = [0, 1].map(|index| {
            let slots: Vec<u64> = self.layout.coordinates(clues, index).into_iter().map(u64::from).collect();
            chain.context().encoder().slots_to_coefficients(&slots)
        });
        let level = self.context.schedule().distances;
        let finish = |mut sum: Leveled<u64>, coordinates: &[u64]| {
            sum.negate();
            chain.add_plain(&mut sum, coordinates);
            chain.rescale(&sum, level)
        };
        let [zero, one] = &coordinates;
        sums.into_iter().flatten().map(|[x0, x1]| [finish(x0, zero), finish(x1, one)]).collect()
    }

    /// For each key and coordinate c, the sum over b of rot_(b + c)(S) times the plaintext with the coefficients `diagonals[b]`,
    /// and of rot_(b + c)(V) times that with `bound[b]`.
    fn inner_products(
        &self,
        keys: &[&PreparedKey],
        (diagonals, bound): (&[Vec<u32>], &[Vec<u32>]),
    ) -> Vec<[Leveled<u64>; 2]> {
        let chain = self.context.circuit();
        let basis = chain.basis(0);
        // For each key: both halves for coordinate 0, then for coordinate 1.
        let mut sums: Vec<Poly<u64, _>> = (0..4 * keys.len()).map(|_| Poly::zero(basis)).collect();
        let mut outputs: Vec<Vec<&mut [u64]>> = (0..basis.limbs()).map(|_| Vec::new()).collect();
        for sum in &mut sums {
            sum.limbs_mut().zip(&mut outputs).for_each(|((_, values), outputs)| outputs.push(values));
        }
        for_each(basis.degree(), outputs.into_iter().enumerate(), |(limb, mut outputs)| {
            let plan = &basis.plans()[limb];
            let plain = self.encode(diagonals, bound, plan);
            let columns: Vec<_> = keys
                .iter()
                .flat_map(|key| {
                    let [first, second] = &key.baby_steps[limb];
                    [(first, 0), (second, 0), (first, 1), (second, 1)]
                })
                .map(|(tiles, first_row)| Column { tiles, first_row })
                .collect();
            multiply_accumulate(plan, &plain, &columns, &mut outputs);
        });
        let mut sums = sums.into_iter();
        let mut pair = |factor| Leveled::new(sums.by_ref().take(2).collect(), 0, factor);
        keys.iter().map(|key| [pair(key.factor), pair(key.factor)]).collect()
    }

    /// The plaintexts modulo one prime: the diagonals and, if there are any, a row of zeros, where coordinate 1 has met the
    /// last of S and coordinate 0 has not, and those of the bindings.
    fn encode(&self, diagonals: &[Vec<u32>], bound: &[Vec<u32>], plan: &NttPlan<u64>) -> Tiles<u64> {
        let behind = if bound.is_empty() { 0 } else { 1 + bound.len() };
        let mut tiles = Tiles::unfilled(diagonals.len() + behind, plan.degree());
        let mut values = vec![vec![0; plan.degree()]; GROUP];
        let mut set = |first: usize, rows: &[Vec<u32>]| {
            for (row, values) in rows.iter().zip(&mut values) {
                lift(self.plaintext.modulus().value(), row, plan, values);
            }
            tiles.set_rows(first, &values[..rows.len()]);
        };
        for (index, rows) in diagonals.chunks(GROUP).enumerate() {
            set(index * GROUP, rows);
        }
        if !bound.is_empty() {
            set(diagonals.len() + 1, bound);
            tiles.set_row(diagonals.len(), &vec![0; plan.degree()]);
        }
        tiles
    }
}

/// Coefficients modulo t, taken in (-t/2, t/2), as evaluations modulo a longer prime.
pub(super) fn lift(t: u32, coefficients: &[u32], plan: &NttPlan<u64>, out: &mut [u64]) {
    let (half, gap) = (t / 2, plan.modulus().as_u64() - u64::from(t));
    for (out, &coefficient) in out.iter_mut().zip(coefficients) {
        let negative = ((half.wrapping_sub(coefficient) as i32) >> 31) as i64 as u64;
        *out = u64::from(coefficient) + (gap & negative);
    }
    plan.forward(out);
}

#[cfg(test)]
mod tests {
    use restante_clue::{ClueParameters, ClueSecretKey};
    use restante_ring::{Backend, sample::Seed};

    use super::*;
    use crate::compact::{CompactParameters, CompactSecret};

    #[test]
    fn prepared_keys_take_the_memory_that_is_said() {
        let parameters = CompactParameters::insecure(ClueParameters::STANDARD).unwrap();
        let context = CompactContext::new(parameters, Backend::best()).unwrap();
        let seed = Seed::from([1; 32]);
        let clue = ClueSecretKey::new(ClueParameters::STANDARD, &seed);
        let secret = CompactSecret::generate(&context, &seed, &clue).unwrap();
        let prepared = PreparedKey::new(secret.detection_key().unwrap());
        let key = &prepared.key;
        let galois = [&key.baby, &key.giant, &key.rotate, &key.swap].into_iter().chain(&key.packing);
        let keys = galois.map(restante_bfv::GaloisKey::key).chain([&key.relinearisation, &key.to_digest]);
        let rows: usize = keys.flat_map(|key| key.rows().flatten()).map(|poly| poly.limbs().len()).sum();
        let tiles: usize = prepared.baby_steps.iter().flatten().map(Tiles::memory_bytes).sum();
        let secrets = key.secret.expand().c0.limbs().len() + key.tags.expand().c0.limbs().len();
        let words = (rows + secrets) * context.degree();
        assert_eq!(PreparedKey::memory_bytes(&context), words * size_of::<u64>() + tiles);
    }
}
