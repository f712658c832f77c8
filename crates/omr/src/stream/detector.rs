//! The detector: from clues and detection keys to digests.

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use restante_bfv::{Ciphertext, GaloisKey, ShortCiphertext};
use restante_clue::BoundClue;
use restante_ring::{Column, Evaluation, Poly, Tiles, multiply_accumulate_each, sample::Seed};
use restante_wire::ParameterId;

use super::{BLOCK, DetectionKey, KeyId, StreamContext, StreamDigest, randomizer};
use crate::{
    OmrError,
    diagonals::{BOUND_ROWS, Clues, ENTRIES, Layout, TAG_ROTATIONS},
};

/// A detection key with its baby steps made: about 4 MiB, and all that depends on the recipient alone.
#[derive(Debug)]
pub struct PreparedKey {
    id: KeyId,
    parameters: ParameterId,
    /// For each prime, the first and second halves of rot_b(S) for b = 0 ..= baby steps, and of V's rotations.
    baby_steps: Vec<[Tiles<u32>; 2]>,
    giant: GaloisKey<u32>,
}

impl PreparedKey {
    /// Makes the baby steps.
    pub fn new(key: &DetectionKey) -> Self {
        let bfv = key.context.bfv();
        let steps = key.context.parameters().baby_steps + 1;
        let tiles = || Tiles::new(steps + TAG_ROTATIONS, bfv.degree());
        let mut baby_steps: Vec<_> =
            bfv.ciphertext_basis().plans().iter().map(|_| [tiles(), tiles()]).collect();
        for (ciphertext, rows) in [(&key.secret, 0..steps), (&key.tags, steps..steps + TAG_ROTATIONS)] {
            let mut rotated = ciphertext.expand();
            for row in rows.clone() {
                if row > rows.start {
                    rotated = key.baby.apply(&rotated);
                }
                for (limb, [first, second]) in baby_steps.iter_mut().enumerate() {
                    first.set_row(row, rotated.c0.limb(limb));
                    second.set_row(row, rotated.c1.limb(limb));
                }
            }
        }
        Self { id: key.id(), parameters: key.context.id(), baby_steps, giant: key.giant.clone() }
    }

    /// The key's id.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The memory that a prepared key takes, nearly all of it for the baby steps.
    pub fn memory_bytes(context: &StreamContext) -> usize {
        let bfv = context.bfv();
        let rows = context.parameters().baby_steps + 1 + TAG_ROTATIONS;
        2 * bfv.ciphertext_basis().limbs() * Tiles::<u32>::bytes(rows, bfv.degree())
    }
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
    /// Memory of finished blocks, for the next ones: as much as blocks were under way at once.
    scratch: Mutex<Vec<Scratch>>,
}

/// Giant steps whose diagonals meet the baby steps in one pass over those: few for few recipients, whose baby steps stay in a
/// cache together with so many diagonals; all of a block for many, whose baby steps come from memory.
fn giants_at_once(recipients: usize, giants: usize) -> usize {
    if recipients < 4 { giants.min(4) } else { giants }
}

/// The rows of a giant step that has a share of the bindings.
fn plain_rows(steps: usize) -> usize {
    steps + 1 + BOUND_ROWS
}

/// The plaintexts of some giant steps: for each prime and each giant step, the transforms of as many diagonals as there are
/// baby steps, then, for the first giant steps, a row of zeros and those of the bindings. The rows of zeros are where
/// coordinate 1, one row further on than coordinate 0, has met the last of S, and coordinate 0 has not.
type Diagonals = Vec<Vec<Tiles<u32>>>;

impl Detector {
    /// A detector for one parameter set.
    pub fn new(context: &StreamContext) -> Result<Self, OmrError> {
        let (bfv, clue) = (context.bfv(), context.parameters().clue);
        let (steps, backend) = (context.parameters().baby_steps, bfv.ciphertext_basis().backend());
        let layout = Layout::new(bfv.encoder().slot_places(), clue, steps, backend)?;
        Ok(Self { context: context.clone(), layout, scratch: Mutex::default() })
    }

    /// The context.
    pub fn context(&self) -> &StreamContext {
        &self.context
    }

