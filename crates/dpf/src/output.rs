//! The groups that a distributed point function maps into.

use std::fmt::Debug;

use bytemuck::Pod;
use subtle::{ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroize;

use crate::DpfError;

/// How shares combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Bit strings under XOR.
    Xor,
    /// Vectors of integers modulo 2^64, little-endian.
    Add,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Bits {}
    impl Sealed for super::Bytes {}
    impl Sealed for super::Integers {}
}

/// An output group: [`Bits`], [`Bytes`] or [`Integers`].
pub trait Output: sealed::Sealed + Copy + Eq + Debug + Send + Sync + 'static {
    /// The value at the secret point.
    type Message: ?Sized;
    /// The type of the shares of consecutive points.
    type Element: Pod + Default + Zeroize + Send + Sync;

    /// The size up to which outcomes are packed into one leaf: eight AES blocks. The tree above then costs an eighth
    /// of the leaves in the half-tree variant, and a key grows by no more than the levels that it saves.
    const LEAF_BYTES: usize = 128;

    #[doc(hidden)]
    const KIND: u8;
    #[doc(hidden)]
    const NAME: &'static str;

    #[doc(hidden)]
    fn message_bytes(&self) -> u32;
    #[doc(hidden)]
    fn with_message_bytes(message_bytes: u32) -> Option<Self>;
    #[doc(hidden)]
    fn is_additive() -> bool;
    #[doc(hidden)]
    fn outcomes_per_leaf_log2(&self) -> u32;
    #[doc(hidden)]
    fn outcome_bytes(&self, outcomes_log2: u32) -> usize;
    #[doc(hidden)]
    fn check_message(&self, message: &Self::Message) -> Result<(), DpfError>;
    /// Writes `message` at `slot` of an all-zero leaf, in time that depends on neither.
    #[doc(hidden)]
    fn place(&self, message: &Self::Message, slot: u64, leaf: &mut [u8]);

    #[doc(hidden)]
    fn starts_on_element(point: u64) -> bool;
    /// The number of elements that `points` outcomes fill.
    #[doc(hidden)]
    fn elements(&self, points: u64) -> u128;
    /// Turns elements whose memory holds little-endian bytes into numbers of this CPU.
    #[doc(hidden)]
    fn from_little_endian(_elements: &mut [Self::Element]) {}
    /// Takes the outcome at `slot` out of a leaf.
    #[doc(hidden)]
    fn read_outcome(&self, leaf: &[Self::Element], slot: u64, out: &mut [Self::Element]) {
        out.copy_from_slice(&leaf[slot as usize * out.len()..][..out.len()]);
    }
    /// Clears what the last element of a range that ends before point `end` holds beyond it.
    #[doc(hidden)]
    fn clear_beyond(_end: u64, _last: &mut Self::Element) {}
}

pub(crate) fn group<O: Output>() -> Group {
    if O::is_additive() { Group::Add } else { Group::Xor }
}

/// One bit per point, XOR-shared, packed eight to a byte, least significant bit first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bits;

impl Output for Bits {
    type Message = bool;
    type Element = u8;

    const KIND: u8 = 0;
    const NAME: &'static str = "DPF key with bit outputs";

    fn message_bytes(&self) -> u32 {
        0
    }

    fn with_message_bytes(message_bytes: u32) -> Option<Self> {
        (message_bytes == 0).then_some(Self)
    }

    fn is_additive() -> bool {
        false
    }

    fn outcomes_per_leaf_log2(&self) -> u32 {
        (Self::LEAF_BYTES * 8).ilog2()
    }

    fn outcome_bytes(&self, outcomes_log2: u32) -> usize {
        (1usize << outcomes_log2).div_ceil(8)
    }

    fn check_message(&self, _message: &bool) -> Result<(), DpfError> {
        Ok(())
    }

    fn place(&self, message: &bool, slot: u64, leaf: &mut [u8]) {
        let bit = u8::from(*message) << (slot & 7);
        for (index, byte) in (0u64..).zip(leaf) {
            byte.conditional_assign(&bit, index.ct_eq(&(slot >> 3)));
        }
    }

    fn starts_on_element(point: u64) -> bool {
        point.is_multiple_of(8)
    }

    fn elements(&self, points: u64) -> u128 {
        points.div_ceil(8).into()
    }

    fn read_outcome(&self, leaf: &[u8], slot: u64, out: &mut [u8]) {
        out[0] = leaf[(slot / 8) as usize] >> (slot % 8) & 1;
    }

