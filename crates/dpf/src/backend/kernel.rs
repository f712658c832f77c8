//! The kernel that the vector back ends share, generic over the width of a vector.
//!
//! Every function here is `#[inline(always)]` and is called from one `#[target_feature]` function per back end, where
//! it is compiled for that instruction set. The instructions that differ are the methods of [`Lanes`].
//!
//! The vector form differs from the definition in [`super::scalar`] as follows:
//!
//! * the feed-forward `^ sigma(x)` and the correction are folded into the last round key, because the last AES round
//!   ends with the XOR of that key;
//! * `sigma` is linear, so `sigma(seed ^ j) = sigma(seed) ^ sigma(j)`, and one `sigma` serves all blocks of a leaf. The
//!   feed-forward of an output block leaves `sigma(j)` out, a public constant;
//! * a node's children leave the registers in the tree's order, so that nothing is ever permuted in memory.

use zeroize::Zeroize;

use super::Conversion;
use crate::Variant;
use crate::hash::{OUTPUT_KEY, ROUND_KEYS, RoundKeys};
use crate::output::Group;

/// A vector of AES blocks.
///
/// A value exists only on a CPU that has the vector's instructions: that is the promise of the `unsafe` constructors,
/// and it is why the other methods are safe.
pub(super) trait Lanes: Copy {
    /// Blocks in a vector: 1, 2 or 4.
    const BLOCKS: usize;

    /// # Safety
    /// The CPU has the vector's instructions; `from` is valid for reads of `BLOCKS` blocks. No alignment is needed.
    unsafe fn load(from: *const u128) -> Self;

    /// # Safety
    /// The CPU has the vector's instructions.
    unsafe fn broadcast(block: u128) -> Self;

    /// # Safety
    /// `to` is valid for writes of `BLOCKS` blocks. No alignment is needed.
    unsafe fn store(self, to: *mut u128);

    /// Stores past the caches.
    ///
    /// # Safety
    /// `to` is valid for writes of `BLOCKS` blocks and aligned to one block.
    unsafe fn stream(self, to: *mut u128);

    /// Ends a series of `stream`: what was stored is visible to every access that follows.
    fn fence();

