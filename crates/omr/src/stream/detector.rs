//! The detector: from clues and detection keys to digests.

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use restante_bfv::{GaloisKey, ShortCiphertext};
use restante_clue::BoundClue;
use restante_ring::{
    Automorphism, ChunkMap, Column, EncryptedPairs, Evaluation, Multiplier, PlainPairs, Poly, Tiles,
    correlate_horner, multiply_accumulate_each, sample::Seed,
};
use restante_wire::ParameterId;

use super::{
    BLOCK, DetectionKey, KeyId, StreamContext, StreamDigest, StreamParameters, public::PublicHalves,
    randomizer,
};
use crate::{
    OmrError,
    diagonals::{BOUND_ROWS, Clues, ENTRIES, Layout},
};

/// A detection key with its baby steps made: about 4 MiB, and all that depends on the recipient alone.
#[derive(Debug)]
pub struct PreparedKey {
    id: KeyId,
    parameters: ParameterId,
    /// Shared with other keys.
    public: Arc<PublicHalves>,
    /// For each prime of Q, P times the first halves of S's and V's rotations by one.
    rows: Vec<EncryptedPairs>,
    /// For each prime of QP, the first half of the key for giant steps, rotated by 0, 1, ... giant steps.
    giants: Vec<Tiles<u32>>,
}

impl PreparedKey {
    /// Makes the baby steps.
    pub fn new(key: &DetectionKey) -> Self {
        let context = &key.context;
        let parts = key.parts();
        let public = context.halves.of(&parts);
        let basis = context.bfv().key_basis();
        let steps = giant_steps(context.parameters()) - 1;
        let mut rotations: Vec<_> = key.giant.key().first_halves().cloned().collect();
        while rotations.len() < steps {
            rotations.push(key.giant.automorphism().apply_evaluation(&rotations[rotations.len() - 1]));
        }
        let giants = (0..basis.limbs()).map(|limb| {
            let mut tiles = Tiles::unfilled(steps, basis.degree());
            let rows: Vec<_> = rotations.iter().take(steps).map(|rotation| rotation.limb(limb)).collect();
            tiles.set_rows(0, &rows);
            tiles
        });
        let giants = giants.collect();
        Self { id: key.id(), parameters: context.id(), rows: public.first_halves(&parts), giants, public }
    }

    /// The key's id.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The memory that a prepared key takes, nearly all of it for the baby steps.
    pub fn memory_bytes(context: &StreamContext) -> usize {
        let (bfv, degree) = (context.bfv(), context.bfv().degree());
        let rows = EncryptedPairs::bytes(pairs(context.parameters()), degree);
        let giants = Tiles::<u32>::bytes(giant_steps(context.parameters()) - 1, degree);
        bfv.ciphertext_basis().limbs() * rows + bfv.key_basis().limbs() * giants
    }
}

/// Giant steps of a block.
fn giant_steps(parameters: &StreamParameters) -> usize {
    parameters.clue.degree() / parameters.baby_steps
}

/// Pairs of plaintexts of a giant step that has a share of the bindings.
fn pairs(parameters: &StreamParameters) -> usize {
    (parameters.baby_steps + BOUND_ROWS) / 2
}

/// How much arithmetic a detection takes: what a measured time can be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Transforms, forward and inverse.
    pub transforms: u64,
    /// Products of residues in the matrix product.
    pub products: u64,
}

/// Detects for many recipients in one pass over the clues.
#[derive(Debug)]
pub struct Detector {
    context: StreamContext,
    layout: Layout,
    /// A rotation by one giant step.
    giant_step: ChunkMap,
    /// Rotations by 0, 1, ... giant steps.
    rotations: Vec<Automorphism>,
    /// P modulo each prime of Q.
    special: Vec<Multiplier<u32>>,
    /// Memory of finished blocks, for the next ones: as much as blocks were under way at once.
    scratch: Mutex<Vec<Scratch>>,
}

/// Giant steps whose diagonals meet the baby steps in one pass over those: few for few recipients, whose baby steps stay in a
/// cache together with so many diagonals; all of a block for many, whose baby steps come from memory.
fn giants_at_once(recipients: usize, giants: usize) -> usize {
    if recipients < 4 { giants.min(2) } else { giants }
}

