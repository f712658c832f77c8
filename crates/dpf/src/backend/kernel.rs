//! The kernel that the vector back ends share, generic over the width of a vector.
//!
//! Every function here is `#[inline(always)]` and is called from one `#[target_feature]` function per back end, where
//! it is compiled for that instruction set. The instructions that differ are the methods of [`Lanes`].
//!
//! What the vector form does to the definition in [`super::portable`]:
//!
//! * the feed-forward `^ sigma(x)` and the correction are folded into the last round key, because the last AES round
//!   ends with the XOR of that key;
//! * `sigma` is linear, so `sigma(seed ^ j) = sigma(seed) ^ sigma(j)`, and one `sigma` serves all blocks of a leaf;
//! * a node's children leave the registers in the tree's order, so that nothing is ever permuted in memory.

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
    let mut masks = seeds;
    for i in 0..N {
        inputs[i] = seeds[i].sigma();
        masks[i] = seeds[i].control_mask();
    }
    // SAFETY: the caller promises the instructions.
    let (first, second, third) = unsafe {
        let first = hash_group(&ROUND_KEYS[0], &inputs, &masks, correction[0]);
        let second = hash_group(&ROUND_KEYS[1], &inputs, &masks, correction[1]);
        let third = if HALF {
            // The third correction is the XOR of the other two, so that corrected siblings give a corrected child.
            let mut third = seeds;
            for i in 0..N {
                third[i] = seeds[i].xor(first[i]).xor(second[i]);
            }
            third
        } else {
            hash_group(&ROUND_KEYS[2], &inputs, &masks, correction[2])
        };
        (first, second, third)
    };
    for i in 0..N {
        let vectors = V::interleave(first[i], second[i], third[i]);
        for (k, vector) in vectors.into_iter().enumerate() {
            // SAFETY: the caller promises 3 * N vectors to write.
            unsafe { vector.store(to.add((3 * i + k) * V::BLOCKS)) };
        }
    }
}

/// `AES(x) ^ x ^ (mask & correction)` for `N` vectors.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn hash_group<V: Lanes, const N: usize>(
    keys: &RoundKeys,
    inputs: &[V; N],
    masks: &[V; N],
    correction: V,
) -> [V; N] {
    let mut last_keys = *inputs;
    // SAFETY: the caller promises the instructions; a row of round keys is as long as the longest vector.
    let last = unsafe { V::load(keys.0[10].as_ptr()) };
    for i in 0..N {
        last_keys[i] = inputs[i].xor(last).xor(masks[i].and(correction));
    }
    let mut states = *inputs;
    // SAFETY: the caller promises the instructions.
    unsafe { encrypt_group(keys, &mut states, &last_keys) };
    states
}

/// AES with a last round key for each vector.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn encrypt_group<V: Lanes, const N: usize>(keys: &RoundKeys, states: &mut [V; N], last_keys: &[V; N]) {
    // SAFETY: the caller promises the instructions; a row of round keys is as long as the longest vector.
    let whitening = unsafe { V::load(keys.0[0].as_ptr()) };
    for state in states.iter_mut() {
        *state = state.xor(whitening);
    }
    for key in &keys.0[1..10] {
        // SAFETY: as above.
        let key = unsafe { V::load(key.as_ptr()) };
        for state in states.iter_mut() {
            *state = state.aes_round(key);
        }
    }
    for i in 0..N {
        states[i] = states[i].aes_last_round(last_keys[i]);
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
    // Streaming stores have to be aligned; rows are, if the first one is.
    let stream = stream && out.as_ptr().addr() % size_of::<u128>() == 0;
    // SAFETY: the caller promises the instructions; alignment was just checked.
    unsafe {
        match (conversion.group, stream) {
            (Group::Xor, true) => convert_rows::<V, false, true>(conversion, seeds, out),
            (Group::Xor, false) => convert_rows::<V, false, false>(conversion, seeds, out),
            (Group::Add, true) => convert_rows::<V, true, true>(conversion, seeds, out),
            (Group::Add, false) => convert_rows::<V, true, false>(conversion, seeds, out),
        }
    }
}

