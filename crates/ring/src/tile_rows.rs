//! Rows of tiles as kernels see them.

use crate::Word;

/// Consecutive rows of some [`crate::Tiles`].
#[derive(Debug, Clone, Copy)]
pub struct TileRows<'a, W> {
    /// The whole storage.
    pub(crate) data: &'a [W],
    /// Distance between the same row's lines in consecutive tiles, in residues.
    pub(crate) stride: usize,
    /// Where the first row's line starts in each tile, in residues.
    pub(crate) first: usize,
    /// Number of rows.
    pub(crate) rows: usize,
}

impl<'a, W: Word> TileRows<'a, W> {
    pub(crate) const WIDTH: usize = 64 / size_of::<W>();

    /// Number of rows.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only vector back ends use it"))]
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// One cache line of each row, contiguous: the residues at places `tile * WIDTH` to `(tile + 1) * WIDTH`.
    #[inline(always)]
    pub(crate) fn tile(&self, tile: usize) -> &'a [W] {
        let start = tile * self.stride + self.first;
        &self.data[start..start + self.rows * Self::WIDTH]
    }
}