/// Keys of a pass with one public seed, and what is computed for all of them.
struct Group<'a> {
    public: &'a PublicHalves,
    /// Their places among the keys.
    members: Vec<usize>,
    /// The second halves of both coordinates, as far as giant steps have been taken.
    sums: [Option<Poly<u32, Evaluation>>; 2],
    /// For the giant steps at once, the sums of products of both coordinates.
    products: Vec<Poly<u32, Evaluation>>,
    /// For each coordinate and each prime of QP, the digits of each giant step g, rotated by g giant steps.
    digits: [Vec<Tiles<u32>>; 2],
}

/// Both halves of both encrypted coordinates of a block, each message's times its factor.
struct Halves {
    /// The first half of each key, over QP and P times as large.
    own: Vec<[Poly<u32, Evaluation>; 2]>,
    /// The second half, and the places of the keys that it is for.
    shared: Vec<([Poly<u32, Evaluation>; 2], Vec<usize>)>,
}

impl Detector {
    /// A detector for one parameter set.
    pub fn new(context: &StreamContext) -> Result<Self, OmrError> {
        let (bfv, parameters) = (context.bfv(), context.parameters());
        let (steps, basis) = (parameters.baby_steps, bfv.ciphertext_basis());
        let layout = Layout::new(bfv.encoder().slot_places(), parameters.clue, steps, basis.backend())?;
        let rotation = |giant| {
            Automorphism::new(GaloisKey::<u32>::rotation_element(bfv.degree(), giant * steps), bfv.degree())
        };
        let special: u64 = parameters.bfv.special_moduli.iter().product();
        let special = basis.plans().iter().map(|plan| {
            let modulus = plan.modulus();
            modulus.multiplier(modulus.reduce(special))
        });
        Ok(Self {
            context: context.clone(),
            layout,
            giant_step: ChunkMap::new(&rotation(1)?)?,
            rotations: (0..giant_steps(parameters)).map(rotation).collect::<Result<_, _>>()?,
            special: special.collect(),
            scratch: Mutex::default(),
        })
    }

    /// The context.
    pub fn context(&self) -> &StreamContext {
        &self.context
    }

