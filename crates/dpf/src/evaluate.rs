//! Evaluation of one key: at a point, on a range, everywhere.
//!
//! The tree is walked depth-first in batches of [`BATCH`] nodes. A batch, its children and their outputs stay in the
//! first-level cache, every loop runs over consecutive nodes, and memory use grows with the depth, not the domain.

use std::ops::Range;

use bytemuck::cast_slice_mut;
use zeroize::Zeroizing;

use crate::backend::{Backend, Conversion, Operations};
use crate::output::group;
use crate::{DpfError, DpfKey, Output, Parameters};

/// The nodes that are expanded at once: whole groups of vectors for every back end, and few enough that they and their
/// children (8 KiB) leave room for outputs in 32 KiB of cache.
const BATCH: usize = 128;

/// The output bytes that a consumer gets at once, as far as whole leaves allow.
const BLOCK_BYTES: usize = 16 << 10;

/// The elements that are copied at once.
const COPIED: usize = 256;

/// Output slices from this size on are written past the caches, which could not hold them.
const STREAM_BYTES: usize = 8 << 20;

/// A key prepared for evaluation on one back end. It can be shared between threads.
pub struct Evaluator<'k, O: Output> {
    key: &'k DpfKey<O>,
    operations: &'static Operations,
    conversion: Conversion,
}

impl<O: Output> DpfKey<O> {
    /// Prepares the evaluation of this key, on the fastest back end.
    pub fn evaluator(&self) -> Evaluator<'_, O> {
        Evaluator::new(self, Backend::best())
    }
}

impl<'k, O: Output> Evaluator<'k, O> {
    /// Prepares `key` for `backend`. All back ends give the same shares.
    pub fn new(key: &'k DpfKey<O>, backend: Backend) -> Self {
        let negate = O::is_additive() && key.party == 1;
        let conversion = Conversion::new(&key.output_word, group::<O>(), negate);
        Self { key, operations: backend.operations(), conversion }
    }

    /// The share of the outcome at `point`, into `out`: one element, or [`Bytes`](crate::Bytes)'s length of them. A bit
    /// is the lowest one of its byte.
    ///
    /// The time depends on the point, which the evaluating party chooses and knows.
    pub fn point(&self, point: u64, out: &mut [O::Element]) -> Result<(), DpfError> {
        let parameters = &self.key.parameters;
        if point >= parameters.domain() {
            let domain = parameters.domain();
            return Err(DpfError::RangeOutside { start: point, end: point.saturating_add(1), domain });
        }
        check_length(parameters, 1, out.len())?;
        let (mut seed, mut width) = (Zeroizing::new([self.key.seed]), 3u128.pow(parameters.depth() as u32));
        let mut children = Zeroizing::new([0; 3]);
        let mut leaf = u128::from(parameters.leaf_of(point));
        for word in self.key.levels.iter() {
            (self.operations.expand)(parameters.variant(), &*seed, word, &mut *children);
            width /= 3;
            seed[0] = children[(leaf / width) as usize];
            leaf %= width;
        }
        let point = parameters.slot_of(point);
        let mut rows = Rows::new(self, 1);
        parameters.output().read_outcome(rows.convert(self, &*seed), point, out);
        Ok(())
    }

    /// The shares of the outcomes at all points of `range`, in order, into `out`, whose length is
    /// [`Parameters::output_elements`]. For bits, the range starts at a multiple of eight, and what the last byte holds
    /// beyond the range is zero.
    pub fn range(&self, range: Range<u64>, out: &mut [O::Element]) -> Result<(), DpfError> {
        self.check(&range, out)?;
        self.fill_range(range, out, size_of_val(out) >= STREAM_BYTES);
        Ok(())
    }

    /// The shares of the outcomes at all points, as [`Evaluator::range`] gives them.
    pub fn all(&self, out: &mut [O::Element]) -> Result<(), DpfError> {
        self.range(0..self.key.parameters.domain(), out)
    }

    /// Like [`Evaluator::range`], on all threads of the current rayon pool, each working on subtrees of its own.
    #[cfg(feature = "rayon")]
    pub fn range_parallel(&self, range: Range<u64>, out: &mut [O::Element]) -> Result<(), DpfError> {
        use rayon::prelude::*;

        self.check(&range, out)?;
        let stream = size_of_val(out) >= STREAM_BYTES;
        let parameters = &self.key.parameters;
        // Subtrees small enough to balance the load, large enough that the paths down to them don't matter.
        let outcomes = range.end - range.start;
        let share = outcomes / (8 * rayon::current_num_threads() as u64);
        let mut subtree = parameters.outcomes_per_leaf() * 81;
        while subtree < share {
            subtree *= 3;
        }
        let mut pieces = Vec::new();
        let (mut start, mut rest) = (range.start, out);
        while start < range.end {
            let end = (start / subtree + 1).saturating_mul(subtree).min(range.end);
            let elements = parameters.output_elements(end - start) as usize;
            let piece;
            (piece, rest) = rest.split_at_mut(elements);
            pieces.push((start..end, piece));
            start = end;
        }
        pieces.into_par_iter().for_each(|(range, piece)| self.fill_range(range, piece, stream));
        Ok(())
    }

