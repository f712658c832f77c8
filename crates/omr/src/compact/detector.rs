//! The detector: phase 1 and phase 2 for many recipients.

use std::ops::Range;

use restante_bfv::Leveled;
use restante_clue::BoundClue;
use restante_ring::sample::Seed;
use restante_wire::ParameterId;

use super::{
    CompactContext, CompactDetectionKey, CompactDigest, CompactParameters, DigestRequest, Payload,
    PertinencyVector, PreparedKey,
    affine::Affine,
    compression::{Compression, Packed},
    is_zero, range_check,
    slots::Slots,
};
use crate::{
    OmrError,
    diagonals::{BOUND_ROWS, ENTRIES},
};

/// Where a detector is, for progress and for measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// The affine step of one block is done, for all recipients.
    Affine,
    /// The range checks of one block are done, for one recipient.
    RangeCheck,
    /// A block's pertinency vector is done, for one recipient.
    ZeroTest,
    /// A block's share of a digest is done, for all recipients.
    Compression,
}

/// How much arithmetic detection takes: what a measured time can be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Transforms of N coefficients, forward and inverse: an estimate within a few per cent.
    pub transforms: u64,
    /// Products of residues in the matrix products.
    pub products: u64,
}

/// Detects for many recipients in one pass over clues or payloads. Everything uses the current thread pool's threads.
#[derive(Debug)]
pub struct Detector {
    context: CompactContext,
    affine: Affine,
}

impl Detector {
    /// A detector for one parameter set.
    pub fn new(context: &CompactContext) -> Result<Self, OmrError> {
        Ok(Self { affine: Affine::new(context)?, context: context.clone() })
    }

    /// The context.
    pub fn context(&self) -> &CompactContext {
        &self.context
    }

    /// The arithmetic of both phases, for sizes that [`DigestRequest::check`] accepts.
    pub fn work(&self, messages: u64, recipients: usize, request: &DigestRequest) -> Work {
        let parameters = self.context.parameters();
        let chain = self.context.circuit();
        let schedule = self.context.schedule();
        let (blocks, recipients) = (messages.div_ceil(self.context.degree() as u64), recipients as u64);
        let special = parameters.bfv.special_moduli.len() as u64;
        let limbs = |level: usize| chain.basis(level).limbs() as u64;
        let digits = |limbs: u64| limbs.div_ceil(chain.basis(0).limbs().div_ceil(parameters.digits) as u64);
        // c1 back; every digit forward over the other primes; both halves back modulo P, forward modulo Q.
        let lifted = |l: u64| l + digits(l) * (l + special) - l;
        let switch = |l: u64| lifted(l) + 2 * (special + l);
        let product = |level: usize| lifted(limbs(level)) + 2 * (special + 2 + limbs(level + 1));
        let diagonals = parameters.clue.degree() as u64;
        let top = limbs(0);
        let bound = (BOUND_ROWS * ENTRIES) as u64;
        let affine = (diagonals + bound + 2) * (1 + top);
        let giants =
            2 * (diagonals / parameters.baby_steps as u64 - 1) * switch(top) + 2 * 2 * (2 + limbs(1));
        let doublings = schedule.checks - schedule.powers;
        let powers = [1, 2, 3, 3, 4, 4, 4, 4].map(product).iter().sum::<u64>();
        let high = (schedule.powers..schedule.checks - 1).map(product).sum::<u64>();
        let tree = (0..doublings).map(|j| product(schedule.powers + j) << (doublings - 1 - j)).sum::<u64>();
        let zero_test = (schedule.checks..chain.levels() - 1).map(product).sum::<u64>();
        let own = giants + 2 * (powers + high + tree) + zero_test;
        let (equations, columns) = (request.equations() as u64, request.columns() as u64);
        // Weights, and for each of them a rotation, a product and a level; for each column its transforms, a level and a merge.
        let rows = equations * 4 + recipients * equations * (3 + 3 + 2 * 6 + 2 * 3);
        let packed = columns * 3 + recipients * columns * (2 * 2 + 6);
        Work {
            transforms: blocks * (affine + recipients * own + rows + packed),
            products: blocks
                * recipients
                * self.context.degree() as u64
                * (4 * (diagonals + bound + ENTRIES as u64) * top + 4 * equations * columns),
        }
    }