    /// The digests of messages `first ..` with these clues, one digest for each key. Runs on the calling thread; see
    /// [`Detector::detect_with`] for more threads.
    ///
    /// `seed` becomes part of the digests. Posters must not be able to foresee it: draw it anew for each
    /// call.
    pub fn detect<K: Borrow<PreparedKey>>(
        &self,
        keys: &[K],
        first: u64,
        clues: &[BoundClue<'_>],
        seed: &Seed,
    ) -> Result<Vec<StreamDigest>, OmrError> {
        let keys: Vec<&PreparedKey> = keys.iter().map(Borrow::borrow).collect();
        let blocks = self.blocks(&keys, first, clues)?.into_iter().enumerate();
        let blocks = blocks.map(|(index, block)| self.detect_block(&keys, index, block, seed)).collect();
        Ok(self.digests(&keys, first, clues.len(), seed, blocks))
    }

    /// The arithmetic of a detection for keys with one public seed.
    pub fn work(&self, messages: u64, recipients: usize) -> Work {
        let (blocks, recipients) = (messages.div_ceil(BLOCK as u64), recipients as u64);
        let parameters = self.context.parameters();
        let limbs = parameters.bfv.ciphertext_moduli.len() as u64;
        let special = parameters.bfv.special_moduli.len() as u64;
        let diagonals = parameters.clue.degree() as u64;
        let giant_steps = giant_steps(parameters) as u64 - 1;
        // Each of the diagonals, those of the bindings, b'_0 and b'_1: back modulo t, and forward modulo each prime.
        let plaintexts = (diagonals + (BOUND_ROWS * ENTRIES) as u64 + 2) * (1 + limbs);
        // A giant step takes the second half back and, over all primes, forward; then it goes back modulo P, forward modulo Q.
        let giant_step = limbs + (limbs + special) + (special + limbs);
        let second_halves = 2 * (giant_steps * giant_step + limbs);
        // Three products for each pair of plaintexts give both coordinates.
        let sums = (diagonals + (BOUND_ROWS * ENTRIES) as u64) / 2 * 3 * limbs;
        let first_halves = sums + 2 * giant_steps * (limbs + special);
        Work {
            transforms: blocks * (plaintexts + second_halves + recipients * 2 * (limbs + special)),
            products: blocks * (sums + recipients * first_halves) * BLOCK as u64,
        }
    }

    /// Cuts a range into blocks, after a check of the range, of the clues' lengths and of the keys' parameters.
    pub(super) fn blocks<'a, 'b>(
        &self,
        keys: &[&PreparedKey],
        first: u64,
        clues: &'a [BoundClue<'b>],
    ) -> Result<Vec<&'a [BoundClue<'b>]>, OmrError> {
        StreamDigest::check_range(first, clues.len() as u64)?;
        let expected = self.context.id();
        if let Some(key) = keys.iter().find(|key| key.parameters != expected) {
            return Err(OmrError::Parameters { what: "detection key", found: key.parameters, expected });
        }
        let expected = self.context.parameters().clue.clue_bytes();
        match clues.iter().position(|clue| clue.bytes.len() != expected) {
            Some(index) => {
                let found = clues[index].bytes.len();
                Err(OmrError::ClueBytes { index: index as u64, found, expected })
            }
            None => Ok(clues.chunks(BLOCK).collect()),
        }
    }

    /// Turns block results, each with one pair per key, into one digest per key.
    pub(super) fn digests(
        &self,
        keys: &[&PreparedKey],
        first: u64,
        count: usize,
        seed: &Seed,
        blocks: Vec<Vec<[ShortCiphertext; 2]>>,
    ) -> Vec<StreamDigest> {
        let mut digests: Vec<_> = keys
            .iter()
            .map(|key| StreamDigest {
                first,
                count: count as u64,
                key: key.id,
                seed: seed.clone(),
                blocks: Vec::with_capacity(blocks.len()),
            })
            .collect();
        for block in blocks {
            digests.iter_mut().zip(block).for_each(|(digest, pair)| digest.blocks.push(pair));
        }
        digests
    }

    /// Both coordinates of one block, for each key, at the digest's moduli.
    pub(super) fn detect_block(
        &self,
        keys: &[&PreparedKey],
        index: usize,
        clues: &[BoundClue<'_>],
        seed: &Seed,
    ) -> Vec<[ShortCiphertext; 2]> {
        let modulus = self.context.bfv().plaintext_plan().modulus();
        let factors = randomizer::factors(seed, index, modulus, BLOCK);
        let missing = std::iter::repeat_n(None, BLOCK - clues.len());
        let slots: Vec<_> = clues.iter().copied().map(Some).chain(missing).collect();
        let clues = self.layout.clues(&slots, factors);
        self.shorten(self.circuit(keys, &clues))
    }

    /// The ciphertexts at the digest's moduli: first halves are rounded once, from QP.
    fn shorten(&self, halves: Halves) -> Vec<[ShortCiphertext; 2]> {
        let (bfv, short) = (self.context.bfv(), self.context.parameters().short);
        let mut shared = vec![None; halves.own.len()];
        for (pair, members) in halves.shared {
            let pair = pair
                .map(|second| Arc::new(bfv.shortener().shorten(&second.into_coefficient(), short.c1_bits())));
            members.into_iter().for_each(|member| shared[member] = Some(pair.clone()));
        }
        let own = halves.own.into_iter().zip(shared.into_iter().flatten());
        own.map(|([x0, x1], [second0, second1])| {
            let first = |x: Poly<_, _>| bfv.key_shortener().shorten(&x.into_coefficient(), short.c0_bits());
            [
                ShortCiphertext::from_halves(first(x0), second0),
                ShortCiphertext::from_halves(first(x1), second1),
            ]
        })
        .collect()
    }

    /// The encrypted distances of one block's messages, each times its factor, for each key.
    ///
    /// With sigma for a giant step and p_g for its sums of products, Horner's rule x = p_g + switch(sigma(x)) splits: of a second
    /// half, digits e_g are taken in each step, whatever the key; a first half comes to
    ///
    /// ```text
    /// sum over g of sigma^g(p_g) + 1/P sum over g of sigma^g(e_g) sigma^g(k),
    /// ```
    ///
    /// k being the first half of the key for giant steps. As no digits are taken of first halves, they are divided by P once,
    /// when they are rounded for the digest.
    fn circuit(&self, keys: &[&PreparedKey], clues: &Clues<'_>) -> Halves {
        let bfv = self.context.bfv();
        let giants = self.rotations.len();
        let at_once = giants_at_once(keys.len(), giants);
        let mut scratch = self.take_scratch();
        scratch.reserve(&self.context, at_once);
        let mut groups = self.groups(keys);
        let zero = || Poly::zero(bfv.key_basis());
        let mut own: Vec<[Poly<u32, Evaluation>; 2]> = keys.iter().map(|_| [zero(), zero()]).collect();
        // Highest giant step first, and within those at once too.
        for start in (0..giants).step_by(at_once).rev() {
            let some = start..giants.min(start + at_once);
            if at_once == 1 {
                // Prime by prime, so that the plaintexts of one are still in a cache when they are used.
                let used = self.fill(clues, start, &mut scratch);
                for limb in 0..scratch.diagonals.len() {
                    self.lift(limb, used, 0, &mut scratch);
                    self.sums(keys, &mut groups, limb, 1, &scratch, &mut own);
                }
            } else {
                for (place, giant) in some.clone().enumerate() {
                    let used = self.fill(clues, giant, &mut scratch);
                    (0..scratch.diagonals.len()).for_each(|limb| self.lift(limb, used, place, &mut scratch));
                }
                for limb in 0..scratch.diagonals.len() {
                    self.sums(keys, &mut groups, limb, some.len(), &scratch, &mut own);
                }
            }
            groups.iter_mut().for_each(|group| self.take_giant_steps(group, some.clone()));
        }
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        let coordinates = [0, 1].map(|index| self.coordinates(clues, index));
        let shared = groups.into_iter().map(|group| {
            self.subtract_switched(keys, &group, &coordinates, &mut own);
            let second = group.sums.map(|sum| {
                let mut sum = sum.unwrap_or_else(|| Poly::zero(bfv.ciphertext_basis()));
                sum.negate();
                sum
            });
            (second, group.members)
        });
        let shared = shared.collect();
        Halves { own, shared }
    }

    /// The keys by their public seeds.
    fn groups<'a>(&self, keys: &[&'a PreparedKey]) -> Vec<Group<'a>> {
        let bfv = self.context.bfv();
        let tiles = || {
            let limbs = 0..bfv.key_basis().limbs();
            limbs.map(|_| Tiles::unfilled(self.rotations.len() - 1, bfv.degree())).collect()
        };
        let mut groups: Vec<Group<'a>> = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            match groups.iter_mut().find(|group| group.public.name == key.public.name) {
                Some(group) => group.members.push(place),
                None => groups.push(Group {
                    public: &key.public,
                    members: vec![place],
                    sums: [None, None],
                    products: Vec::new(),
                    digits: [tiles(), tiles()],
                }),
            }
        }
        groups
    }

    /// Modulo one prime, the sums of products for `count` giant steps: of first halves with the steps taken, of second halves as they
    /// are.
    fn sums(
        &self,
        keys: &[&PreparedKey],
        groups: &mut [Group<'_>],
        limb: usize,
        count: usize,
        scratch: &Scratch,
        own: &mut [[Poly<u32, Evaluation>; 2]],
    ) {
        let basis = self.context.bfv().ciphertext_basis();
        let (plan, diagonals) = (&basis.plans()[limb], &scratch.diagonals[limb]);
        let shared: Vec<_> = groups.iter().map(|group| &group.public.rows[limb]).collect();
        let rows: Vec<_> = keys.iter().map(|key| &key.rows[limb]).collect();
        // Giant step after giant step, of each all groups.
        let mut products: Vec<_> = groups
            .iter_mut()
            .map(|group| {
                group.products.resize_with(2 * count, || Poly::zero(basis));
                group.products.iter_mut().map(|product| product.limb_mut(limb))
            })
            .collect();
        let pairs = (0..count).flat_map(|_| 0..shared.len()).flat_map(|group| [group; 2]);
        let mut outputs: Vec<_> = pairs.filter_map(|group| products[group].next()).collect();
        outputs.extend(own.iter_mut().flatten().map(|sum| sum.limb_mut(limb)));
        correlate_horner(plan, diagonals, 0..count, [&shared, &rows], &self.giant_step, &mut outputs);
    }

    /// Takes these giant steps with the second halves, and keeps their digits.
    fn take_giant_steps(&self, group: &mut Group<'_>, giants: Range<usize>) {
        for (giant, pair) in giants.zip(group.products.chunks_exact(2)).rev() {
            for ((sum, product), digits) in group.sums.iter_mut().zip(pair).zip(&mut group.digits) {
                let Some(higher) = sum else {
                    *sum = Some(product.clone());
                    continue;
                };
                let decomposed = group.public.giant.digits(higher);
                let digit = self.rotations[giant].apply_evaluation(&decomposed.digits()[0]);
                digits
                    .iter_mut()
                    .enumerate()
                    .for_each(|(limb, tiles)| tiles.set_row(giant, digit.limb(limb)));
                *higher = group.public.giant.apply_second(&decomposed);
                higher.add_assign(product);
            }
        }
    }

    /// P times b'_c, over QP.
    fn coordinates(&self, clues: &Clues<'_>, index: usize) -> Poly<u32, Evaluation> {
        let encoder = self.context.bfv().encoder();
        let slots = self.layout.coordinates(clues, index);
        let summand = encoder.to_summand(&encoder.slots_to_coefficients(&slots)).into_evaluation();
        Poly::from_limbs(self.context.bfv().key_basis(), |limb, plan, values| {
            let Some(special) = self.special.get(limb) else { return };
            for (value, &residue) in values.iter_mut().zip(summand.limb(limb)) {
                *value = special.mul(plan.modulus(), residue);
            }
        })
    }

    /// Completes the first halves of a group's keys: with the key switchings' shares, x_c = b'_c - (a' s)_c - <T_c, h>, times the
    /// factors.
    fn subtract_switched(
        &self,
        keys: &[&PreparedKey],
        group: &Group<'_>,
        coordinates: &[Poly<u32, Evaluation>; 2],
        own: &mut [[Poly<u32, Evaluation>; 2]],
    ) {
        let (basis, steps) = (self.context.bfv().key_basis(), self.rotations.len() - 1);
        // Few at a time, so that what is computed is still in a cache when it is used.
        for members in group.members.chunks(8) {
            let mut switched: Vec<_> = (0..2 * members.len()).map(|_| Poly::zero(basis)).collect();
            for (limb, plan) in basis.plans().iter().enumerate() {
                let digits = group.digits.each_ref().map(|tiles| (&tiles[limb], steps));
                let giants: Vec<_> = members.iter().map(|&key| &keys[key].giants[limb]).collect();
                let columns: Vec<_> =
                    giants.into_iter().map(|tiles| Column { tiles, first_row: 0 }).collect();
                let mut outputs: Vec<_> = switched.iter_mut().map(|sum| sum.limb_mut(limb)).collect();
                multiply_accumulate_each(plan, &digits, &columns, &mut outputs);
            }
            for (index, (coordinate, switched)) in
                coordinates.iter().zip(switched.chunks_exact_mut(members.len())).enumerate()
            {
                for (&member, switched) in members.iter().zip(switched) {
                    let sum = &mut own[member][index];
                    sum.add_assign(switched);
                    switched.clone_from(coordinate);
                    switched.sub_assign(sum);
                    std::mem::swap(sum, switched);
                }
            }
        }
    }

    fn take_scratch(&self) -> Scratch {
        let free = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| Scratch::new(&self.context))
    }

    /// The plaintexts of a giant step, by their coefficients: gives how many there are.
    fn fill(&self, clues: &Clues<'_>, giant: usize, scratch: &mut Scratch) -> usize {
        let steps = self.context.parameters().baby_steps;
        let (diagonals, bound) = scratch.rows.split_at_mut(steps);
        self.layout.fill(clues, giant * steps, diagonals);
        let used = if giant < ENTRIES {
            self.layout.fill_bound(clues, giant, bound);
            steps + BOUND_ROWS
        } else {
            steps
        };
        let plan = self.context.bfv().encoder().plan();
        scratch.rows[..used].iter_mut().for_each(|row| plan.inverse(row));
        used
    }

    /// Encodes the plaintexts that [`Detector::fill`] left modulo one prime, as those with the number `place` among those at once.
    fn lift(&self, limb: usize, used: usize, place: usize, scratch: &mut Scratch) {
        let plan = &self.context.bfv().ciphertext_basis().plans()[limb];
        let lifted = &mut scratch.lifted[..used];
        for (row, lifted) in scratch.rows.iter().zip(&mut *lifted) {
            self.context.bfv().encoder().lift(row, plan, lifted);
        }
        scratch.diagonals[limb].set_matrix(plan, place, lifted);
    }
}

