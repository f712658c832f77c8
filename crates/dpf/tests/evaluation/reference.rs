//! The scheme as `docs/fetch.md` defines it, from the serialised key on: one path at a time, bytes instead of integers,
//! nothing shared with the crate.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

type Block = [u8; 16];

pub struct Key<'a> {
    party: u8,
    half_tree: bool,
    kind: u8,
    message_bytes: usize,
    outcomes_per_leaf: u64,
    depth: usize,
    seed: Block,
    words: &'a [u8],
    third_bits: &'a [u8],
    output_word: &'a [u8],
}

impl<'a> Key<'a> {
    pub fn parse(bytes: &'a [u8]) -> Self {
        assert_eq!(bytes[0], 1);
        let number = |range: std::ops::Range<usize>| {
            bytes[range].iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte))
        };
        let (kind, message_bytes, domain) = (bytes[3], number(4..8), number(8..16));
        let fits = match kind {
            0 => 1024,
            _ => 128u64.checked_div(message_bytes).unwrap_or(1).max(1),
        };
        let mut outcomes_per_leaf = 1;
        while outcomes_per_leaf * 2 <= fits && outcomes_per_leaf < domain {
            outcomes_per_leaf *= 2;
        }
        let leaves = u128::from(domain.div_ceil(outcomes_per_leaf));
        let depth = (0..).find(|&depth| 3u128.pow(depth) >= leaves).unwrap() as usize;
        let half_tree = bytes[2] == 1;
        let (words, rest) = bytes[32..].split_at(32 * depth);
        let (third_bits, output_word) = rest.split_at(if half_tree { 0 } else { depth.div_ceil(8) });
        Self {
            party: bytes[1],
            half_tree,
            kind,
            message_bytes: message_bytes as usize,
            outcomes_per_leaf,
            depth,
            seed: bytes[16..32].try_into().unwrap(),
            words,
            third_bits,
            output_word,
        }
    }

    pub fn leaf_seed(&self, leaf: u64) -> Block {
        let mut seed = self.seed;
        for level in 0..self.depth {
            let trit = leaf / 3u64.pow((self.depth - 1 - level) as u32) % 3;
            let words = [&self.words[32 * level..][..16], &self.words[32 * level + 16..][..16]];
            let mut third = [0; 16];
            (0..16).for_each(|i| third[i] = words[0][i] ^ words[1][i]);
            if !self.half_tree {
                let bit = self.third_bits[level / 8] >> (level % 8) & 1;
                third[15] = third[15] & 0x7f | bit << 7;
            }
            let word = [words[0], words[1], &third][trit as usize];
            let mut child = match (trit, self.half_tree) {
                (2, true) => xor(&xor(&hash(0, &seed), &hash(1, &seed)), &seed),
                (trit, _) => hash(trit as usize, &seed),
            };
            if seed[15] >= 0x80 {
                child = xor(&child, word);
            }
            seed = child;
        }
        seed
    }

    /// The share of the whole leaf.
    fn leaf(&self, leaf: u64) -> Vec<u8> {
        let seed = self.leaf_seed(leaf);
        let mut pad = Vec::new();
        for j in 0..self.output_word.len().div_ceil(16) {
            let mut counter = [0; 16];
            counter[..8].copy_from_slice(&(j as u64).to_le_bytes());
            pad.extend(xor(&hash(3, &xor(&seed, &counter)), &sigma(&counter)));
        }
        let applies = seed[15] >= 0x80;
        if self.kind == 2 {
            let integers = pad.chunks_exact(8).zip(self.output_word.chunks_exact(8));
            return integers
                .flat_map(|(pad, word)| {
                    let [pad, word] = [pad, word].map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
                    let sum = pad.wrapping_add(if applies { word } else { 0 });
                    if self.party == 1 { sum.wrapping_neg() } else { sum }.to_le_bytes()
                })
                .collect();
        }
        pad.iter().zip(self.output_word).map(|(pad, word)| pad ^ if applies { *word } else { 0 }).collect()
    }

    /// The share of one outcome, as bytes; a bit is a byte of 0 or 1.
    pub fn outcome(&self, point: u64) -> Vec<u8> {
        let leaf = self.leaf(point / self.outcomes_per_leaf);
        let slot = (point % self.outcomes_per_leaf) as usize;
        match self.kind {
            0 => vec![leaf[slot / 8] >> (slot % 8) & 1],
            _ => leaf[slot * self.message_bytes..][..self.message_bytes].to_vec(),
        }
    }
}

fn hash(index: usize, block: &Block) -> Block {
    let name = ["child 0", "child 1", "child 2", "output"][index];
    let derivation = format!("restante dpf v1: fixed AES-128 key, {name}");
    let key: Block = blake3::hash(derivation.as_bytes()).as_bytes()[..16].try_into().unwrap();
    let input = sigma(block);
    let mut state = input.into();
    Aes128::new(&key.into()).encrypt_block(&mut state);
    xor(&state.0, &input)
}

/// Bytes 8 to 15 are the left half.
fn sigma(block: &Block) -> Block {
    std::array::from_fn(|i| if i < 8 { block[i + 8] } else { block[i] ^ block[i - 8] })
}

fn xor(a: &[u8], b: &[u8]) -> Block {
    std::array::from_fn(|i| a[i] ^ b[i])
}
