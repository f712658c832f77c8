//! The operations that a back end provides to the shared loops: registers of residues, the butterflies on them, and sums of products.

use crate::{Modulus, Multiplier, Word};

/// Registers of residues modulo one prime, in whatever form the back end computes with.
///
/// Between the passes of a transform a register may hold any representative in a range that the implementor chooses:
/// the two stages of `forward4` and of `inverse4` keep such a range, and the comments at the implementations prove it.
///
/// # Safety
///
/// For all methods: the processor has the instructions of the back end; pointers are to as many words as a register,
/// a root or a record takes. Implementations are `#[inline(always)]`, so that they are compiled for those
/// instructions inside the kernels.
pub(super) trait Lanes: Copy {
    type Word: Word;
    type Vector: Copy;
    /// Roots of unity, one per lane, with what makes multiplication by them cheap.
    type Root: Copy;

    /// Residues in a register.
    const LANES: usize;
    /// log2 of `LANES`: the number of stages whose butterflies combine lanes of one register.
    const LEVELS: usize = Self::LANES.ilog2() as usize;
    /// Words that one root takes in a table.
    const ROOT_WORDS: usize;
    /// Whether records of roots hold one root per lane at every level; see [`super::ntt`].
    const IS_EXPANDED: bool;

    /// The constants for one prime.
    unsafe fn new(modulus: &Modulus<Self::Word>) -> Self;

    /// A root as tables hold it; only the first `ROOT_WORDS` words count.
    fn encode(modulus: &Modulus<Self::Word>, root: Multiplier<Self::Word>) -> [Self::Word; 2];
    /// One root for all lanes.
    unsafe fn root(self, from: *const Self::Word) -> Self::Root;
    /// The roots for the stage `level` of a pair of registers; see [`super::ntt`] for the layout of a record.
    unsafe fn record_roots<const LEVEL: usize>(self, record: *const Self::Word) -> Self::Root;

    /// Loads what `store` stored.
    unsafe fn load(self, from: *const Self::Word) -> Self::Vector;
    unsafe fn store(self, to: *mut Self::Word, values: Self::Vector);
    /// Loads residues in [0, q).
    unsafe fn load_residues(self, from: *const Self::Word) -> Self::Vector;
    /// Stores as residues in [0, q) what the last stage of a transform has left.
    unsafe fn store_residues(self, to: *mut Self::Word, values: Self::Vector);

    /// Brings elements LANES/2^(LEVEL+1) apart into the same lane of the two registers.
    unsafe fn exchange<const LEVEL: usize>(
        self,
        x: Self::Vector,
        y: Self::Vector,
    ) -> (Self::Vector, Self::Vector);
    /// Undoes `exchange`.
    unsafe fn restore<const LEVEL: usize>(
        self,
        x: Self::Vector,
        y: Self::Vector,
    ) -> (Self::Vector, Self::Vector);

    /// (x + w y, x - w y). `LEFT` stages of lanes follow.
    unsafe fn forward2<const LEFT: usize>(
        self,
        x: Self::Vector,
        y: Self::Vector,
        root: Self::Root,
    ) -> (Self::Vector, Self::Vector);
    /// The first of two stages on registers a quarter of a block apart, with the root of the block.
    unsafe fn forward4_first(self, values: [Self::Vector; 4], root: Self::Root) -> [Self::Vector; 4];
    /// The second one, with the roots of the block's halves.
    unsafe fn forward4_second(self, values: [Self::Vector; 4], roots: [Self::Root; 2]) -> [Self::Vector; 4];
    /// (x + y, (x - y) w). `DONE` stages of lanes went before.
    unsafe fn inverse2<const DONE: usize>(
        self,
        x: Self::Vector,
        y: Self::Vector,
        root: Self::Root,
    ) -> (Self::Vector, Self::Vector);
    /// Undoes `forward4_second`, up to a factor of 2.
    unsafe fn inverse4_first(self, values: [Self::Vector; 4], roots: [Self::Root; 2]) -> [Self::Vector; 4];
    /// Undoes `forward4_first`, up to a factor of 2.
    unsafe fn inverse4_second(self, values: [Self::Vector; 4], root: Self::Root) -> [Self::Vector; 4];
    /// The same as the last stage of a transform: the sums are multiplied by `scale`, as the root has been already.
    unsafe fn inverse4_last(
        self,
        values: [Self::Vector; 4],
        root: Self::Root,
        scale: Self::Root,
    ) -> [Self::Vector; 4];

    /// The rest works on residues in [0, q), a register at a time, in place: a += b.
    unsafe fn add(self, a: *mut Self::Word, b: *const Self::Word);
    /// a -= b.
    unsafe fn sub(self, a: *mut Self::Word, b: *const Self::Word);
    /// a *= b.
    unsafe fn mul(self, a: *mut Self::Word, b: *const Self::Word);
    /// a += b c.
    unsafe fn mul_add(self, a: *mut Self::Word, b: *const Self::Word, c: *const Self::Word);
    /// a *= w.
    unsafe fn scale(self, a: *mut Self::Word, factor: Self::Root);
}

/// Sums of many products, kept in registers and reduced rarely.
///
/// # Safety
///
/// As for [`Lanes`].
pub(super) trait Sums: Copy {
    type Word: Word;
    /// A register of factors that meet several columns.
    type Plain: Copy;
    /// The sums that belong to one register of residues.
    type Sum: Copy;

    /// Residues in a register.
    const LANES: usize;

    /// The constants for one prime; all factors `b` of `add` are at most `largest`.
    unsafe fn new(modulus: &Modulus<Self::Word>, largest: u64) -> Self;
    /// The most products that may be added between two calls of `fold`.
    fn period(&self) -> usize;
    unsafe fn plain(self, from: *const Self::Word) -> Self::Plain;
    /// One factor for all lanes.
    unsafe fn weight(self, factor: Self::Word) -> Self::Plain;
    unsafe fn zero(self) -> Self::Sum;
    /// sum + a b.
    unsafe fn add(self, sum: Self::Sum, a: Self::Plain, b: *const Self::Word) -> Self::Sum;
    /// Makes room for further products, after `terms` of them.
    unsafe fn fold(self, sum: Self::Sum, terms: usize) -> Self::Sum;
    /// Stores the residues in [0, q) of a folded sum.
    unsafe fn finish(self, to: *mut Self::Word, sum: Self::Sum);
}