/// Memory that a block's giant steps reuse.
#[derive(Debug)]
struct Scratch {
    rows: Vec<Vec<u32>>,
    lifted: Vec<Vec<u32>>,
    /// For each prime, the transforms of giant steps' plaintexts: as many diagonals as there are baby steps and, for the first
    /// giant steps, those of the bindings.
    diagonals: Vec<PlainPairs>,
}

impl Scratch {
    fn new(context: &StreamContext) -> Self {
        let (steps, degree) = (context.parameters().baby_steps, context.bfv().degree());
        let limbs = 0..context.bfv().ciphertext_basis().limbs();
        let rows = vec![vec![0; degree]; steps + BOUND_ROWS];
        Self { lifted: rows.clone(), rows, diagonals: limbs.map(|_| PlainPairs::new(0, 0, degree)).collect() }
    }

    /// Makes room for the diagonals of `giants` giant steps.
    fn reserve(&mut self, context: &StreamContext, giants: usize) {
        let (pairs, degree) = (pairs(context.parameters()), context.bfv().degree());
        for plain in self.diagonals.iter_mut().filter(|plain| plain.matrices() != giants) {
            *plain = PlainPairs::new(giants, pairs, degree);
        }
    }
}

#[cfg(test)]
mod tests {
    use restante_bfv::Ciphertext;
    use restante_clue::{Clue, ClueParameters, ClueSecretKey};
    use restante_ring::Backend;
    use restante_wire::{
        Decode, Encode,
        binding::{Binding, Period},
        merkle::Hash,
    };