    fn clear_beyond(end: u64, last: &mut u8) {
        if !end.is_multiple_of(8) {
            *last &= (1 << (end % 8)) - 1;
        }
    }
}

/// A byte string of the given length per point, XOR-shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bytes(
    /// The length of the message, in bytes. It may be zero.
    pub u32,
);

impl Output for Bytes {
    type Message = [u8];
    type Element = u8;

    const KIND: u8 = 1;
    const NAME: &'static str = "DPF key with byte string outputs";

    fn message_bytes(&self) -> u32 {
        self.0
    }

    fn with_message_bytes(message_bytes: u32) -> Option<Self> {
        Some(Self(message_bytes))
    }

    fn is_additive() -> bool {
        false
    }

    fn outcomes_per_leaf_log2(&self) -> u32 {
        match Self::LEAF_BYTES.checked_div(self.0 as usize) {
            None | Some(0) => 0,
            Some(fit) => fit.ilog2(),
        }
    }

    fn outcome_bytes(&self, outcomes_log2: u32) -> usize {
        (self.0 as usize) << outcomes_log2
    }

    fn check_message(&self, message: &[u8]) -> Result<(), DpfError> {
        if message.len() == self.0 as usize {
            Ok(())
        } else {
            Err(DpfError::MessageLength { found: message.len(), expected: self.0 as usize })
        }
    }

    fn place(&self, message: &[u8], slot: u64, leaf: &mut [u8]) {
        if message.is_empty() {
            return;
        }
        for (index, outcome) in (0u64..).zip(leaf.chunks_exact_mut(message.len())) {
            let chosen = index.ct_eq(&slot);
            for (byte, value) in outcome.iter_mut().zip(message) {
                byte.conditional_assign(value, chosen);
            }
        }
    }

    fn starts_on_element(_point: u64) -> bool {
        true
    }

    fn elements(&self, points: u64) -> u128 {
        u128::from(points) * u128::from(self.0)
    }
}

/// One integer modulo 2^64 per point; the parties' shares add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Integers;

impl Output for Integers {
    type Message = u64;
    type Element = u64;

    const KIND: u8 = 2;
    const NAME: &'static str = "DPF key with integer outputs";

    fn message_bytes(&self) -> u32 {
        8
    }

    fn with_message_bytes(message_bytes: u32) -> Option<Self> {
        (message_bytes == 8).then_some(Self)
    }

    fn is_additive() -> bool {
        true
    }

    fn outcomes_per_leaf_log2(&self) -> u32 {
        (Self::LEAF_BYTES / 8).ilog2()
    }

    fn outcome_bytes(&self, outcomes_log2: u32) -> usize {
        8 << outcomes_log2
    }

    fn check_message(&self, _message: &u64) -> Result<(), DpfError> {
        Ok(())
    }

    fn place(&self, message: &u64, slot: u64, leaf: &mut [u8]) {
        Bytes(8).place(&message.to_le_bytes(), slot, leaf);
    }

    fn starts_on_element(_point: u64) -> bool {
        true
    }

    fn elements(&self, points: u64) -> u128 {
        points.into()
    }

    fn from_little_endian(elements: &mut [u64]) {
        for element in elements {
            *element = u64::from_le(*element);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_lands_in_its_slot_and_nowhere_else() {
        let mut leaf = [0; 16];
        Bits.place(&true, 77, &mut leaf);
        assert_eq!(u128::from_le_bytes(leaf), 1 << 77);
        let mut leaf = [0; 12];
        Bytes(3).place(b"abc", 2, &mut leaf);
        assert_eq!(&leaf, b"\0\0\0\0\0\0abc\0\0\0");
        let mut leaf = [0; 32];
        Integers.place(&(u64::MAX - 1), 3, &mut leaf);
        assert_eq!(leaf[..24], [0; 24]);
        assert_eq!(leaf[24..], (u64::MAX - 1).to_le_bytes());
    }

    #[test]
    fn as_many_outcomes_as_fit_share_a_leaf() {
        for (message_bytes, outcomes_log2) in
            [(0, 0), (1, 7), (15, 3), (16, 3), (17, 2), (32, 2), (33, 1), (64, 1), (65, 0), (4096, 0)]
        {
            assert_eq!(Bytes(message_bytes).outcomes_per_leaf_log2(), outcomes_log2, "{message_bytes}");
        }
    }
}