    /// The affine step of one block.
    pub(super) fn affine(
        &self,
        keys: &[&PreparedKey],
        clues: &[BoundClue<'_>],
        slots: &Slots,
    ) -> Vec<[Leveled<u64>; 2]> {
        self.affine.distances(keys, clues, slots)
    }

    fn check_parameters(
        &self,
        what: &'static str,
        mut found: impl Iterator<Item = ParameterId>,
    ) -> Result<(), OmrError> {
        let expected = self.context.id();
        match found.find(|&found| found != expected) {
            Some(found) => Err(OmrError::Parameters { what, found, expected }),
            None => Ok(()),
        }
    }

    /// Phase 1: the pertinency vectors of messages `first ..` with these clues, one for each key. `reached` is told of each stage.
    ///
    /// `seed` becomes part of the pertinency vectors. Posters must not be able to foresee it: draw it anew
    /// for each call.
    pub fn pertinency(
        &self,
        keys: &[&PreparedKey],
        first: u64,
        clues: &[BoundClue<'_>],
        seed: &Seed,
        reached: impl Fn(Stage) + Sync,
    ) -> Result<Vec<PertinencyVector>, OmrError> {
        self.try_pertinency(keys, first, clues, seed, |stage| {
            reached(stage);
            Ok(())
        })
    }

    /// As [`Detector::pertinency`], and ends with the error of `reached` at the stage where it returns one.
    pub fn try_pertinency<E: From<OmrError>>(
        &self,
        keys: &[&PreparedKey],
        first: u64,
        clues: &[BoundClue<'_>],
        seed: &Seed,
        reached: impl Fn(Stage) -> Result<(), E> + Sync,
    ) -> Result<Vec<PertinencyVector>, E> {
        let (count, limit) = (clues.len() as u64, CompactParameters::MAX_MESSAGES);
        if count > limit || first.checked_add(count).is_none() {
            return Err(OmrError::Range { first, count, limit }.into());
        }
        self.check_parameters("detection key", keys.iter().map(|key| key.parameters))?;
        let expected = self.context.parameters().clue.clue_bytes();
        if let Some(index) = clues.iter().position(|clue| clue.bytes.len() != expected) {
            let found = clues[index].bytes.len();
            return Err(OmrError::ClueBytes { index: index as u64, found, expected }.into());
        }
        let mut vectors: Vec<_> = keys
            .iter()
            .map(|key| PertinencyVector {
                parameters: self.context.id(),
                first,
                count,
                key: key.id(),
                seed: seed.clone(),
                blocks: Vec::new(),
            })
            .collect();
        for (block, clues) in (0..).zip(clues.chunks(self.context.degree())) {
            let slots = Slots::new(seed, block, self.context.degree());
            let distances = self.affine.distances(keys, clues, &slots);
            reached(Stage::Affine)?;
            for ((key, vector), distances) in keys.iter().zip(&mut vectors).zip(&distances) {
                let checks = distances.each_ref().map(|x| range_check::check(&self.context, key, x));
                reached(Stage::RangeCheck)?;
                let z = is_zero::join(&self.context, key, &checks);
                let bits = is_zero::is_zero(&self.context, key, &z);
                vector.blocks.push(self.context.pertinency().adopt(bits, 0));
                reached(Stage::ZeroTest)?;
            }
        }
        Ok(vectors)
    }

    /// Phase 2: a digest for each key and its pertinency vector. `payloads` is asked for those of a block's messages at a time, in
    /// order, and not at all if the request is for indices only; [`Payload::source`] makes it from a slice.
    ///
    /// The vector may cover more than the range. [`Detector::digests_of_sequences`] is for vectors that cover it together.
    pub fn digests<'p, E: From<OmrError>>(
        &self,
        keys: &[&CompactDetectionKey],
        vectors: &[&PertinencyVector],
        request: &DigestRequest,
        payloads: impl FnMut(Range<u64>) -> Result<Vec<Payload<'p>>, E>,
        reached: impl Fn(Stage) + Sync,
    ) -> Result<Vec<CompactDigest>, E> {
        let sequences: Vec<_> = vectors.iter().map(std::slice::from_ref).collect();
        self.digests_of_sequences(keys, &sequences, request, payloads, reached)
    }

    /// As [`Detector::digests`], where each key has vectors in sequence that cover the range together: each begins where the one
    /// before it ends, with slots of its own. The first may begin before the range, and the last end behind it; messages outside the
    /// range add nothing. Vectors at the same place of two keys' sequences come from one pass.
    ///
    /// Errors: [`OmrError::Sequence`] for a gap or an overlap, [`OmrError::NotCovered`], [`OmrError::OtherPass`],
    /// [`OmrError::ForeignDigest`] for another key's vector, [`OmrError::Parameters`], [`OmrError::Request`].
    pub fn digests_of_sequences<'p, E: From<OmrError>>(
        &self,
        keys: &[&CompactDetectionKey],
        sequences: &[&[&PertinencyVector]],
        request: &DigestRequest,
        payloads: impl FnMut(Range<u64>) -> Result<Vec<Payload<'p>>, E>,
        reached: impl Fn(Stage) + Sync,
    ) -> Result<Vec<CompactDigest>, E> {
        let (compression, sums) = self.packed(keys, sequences, request, payloads, reached)?;
        Ok(compression.finish(keys, sums))
    }

    /// The digests before they are folded to the end and switched.
    pub(super) fn packed<'a, 'p, E: From<OmrError>>(
        &'a self,
        keys: &[&CompactDetectionKey],
        sequences: &[&[&PertinencyVector]],
        request: &'a DigestRequest,
        mut payloads: impl FnMut(Range<u64>) -> Result<Vec<Payload<'p>>, E>,
        reached: impl Fn(Stage) + Sync,
    ) -> Result<(Compression<'a>, Packed), E> {
        self.check_request(keys, sequences, request)?;
        let compression = Compression::new(&self.context, request)?;
        let mut sums = compression.nothing(keys.len());
        let range = &request.range;
        let degree = self.context.degree() as u64;
        for (place, shared) in sequences.first().into_iter().copied().flatten().enumerate() {
            let end = range.end.min(shared.end());
            for (index, start) in (shared.first..end).step_by(degree as usize).enumerate() {
                let block = start.max(range.start)..end.min(start.saturating_add(degree));
                if block.is_empty() {
                    continue;
                }
                let bits: Vec<&Leveled<u64>> =
                    sequences.iter().map(|vectors| &vectors[place].blocks[index]).collect();
                let count = (block.end - block.start) as usize;
                let payloads = if request.payload_bytes == 0 { Vec::new() } else { payloads(block.clone())? };
                if request.payload_bytes != 0 && payloads.len() != count {
                    let (what, found) = ("number of payloads", payloads.len() as u64);
                    return Err(OmrError::Request { what, found, expected: count.to_string() }.into());
                }
                let slots = Slots::new(&shared.seed, index as u64, degree as usize);
                let slots = slots.of((block.start - start) as usize..(block.end - start) as usize);
                let first = (block.start - range.start) as usize;
                compression.add_block(keys, &bits, slots, first, &payloads, &mut sums);
                reached(Stage::Compression);
            }
        }
        Ok((compression, sums))
    }

    /// Whether keys, vectors and request go together.
    fn check_request(
        &self,
        keys: &[&CompactDetectionKey],
        sequences: &[&[&PertinencyVector]],
        request: &DigestRequest,
    ) -> Result<(), OmrError> {
        request.check()?;
        let all = || sequences.iter().copied().flatten();
        self.check_parameters("detection key", keys.iter().map(|key| key.context().id()))?;
        self.check_parameters("pertinency vector", all().map(|vector| vector.parameters))?;
        if sequences.len() != keys.len() {
            let (what, found) = ("number of pertinency vectors", sequences.len() as u64);
            return Err(OmrError::Request { what, found, expected: keys.len().to_string() });
        }
        let Some(shared) = sequences.first() else { return Ok(()) };
        let mut factors = all().flat_map(|vector| &vector.blocks).map(Leveled::factor);
        let expected = factors.next();
        if let Some(found) = factors.find(|found| Some(*found) != expected) {
            let (what, expected) = ("factor of a pertinency vector's block", "the same in all blocks".into());
            return Err(OmrError::Request { what, found, expected });
        }
        for (key, vectors) in keys.iter().zip(sequences) {
            if let Some(other) = vectors.iter().find(|vector| vector.key != key.id()) {
                let (found, expected) = (other.key.to_string(), key.id().to_string());
                return Err(OmrError::ForeignDigest { found, expected });
            }
            if vectors.len() != shared.len() || vectors.iter().zip(*shared).any(|(a, b)| !a.shares_pass(b)) {
                return Err(OmrError::OtherPass);
            }
            check_covers(vectors, &request.range)?;
        }
        Ok(())
    }
}

/// Whether vectors follow one another without a gap or an overlap, and cover a range.
fn check_covers(vectors: &[&PertinencyVector], range: &Range<u64>) -> Result<(), OmrError> {
    for (place, pair) in (1..).zip(vectors.windows(2)) {
        let (found, expected) = (pair[1].first, pair[0].end());
        if found != expected {
            return Err(OmrError::Sequence { place, found, expected });
        }
    }
    let covered_first = vectors.first().map_or(0, |vector| vector.first);
    let covered_end = vectors.last().map_or(0, |vector| vector.end());
    if range.start < covered_first || covered_end < range.end {
        let Range { start: first, end } = *range;
        return Err(OmrError::NotCovered { first, end, covered_first, covered_end });
    }
    Ok(())
}