    use super::*;
    use crate::stream::{RecipientSecret, StreamParameters};

    /// How many standard deviations away 1/2 is, where decryption fails: with 8.4, which are exceeded with probability
    /// 2^-54.4, one of 2 x 4,096 coefficients fails with less than 2^-41.
    const HONEST: f64 = 8.4;
    const PERIOD: Period = Period(20_000);
    /// For blocks that are crafted as a whole; 6.5 would be 2^-20.
    const CRAFTED: f64 = 8.0;

    /// One recipient's circuit on these clues: the noise, and what a digest adds to it.
    fn check_noise(parameters: ClueParameters, name: u8, clues: &[Vec<u8>], least: f64) {
        check_noise_with(parameters, name, clues, |i| i, least);
    }

    /// The same, where clue i is bound to the hash that the given number stands for. On a board all bindings differ.
    fn check_noise_with(
        parameters: ClueParameters,
        name: u8,
        clues: &[Vec<u8>],
        bound: impl Fn(u64) -> u64,
        least: f64,
    ) {
        let context =
            StreamContext::new(StreamParameters::new(parameters).unwrap(), Backend::best()).unwrap();
        let clue = ClueSecretKey::new(parameters, &Seed::from([name; 32]));
        let secret = RecipientSecret::generate(&context, &Seed::from([name; 32]), &clue).unwrap();
        let key = PreparedKey::new(&secret.detection_key().unwrap());
        let bound = (0u64..).map(|i| Binding(Hash::of(&bound(i).to_le_bytes()).0)).zip(clues);
        let slots: Vec<_> = bound.map(|(binding, bytes)| Some(BoundClue { bytes, binding })).collect();
        let factors = randomizer::factors(
            &Seed::from([name + 1; 32]),
            0,
            context.bfv().plaintext_plan().modulus(),
            BLOCK,
        );
        let detector = Detector::new(&context).unwrap();
        let halves = detector.circuit(&[&key], &detector.layout.clues(&slots, factors));
        for (first, second) in halves.own[0].iter().zip(&halves.shared[0].0) {
            let x = Ciphertext {
                c0: context.bfv().special_divider().divide_evaluation(first),
                c1: second.clone(),
            };
            let noise = secret.bfv().noise(&x);
            assert!(noise.budget_bits() >= f64::from(context.parameters().noise_margin_bits), "{noise:?}");
            // The circuit's share of the decryption error, and all of it.
            let own = 2f64.powf(noise.deviation_bits - noise.bound_bits - 1.0);
            let all = own.hypot(context.parameters().short.rounding_deviation(4096, 786_433));
            assert!(0.5 / all > least && all < context.parameters().error_deviation, "{own}, {all}");
        }
    }

