//! Without SIMD of our own: the `aes` crate's constant-time software AES, or what that crate detects.

use std::sync::LazyLock;

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use bytemuck::cast_slice_mut;
use zeroize::Zeroize;

use super::{Conversion, Operations};
use crate::Variant;
use crate::hash::{FIXED_KEYS, OUTPUT_KEY, control_mask, sigma};
use crate::output::Group;

pub(super) static OPERATIONS: Operations =
    Operations { expand, convert, encrypt_only_blocks: BATCH, encrypt_only, fill };

/// Blocks that go through the cipher at once: a multiple of 30 and of 8, the batches of the `aes` crate's back ends.
const BATCH: usize = 120;

static CIPHERS: LazyLock<[Aes128; 4]> = LazyLock::new(|| FIXED_KEYS.map(|key| Aes128::new(&key.into())));

/// `AES_K(x)` on every block, in place.
fn encrypt(key: usize, blocks: &mut [u128]) {
    // The cipher wants little-endian bytes; on a little-endian CPU, these two loops are nothing.
    blocks.iter_mut().for_each(|block| *block = block.to_le());
    CIPHERS[key].encrypt_blocks(Array::cast_slice_from_core_mut(cast_slice_mut::<u128, [u8; 16]>(blocks)));
    blocks.iter_mut().for_each(|block| *block = u128::from_le(*block));
}

fn expand(variant: Variant, parents: &[u128], correction: &[u128; 3], children: &mut [u128]) {
    assert_eq!(children.len(), 3 * parents.len());
    let mut hashes = [[0; BATCH]; 3];
    for (parents, children) in parents.chunks(BATCH).zip(children.chunks_mut(3 * BATCH)) {
        let computed = match variant {
            Variant::Plain => 3,
            Variant::HalfTree => 2,
        };
        for (key, hash) in hashes.iter_mut().enumerate().take(computed) {
            let hash = &mut hash[..parents.len()];
            for (block, &parent) in hash.iter_mut().zip(parents) {
                *block = sigma(parent);
            }
            encrypt(key, hash);
            for (block, &parent) in hash.iter_mut().zip(parents) {
                *block ^= sigma(parent);
            }
        }
        for (i, (&parent, children)) in parents.iter().zip(children.as_chunks_mut::<3>().0).enumerate() {
            let third = match variant {
                Variant::Plain => hashes[2][i],
                Variant::HalfTree => hashes[0][i] ^ hashes[1][i] ^ parent,
            };
            let mask = control_mask(parent);
            *children = [
                hashes[0][i] ^ (mask & correction[0]),
                hashes[1][i] ^ (mask & correction[1]),
                third ^ (mask & correction[2]),
            ];
        }
    }
    hashes.iter_mut().for_each(|hash| hash[..BATCH.min(parents.len())].zeroize());
}

fn convert(conversion: &Conversion, seeds: &[u128], out: &mut [u8], _stream: bool) {
    let (row_bytes, blocks) = (conversion.row_bytes(), conversion.blocks);
    assert_eq!(out.len(), seeds.len() * row_bytes);
    if blocks == 0 {
        return;
    }
    let negate = u64::from(conversion.negate).wrapping_neg();
    let add = |a: u128, b: u128| {
        let lane = |shift: u32| {
            let sum = ((a >> shift) as u64).wrapping_add((b >> shift) as u64);
            u128::from((sum ^ negate).wrapping_sub(negate)) << shift
        };
        lane(0) | lane(64)
    };
    // Several leaves at once if they are short, so that the cipher gets full batches; long ones in several steps.
    let leaves = (BATCH / blocks).max(1);
    let mut pads = [0; BATCH];
    for (seeds, rows) in seeds.chunks(leaves).zip(out.chunks_mut(leaves * row_bytes)) {
        for first in (0..blocks).step_by(BATCH) {
            let span = first..blocks.min(first + BATCH);
            let pads = &mut pads[..seeds.len() * span.len()];
            for (pads, &seed) in pads.chunks_exact_mut(span.len()).zip(seeds) {
                for (pad, tweak) in pads.iter_mut().zip(&conversion.tweaks[span.clone()]) {
                    *pad = sigma(seed) ^ tweak;
                }
            }
            encrypt(OUTPUT_KEY, pads);
            let rows = rows.chunks_exact_mut(row_bytes);
            for ((pads, &seed), row) in pads.chunks_exact(span.len()).zip(seeds).zip(rows) {
                let (feed_forward, mask) = (sigma(seed), control_mask(seed));
                let row = row.as_chunks_mut::<16>().0[span.clone()].iter_mut();
                for ((pad, word), out) in pads.iter().zip(&conversion.correction[span.clone()]).zip(row) {
                    let (pad, word) = (pad ^ feed_forward, word & mask);
                    *out = match conversion.group {
                        Group::Xor => pad ^ word,
                        Group::Add => add(pad, word),
                    }
                    .to_le_bytes();
                }
            }
        }
    }
    pads[..BATCH.min(blocks * seeds.len())].zeroize();
}

fn encrypt_only(rounds: u64) -> u128 {
    let mut states = [aes::Block::default(); BATCH];
    for (i, state) in states.iter_mut().enumerate() {
        state[0] = i as u8;
    }
    for _ in 0..rounds {
        CIPHERS[0].encrypt_blocks(&mut states);
    }
    states.iter().fold(0, |sum, state| sum ^ u128::from_le_bytes((*state).into()))
}

fn fill(memory: &mut [u8]) {
    memory.fill(0);
}
