//! Rows in pairs, as the three factors of each product: how [`crate::correlate`] keeps them in memory.

use crate::buffer::Buffer;

/// Places that a [`ChunkMap`](crate::ChunkMap) keeps together.
pub(crate) const CHUNK: usize = 32;
/// Residues in a cache line.
pub(crate) const LINE: usize = 16;
/// Factors of a pair: those of each product.
pub(crate) const PLANES: usize = 3;

/// Matrices of plain rows in pairs, modulo one prime below 2^30.
#[derive(Debug, Clone)]
pub struct PlainPairs {
    /// The pairs that there is room for, and those that each matrix has.
    pub(crate) pairs: usize,
    pub(crate) used: Vec<usize>,
    /// For each cache line of places, each matrix and each plane, the line of each pair: signed residues.
    pub(crate) data: Buffer<u32>,
}

impl PlainPairs {
    /// `matrices` matrices without rows, with room for `pairs` pairs each.
    pub fn new(matrices: usize, pairs: usize, degree: usize) -> Self {
        assert!(degree.is_multiple_of(CHUNK), "chunks of {CHUNK} places");
        let data = Buffer::any(matrices * PLANES * pairs * degree);
        Self { pairs, used: vec![0; matrices], data }
    }

    /// The memory that so many matrices take.
    pub fn bytes(matrices: usize, pairs: usize, degree: usize) -> usize {
        matrices * PLANES * pairs * degree * size_of::<u32>()
    }

    /// Number of matrices.
    pub fn matrices(&self) -> usize {
        self.used.len()
    }

    /// Words between the same lines of consecutive tiles.
    pub(crate) fn stride(&self) -> usize {
        self.used.len() * PLANES * self.pairs * LINE
    }
}

/// Encrypted rows, for as many pairs of plain rows, modulo one prime below 2^30.
#[derive(Debug, Clone)]
pub struct EncryptedPairs {
    pub(crate) pairs: usize,
    pub(crate) degree: usize,
    /// For each cache line of places and each plane, the line of each pair: signed residues.
    pub(crate) data: Buffer<u32>,
}

impl EncryptedPairs {
    /// The memory that the rows for so many pairs take.
    pub fn bytes(pairs: usize, degree: usize) -> usize {
        PLANES * pairs * degree * size_of::<u32>()
    }
}
