//! The transforms of the vector back ends, written once over [`Lanes`].
//!
//! Two stages are taken per pass over memory (radix 4). A block is identified by its node in the tree of blocks: the
//! whole vector is node 1, the halves of node k are 2k and 2k + 1, and node k's root of unity is entry k of the table
//! in bit-reversed order. Once blocks fit the first-level cache, a block is finished before the next is begun.
//!
//! The last stages are done in registers, on leaves of two or four registers, whichever makes the number of earlier
//! stages even. A pair of registers x, y holds 2L consecutive elements. At the stage of distance d < L the two swap
//! blocks of d lanes, which brings the partners into the same lane; level 0 is that of d = L/2. The roots for these
//! stages lie in one record per pair, in one of two layouts:
//!
//! * *compact*: the subtree of the pair's node in heap order, places 2 to 2L - 1, so that level 0 takes places 2 and 3,
//!   level 1 takes places 4 to 7, and so on; the last level's L roots are in the order of the lanes.
//! * *expanded*: L roots for each level, in the order of the lanes.
//!
//! For multiplication by Shoup's method a second such record, of quotients, follows.

#![allow(unsafe_op_in_unsafe_fn, reason = "all functions share the contract of Lanes")]
#![allow(
    clippy::needless_range_loop,
    reason = "loops of fixed length over several registers, to be unrolled"
)]

use super::lanes::Lanes;
use crate::{AlignedVec, Modulus, Multiplier, Word, roots::Roots};

/// Blocks of at most this size are finished before the next one is begun: half of a first-level cache, which roots
/// of unity pass through as well.
const BLOCK_BYTES: usize = 1 << 14;

/// Registers that are taken together in the last stages.
const GROUP: usize = 8;

/// Roots of unity laid out for one vector back end. Empty where the degree is too small for it.
#[derive(Debug, Default)]
pub struct VectorTables<W> {
    forward: Direction<W>,
    inverse: Direction<W>,
    /// N^-1, and N^-1 times the inverse root of node 1.
    last: Vec<W>,
}

#[derive(Debug, Default)]
struct Direction<W> {
    /// Node k's root at place k, for stages between registers.
    roots: Vec<W>,
    /// The roots for stages within registers.
    records: Option<AlignedVec<W>>,
}

impl<W> Direction<W> {
    fn records(&self) -> *const W {
        self.records.as_ref().map_or(std::ptr::null(), |records| records.as_ptr())
    }
}

/// Whether the degree is large enough for at least one pass before the leaves, and for a group of leaves.
const fn is_served<L: Lanes>(degree: usize) -> bool {
    degree >= GROUP * L::LANES
}

/// Number of residues in a leaf: two or four registers.
fn leaf_len<L: Lanes>(degree: usize) -> usize {
    let pairs = degree / (2 * L::LANES);
    if pairs.ilog2() % 2 == 0 { 2 * L::LANES } else { 4 * L::LANES }
}

/// The largest size of blocks that a pass leaves and that is at most `BLOCK_BYTES`.
fn block_len<L: Lanes>(degree: usize) -> usize {
    let leaf = leaf_len::<L>(degree);
    let mut len = degree;
    while len > leaf && len * size_of::<L::Word>() > BLOCK_BYTES {
        len /= 4;
    }
    len
}

/// The tables for `L`.
///
/// # Safety
///
/// The contract of [`Lanes`].
pub(super) unsafe fn prepare<L: Lanes>(roots: &Roots<L::Word>) -> VectorTables<L::Word> {
    let degree = roots.degree();
    if !is_served::<L>(degree) {
        return VectorTables::default();
    }
    let modulus = &roots.modulus;
    let encode = |root: Multiplier<L::Word>| L::encode(modulus, root).into_iter().take(L::ROOT_WORDS);
    let places = record_places(L::new(modulus));
    let direction = |all: &[Multiplier<L::Word>]| {
        let roots = all[..degree / L::LANES].iter().copied().flat_map(encode).collect();
        let pairs = degree / (2 * L::LANES);
        let records = (pairs..2 * pairs).flat_map(|node| {
            let places = &places;
            (0..L::ROOT_WORDS).flat_map(move |component| {
                places.iter().map(move |&place| {
                    let level = place.ilog2();
                    L::encode(modulus, all[(node << level) + place - (1 << level)])[component]
                })
            })
        });
        Direction { roots, records: Some(AlignedVec::from_iter(64, records)) }
    };
    let scaled = modulus.mul(roots.inverse[1].factor, roots.inverse_degree.factor);
    VectorTables {
        forward: direction(&roots.forward),
        inverse: direction(&roots.inverse),
        last: encode(roots.inverse_degree).chain(encode(modulus.multiplier(scaled))).collect(),
    }
}

