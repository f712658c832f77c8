//! The transforms of the vector back ends, written once over [`Lanes`].
//!
//! Two stages are taken per pass over memory (radix 4). A block is identified by its node in the tree of blocks: the
//! whole vector is node 1, the halves of node k are 2k and 2k + 1, and node k's root of unity is entry k of the table
//! in bit-reversed order. Once blocks fit the first-level cache, a block is finished before the next is begun.
//!
//! The last stages are done in registers, on leaves of two or four registers, whichever makes the number of earlier
//! stages even. A pair of registers x, y holds 2L consecutive elements. At the stage of distance d < L the two swap
//! blocks of d lanes, which brings the partners into the same lane. The roots for these stages lie in one record per
//! pair: the subtree of the pair's node in heap order, places 2 to 2L - 1, so that level 0 (d = L/2) takes places 2
//! and 3, level 1 takes places 4 to 7, and so on; the last level's L roots are in the order of the lanes. For
//! multiplication by Shoup's method a second such record, of quotients, follows.

#![allow(unsafe_op_in_unsafe_fn, reason = "all functions share the contract of Lanes")]

use super::lanes::Lanes;
use crate::{AlignedVec, Multiplier, Word, ntt::NttTables};

/// Blocks of at most this size are finished before the next one is begun: half of a first-level cache, which roots
/// of unity pass through as well.
const BLOCK_BYTES: usize = 1 << 14;

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