    fn honest(parameters: ClueParameters) -> Vec<Vec<u8>> {
        let maker = ClueSecretKey::new(parameters, &Seed::from([1; 32])).clue_key().prepare();
        let mut stream = Seed::from([3; 32]).stream("test", &[]);
        (0..BLOCK).map(|_| maker.draft(PERIOD, &mut stream).bind(&Binding([0; 32])).to_bytes()).collect()
    }

    #[test]
    fn noise_leaves_the_margin_that_the_parameters_state() {
        for parameters in ClueParameters::ALL {
            let clues = honest(parameters);
            (1..=3).for_each(|name| check_noise(parameters, name, &clues, HONEST));
        }
    }

    /// Clues whose diagonals would, without the random factors, add up the errors of all baby steps in one coefficient,
    /// for every recipient: D_k(X) = X^64 v(X^(-3^k)) with v = t/2 in each coefficient, or in each 2^s-th, for which the
    /// last 1/2^s of each row of slots suffices, whatever the others hold.
    #[test]
    fn crafted_clues_do_not_raise_the_noise() {
        let parameters = ClueParameters::STANDARD;
        let context =
            StreamContext::new(StreamParameters::new(parameters).unwrap(), Backend::best()).unwrap();
        let (encoder, t) = (context.bfv().encoder(), *context.bfv().plaintext_plan().modulus());
        let (n, columns) = (parameters.degree(), BLOCK / 2);
        let honest: Vec<Clue> =
            honest(parameters).iter().map(|bytes| Clue::from_bytes(&parameters, bytes).unwrap()).collect();
        for fibre in [1, 4, 16] {
            let mut v = vec![0; BLOCK];
            v.iter_mut().step_by(fibre).for_each(|value| *value = 393_216);
            let mut monomial = vec![0; BLOCK];
            monomial[64] = 1;
            let [v, monomial] = [v, monomial].map(|poly| encoder.coefficients_to_slots(poly));
            let mut clues = honest.clone();
            for (row, column) in
                (0..2).flat_map(|row| (columns - columns / fibre..columns).map(move |i| (row, i)))
            {
                let mut a = vec![0; n];
                for step in 0..n {
                    let index = (2 * n - column % n - step) % n;
                    let target = t.mul(
                        v[(1 - row) * columns + (column + step) % columns],
                        monomial[row * columns + column],
                    );
                    // Slots that lie a period apart must add up to it.
                    let sum = t.reduce(u64::from(target) * fibre as u64);
                    a[index] = (1..fibre).fold(sum, |rest, other| {
                        let slot = row * columns + column - other * (columns / fibre);
                        t.sub(rest, honest[slot].a()[index])
                    });
                }
                clues[row * columns + column] =
                    Clue::from_coefficients(parameters, PERIOD, &a, [0, 0]).unwrap();
            }
            let clues: Vec<_> = clues.iter().map(Encode::to_bytes).collect();
            check_noise(parameters, 2, &clues, CRAFTED);
        }
    }

    /// The same clue in every slot, and the extreme values.
    #[test]
    fn uniform_boards_do_not_raise_the_noise() {
        let parameters = ClueParameters::STANDARD;
        let [one, largest] = [1, parameters.modulus() - 1].map(|value| {
            let a = vec![value; parameters.degree()];
            Clue::from_coefficients(parameters, PERIOD, &a, [value, value]).unwrap().to_bytes()
        });
        let copied = honest(parameters)[0].clone();
        for clue in [one, largest, copied, vec![0xff; parameters.clue_bytes()]] {
            // With bindings as on a board, and with one for all, as no board has them.
            let clues = vec![clue; BLOCK];
            check_noise(parameters, 2, &clues, CRAFTED);
            check_noise_with(parameters, 2, &clues, |_| 7, CRAFTED);
        }
    }
}