/// Words that a pair's record takes.
const fn record_len<L: Lanes>() -> usize {
    L::ROOT_WORDS * if L::IS_EXPANDED { L::LEVELS * L::LANES } else { 2 * L::LANES }
}

/// The places in the heap order of a pair's subtree that make up a record.
unsafe fn record_places<L: Lanes>(lanes: L) -> Vec<usize> {
    let mut words: Vec<L::Word> = (0..2 * L::LANES as u64).map(L::Word::truncate).collect();
    let first = words.as_mut_ptr();
    let (mut x, mut y) = (lanes.load(first), lanes.load(first.add(L::LANES)));
    // Which element is in each lane of x decides which butterfly, so which root, the lane takes.
    let mut expanded = Vec::new();
    for level in 0..L::LEVELS {
        (x, y) = match level {
            0 => lanes.exchange::<0>(x, y),
            1 => lanes.exchange::<1>(x, y),
            2 => lanes.exchange::<2>(x, y),
            _ => lanes.exchange::<3>(x, y),
        };
        lanes.store(first, x);
        let butterflies = words[..L::LANES].iter().map(|&element| (element.into() as usize) << level);
        expanded.extend(butterflies.map(|element| (2 << level) + element / L::LANES));
    }
    if L::IS_EXPANDED {
        return expanded;
    }
    let last = expanded.split_off((L::LEVELS - 1) * L::LANES);
    // Place 0 is not used, nor is place 1, whose root a broadcast takes from the other table.
    [1].into_iter().chain(1..L::LANES).chain(last).collect()
}

#[inline(always)]
unsafe fn exchange_all<L: Lanes>(lanes: L, x: L::Vector, y: L::Vector) -> (L::Vector, L::Vector) {
    let (x, y) = lanes.exchange::<0>(x, y);
    let (x, y) = lanes.exchange::<1>(x, y);
    let (x, y) = if L::LEVELS > 2 { lanes.exchange::<2>(x, y) } else { (x, y) };
    if L::LEVELS > 3 { lanes.exchange::<3>(x, y) } else { (x, y) }
}

/// Coefficients to evaluations. The coefficients repeat with the given period, the degree divided by a power of 4 and more
/// than a leaf, and stand for those of the first period followed by zeros: the stages over longer blocks only repeat them.
/// Returns whether the degree is served; if not, nothing was done.
///
/// # Safety
///
/// The contract of [`Lanes`]; the tables were prepared for `L`.
#[inline(always)]
pub(super) unsafe fn forward<L: Lanes>(
    modulus: &Modulus<L::Word>,
    tables: &VectorTables<L::Word>,
    values: &mut [L::Word],
    period: usize,
) -> bool {
    let degree = values.len();
    if !is_served::<L>(degree) {
        return false;
    }
    let lanes = L::new(modulus);
    let direction = &tables.forward;
    let (roots, records, data) = (direction.roots.as_ptr(), direction.records(), values.as_mut_ptr());
    let (leaf, block) = (leaf_len::<L>(degree), block_len::<L>(degree));
    assert!(period > leaf && period <= degree, "a pass comes before the leaves");

    if period == degree {
        forward_pass::<L, true>(lanes, data, degree, roots, 1);
    }
    let mut start = 0;
    while start < degree {
        // The passes over larger blocks that begin here.
        let mut len = period.min(degree / 4);
        while len > block {
            if start % len == 0 {
                forward_block(lanes, data.add(start), len, roots, (degree + start) / len, period);
            }
            len /= 4;
        }
        while len > leaf {
            let mut inner = start;
            let mut node = (degree + start) / len;
            while inner < start + block {
                forward_block(lanes, data.add(inner), len, roots, node, period);
                inner += len;
                node += 1;
            }
            len /= 4;
        }
        let mut inner = start;
        let mut node = (degree + start) / leaf;
        while inner < start + block {
            let record = records.add(inner / (2 * L::LANES) * record_len::<L>());
            if leaf == 2 * L::LANES {
                forward_leaves::<L, false>(lanes, data.add(inner), roots, node, record);
                node += GROUP / 2;
            } else {
                forward_leaves::<L, true>(lanes, data.add(inner), roots, node, record);
                node += GROUP / 4;
            }
            inner += GROUP * L::LANES;
        }
        start += block;
    }
    true
}