    /// Hands the shares of the outcomes at all points of `range` to `consumer` in order, a block at a time,
    /// each with its first point. Memory holds one block, or one leaf if that is larger.
    ///
    /// Every block but the first starts at a multiple of [`Parameters::outcomes_per_leaf`].
    pub fn blocks(
        &self,
        range: Range<u64>,
        mut consumer: impl FnMut(u64, &[O::Element]),
    ) -> Result<(), DpfError> {
        let parameters = &self.key.parameters;
        parameters.check_range(&range)?;
        let Some(window) = Window::new(parameters, &range) else { return Ok(()) };
        let mut rows = Rows::new(self, window.count());
        self.walk(window.leaves(), &mut |first, seeds| {
            for (batch, seeds) in (0u64..).zip(seeds.chunks(rows.capacity)) {
                let leaf = first + batch * rows.capacity as u64;
                let elements = &mut rows.convert(self, seeds)[window.clip::<O>(leaf, seeds.len())];
                if window.ends_with(leaf, seeds.len())
                    && let Some(last) = elements.last_mut()
                {
                    O::clear_beyond(range.end, last);
                }
                consumer(range.start.max(parameters.first_point_of(leaf)), elements);
            }
        });
        Ok(())
    }

    fn check(&self, range: &Range<u64>, out: &[O::Element]) -> Result<(), DpfError> {
        self.key.parameters.check_range(range)?;
        check_length(&self.key.parameters, range.end - range.start, out.len())
    }

    /// [`Evaluator::range`] after its checks.
    fn fill_range(&self, range: Range<u64>, out: &mut [O::Element], stream: bool) {
        let Some(window) = Window::new(&self.key.parameters, &range) else { return };
        let mut rows = Rows::<O>::new(self, window.count());
        let whole_rows = self.conversion.row_bytes() == window.leaf_bytes;
        self.walk(window.leaves(), &mut |first, seeds| {
            let all = seeds.len() * window.leaf_bytes / size_of::<O::Element>();
            if whole_rows && window.clip::<O>(first, seeds.len()) == (0..all) {
                let out = &mut out[window.position::<O>(first)..][..all];
                (self.operations.convert)(&self.conversion, seeds, cast_slice_mut(out), stream);
                O::from_little_endian(out);
                return;
            }
            for (batch, seeds) in (0u64..).zip(seeds.chunks(rows.capacity)) {
                let leaf = first + batch * rows.capacity as u64;
                let elements = &rows.convert(self, seeds)[window.clip::<O>(leaf, seeds.len())];
                let out = &mut out[window.position::<O>(leaf)..][..elements.len()];
                // In pieces, because `memcpy` of a few KiB falls back to an instruction that is slow on some CPUs.
                for (out, elements) in out.chunks_mut(COPIED).zip(elements.chunks(COPIED)) {
                    out.copy_from_slice(elements);
                }
            }
        });
        if let Some(last) = out.last_mut() {
            O::clear_beyond(range.end, last);
        }
    }

    /// Visits the leaves from the first to the last, in order, in batches: `sink(first leaf of the batch, seeds)`.
    fn walk(&self, (first, last): (u64, u64), sink: &mut dyn FnMut(u64, &[u128])) {
        let depth = self.key.parameters.depth();
        // The first and the last node wanted on each level, from the root down.
        let mut wanted = vec![(first, last); depth + 1];
        for level in (0..depth).rev() {
            wanted[level] = (wanted[level + 1].0 / 3, wanted[level + 1].1 / 3);
        }
        let mut levels: Vec<Level<'_>> = (self.key.levels.iter())
            .zip(wanted.windows(2))
            .map(|(word, wanted)| {
                let parents = (wanted[0].1 - wanted[0].0 + 1).min(BATCH as u64);
                let children = Zeroizing::new(vec![0; 3 * parents as usize]);
                Level { word, wanted: wanted[1], children }
            })
            .collect();
        self.descend(0, &[self.key.seed], &mut levels, sink);
    }