/// # Safety
/// The CPU has the instructions of `V`; with `STREAM`, `out` is aligned to one block.
#[inline(always)]
unsafe fn convert_rows<V: Lanes, const ADD: bool, const STREAM: bool>(
    conversion: &Conversion,
    seeds: &[u128],
    out: &mut [u8],
) {
    assert_eq!(out.len(), seeds.len() * conversion.row_bytes());
    assert!(conversion.correction.len() == conversion.tweaks.len());
    let vectors = conversion.blocks.div_ceil(V::BLOCKS);
    assert!(vectors * V::BLOCKS <= conversion.tweaks.len());
    // SAFETY: the caller promises the instructions.
    let negate = unsafe { V::broadcast(u128::from(conversion.negate).wrapping_neg()) };
    for (row, &seed) in seeds.iter().enumerate() {
        let leaf = out[row * conversion.row_bytes()..][..conversion.row_bytes()].as_mut_ptr().cast::<u128>();
        let mut done = 0;
        // SAFETY: the instructions are there. Vector `done + i` of the tweaks, of the correction word and of the row
        // lies within them, as asserted above, because done + N never exceeds `vectors`.
        unsafe {
            let seed = V::broadcast(seed);
            let (input, mask) = (seed.sigma(), seed.control_mask());
            while vectors - done >= 4 {
                convert_group::<V, 4, ADD, STREAM>(conversion, input, mask, negate, done * V::BLOCKS, leaf);
                done += 4;
            }
            if vectors - done >= 2 {
                convert_group::<V, 2, ADD, STREAM>(conversion, input, mask, negate, done * V::BLOCKS, leaf);
                done += 2;
            }
            if vectors - done >= 1 {
                convert_group::<V, 1, ADD, STREAM>(conversion, input, mask, negate, done * V::BLOCKS, leaf);
            }
        }
    }
    if STREAM {
        V::fence();
    }
}

/// `N` vectors of one leaf's output, from block `first` on.
///
/// # Safety
/// The CPU has the instructions of `V`; blocks `first` to `first + N * V::BLOCKS` lie within the conversion's arrays
/// and within `row`; with `STREAM`, `row` is aligned to one block.
#[inline(always)]
unsafe fn convert_group<V: Lanes, const N: usize, const ADD: bool, const STREAM: bool>(
    conversion: &Conversion,
    input: V,
    mask: V,
    negate: V,
    first: usize,
    row: *mut u128,
) {
    let keys = &ROUND_KEYS[OUTPUT_KEY];
    let tweaks = conversion.tweaks.as_ptr();
    let words = conversion.correction.as_ptr();
    let mut states = [input; N];
    let mut last_keys = [input; N];
    let mut corrections = [input; N];
    // SAFETY: the caller promises the instructions and the bounds.
    unsafe {
        let last = input.xor(V::load(keys.0[10].as_ptr()));
        for i in 0..N {
            let tweak = V::load(tweaks.add(first + i * V::BLOCKS));
            states[i] = input.xor(tweak);
            corrections[i] = V::load(words.add(first + i * V::BLOCKS)).and(mask);
            last_keys[i] = last.xor(tweak);
            if !ADD {
                last_keys[i] = last_keys[i].xor(corrections[i]);
            }
        }
        encrypt_group(keys, &mut states, &last_keys);
        for i in 0..N {
            if ADD {
                states[i] = states[i].add(corrections[i]).xor(negate).sub(negate);
            }
            let to = row.add(first + i * V::BLOCKS);
            if STREAM {
                states[i].stream(to);
            } else {
                states[i].store(to);
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
    // SAFETY: as above; a row of round keys is as long as the longest vector.
    let last_keys = unsafe { [V::load(ROUND_KEYS[0].0[10].as_ptr()); ENCRYPT_ONLY_VECTORS] };
    for _ in 0..rounds {
        // SAFETY: as above.
        unsafe { encrypt_group(&ROUND_KEYS[0], &mut states, &last_keys) };
    }
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
    ($name:literal, $lanes:ty, $features:literal, [$($feature:tt),+]) => {
        pub(super) static OPERATIONS: $crate::backend::Operations = $crate::backend::Operations {
            name: $name,
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