/// Evaluations to coefficients. Returns whether the degree is served; if not, nothing was done.
///
/// # Safety
///
/// The contract of [`Lanes`]; the tables were prepared for `L`.
#[inline(always)]
pub(super) unsafe fn inverse<L: Lanes>(
    modulus: &Modulus<L::Word>,
    tables: &VectorTables<L::Word>,
    values: &mut [L::Word],
) -> bool {
    let degree = values.len();
    if !is_served::<L>(degree) {
        return false;
    }
    let lanes = L::new(modulus);
    let direction = &tables.inverse;
    let (roots, records, data) = (direction.roots.as_ptr(), direction.records(), values.as_mut_ptr());
    let (leaf, block) = (leaf_len::<L>(degree), block_len::<L>(degree));

    let mut start = 0;
    while start < degree {
        let mut inner = start;
        let mut node = (degree + start) / leaf;
        while inner < start + block {
            let record = records.add(inner / (2 * L::LANES) * record_len::<L>());
            if leaf == 2 * L::LANES {
                inverse_leaves::<L, false>(lanes, data.add(inner), roots, node, record);
                node += GROUP / 2;
            } else {
                inverse_leaves::<L, true>(lanes, data.add(inner), roots, node, record);
                node += GROUP / 4;
            }
            inner += GROUP * L::LANES;
        }
        let mut len = 4 * leaf;
        while len <= block && len < degree {
            let mut inner = start;
            while inner < start + block {
                inverse_pass::<L, false>(lanes, data.add(inner), len, roots, (degree + inner) / len, roots);
                inner += len;
            }
            len *= 4;
        }
        start += block;
        // The passes over larger blocks that end here.
        while len < degree && start % len == 0 {
            let first = start - len;
            inverse_pass::<L, false>(lanes, data.add(first), len, roots, (degree + first) / len, roots);
            len *= 4;
        }
    }
    inverse_pass::<L, true>(lanes, data, degree, roots, 1, tables.last.as_ptr());
    true
}

#[inline(always)]
unsafe fn block_roots<L: Lanes>(lanes: L, roots: *const L::Word, node: usize) -> [L::Root; 3] {
    let halves = roots.add(2 * node * L::ROOT_WORDS);
    [lanes.root(roots.add(node * L::ROOT_WORDS)), lanes.root(halves), lanes.root(halves.add(L::ROOT_WORDS))]
}

/// [`forward_pass`], the first one if the block is as long as the period.
#[inline(always)]
unsafe fn forward_block<L: Lanes>(
    lanes: L,
    data: *mut L::Word,
    len: usize,
    roots: *const L::Word,
    node: usize,
    period: usize,
) {
    if len == period {
        forward_pass::<L, true>(lanes, data, len, roots, node);
    } else {
        forward_pass::<L, false>(lanes, data, len, roots, node);
    }
}

/// Two stages of one block.
#[inline(always)]
unsafe fn forward_pass<L: Lanes, const FIRST: bool>(
    lanes: L,
    data: *mut L::Word,
    len: usize,
    roots: *const L::Word,
    node: usize,
) {
    let roots = block_roots(lanes, roots, node);
    let quarter = len / 4;
    let at = [data, data.add(quarter), data.add(2 * quarter), data.add(3 * quarter)];
    let mut before = lanes.forward4_first(load4::<L, FIRST>(lanes, at, 0), roots[0]);
    let mut place = L::LANES;
    while place < quarter {
        // The first stage of these registers fills the time that the second stage of those before waits.
        let next = lanes.forward4_first(load4::<L, FIRST>(lanes, at, place), roots[0]);
        store4(lanes, at, place - L::LANES, lanes.forward4_second(before, [roots[1], roots[2]]));
        before = next;
        place += L::LANES;
    }
    store4(lanes, at, place - L::LANES, lanes.forward4_second(before, [roots[1], roots[2]]));
}

#[inline(always)]
unsafe fn load4<L: Lanes, const FIRST: bool>(
    lanes: L,
    at: [*mut L::Word; 4],
    place: usize,
) -> [L::Vector; 4] {
    if FIRST {
        [
            lanes.load_residues(at[0].add(place)),
            lanes.load_residues(at[1].add(place)),
            lanes.load_residues(at[2].add(place)),
            lanes.load_residues(at[3].add(place)),
        ]
    } else {
        [
            lanes.load(at[0].add(place)),
            lanes.load(at[1].add(place)),
            lanes.load(at[2].add(place)),
            lanes.load(at[3].add(place)),
        ]
    }
}