    fn xor(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    /// Sums of 64-bit lanes.
    fn add(self, other: Self) -> Self;
    /// Differences of 64-bit lanes.
    fn sub(self, other: Self) -> Self;
    fn aes_round(self, key: Self) -> Self;
    fn aes_last_round(self, key: Self) -> Self;
    /// `hash::sigma` on every block.
    fn sigma(self) -> Self;
    /// `hash::control_mask` on every block.
    fn control_mask(self) -> Self;
    /// The blocks of three vectors, taken in turn: `a0 b0 c0 a1 b1 c1 …`.
    fn interleave(a: Self, b: Self, c: Self) -> [Self; 3];
}

/// The most blocks that a vector holds.
const MAX_BLOCKS: usize = 4;

/// Parents that are expanded at once are this many vectors: enough independent AES states to fill the pipeline.
const GROUP: usize = 4;

/// See [`super::Operations::expand`].
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn expand<V: Lanes>(
    variant: Variant,
    parents: &[u128],
    correction: &[u128; 3],
    children: &mut [u128],
) {
    // SAFETY: the caller promises the instructions.
    unsafe {
        match variant {
            Variant::Plain => expand_variant::<V, false>(parents, correction, children),
            Variant::HalfTree => expand_variant::<V, true>(parents, correction, children),
        }
    }
}

/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn expand_variant<V: Lanes, const HALF: bool>(
    parents: &[u128],
    correction: &[u128; 3],
    children: &mut [u128],
) {
    assert_eq!(children.len(), 3 * parents.len());
    // SAFETY: the caller promises the instructions.
    let correction =
        unsafe { [V::broadcast(correction[0]), V::broadcast(correction[1]), V::broadcast(correction[2])] };
    let mut done = 0;
    while parents.len() - done >= GROUP * V::BLOCKS {
        let from = parents[done..done + GROUP * V::BLOCKS].as_ptr();
        let to = children[3 * done..3 * (done + GROUP * V::BLOCKS)].as_mut_ptr();
        // SAFETY: the instructions are there; the slices taken above have room for GROUP vectors of parents and three
        // times as many of children.
        unsafe { expand_group::<V, GROUP, HALF>(from, &correction, to) };
        done += GROUP * V::BLOCKS;
    }
    while done < parents.len() {
        let count = V::BLOCKS.min(parents.len() - done);
        let mut from = [0; MAX_BLOCKS];
        from[..count].copy_from_slice(&parents[done..done + count]);
        let mut to = [0; 3 * MAX_BLOCKS];
        // SAFETY: the instructions are there; the arrays have room for one vector and for three.
        unsafe { expand_group::<V, 1, HALF>(from.as_ptr(), &correction, to.as_mut_ptr()) };
        children[3 * done..3 * (done + count)].copy_from_slice(&to[..3 * count]);
        from.zeroize();
        to.zeroize();
        done += count;
    }
}

/// The children of `N` vectors of parents.
///
/// # Safety
/// The CPU has the instructions of `V`; `from` is valid for reads of `N` vectors, `to` for writes of `3 * N`.
#[inline(always)]
unsafe fn expand_group<V: Lanes, const N: usize, const HALF: bool>(
    from: *const u128,
    correction: &[V; 3],
    to: *mut u128,
) {
    // SAFETY: the caller promises the instructions and N vectors to read.
    let mut seeds = unsafe { [V::load(from); N] };
    for (i, seed) in seeds.iter_mut().enumerate() {
        // SAFETY: as above.
        *seed = unsafe { V::load(from.add(i * V::BLOCKS)) };
    }
    let mut inputs = seeds;
    for input in &mut inputs {
        *input = input.sigma();
    }
    let keys = [round_keys(0), round_keys(1), round_keys(2)];
    let mut children = [inputs; 3];
    for (keys, states) in keys.iter().zip(&mut children) {
        for state in states {
            // SAFETY: the caller promises the instructions; a row of round keys is as long as the longest vector.
            *state = state.xor(unsafe { V::load(keys.0[0].as_ptr()) });
        }
    }
    // SAFETY: the caller promises the instructions.
    unsafe {
        if HALF {
            let mut hashed = [children[0], children[1]];
            middle_rounds([keys[0], keys[1]], &mut hashed);
            [children[0], children[1]] = hashed;
        } else {
            middle_rounds(keys, &mut children);
        }
    }
    let hashed = if HALF { 2 } else { 3 };
    for i in 0..N {
        let mask = seeds[i].control_mask();
        for child in 0..hashed {
            // SAFETY: as above.
            let last = unsafe { V::load(keys[child].0[10].as_ptr()) };
            let key = inputs[i].xor(last).xor(mask.and(correction[child]));
            children[child][i] = children[child][i].aes_last_round(key);
        }
        if HALF {
            // The third correction is the XOR of the other two, so that corrected siblings give a corrected child.
            children[2][i] = seeds[i].xor(children[0][i]).xor(children[1][i]);
        }
        let vectors = V::interleave(children[0][i], children[1][i], children[2][i]);
        for (k, vector) in vectors.into_iter().enumerate() {
            // SAFETY: the caller promises 3 * N vectors to write.
            unsafe { vector.store(to.add((3 * i + k) * V::BLOCKS)) };
        }
    }
}

/// The round keys of one hash, behind an address that the compiler knows nothing about.
///
/// It would otherwise see through the table, keep the nine inner keys in registers across iterations, and run the AES
/// states one after the other for want of registers. Keys cost nothing as memory operands.
#[inline(always)]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "the address is handed on, not followed")]
fn round_keys(key: usize) -> &'static RoundKeys {
    let mut address: *const RoundKeys = &ROUND_KEYS[key];
    // SAFETY: no instruction, only a claim to have changed the register. It has not, so the reference is as valid as the
    // static that it came from.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) address, options(nomem, nostack, preserves_flags));
        &*address
    }
}

