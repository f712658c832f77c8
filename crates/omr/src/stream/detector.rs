//! The detector: from clues and detection keys to digests.

use std::sync::{Mutex, PoisonError};

use restante_bfv::{Ciphertext, GaloisKey, ShortCiphertext};
use restante_ring::{Column, Evaluation, Poly, Tiles, multiply_accumulate};

use super::{BLOCK, DetectionKey, KeyId, StreamContext, StreamDigest};
use crate::{OmrError, diagonals::Layout};

/// A detection key with its baby steps made: about 4 MiB, and all that depends on the recipient alone.
#[derive(Debug)]
pub struct PreparedKey {
    id: KeyId,
    /// For each prime, the first and second halves of rot_b(S) for b = 0 ..= baby steps.
    baby_steps: Vec<[Tiles<u32>; 2]>,
    /// 2 s_1.
    wrap: Ciphertext<u32, Evaluation>,
    tags: [Ciphertext<u32, Evaluation>; 2],
    giant: GaloisKey<u32>,
}

impl PreparedKey {
    /// Makes the baby steps.
    pub fn new(key: &DetectionKey) -> Self {
        let bfv = key.context.bfv();
        let steps = key.context.parameters().baby_steps + 1;
        let tiles = || Tiles::new(steps, bfv.degree());
        let mut baby_steps: Vec<_> =
            bfv.ciphertext_basis().plans().iter().map(|_| [tiles(), tiles()]).collect();
        let mut rotated = key.secret.expand();
        for step in 0..steps {
            if step > 0 {
                rotated = key.baby.apply(&rotated);
            }
            for (limb, [first, second]) in baby_steps.iter_mut().enumerate() {
                first.set_row(step, rotated.c0.limb(limb));
                second.set_row(step, rotated.c1.limb(limb));
            }
        }
        Self {
            id: key.id(),
            baby_steps,
            wrap: key.wrap.expand(),
            tags: key.tags.each_ref().map(|tag| tag.expand()),
            giant: key.giant.clone(),
        }
    }

    /// The key's id.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The memory that a prepared key takes, nearly all of it for the baby steps.
    pub fn memory_bytes(context: &StreamContext) -> usize {
        let bfv = context.bfv();
        let vectors = 2 * (context.parameters().baby_steps + 1) * bfv.ciphertext_basis().limbs();
        vectors * bfv.degree() * size_of::<u32>()
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

/// The plaintexts of one giant step: for each prime, the transforms of as many diagonals as there are baby steps.
type Diagonals = Vec<Tiles<u32>>;

impl Detector {
    /// A detector for one parameter set.
    pub fn new(context: &StreamContext) -> Self {
        let (bfv, clue) = (context.bfv(), context.parameters().clue);
        let (steps, backend) = (context.parameters().baby_steps, bfv.ciphertext_basis().backend());
        let layout = Layout::new(bfv.encoder().slot_places(), clue, steps, backend);
        Self { context: context.clone(), layout, scratch: Mutex::default() }
    }

    /// The context.
    pub fn context(&self) -> &StreamContext {
        &self.context
    }

    /// The digests of messages `first ..` with these clues, one digest for each key. Runs on the calling thread; see
    /// [`Detector::detect_with`] for more threads.
    pub fn detect(
        &self,
        keys: &[PreparedKey],
        first: u64,
        clues: &[&[u8]],
    ) -> Result<Vec<StreamDigest>, OmrError> {
        let blocks = self.blocks(clues)?.into_iter().map(|block| self.detect_block(keys, block)).collect();
        Ok(self.digests(keys, first, clues.len(), blocks))
    }

    /// The arithmetic of a detection.
    pub fn work(&self, messages: u64, recipients: usize) -> Work {
        let (blocks, recipients) = (messages.div_ceil(BLOCK as u64), recipients as u64);
        let parameters = self.context.parameters();
        let limbs = parameters.bfv.ciphertext_moduli.len() as u64;
        let special = parameters.bfv.special_moduli.len() as u64;
        let diagonals = parameters.clue.degree() as u64;
        // Each of the diagonals, b'_0, b'_1 and a'_0: back modulo t, and forward modulo each prime.
        let shared = (diagonals + 3) * (1 + limbs);
        // A giant step takes c1 back and, over all primes, forward; then both halves back modulo P, forward modulo Q.
        let giant_step = limbs + (limbs + special) + 2 * (special + limbs);
        let giant_steps = 2 * (diagonals / parameters.baby_steps as u64 - 1);
        let own = giant_steps * giant_step + 4 * limbs;
        Work {
            transforms: blocks * (shared + recipients * own),
            products: blocks * recipients * diagonals * 4 * limbs * BLOCK as u64,
        }
    }

    /// Cuts a range into blocks, after a check of the clues' lengths and number.
    pub(super) fn blocks<'a, 'b>(&self, clues: &'a [&'b [u8]]) -> Result<Vec<&'a [&'b [u8]]>, OmrError> {
        let (found, limit) = (clues.len() as u64, StreamDigest::MAX_MESSAGES);
        if found > limit {
            return Err(OmrError::Range { found, limit });
        }
        let expected = self.context.parameters().clue.clue_bytes();
        match clues.iter().position(|clue| clue.len() != expected) {
            Some(index) => {
                Err(OmrError::ClueBytes { index: index as u64, found: clues[index].len(), expected })
            }
            None => Ok(clues.chunks(BLOCK).collect()),
        }
    }