#[inline(always)]
unsafe fn store4<L: Lanes>(lanes: L, at: [*mut L::Word; 4], place: usize, values: [L::Vector; 4]) {
    lanes.store(at[0].add(place), values[0]);
    lanes.store(at[1].add(place), values[1]);
    lanes.store(at[2].add(place), values[2]);
    lanes.store(at[3].add(place), values[3]);
}

/// Two stages of one block. If `LAST`, `last` points to the scaling factor and the scaled root.
#[inline(always)]
unsafe fn inverse_pass<L: Lanes, const LAST: bool>(
    lanes: L,
    data: *mut L::Word,
    len: usize,
    roots: *const L::Word,
    node: usize,
    last: *const L::Word,
) {
    let mut roots = block_roots(lanes, roots, node);
    let scale = lanes.root(last);
    if LAST {
        roots[0] = lanes.root(last.add(L::ROOT_WORDS));
    }
    let quarter = len / 4;
    let at = [data, data.add(quarter), data.add(2 * quarter), data.add(3 * quarter)];
    let mut before = lanes.inverse4_first(load4::<L, false>(lanes, at, 0), [roots[1], roots[2]]);
    let mut place = L::LANES;
    while place < quarter {
        let next = lanes.inverse4_first(load4::<L, false>(lanes, at, place), [roots[1], roots[2]]);
        inverse4_store::<L, LAST>(lanes, at, place - L::LANES, before, roots[0], scale);
        before = next;
        place += L::LANES;
    }
    inverse4_store::<L, LAST>(lanes, at, place - L::LANES, before, roots[0], scale);
}

#[inline(always)]
unsafe fn inverse4_store<L: Lanes, const LAST: bool>(
    lanes: L,
    at: [*mut L::Word; 4],
    place: usize,
    values: [L::Vector; 4],
    root: L::Root,
    scale: L::Root,
) {
    if LAST {
        let values = lanes.inverse4_last(values, root, scale);
        lanes.store_residues(at[0].add(place), values[0]);
        lanes.store_residues(at[1].add(place), values[1]);
        lanes.store_residues(at[2].add(place), values[2]);
        lanes.store_residues(at[3].add(place), values[3]);
    } else {
        store4(lanes, at, place, lanes.inverse4_second(values, root));
    }
}

/// A group of four pairs, each stage for all of them before the next stage: the processor looks ahead over one stage
/// of the group, but not over all the stages of a pair. `QUADS` tells leaves of four registers from those of two.
#[inline(always)]
unsafe fn forward_leaves<L: Lanes, const QUADS: bool>(
    lanes: L,
    data: *mut L::Word,
    roots: *const L::Word,
    node: usize,
    record: *const L::Word,
) {
    let mut v = [lanes.load(data); GROUP];
    for k in 1..GROUP {
        v[k] = lanes.load(data.add(k * L::LANES));
    }
    if QUADS {
        let (r, s) = (block_roots(lanes, roots, node), block_roots(lanes, roots, node + 1));
        let x = lanes.forward4_first([v[0], v[1], v[2], v[3]], r[0]);
        let y = lanes.forward4_first([v[4], v[5], v[6], v[7]], s[0]);
        let x = lanes.forward4_second(x, [r[1], r[2]]);
        let y = lanes.forward4_second(y, [s[1], s[2]]);
        v = [x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]];
    } else {
        for k in 0..GROUP / 2 {
            let root = lanes.root(roots.add((node + k) * L::ROOT_WORDS));
            // LEVELS cannot be a const argument of a generic call.
            (v[2 * k], v[2 * k + 1]) = match L::LEVELS {
                2 => lanes.forward2::<2>(v[2 * k], v[2 * k + 1], root),
                3 => lanes.forward2::<3>(v[2 * k], v[2 * k + 1], root),
                _ => lanes.forward2::<4>(v[2 * k], v[2 * k + 1], root),
            };
        }
    }
    match L::LEVELS {
        2 => {
            forward_stage::<L, 0, 1>(lanes, &mut v, record);
            forward_stage::<L, 1, 0>(lanes, &mut v, record);
        }
        3 => {
            forward_stage::<L, 0, 2>(lanes, &mut v, record);
            forward_stage::<L, 1, 1>(lanes, &mut v, record);
            forward_stage::<L, 2, 0>(lanes, &mut v, record);
        }
        _ => {
            forward_stage::<L, 0, 3>(lanes, &mut v, record);
            forward_stage::<L, 1, 2>(lanes, &mut v, record);
            forward_stage::<L, 2, 1>(lanes, &mut v, record);
            forward_stage::<L, 3, 0>(lanes, &mut v, record);
        }
    }
    for k in 0..GROUP / 2 {
        let (x, y) = (v[2 * k], v[2 * k + 1]);
        let (x, y) = if L::LEVELS > 3 { lanes.restore::<3>(x, y) } else { (x, y) };
        let (x, y) = if L::LEVELS > 2 { lanes.restore::<2>(x, y) } else { (x, y) };
        let (x, y) = lanes.restore::<1>(x, y);
        let (x, y) = lanes.restore::<0>(x, y);
        lanes.store_residues(data.add(2 * k * L::LANES), x);
        lanes.store_residues(data.add((2 * k + 1) * L::LANES), y);
    }
}

