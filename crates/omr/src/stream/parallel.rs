//! Detection as a linear scan, for any runner: a shard is a block of messages, and partial results are block results
//! side by side.

use std::borrow::Borrow;

use restante_bfv::ShortCiphertext;
use restante_clue::BoundClue;
use restante_ring::sample::Seed;
use restante_scan::{Runner, Scan};

use super::{Detector, PreparedKey, StreamDigest};
use crate::OmrError;

/// Detection for some keys over the clues of a range.
#[derive(Debug)]
pub struct DetectionScan<'a> {
    detector: &'a Detector,
    keys: Vec<&'a PreparedKey>,
    first: u64,
    count: usize,
    seed: Seed,
}

/// A block's place in the range, and its clues.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    index: usize,
    clues: &'a [BoundClue<'a>],
}

impl Block<'_> {
    /// The number of messages in the block.
    pub fn messages(&self) -> usize {
        self.clues.len()
    }
}

/// The results of some blocks: a pair of ciphertexts for each key.
#[derive(Debug, Default)]
pub struct Blocks(Vec<(usize, Vec<[ShortCiphertext; 2]>)>);

impl Detector {
    /// The scan that detects for `keys` in the messages `first ..` with these clues, and its shards.
    pub fn scan<'a, K: Borrow<PreparedKey>>(
        &'a self,
        keys: &'a [K],
        first: u64,
        clues: &'a [BoundClue<'a>],
        seed: &Seed,
    ) -> Result<(DetectionScan<'a>, Vec<Block<'a>>), OmrError> {
        let keys: Vec<&PreparedKey> = keys.iter().map(Borrow::borrow).collect();
        let blocks = self.blocks(&keys, first, clues)?.into_iter().enumerate();
        let shards = blocks.map(|(index, clues)| Block { index, clues }).collect();
        Ok((DetectionScan { detector: self, keys, first, count: clues.len(), seed: seed.clone() }, shards))
    }

    /// [`Detector::detect`] with a runner's threads. `finished` is told the size of each block that is done.
    pub fn detect_with<K: Borrow<PreparedKey>>(
        &self,
        runner: &Runner,
        keys: &[K],
        first: u64,
        clues: &[BoundClue<'_>],
        seed: &Seed,
        finished: impl Fn(usize) + Sync,
    ) -> Result<Vec<StreamDigest>, OmrError> {
        let (scan, shards) = self.scan(keys, first, clues, seed)?;
        runner.run(&scan, &shards, |block| finished(block.messages()))
    }
}

impl<'a> Scan for DetectionScan<'a> {
    type Shard = Block<'a>;
    type Partial = Blocks;
    type Answer = Vec<StreamDigest>;
    type Error = OmrError;

    fn empty(&self) -> Blocks {
        Blocks::default()
    }

    fn scan(&self, block: &Block<'a>) -> Result<Blocks, OmrError> {
        Ok(Blocks(vec![(
            block.index,
            self.detector.detect_block(&self.keys, block.index, block.clues, &self.seed),
        )]))
    }

    fn merge(&self, sum: &mut Blocks, partial: Blocks) {
        sum.0.extend(partial.0);
    }

    fn finish(&self, mut sum: Blocks) -> Vec<StreamDigest> {
        sum.0.sort_by_key(|(index, _)| *index);
        let blocks = sum.0.into_iter().map(|(_, block)| block).collect();
        self.detector.digests(&self.keys, self.first, self.count, &self.seed, blocks)
    }
}
