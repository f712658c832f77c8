//! Without SIMD of our own: the `aes` crate's constant-time software AES, or what that crate detects.

use std::sync::LazyLock;

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use zeroize::Zeroize;

use super::{Conversion, Operations};
use crate::Variant;
use crate::hash::{FIXED_KEYS, OUTPUT_KEY, control_mask, sigma};
use crate::output::Group;

pub(super) static OPERATIONS: Operations =
    Operations { name: "portable", expand, convert, encrypt_only_blocks: BATCH, encrypt_only, fill };

/// Blocks that go through the cipher at once: a multiple of 30 and of 8, the batches of the `aes` crate's back ends.
const BATCH: usize = 120;

static CIPHERS: LazyLock<[Aes128; 4]> = LazyLock::new(|| FIXED_KEYS.map(|key| Aes128::new(&key.into())));

/// `AES_K(x)` on every block.
fn encrypt(key: usize, blocks: &mut [u128]) {
    let mut states = [aes::Block::default(); BATCH];
    for batch in blocks.chunks_mut(BATCH) {
        let states = &mut states[..batch.len()];
        for (state, block) in states.iter_mut().zip(&*batch) {
            *state = block.to_le_bytes().into();
        }
        CIPHERS[key].encrypt_blocks(states);
        for (state, block) in states.iter().zip(batch) {
            *block = u128::from_le_bytes((*state).into());
        }
    }
    states.iter_mut().for_each(|state| state.0.zeroize());
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
    hashes.zeroize();
}

fn convert(conversion: &Conversion, seeds: &[u128], out: &mut [u8], _stream: bool) {
    let row_bytes = conversion.row_bytes();
    assert_eq!(out.len(), seeds.len() * row_bytes);
    if row_bytes == 0 {
        return;
    }
    let negate = u64::from(conversion.negate).wrapping_neg();
    // All blocks of all leaves in order, so that the cipher gets full batches however short a leaf is.
    let places = seeds.iter().zip(out.chunks_exact_mut(row_bytes)).flat_map(|(&seed, row)| {
        row.as_chunks_mut::<16>()
            .0
            .iter_mut()
            .take(conversion.blocks)
            .zip(0..)
            .map(move |(out, j)| (seed, j, out))
    });
    let mut pads = [0; BATCH];
    let mut pending: Vec<(u128, usize, &mut [u8; 16])> = Vec::with_capacity(BATCH);
    let mut finish = |pending: &mut Vec<(u128, usize, &mut [u8; 16])>| {
        let pads = &mut pads[..pending.len()];
        for (pad, (seed, j, _)) in pads.iter_mut().zip(&*pending) {
            *pad = sigma(*seed) ^ conversion.tweaks[*j];
        }
        encrypt(OUTPUT_KEY, pads);
        for (pad, (seed, j, out)) in pads.iter_mut().zip(pending.drain(..)) {
            *pad ^= sigma(seed);
            let word = conversion.correction[j] & control_mask(seed);
            *out = match conversion.group {
                Group::Xor => *pad ^ word,
                Group::Add => {
                    let lane = |shift: u32| {
                        let sum = ((*pad >> shift) as u64).wrapping_add((word >> shift) as u64);
                        u128::from((sum ^ negate).wrapping_sub(negate)) << shift
                    };
                    lane(0) | lane(64)
                }
            }
            .to_le_bytes();
            pad.zeroize();
        }
    };
    for place in places {
        pending.push(place);
        if pending.len() == BATCH {
            finish(&mut pending);
        }
    }
    finish(&mut pending);
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