    /// The digests of messages `first ..` with these clues, one digest for each key. Runs on the calling thread; see
    /// [`Detector::detect_with`] for more threads.
    ///
    /// `seed` becomes part of the digests. Whoever posts must not be able to foresee it: draw it anew for each call.
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

    /// The arithmetic of a detection.
    pub fn work(&self, messages: u64, recipients: usize) -> Work {
        let (blocks, recipients) = (messages.div_ceil(BLOCK as u64), recipients as u64);
        let parameters = self.context.parameters();
        let limbs = parameters.bfv.ciphertext_moduli.len() as u64;
        let special = parameters.bfv.special_moduli.len() as u64;
        let diagonals = parameters.clue.degree() as u64;
        // Each of the diagonals, those of the bindings, b'_0 and b'_1: back modulo t, and forward modulo each prime.
        let shared = (diagonals + (BOUND_ROWS * ENTRIES) as u64 + 2) * (1 + limbs);
        // A giant step takes c1 back and, over all primes, forward; then both halves back modulo P, forward modulo Q.
        let giant_step = limbs + (limbs + special) + 2 * (special + limbs);
        let giant_steps = 2 * (diagonals / parameters.baby_steps as u64 - 1);
        let own = giant_steps * giant_step + 4 * limbs;
        Work {
            transforms: blocks * (shared + recipients * own),
            products: blocks
                * recipients
                * (diagonals + ((1 + BOUND_ROWS) * ENTRIES) as u64)
                * 4
                * limbs
                * BLOCK as u64,
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
        let shorten = |x: Ciphertext<u32, Evaluation>| {
            ShortCiphertext::new(self.context.bfv(), &x.into_coefficient(), self.context.parameters().short)
        };
        let modulus = self.context.bfv().plaintext_plan().modulus();
        let factors = randomizer::factors(seed, index, modulus, BLOCK);
        let missing = std::iter::repeat_n(None, BLOCK - clues.len());
        let slots: Vec<_> = clues.iter().copied().map(Some).chain(missing).collect();
        let clues = self.layout.clues(&slots, factors);
        self.circuit(keys, &clues).into_iter().map(|pair| pair.map(shorten)).collect()
    }

    /// The encrypted distances of one block's messages, each times its factor, for each key.
    fn circuit(&self, keys: &[&PreparedKey], clues: &Clues<'_>) -> Vec<[Ciphertext<u32, Evaluation>; 2]> {
        let parameters = self.context.parameters();
        let steps = parameters.baby_steps;
        let giants = parameters.clue.degree() / steps;
        let at_once = giants_at_once(keys.len(), giants);
        let mut scratch = self.take_scratch();
        scratch.reserve(&self.context, at_once);
        let mut sums: Vec<Option<[Ciphertext<u32, Evaluation>; 2]>> = keys.iter().map(|_| None).collect();
        // Highest giant step first, and within a group of them too.
        for group in (0..giants).step_by(at_once).rev() {
            let count = at_once.min(giants - group);
            for giant in 0..count {
                self.encode(clues, group + giant, giant, &mut scratch);
            }
            self.inner_products(keys, group..group + count, &mut scratch);
            for products in scratch.products[..count * keys.len()].chunks_exact_mut(keys.len().max(1)).rev() {
                for ((key, sum), product) in keys.iter().zip(&mut sums).zip(products) {
                    // Horner's rule: what is there belongs to higher giant steps.
                    match sum {
                        None => *sum = Some(product.clone()),
                        Some(sum) => {
                            for (sum, product) in sum.iter_mut().zip(product) {
                                *sum = key.giant.apply(sum);
                                sum.add_assign(product);
                            }
                        }
                    }
                }
            }
        }
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        // x_c = b'_c - (a' s)_c - <T_c, h>, times the factors.
        let encoder = self.context.bfv().encoder();
        let coordinates: [Poly<u32, Evaluation>; 2] = [0, 1].map(|index| {
            let slots = self.layout.coordinates(clues, index);
            encoder.to_summand(&encoder.slots_to_coefficients(&slots)).into_evaluation()
        });
        let mut sums: Vec<_> = sums.into_iter().flatten().collect();
        for (x, coordinate) in sums.iter_mut().flat_map(|sums| sums.iter_mut().zip(&coordinates)) {
            x.negate();
            x.add_plain(coordinate);
        }
        sums
    }

    fn take_scratch(&self) -> Scratch {
        let free = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| Scratch::new(&self.context))
    }