/// The nine rounds of AES between whitening and the last one, with key `k` on `states[k]`. The rounds of all states run
/// side by side.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn middle_rounds<V: Lanes, const K: usize, const N: usize>(
    keys: [&RoundKeys; K],
    states: &mut [[V; N]; K],
) {
    for round in 1..10 {
        for (keys, states) in keys.iter().zip(states.iter_mut()) {
            // SAFETY: the caller promises the instructions; a row of round keys is as long as the longest vector.
            let key = unsafe { V::load(keys.0[round].as_ptr()) };
            for state in states.iter_mut() {
                *state = state.aes_round(key);
            }
        }
    }
}

/// See [`super::Operations::convert`].
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn convert<V: Lanes>(
    conversion: &Conversion,
    seeds: &[u128],
    out: &mut [u8],
    stream: bool,
) {
    assert_eq!(out.len(), seeds.len() * conversion.row_bytes());
    assert_eq!(conversion.correction.len(), conversion.tweaks.len());
    // Streaming stores have to be aligned; rows are, if the first one is.
    let stream = stream && out.as_ptr().addr().is_multiple_of(size_of::<u128>());
    // SAFETY: the caller promises the instructions.
    let rows = unsafe {
        Rows {
            tweaks: &conversion.tweaks,
            correction: &conversion.correction,
            vectors: conversion.blocks.div_ceil(V::BLOCKS),
            last_key: V::load(ROUND_KEYS[OUTPUT_KEY].0[10].as_ptr()),
            negate: V::broadcast(u128::from(conversion.negate).wrapping_neg()),
        }
    };
    assert!(rows.vectors * V::BLOCKS <= conversion.tweaks.len());
    // SAFETY: the instructions are there, and what `Rows` asks for was just asserted.
    unsafe {
        let out = out.as_mut_ptr().cast();
        match (conversion.group, stream) {
            (Group::Xor, false) => convert_rows::<V, false, false>(&rows, seeds, out),
            (Group::Xor, true) => convert_rows::<V, false, true>(&rows, seeds, out),
            (Group::Add, false) => convert_rows::<V, true, false>(&rows, seeds, out),
            (Group::Add, true) => convert_rows::<V, true, true>(&rows, seeds, out),
        }
    }
    if stream {
        V::fence();
    }
}

/// The values that all leaves of a conversion have in common. The first `vectors` vectors lie within `tweaks` and `correction`, which
/// are as long as each other and as a row of the output.
struct Rows<'a, V> {
    tweaks: &'a [u128],
    correction: &'a [u128],
    vectors: usize,
    last_key: V,
    negate: V,
}

/// Leaves are taken together so that eight AES states are in flight, however short a row is.
///
/// # Safety
/// The CPU has the instructions of `V`; `rows` is as described there; `out` is valid for writes of a row per seed
/// and, with `STREAM`, aligned to one block.
#[inline(always)]
unsafe fn convert_rows<V: Lanes, const ADD: bool, const STREAM: bool>(
    rows: &Rows<'_, V>,
    seeds: &[u128],
    out: *mut u128,
) {
    // SAFETY: the caller promises all that is asked for; `whole` never exceeds the number of seeds.
    unsafe {
        let whole = match rows.vectors {
            0 => return,
            1 => convert_leaves::<V, 8, 1, ADD, STREAM>(rows, seeds, out),
            2..4 => convert_leaves::<V, 4, 2, ADD, STREAM>(rows, seeds, out),
            4..8 => convert_leaves::<V, 2, 4, ADD, STREAM>(rows, seeds, out),
            8.. => 0,
        };
        convert_leaves::<V, 1, 8, ADD, STREAM>(rows, &seeds[whole..], out.add(whole * rows.tweaks.len()));
    }
}

/// As many rows as come in groups of `LEAVES`, `N` vectors of each at once; returns their number.
///
/// # Safety
/// As for [`convert_rows`].
#[inline(always)]
unsafe fn convert_leaves<
    V: Lanes,
    const LEAVES: usize,
    const N: usize,
    const ADD: bool,
    const STREAM: bool,
