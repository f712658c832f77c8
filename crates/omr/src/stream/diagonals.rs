//! Clues as the plaintexts of the product: transposed, one vector per diagonal.

use restante_clue::ClueParameters;

/// The places of a slot vector, and where each one's message and coefficients are.
#[derive(Debug)]
pub(super) struct Layout {
    /// For each place of an evaluation vector modulo t, its slot.
    slots: Vec<u32>,
    /// Slots in a row.
    columns: usize,
    clue: ClueParameters,
    stored_bits: usize,
}

/// How many places are unpacked before they are transposed: a cache line of residues.
const GROUP: usize = 16;

impl Layout {
    /// `slot_places` as in [`restante_bfv::Encoder::slot_places`].
    pub(super) fn new(slot_places: &[u32], clue: ClueParameters) -> Self {
        let mut slots = vec![0; slot_places.len()];
        for (slot, &place) in (0..).zip(slot_places) {
            slots[place as usize] = slot;
        }
        let modulus_bits = u32::BITS - clue.modulus().leading_zeros();
        let stored_bits = (modulus_bits - clue.dropped_bits()) as usize;
        Self { columns: slots.len() / 2, slots, clue, stored_bits }
    }

    /// Fills row b with the evaluations modulo t of rot_(-shift)(D_(shift + b)).
    ///
    /// Place p stands for slot (r, i). There the vector is D_(shift + b) at slot (r, i - shift): the coefficient with index
    /// -(i + b) modulo n of the message in that slot. Messages that are missing count as zero.
    pub(super) fn fill(&self, clues: &[&[u8]], shift: usize, rows: &mut [Vec<u32>]) {
        let degree = self.clue.degree();
        let steps = rows.len();
        let mut group = vec![[0u32; GROUP]; steps];
        for first in (0..self.slots.len()).step_by(GROUP) {
            for lane in 0..GROUP {
                let slot = self.slots[first + lane] as usize;
                let (row, column) = (slot / self.columns, slot % self.columns);
                let message = row * self.columns + (column + self.columns - shift) % self.columns;
                match clues.get(message) {
                    Some(clue) => {
                        let mut index = (2 * degree - column % degree) % degree;
                        for value in group.iter_mut() {
                            value[lane] = self.coefficient(clue, index);
                            index = (index + degree - 1) % degree;
                        }
                    }
                    None => group.iter_mut().for_each(|value| value[lane] = 0),
                }
            }
            for (row, values) in rows.iter_mut().zip(&group) {
                row[first..first + GROUP].copy_from_slice(values);
            }
        }
    }

    /// The coefficient of a' with that index, of each message, in slots.
    pub(super) fn coefficients(&self, clues: &[&[u8]], index: usize) -> Vec<u32> {
        self.slots_of(clues, |clue| self.coefficient(clue, index))
    }

    /// The coordinate of b' with that index, of each message, in slots.
    pub(super) fn coordinates(&self, clues: &[&[u8]], index: usize) -> Vec<u32> {
        let bits = self.stored_bits + self.clue.dropped_bits() as usize;
        let start = (self.clue.degree() * self.stored_bits).div_ceil(8);
        self.slots_of(clues, |clue| self.residue(bits_at(&clue[start..], index * bits, bits)))
    }

    fn slots_of(&self, clues: &[&[u8]], value: impl Fn(&[u8]) -> u32) -> Vec<u32> {
        let mut slots: Vec<u32> = clues.iter().map(|clue| value(clue)).collect();
        slots.resize(self.slots.len(), 0);
        slots
    }

    #[inline(always)]
    fn coefficient(&self, clue: &[u8], index: usize) -> u32 {
        let stored = bits_at(clue, index * self.stored_bits, self.stored_bits);
        self.residue(stored << self.clue.dropped_bits())
    }

    /// A board takes well-formed clues only. Should another one have got there, it counts as some clue or other, and
    /// does no harm.
    #[inline(always)]
    fn residue(&self, value: u32) -> u32 {
        value.min(value.wrapping_sub(self.clue.modulus()))
    }
}

/// `width` bits, at most 24, from bit `start` on; bits past the end are zero.
#[inline(always)]
fn bits_at(bytes: &[u8], start: usize, width: usize) -> u32 {
    let (byte, shift) = (start / 8, start % 8);
    let word = match bytes.get(byte..byte + 4) {
        Some(word) => u32::from_le_bytes([word[0], word[1], word[2], word[3]]),
        None => bytes[byte..].iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)),
    };
    word >> shift & ((1 << width) - 1)
}