    /// Encodes the plaintexts of a giant step, as those with the number `place` in a group.
    fn encode(&self, clues: &Clues<'_>, giant: usize, place: usize, scratch: &mut Scratch) {
        let encoder = self.context.bfv().encoder();
        let steps = self.context.parameters().baby_steps;
        let (diagonals, bound) = scratch.rows.split_at_mut(steps);
        self.layout.fill(clues, giant * steps, diagonals);
        let used = if giant < ENTRIES {
            self.layout.fill_bound(clues, giant, bound);
            steps + BOUND_ROWS
        } else {
            steps
        };
        for (row, values) in scratch.rows[..used].iter_mut().enumerate() {
            encoder.plan().inverse(values);
            let row = if row < steps { row } else { row + 1 };
            let plans = self.context.bfv().ciphertext_basis().plans();
            for (plan, tiles) in plans.iter().zip(&mut scratch.diagonals) {
                encoder.lift(values, plan, &mut scratch.lifted);
                tiles[place].set_row(row, &scratch.lifted);
            }
        }
    }

    /// For each of some giant steps, each key and each coordinate c, the sum over b of rot_(b + c)(S) times diagonal b and, for
    /// the first giant steps, of rot_(b + c)(V) times what the bindings give.
    fn inner_products(&self, keys: &[&PreparedKey], giants: Range<usize>, scratch: &mut Scratch) {
        let (steps, count) = (self.context.parameters().baby_steps, giants.len());
        let bfv = self.context.bfv();
        let zero = || [Ciphertext::zero(bfv), Ciphertext::zero(bfv)];
        let products = &mut scratch.products;
        products.resize_with(products.len().max(count * keys.len()), zero);
        let limbs = bfv.ciphertext_basis().plans().iter().zip(&scratch.diagonals);
        for (limb, (plan, plains)) in limbs.enumerate() {
            let columns: Vec<_> = keys
                .iter()
                .flat_map(|key| {
                    let [first, second] = &key.baby_steps[limb];
                    [(first, 0), (second, 0), (first, 1), (second, 1)]
                })
                .map(|(tiles, first_row)| Column { tiles, first_row })
                .collect();
            let mut outputs: Vec<_> = products[..count * keys.len()]
                .iter_mut()
                .flatten()
                .flat_map(|product| [product.c0.limb_mut(limb), product.c1.limb_mut(limb)])
                .collect();
            let rows = giants.clone().map(|giant| if giant < ENTRIES { plain_rows(steps) } else { steps });
            let plains: Vec<_> = plains.iter().zip(rows).collect();
            multiply_accumulate_each(plan, &plains, &columns, &mut outputs);
        }
    }
}

/// Memory that a block's giant steps reuse.
#[derive(Debug)]
struct Scratch {
    rows: Vec<Vec<u32>>,
    lifted: Vec<u32>,
    diagonals: Diagonals,
    /// For each giant step, each key's two coordinates.
    products: Vec<[Ciphertext<u32, Evaluation>; 2]>,
}

impl Scratch {
    fn new(context: &StreamContext) -> Self {
        let (steps, degree) = (context.parameters().baby_steps, context.bfv().degree());
        let limbs = context.bfv().ciphertext_basis().limbs();
        Self {
            rows: vec![vec![0; degree]; steps + BOUND_ROWS],
            lifted: vec![0; degree],
            diagonals: vec![Vec::new(); limbs],
            products: Vec::new(),
        }
    }

    /// Makes room for the diagonals of `giants` giant steps.
    fn reserve(&mut self, context: &StreamContext, giants: usize) {
        let (steps, degree) = (context.parameters().baby_steps, context.bfv().degree());
        for tiles in &mut self.diagonals {
            tiles.resize_with(giants.max(tiles.len()), || Tiles::new(plain_rows(steps), degree));
        }
    }
}

#[cfg(test)]
mod tests {
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
        for x in &detector.circuit(&[&key], &detector.layout.clues(&slots, factors))[0] {
            let noise = secret.bfv().noise(x);
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