/// The record of pair k of a group.
#[inline(always)]
unsafe fn pair_record<L: Lanes>(record: *const L::Word, k: usize) -> *const L::Word {
    record.add(k * record_len::<L>())
}

#[inline(always)]
unsafe fn forward_stage<L: Lanes, const LEVEL: usize, const LEFT: usize>(
    lanes: L,
    v: &mut [L::Vector; GROUP],
    record: *const L::Word,
) {
    for k in 0..GROUP / 2 {
        let (x, y) = lanes.exchange::<LEVEL>(v[2 * k], v[2 * k + 1]);
        let roots = lanes.record_roots::<LEVEL>(pair_record::<L>(record, k));
        (v[2 * k], v[2 * k + 1]) = lanes.forward2::<LEFT>(x, y, roots);
    }
}

/// The inverse of `forward_leaves`, up to a factor.
#[inline(always)]
unsafe fn inverse_leaves<L: Lanes, const QUADS: bool>(
    lanes: L,
    data: *mut L::Word,
    roots: *const L::Word,
    node: usize,
    record: *const L::Word,
) {
    let mut v = [lanes.load_residues(data); GROUP];
    for k in 1..GROUP {
        v[k] = lanes.load_residues(data.add(k * L::LANES));
    }
    for k in 0..GROUP / 2 {
        (v[2 * k], v[2 * k + 1]) = exchange_all(lanes, v[2 * k], v[2 * k + 1]);
    }
    match L::LEVELS {
        2 => {
            inverse_stage::<L, 1, 0>(lanes, &mut v, record);
            inverse_stage::<L, 0, 1>(lanes, &mut v, record);
        }
        3 => {
            inverse_stage::<L, 2, 0>(lanes, &mut v, record);
            inverse_stage::<L, 1, 1>(lanes, &mut v, record);
            inverse_stage::<L, 0, 2>(lanes, &mut v, record);
        }
        _ => {
            inverse_stage::<L, 3, 0>(lanes, &mut v, record);
            inverse_stage::<L, 2, 1>(lanes, &mut v, record);
            inverse_stage::<L, 1, 2>(lanes, &mut v, record);
            inverse_stage::<L, 0, 3>(lanes, &mut v, record);
        }
    }
    if QUADS {
        let (r, s) = (block_roots(lanes, roots, node), block_roots(lanes, roots, node + 1));
        let x = lanes.inverse4_first([v[0], v[1], v[2], v[3]], [r[1], r[2]]);
        let y = lanes.inverse4_first([v[4], v[5], v[6], v[7]], [s[1], s[2]]);
        let x = lanes.inverse4_second(x, r[0]);
        let y = lanes.inverse4_second(y, s[0]);
        v = [x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]];
    } else {
        for k in 0..GROUP / 2 {
            let root = lanes.root(roots.add((node + k) * L::ROOT_WORDS));
            (v[2 * k], v[2 * k + 1]) = match L::LEVELS {
                2 => lanes.inverse2::<2>(v[2 * k], v[2 * k + 1], root),
                3 => lanes.inverse2::<3>(v[2 * k], v[2 * k + 1], root),
                _ => lanes.inverse2::<4>(v[2 * k], v[2 * k + 1], root),
            };
        }
    }
    for k in 0..GROUP {
        lanes.store(data.add(k * L::LANES), v[k]);
    }
}

#[inline(always)]
unsafe fn inverse_stage<L: Lanes, const LEVEL: usize, const DONE: usize>(
    lanes: L,
    v: &mut [L::Vector; GROUP],
    record: *const L::Word,
) {
    for k in 0..GROUP / 2 {
        let roots = lanes.record_roots::<LEVEL>(pair_record::<L>(record, k));
        let (x, y) = lanes.inverse2::<DONE>(v[2 * k], v[2 * k + 1], roots);
        (v[2 * k], v[2 * k + 1]) = lanes.restore::<LEVEL>(x, y);
    }
}
