//! The same function on a binary tree, evaluated the same way, to show what the ternary tree buys.
//!
//! One AES call for two children in the half-tree variant (Guo et al., ePrint 2022/1431), two in the plain one; leaves of
//! eight blocks; depth-first in batches; the AES of the `aes` crate, as in the scalar back end of `restante-dpf`, which is what it
//! is to be compared with. Only the time matters here, so keys are arbitrary.

use std::sync::LazyLock;

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use bytemuck::cast_slice_mut;

const BATCH: usize = 120;
const LEAF_BLOCKS: usize = 8;

static CIPHERS: LazyLock<[Aes128; 3]> =
    LazyLock::new(|| [1, 2, 3].map(|byte| Aes128::new(&[byte; 16].into())));

/// A key of a binary tree: a seed, a pair of correction words per level, the output's correction word.
pub struct BinaryKey {
    pub half_tree: bool,
    pub seed: u128,
    pub levels: Vec<[u128; 2]>,
    pub output_word: [u128; LEAF_BLOCKS],
}

impl BinaryKey {
    /// The outputs of all leaves, a batch at a time.
    pub fn blocks(&self, leaves: usize, consumer: &mut dyn FnMut(&[u128])) {
        let mut buffers = vec![vec![0; 2 * BATCH]; self.levels.len()];
        let mut out = vec![0; BATCH * LEAF_BLOCKS];
        self.descend(0, &[self.seed], leaves, &mut buffers, &mut out, consumer);
    }

    fn descend(
        &self,
        first: usize,
        nodes: &[u128],
        leaves: usize,
        buffers: &mut [Vec<u128>],
        out: &mut [u128],
        consumer: &mut dyn FnMut(&[u128]),
    ) {
        let Some((children, below)) = buffers.split_first_mut() else {
            return nodes.chunks(BATCH).for_each(|seeds| self.convert(seeds, out, consumer));
        };
        let [left, right] = self.levels[self.levels.len() - below.len() - 1];
        // How many of the children lead to leaves that are wanted.
        let wanted = leaves.div_ceil(1 << below.len());
        for (batch, parents) in nodes.chunks(BATCH).enumerate() {
            let mut hashes = [[0; BATCH]; 2];
            for (key, hash) in hashes.iter_mut().enumerate().take(if self.half_tree { 1 } else { 2 }) {
                let hash = &mut hash[..parents.len()];
                hash.iter_mut().zip(parents).for_each(|(hash, &parent)| *hash = sigma(parent));
                encrypt(key, hash);
                hash.iter_mut().zip(parents).for_each(|(hash, &parent)| *hash ^= sigma(parent));
            }
            for (i, (&parent, children)) in parents.iter().zip(children.as_chunks_mut::<2>().0).enumerate() {
                let mask = mask(parent);
                let second = if self.half_tree { hashes[0][i] ^ parent } else { hashes[1][i] };
                *children = [hashes[0][i] ^ (mask & left), second ^ (mask & right)];
            }
            let first_child = 2 * (first + batch * BATCH);
            let count = (2 * parents.len()).min(wanted.saturating_sub(first_child));
            self.descend(first_child, &children[..count], leaves, below, out, consumer);
        }
    }

    fn convert(&self, seeds: &[u128], out: &mut [u128], consumer: &mut dyn FnMut(&[u128])) {
        let out = &mut out[..seeds.len() * LEAF_BLOCKS];
        for (row, &seed) in out.as_chunks_mut::<LEAF_BLOCKS>().0.iter_mut().zip(seeds) {
            row.iter_mut().zip(0..).for_each(|(block, j)| *block = sigma(seed ^ j));
        }
        out.chunks_mut(BATCH).for_each(|blocks| encrypt(2, blocks));
        for (row, &seed) in out.as_chunks_mut::<LEAF_BLOCKS>().0.iter_mut().zip(seeds) {
            let words = row.iter_mut().zip(self.output_word);
            words.for_each(|(block, word)| *block ^= sigma(seed) ^ (mask(seed) & word));
        }
        consumer(out);
    }
}

fn encrypt(key: usize, blocks: &mut [u128]) {
    blocks.iter_mut().for_each(|block| *block = block.to_le());
    CIPHERS[key].encrypt_blocks(Array::cast_slice_from_core_mut(cast_slice_mut::<u128, [u8; 16]>(blocks)));
    blocks.iter_mut().for_each(|block| *block = u128::from_le(*block));
}

fn sigma(block: u128) -> u128 {
    (block << 64 ^ block & u128::MAX << 64) | block >> 64
}

fn mask(block: u128) -> u128 {
    (block.cast_signed() >> 127).cast_unsigned()
}