    /// Turns block results, each with one pair per key, into one digest per key.
    pub(super) fn digests(
        &self,
        keys: &[PreparedKey],
        first: u64,
        count: usize,
        blocks: Vec<Vec<[ShortCiphertext; 2]>>,
    ) -> Vec<StreamDigest> {
        let mut digests: Vec<_> = keys
            .iter()
            .map(|key| StreamDigest {
                first,
                count: count as u64,
                key: key.id,
                blocks: Vec::with_capacity(blocks.len()),
            })
            .collect();
        for block in blocks {
            digests.iter_mut().zip(block).for_each(|(digest, pair)| digest.blocks.push(pair));
        }
        digests
    }

    /// Both coordinates of one block, for each key, at the digest's moduli.
    pub(super) fn detect_block(&self, keys: &[PreparedKey], clues: &[&[u8]]) -> Vec<[ShortCiphertext; 2]> {
        let shorten = |x: Ciphertext<u32, Evaluation>| {
            ShortCiphertext::new(self.context.bfv(), &x.into_coefficient(), self.context.parameters().short)
        };
        self.circuit(keys, clues).into_iter().map(|pair| pair.map(shorten)).collect()
    }

    /// The encrypted distances of one block's messages, for each key.
    fn circuit(&self, keys: &[PreparedKey], clues: &[&[u8]]) -> Vec<[Ciphertext<u32, Evaluation>; 2]> {
        let parameters = self.context.parameters();
        let steps = parameters.baby_steps;
        let giants = parameters.clue.degree() / steps;
        let mut scratch = self.take_scratch();
        let mut sums: Vec<Option<[Ciphertext<u32, Evaluation>; 2]>> = keys.iter().map(|_| None).collect();
        for giant in (0..giants).rev() {
            self.encode(clues, giant * steps, &mut scratch);
            let inner = self.inner_products(keys, &scratch.diagonals);
            for ((key, sum), inner) in keys.iter().zip(&mut sums).zip(inner) {
                // Horner's rule: what is there belongs to higher giant steps.
                let mut inner = inner;
                if let Some(sum) = sum.take() {
                    for (inner, sum) in inner.iter_mut().zip(sum) {
                        inner.add_assign(&key.giant.apply(&sum));
                    }
                }
                *sum = Some(inner);
            }
        }
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        let plain = self.plain_parts(clues);
        let sums = sums.into_iter().flatten();
        keys.iter().zip(sums).map(|(key, products)| self.finish(key, products, &plain)).collect()
    }