    /// Expands `nodes`, the first of which has index `first` on its level, down to the leaves.
    fn descend(
        &self,
        first: u64,
        nodes: &[u128],
        levels: &mut [Level<'_>],
        sink: &mut dyn FnMut(u64, &[u128]),
    ) {
        let Some((level, below)) = levels.split_first_mut() else { return sink(first, nodes) };
        for (batch, parents) in (0u64..).zip(nodes.chunks(BATCH)) {
            let children = &mut level.children[..3 * parents.len()];
            (self.operations.expand)(self.key.parameters.variant(), parents, level.word, children);
            let first_child = 3 * (first + batch * BATCH as u64);
            let skipped = level.wanted.0.saturating_sub(first_child);
            let end = (level.wanted.1 - first_child + 1).min(children.len() as u64);
            let children = &level.children[skipped as usize..end as usize];
            self.descend(first_child + skipped, children, below, sink);
        }
    }
}

/// One level of the walk.
struct Level<'k> {
    /// The correction word of the step down to this level.
    word: &'k [u128; 3],
    /// The first and the last node of this level that lead to leaves of the range.
    wanted: (u64, u64),
    /// The nodes of this level that are being worked on.
    children: Zeroizing<Vec<u128>>,
}

/// Where a range of outcomes lies within the leaves' bytes.
struct Window {
    leaf_bytes: usize,
    first_leaf: u64,
    last_leaf: u64,
    /// Bytes of the first leaf that precede the range.
    skipped: u128,
    /// Bytes from the start of the first leaf to the end of the range.
    end: u128,
}

impl Window {
    /// `None` if there is nothing to put out.
    fn new<O: Output>(parameters: &Parameters<O>, range: &Range<u64>) -> Option<Self> {
        let output = parameters.output();
        let bytes = output.elements(range.end - range.start) * size_of::<O::Element>() as u128;
        if bytes == 0 {
            return None;
        }
        let skipped = output.elements(parameters.slot_of(range.start)) * size_of::<O::Element>() as u128;
        Some(Self {
            leaf_bytes: parameters.leaf_bytes(),
            first_leaf: parameters.leaf_of(range.start),
            last_leaf: parameters.leaf_of(range.end - 1),
            skipped,
            end: skipped + bytes,
        })
    }

    /// The number of leaves, as far as it can be counted.
    fn count(&self) -> usize {
        usize::try_from(self.last_leaf - self.first_leaf + 1).unwrap_or(usize::MAX)
    }

    fn leaves(&self) -> (u64, u64) {
        (self.first_leaf, self.last_leaf)
    }

    /// Bytes from the start of the first leaf to the start of `leaf`.
    fn offset(&self, leaf: u64) -> u128 {
        u128::from(leaf - self.first_leaf) * self.leaf_bytes as u128
    }

    /// The elements of `count` leaves from `leaf` on that belong to the range.
    fn clip<O: Output>(&self, leaf: u64, count: usize) -> Range<usize> {
        let offset = self.offset(leaf);
        let from = self.skipped.saturating_sub(offset) as usize;
        let to = (self.end - offset).min((count * self.leaf_bytes) as u128) as usize;
        from / size_of::<O::Element>()..to / size_of::<O::Element>()
    }

    /// The position in the output of the first element of the range that `leaf` holds.
    fn position<O: Output>(&self, leaf: u64) -> usize {
        self.offset(leaf).saturating_sub(self.skipped) as usize / size_of::<O::Element>()
    }

    fn ends_with(&self, leaf: u64, count: usize) -> bool {
        leaf + (count as u64 - 1) == self.last_leaf
    }
}

/// Room for the outputs of a few leaves, some of which the caller may not have asked for.
struct Rows<O: Output> {
    elements: Zeroizing<Vec<O::Element>>,
    /// The number of leaves that fit.
    capacity: usize,
}

impl<O: Output> Rows<O> {
    /// Room for one block, or for `leaves` leaves if that is less.
    fn new(evaluator: &Evaluator<'_, O>, leaves: usize) -> Self {
        let row_bytes = evaluator.conversion.row_bytes();
        let capacity = (BLOCK_BYTES / row_bytes.max(1)).max(1).min(leaves);
        let elements = capacity * row_bytes / size_of::<O::Element>();
        Self { elements: Zeroizing::new(vec![O::Element::default(); elements]), capacity }
    }

    /// The outputs of `seeds`, without gaps.
    fn convert(&mut self, evaluator: &Evaluator<'_, O>, seeds: &[u128]) -> &mut [O::Element] {
        let row_bytes = evaluator.conversion.row_bytes();
        let leaf_bytes = evaluator.key.parameters.leaf_bytes();
        let bytes = &mut cast_slice_mut(&mut self.elements)[..seeds.len() * row_bytes];
        (evaluator.operations.convert)(&evaluator.conversion, seeds, bytes, false);
        if leaf_bytes != row_bytes {
            for row in 1..seeds.len() {
                bytes.copy_within(row * row_bytes..row * row_bytes + leaf_bytes, row * leaf_bytes);
            }
        }
        let elements = &mut self.elements[..seeds.len() * leaf_bytes / size_of::<O::Element>()];
        O::from_little_endian(elements);
        elements
    }
}

fn check_length<O: Output>(parameters: &Parameters<O>, points: u64, found: usize) -> Result<(), DpfError> {
    let expected = parameters.output_elements(points);
    if found as u128 != expected {
        return Err(DpfError::OutputLength { found, expected });
    }
    Ok(())
}