>(
    rows: &Rows<'_, V>,
    seeds: &[u128],
    out: *mut u128,
) -> usize {
    let groups = seeds.as_chunks::<LEAVES>().0;
    for (group, seeds) in groups.iter().enumerate() {
        // SAFETY: the instructions are there; `done` plus the vectors of a step never exceeds `rows.vectors`, and the
        // output has a row for each seed.
        unsafe {
            let out = out.add(group * LEAVES * rows.tweaks.len());
            let mut done = 0;
            while N >= 8 && rows.vectors - done >= 8 {
                convert_group::<V, LEAVES, 8, ADD, STREAM>(rows, seeds, done * V::BLOCKS, out);
                done += 8;
            }
            if N >= 4 && rows.vectors - done >= 4 {
                convert_group::<V, LEAVES, 4, ADD, STREAM>(rows, seeds, done * V::BLOCKS, out);
                done += 4;
            }
            if N >= 2 && rows.vectors - done >= 2 {
                convert_group::<V, LEAVES, 2, ADD, STREAM>(rows, seeds, done * V::BLOCKS, out);
                done += 2;
            }
            if rows.vectors - done >= 1 {
                convert_group::<V, LEAVES, 1, ADD, STREAM>(rows, seeds, done * V::BLOCKS, out);
            }
        }
    }
    groups.len() * LEAVES
}

/// `N` vectors of each of a few leaves' outputs, from block `first` of the row on.
///
/// # Safety
/// As for [`convert_rows`]; blocks `first` to `first + N * V::BLOCKS` are within a row.
#[inline(always)]
unsafe fn convert_group<
    V: Lanes,
    const LEAVES: usize,
    const N: usize,
    const ADD: bool,
    const STREAM: bool,
>(
    rows: &Rows<'_, V>,
    seeds: &[u128; LEAVES],
    first: usize,
    out: *mut u128,
) {
    let tweaks = rows.tweaks.as_ptr();
    let words = rows.correction.as_ptr();
    let keys = round_keys(OUTPUT_KEY);
    let mut states = [[rows.last_key; N]; LEAVES];
    for (states, &seed) in states.iter_mut().zip(seeds) {
        // SAFETY: the caller promises the instructions; a row of round keys is as long as the longest vector.
        let input = unsafe { V::broadcast(seed).sigma().xor(V::load(keys.0[0].as_ptr())) };
        for (i, state) in states.iter_mut().enumerate() {
            // SAFETY: the caller promises the instructions and the bounds.
            *state = unsafe { V::load(tweaks.add(first + i * V::BLOCKS)) }.xor(input);
        }
    }
    // SAFETY: the caller promises the instructions.
    unsafe { middle_rounds([keys; LEAVES], &mut states) };
    for (leaf, (states, &seed)) in states.iter().zip(seeds).enumerate() {
        // SAFETY: the caller promises the instructions.
        let seed = unsafe { V::broadcast(seed) };
        let (key, mask) = (seed.sigma().xor(rows.last_key), seed.control_mask());
        for (i, &state) in states.iter().enumerate() {
            let block = first + i * V::BLOCKS;
            // SAFETY: the caller promises the instructions and the bounds.
            let word = unsafe { V::load(words.add(block)) }.and(mask);
            let share = if ADD {
                state.aes_last_round(key).add(word).xor(rows.negate).sub(rows.negate)
            } else {
                state.aes_last_round(key.xor(word))
            };
            // SAFETY: as above; with `STREAM`, the output is aligned.
            unsafe {
                let to = out.add(leaf * rows.tweaks.len() + block);
                if STREAM {
                    share.stream(to);
                } else {
                    share.store(to);
                }
            }
        }
    }
}

/// Vectors in flight in [`encrypt_only`]; with the round keys read from memory they fit 16 registers.
pub(super) const ENCRYPT_ONLY_VECTORS: usize = 12;