    fn take_scratch(&self) -> Scratch {
        let free = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| Scratch::new(&self.context))
    }

    /// Encodes the diagonals `shift .. shift + baby steps`.
    fn encode(&self, clues: &[&[u8]], shift: usize, scratch: &mut Scratch) {
        let encoder = self.context.bfv().encoder();
        self.layout.fill(clues, shift, &mut scratch.rows);
        for (step, row) in scratch.rows.iter_mut().enumerate() {
            encoder.plan().inverse(row);
            let plans = self.context.bfv().ciphertext_basis().plans();
            for (plan, tiles) in plans.iter().zip(&mut scratch.diagonals) {
                encoder.lift(row, plan, &mut scratch.lifted);
                tiles.set_row(step, &scratch.lifted);
            }
        }
    }

    /// For each key and coordinate c, the sum over b of rot_(b + c)(S) times diagonal b.
    fn inner_products(
        &self,
        keys: &[PreparedKey],
        diagonals: &Diagonals,
    ) -> Vec<[Ciphertext<u32, Evaluation>; 2]> {
        let bfv = self.context.bfv();
        let mut products: Vec<_> =
            keys.iter().map(|_| [Ciphertext::zero(bfv), Ciphertext::zero(bfv)]).collect();
        for (limb, (plan, plain)) in bfv.ciphertext_basis().plans().iter().zip(diagonals).enumerate() {
            let columns: Vec<_> = keys
                .iter()
                .flat_map(|key| {
                    let [first, second] = &key.baby_steps[limb];
                    [(first, 0), (second, 0), (first, 1), (second, 1)]
                })
                .map(|(tiles, first_row)| Column { tiles, first_row })
                .collect();
            let mut outputs: Vec<_> = products
                .iter_mut()
                .flatten()
                .flat_map(|product| [product.c0.limb_mut(limb), product.c1.limb_mut(limb)])
                .collect();
            multiply_accumulate(plan, plain, &columns, &mut outputs);
        }
        products
    }

    /// What does not depend on the key: b'_c as summands, and a'_0 as a factor.
    fn plain_parts(&self, clues: &[&[u8]]) -> PlainParts {
        let encoder = self.context.bfv().encoder();
        PlainParts {
            coordinates: [0, 1].map(|index| {
                let slots = self.layout.coordinates(clues, index);
                encoder.to_summand(&encoder.slots_to_coefficients(&slots)).into_evaluation()
            }),
            wrapped: encoder.to_factor(&encoder.slots_to_coefficients(&self.layout.coefficients(clues, 0))),
        }
    }

    /// x_c = b'_c - u_c - (a' s)_c.
    fn finish(
        &self,
        key: &PreparedKey,
        mut products: [Ciphertext<u32, Evaluation>; 2],
        plain: &PlainParts,
    ) -> [Ciphertext<u32, Evaluation>; 2] {
        products[1].mul_plain_add(&key.wrap, &plain.wrapped);
        for ((x, tag), coordinate) in products.iter_mut().zip(&key.tags).zip(&plain.coordinates) {
            x.add_assign(tag);
            x.negate();
            x.add_plain(coordinate);
        }
        products
    }
}

struct PlainParts {
    coordinates: [Poly<u32, Evaluation>; 2],
    wrapped: Poly<u32, Evaluation>,
}

/// Memory that a block's giant steps reuse.
#[derive(Debug)]
struct Scratch {
    rows: Vec<Vec<u32>>,
    lifted: Vec<u32>,
    diagonals: Diagonals,
}

impl Scratch {
    fn new(context: &StreamContext) -> Self {
        let (steps, degree) = (context.parameters().baby_steps, context.bfv().degree());
        let limbs = context.bfv().ciphertext_basis().limbs();
        Self {
            rows: vec![vec![0; degree]; steps],
            lifted: vec![0; degree],
            diagonals: (0..limbs).map(|_| Tiles::new(steps, degree)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use restante_clue::{ClueParameters, ClueSecretKey};
    use restante_ring::{Backend, sample::Seed};
    use restante_wire::Encode;

    use super::*;
    use crate::stream::{RecipientSecret, StreamParameters};

    /// The noise at the end of the circuit, on honest clues and on the worst that a board can hold.
    #[test]
    fn noise_leaves_the_margin_that_the_parameters_state() {
        let parameters = StreamParameters::new(ClueParameters::STANDARD).unwrap();
        let context = StreamContext::new(parameters, Backend::best()).unwrap();
        let clue = ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([1; 32]));
        let secret = RecipientSecret::generate(&context, &Seed::from([2; 32]));
        let keys = [PreparedKey::new(&secret.detection_key(&clue).unwrap())];
        let detector = Detector::new(&context);
        let maker = clue.clue_key().prepare();
        let mut stream = Seed::from([3; 32]).stream("test", &[]);
        let honest: Vec<_> = (0..BLOCK).map(|_| maker.make(&mut stream).to_bytes()).collect();
        let half_of_t = vec![0x55; context.parameters().clue.clue_bytes()];
        let hostile = vec![half_of_t; BLOCK];
        for clues in [honest, hostile] {
            let clues: Vec<&[u8]> = clues.iter().map(Vec::as_slice).collect();
            for x in &detector.circuit(&keys, &clues)[0] {
                let noise = secret.bfv().noise(x);
                assert!(
                    noise.budget_bits() >= f64::from(context.parameters().noise_margin_bits),
                    "{noise:?}"
                );
                // The circuit's share of the decryption error, and all of it: a block of 4,096 coefficients then fails
                // with probability below 2^-40, since 8.2 standard deviations are exceeded with 2^-52.
                let own = 2f64.powf(noise.deviation_bits - noise.bound_bits - 1.0);
                let rounding = context.parameters().short.rounding_deviation(4096, 786_433);
                assert!(0.5 / own.hypot(rounding) > 8.2, "{own} and {rounding}");
            }
        }
    }
}