/// Whether the degree is large enough for at least one pass before the leaves.
const fn is_served<L: Lanes>(degree: usize) -> bool {
    degree >= 8 * L::LANES
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
pub(super) unsafe fn prepare<L: Lanes>(tables: &NttTables<L::Word>) -> VectorTables<L::Word> {
    let degree = tables.roots.len();
    if !is_served::<L>(degree) {
        return VectorTables::default();
    }
    let modulus = &tables.modulus;
    let encode = |root: Multiplier<L::Word>| L::encode(modulus, root).into_iter().take(L::ROOT_WORDS);
    let order = last_level_order(L::new(modulus));
    let direction = |all: &[Multiplier<L::Word>]| {
        let roots = all[..degree / L::LANES].iter().copied().flat_map(encode).collect();
        let pairs = degree / (2 * L::LANES);
        let records = (pairs..2 * pairs).flat_map(|node| {
            let order = &order;
            (0..L::ROOT_WORDS).flat_map(move |component| {
                (0..2 * L::LANES).map(move |place| {
                    let level = place.max(1).ilog2();
                    let within = place.max(1) - (1 << level);
                    let within = if place >= L::LANES { order[within] } else { within };
                    L::encode(modulus, all[(node << level) + within])[component]
                })
            })
        });
        Direction { roots, records: Some(AlignedVec::from_iter(64, records)) }
    };
    let scaled = modulus.mul(tables.inverse_roots[1].factor, tables.inverse_degree.factor);
    VectorTables {
        forward: direction(&tables.roots),
        inverse: direction(&tables.inverse_roots),
        last: encode(tables.inverse_degree).chain(encode(modulus.multiplier(scaled))).collect(),
    }
}

/// For each lane of the last level the number of its butterfly in the pair.
unsafe fn last_level_order<L: Lanes>(lanes: L) -> Vec<usize> {
    let mut words: Vec<L::Word> = (0..2 * L::LANES as u64).map(L::Word::truncate).collect();
    let first = words.as_mut_ptr();
    let (x, y) = (lanes.load(first), lanes.load(first.add(L::LANES)));
    let (x, _) = exchange_all(lanes, x, y);
    lanes.store(first, x);
    words[..L::LANES].iter().map(|&element| element.into() as usize / 2).collect()
}

#[inline(always)]
unsafe fn exchange_all<L: Lanes>(lanes: L, x: L::Vector, y: L::Vector) -> (L::Vector, L::Vector) {
    let (x, y) = lanes.exchange::<0>(x, y);
    let (x, y) = lanes.exchange::<1>(x, y);
    let (x, y) = if L::LEVELS > 2 { lanes.exchange::<2>(x, y) } else { (x, y) };
    if L::LEVELS > 3 { lanes.exchange::<3>(x, y) } else { (x, y) }
}

/// Coefficients to evaluations. Returns whether the degree is served; if not, nothing was done.
///
/// # Safety
///
/// The contract of [`Lanes`]; the tables were prepared for `L`.
#[inline(always)]
pub(super) unsafe fn forward<L: Lanes>(tables: &NttTables<L::Word>, values: &mut [L::Word]) -> bool {
    let degree = values.len();
    if !is_served::<L>(degree) {
        return false;
    }
    let lanes = L::new(&tables.modulus);
    let direction = &tables.vector.forward;
    let (roots, records, data) = (direction.roots.as_ptr(), direction.records(), values.as_mut_ptr());
    let (leaf, block) = (leaf_len::<L>(degree), block_len::<L>(degree));

    forward_pass::<L, true>(lanes, data, degree, roots, 1);
    let mut start = 0;
    while start < degree {
        // The passes over larger blocks that begin here.
        let mut len = degree / 4;
        while len > block {
            if start % len == 0 {
                forward_pass::<L, false>(lanes, data.add(start), len, roots, (degree + start) / len);
            }
            len /= 4;
        }
        while len > leaf {
            let mut inner = start;
            while inner < start + block.min(degree) {
                forward_pass::<L, false>(lanes, data.add(inner), len, roots, (degree + inner) / len);
                inner += len;
            }
            len /= 4;
        }
        let mut inner = start;
        while inner < start + block {
            let node = (degree + inner) / leaf;
            let record = records.add(inner * L::ROOT_WORDS);
            if leaf == 2 * L::LANES {
                forward_leaf2(lanes, data.add(inner), roots, node, record);
            } else {
                forward_leaf4(lanes, data.add(inner), roots, node, record);
            }
            inner += leaf;
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
pub(super) unsafe fn inverse<L: Lanes>(tables: &NttTables<L::Word>, values: &mut [L::Word]) -> bool {
    let degree = values.len();
    if !is_served::<L>(degree) {
        return false;
    }
    let lanes = L::new(&tables.modulus);
    let direction = &tables.vector.inverse;
    let (roots, records, data) = (direction.roots.as_ptr(), direction.records(), values.as_mut_ptr());
    let (leaf, block) = (leaf_len::<L>(degree), block_len::<L>(degree));

    let mut start = 0;
    while start < degree {
        let mut inner = start;
        while inner < start + block {
            let node = (degree + inner) / leaf;
            let record = records.add(inner * L::ROOT_WORDS);
            if leaf == 2 * L::LANES {
                inverse_leaf2(lanes, data.add(inner), roots, node, record);
            } else {
                inverse_leaf4(lanes, data.add(inner), roots, node, record);
            }
            inner += leaf;
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
    inverse_pass::<L, true>(lanes, data, degree, roots, 1, tables.vector.last.as_ptr());
    true
}

#[inline(always)]
unsafe fn block_roots<L: Lanes>(lanes: L, roots: *const L::Word, node: usize) -> [L::Root; 3] {
    let halves = roots.add(2 * node * L::ROOT_WORDS);
    [lanes.root(roots.add(node * L::ROOT_WORDS)), lanes.root(halves), lanes.root(halves.add(L::ROOT_WORDS))]
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
    let mut place = 0;
    while place < quarter {
        let at = [0, 1, 2, 3].map(|part| data.wrapping_add(part * quarter + place));
        let values = if FIRST {
            [
                lanes.load_residues(at[0]),
                lanes.load_residues(at[1]),
                lanes.load_residues(at[2]),
                lanes.load_residues(at[3]),
            ]
        } else {
            [lanes.load(at[0]), lanes.load(at[1]), lanes.load(at[2]), lanes.load(at[3])]
        };
        let [a, b, c, d] = lanes.forward4(values, roots);
        lanes.store(at[0], a);
        lanes.store(at[1], b);
        lanes.store(at[2], c);
        lanes.store(at[3], d);
        place += L::LANES;
    }
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
    let mut place = 0;
    while place < quarter {
        let at = [0, 1, 2, 3].map(|part| data.wrapping_add(part * quarter + place));
        let values = [lanes.load(at[0]), lanes.load(at[1]), lanes.load(at[2]), lanes.load(at[3])];
        let [a, b, c, d] = lanes.inverse4::<LAST>(values, roots, scale);
        if LAST {
            lanes.store_residues(at[0], a);
            lanes.store_residues(at[1], b);
            lanes.store_residues(at[2], c);
            lanes.store_residues(at[3], d);
        } else {
            lanes.store(at[0], a);
            lanes.store(at[1], b);
            lanes.store(at[2], c);
            lanes.store(at[3], d);
        }
        place += L::LANES;
    }
}

#[inline(always)]
unsafe fn forward_leaf2<L: Lanes>(
    lanes: L,
    data: *mut L::Word,
    roots: *const L::Word,
    node: usize,
    record: *const L::Word,
) {
    let (x, y) = (lanes.load(data), lanes.load(data.add(L::LANES)));
    let root = lanes.root(roots.add(node * L::ROOT_WORDS));
    // LEVELS cannot be a const argument of a generic call.
    let (x, y) = match L::LEVELS {
        2 => lanes.forward2::<2>(x, y, root),
        3 => lanes.forward2::<3>(x, y, root),
        _ => lanes.forward2::<4>(x, y, root),
    };
    forward_pair(lanes, data, x, y, record);
}

#[inline(always)]
unsafe fn forward_leaf4<L: Lanes>(
    lanes: L,
    data: *mut L::Word,
    roots: *const L::Word,
    node: usize,
    record: *const L::Word,
) {
    let values = [
        lanes.load(data),
        lanes.load(data.add(L::LANES)),
        lanes.load(data.add(2 * L::LANES)),
        lanes.load(data.add(3 * L::LANES)),
    ];
    let [a, b, c, d] = lanes.forward4(values, block_roots(lanes, roots, node));
    forward_pair(lanes, data, a, b, record);
    forward_pair(lanes, data.add(2 * L::LANES), c, d, record.add(2 * L::LANES * L::ROOT_WORDS));
}

/// The stages within registers, down to residues.
#[inline(always)]
unsafe fn forward_pair<L: Lanes>(
    lanes: L,
    data: *mut L::Word,
    x: L::Vector,
    y: L::Vector,
    record: *const L::Word,
) {
    let (x, y) = match L::LEVELS {
        2 => {
            let (x, y) = forward_stage::<L, 0, 1>(lanes, x, y, record);
            forward_stage::<L, 1, 0>(lanes, x, y, record)
        }
        3 => {
            let (x, y) = forward_stage::<L, 0, 2>(lanes, x, y, record);
            let (x, y) = forward_stage::<L, 1, 1>(lanes, x, y, record);
            let (x, y) = forward_stage::<L, 2, 0>(lanes, x, y, record);
            lanes.restore::<2>(x, y)
        }
        _ => {
            let (x, y) = forward_stage::<L, 0, 3>(lanes, x, y, record);
            let (x, y) = forward_stage::<L, 1, 2>(lanes, x, y, record);
            let (x, y) = forward_stage::<L, 2, 1>(lanes, x, y, record);
            let (x, y) = forward_stage::<L, 3, 0>(lanes, x, y, record);
            let (x, y) = lanes.restore::<3>(x, y);
            lanes.restore::<2>(x, y)
        }
    };
    let (x, y) = lanes.restore::<1>(x, y);
    let (x, y) = lanes.restore::<0>(x, y);
    lanes.store_residues(data, x);
    lanes.store_residues(data.add(L::LANES), y);
}

#[inline(always)]
unsafe fn forward_stage<L: Lanes, const LEVEL: usize, const LEFT: usize>(
    lanes: L,
    x: L::Vector,
    y: L::Vector,
    record: *const L::Word,
) -> (L::Vector, L::Vector) {
    let (x, y) = lanes.exchange::<LEVEL>(x, y);
    lanes.forward2::<LEFT>(x, y, lanes.record_roots::<LEVEL>(record))
}

#[inline(always)]
unsafe fn inverse_leaf2<L: Lanes>(
    lanes: L,
    data: *mut L::Word,
    roots: *const L::Word,
    node: usize,
    record: *const L::Word,
) {
    let (x, y) = inverse_pair(lanes, data, record);
    let root = lanes.root(roots.add(node * L::ROOT_WORDS));
    let (x, y) = match L::LEVELS {
        2 => lanes.inverse2::<2>(x, y, root),
        3 => lanes.inverse2::<3>(x, y, root),
        _ => lanes.inverse2::<4>(x, y, root),
    };
    lanes.store(data, x);
    lanes.store(data.add(L::LANES), y);
}

#[inline(always)]
unsafe fn inverse_leaf4<L: Lanes>(
    lanes: L,
    data: *mut L::Word,
    roots: *const L::Word,
    node: usize,
    record: *const L::Word,
) {
    let (a, b) = inverse_pair(lanes, data, record);
    let (c, d) = inverse_pair(lanes, data.add(2 * L::LANES), record.add(2 * L::LANES * L::ROOT_WORDS));
    let roots = block_roots(lanes, roots, node);
    let [a, b, c, d] = lanes.inverse4::<false>([a, b, c, d], roots, roots[0]);
    lanes.store(data, a);
    lanes.store(data.add(L::LANES), b);
    lanes.store(data.add(2 * L::LANES), c);
    lanes.store(data.add(3 * L::LANES), d);
}

#[inline(always)]
unsafe fn inverse_pair<L: Lanes>(
    lanes: L,
    data: *const L::Word,
    record: *const L::Word,
) -> (L::Vector, L::Vector) {
    let (x, y) = (lanes.load_residues(data), lanes.load_residues(data.add(L::LANES)));
    let (x, y) = exchange_all(lanes, x, y);
    match L::LEVELS {
        2 => {
            let (x, y) = inverse_stage::<L, 1, 0>(lanes, x, y, record);
            inverse_stage::<L, 0, 1>(lanes, x, y, record)
        }
        3 => {
            let (x, y) = inverse_stage::<L, 2, 0>(lanes, x, y, record);
            let (x, y) = inverse_stage::<L, 1, 1>(lanes, x, y, record);
            inverse_stage::<L, 0, 2>(lanes, x, y, record)
        }
        _ => {
            let (x, y) = inverse_stage::<L, 3, 0>(lanes, x, y, record);
            let (x, y) = inverse_stage::<L, 2, 1>(lanes, x, y, record);
            let (x, y) = inverse_stage::<L, 1, 2>(lanes, x, y, record);
            inverse_stage::<L, 0, 3>(lanes, x, y, record)
        }
    }
}

#[inline(always)]
unsafe fn inverse_stage<L: Lanes, const LEVEL: usize, const DONE: usize>(
    lanes: L,
    x: L::Vector,
    y: L::Vector,
    record: *const L::Word,
) -> (L::Vector, L::Vector) {
    let (x, y) = lanes.inverse2::<DONE>(x, y, lanes.record_roots::<LEVEL>(record));
    lanes.restore::<LEVEL>(x, y)
}