/// See [`super::Operations::encrypt_only`].
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn encrypt_only<V: Lanes>(rounds: u64) -> u128 {
    // SAFETY: the caller promises the instructions.
    let mut states = unsafe { [V::broadcast(0); ENCRYPT_ONLY_VECTORS] };
    for (state, i) in states.iter_mut().zip(0..) {
        // SAFETY: as above.
        *state = unsafe { V::broadcast(i) };
    }
    let mut states = [states];
    for _ in 0..rounds {
        let keys = round_keys(0);
        // SAFETY: as above; a row of round keys is as long as the longest vector.
        unsafe {
            let (whitening, last) = (V::load(keys.0[0].as_ptr()), V::load(keys.0[10].as_ptr()));
            for state in &mut states[0] {
                *state = state.xor(whitening);
            }
            middle_rounds([keys], &mut states);
            for state in &mut states[0] {
                *state = state.aes_last_round(last);
            }
        }
    }
    let [states] = states;
    let mut sum = states[0];
    for state in &states[1..] {
        sum = sum.xor(*state);
    }
    let mut blocks = [0; MAX_BLOCKS];
    // SAFETY: the array holds the longest vector.
    unsafe { sum.store(blocks.as_mut_ptr()) };
    blocks[0]
}

/// See [`super::Operations::fill`].
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn fill<V: Lanes>(memory: &mut [u8]) {
    let head = memory.as_ptr().align_offset(size_of::<u128>()).min(memory.len());
    let (head, body) = memory.split_at_mut(head);
    head.fill(0);
    let mut vectors = body.chunks_exact_mut(V::BLOCKS * size_of::<u128>());
    // SAFETY: the caller promises the instructions.
    let zero = unsafe { V::broadcast(0) };
    for vector in &mut vectors {
        // SAFETY: the chunk is as long as a vector; the first one is aligned to a block, and so are the others.
        unsafe { zero.stream(vector.as_mut_ptr().cast()) };
    }
    V::fence();
    vectors.into_remainder().fill(0);
}

/// Defines a back end's `OPERATIONS`, its `detect` and the functions compiled for its instruction set.
macro_rules! back_end {
    ($lanes:ty, $features:literal, [$($feature:tt),+]) => {
        pub(super) static OPERATIONS: $crate::backend::Operations = $crate::backend::Operations {
            expand: |variant, parents, correction, children| {
                // SAFETY: `detect` hands out this table only where the CPU has the features.
                unsafe { expand(variant, parents, correction, children) }
            },
            convert: |conversion, seeds, out, stream| {
                // SAFETY: as above.
                unsafe { convert(conversion, seeds, out, stream) }
            },
            encrypt_only_blocks: kernel::ENCRYPT_ONLY_VECTORS * <$lanes as kernel::Lanes>::BLOCKS,
            encrypt_only: |rounds| {
                // SAFETY: as above.
                unsafe { encrypt_only(rounds) }
            },
            fill: |memory| {
                // SAFETY: as above.
                unsafe { fill(memory) }
            },
        };

        /// The back end, if the CPU has what it needs.
        pub(super) fn detect() -> Option<&'static $crate::backend::Operations> {
            ($(std::arch::is_x86_feature_detected!($feature))&&+).then_some(&OPERATIONS)
        }

        #[target_feature(enable = $features)]
        fn expand(
            variant: $crate::Variant,
            parents: &[u128],
            correction: &[u128; 3],
            children: &mut [u128],
        ) {
            // SAFETY: this function is compiled for the features.
            unsafe { kernel::expand::<$lanes>(variant, parents, correction, children) }
        }

        #[target_feature(enable = $features)]
        fn convert(
            conversion: &$crate::backend::Conversion,
            seeds: &[u128],
            out: &mut [u8],
            stream: bool,
        ) {
            // SAFETY: this function is compiled for the features.
            unsafe { kernel::convert::<$lanes>(conversion, seeds, out, stream) }
        }

        #[target_feature(enable = $features)]
        fn encrypt_only(rounds: u64) -> u128 {
            // SAFETY: this function is compiled for the features.
            unsafe { kernel::encrypt_only::<$lanes>(rounds) }
        }

        #[target_feature(enable = $features)]
        fn fill(memory: &mut [u8]) {
            // SAFETY: this function is compiled for the features.
            unsafe { kernel::fill::<$lanes>(memory) }
        }
    };
}
pub(super) use back_end;
