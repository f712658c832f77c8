//! Clues as the plaintexts of the product: transposed, one vector per diagonal.

use restante_clue::ClueParameters;
use restante_ring::{Backend, Unpacker};
use restante_wire::packed_bytes;

/// The places of a slot vector, and where each one's message and coefficients are.
#[derive(Debug)]
pub(super) struct Layout {
    /// For each place of an evaluation vector modulo t, its slot.
    slots: Vec<u32>,
    /// Slots in a row.
    columns: usize,
    clue: ClueParameters,
    /// Reads the coefficients of a'.
    coefficients: Unpacker,
    /// Reads the coordinates of b'.
    coordinates: Unpacker,
}

/// How many places are unpacked before they are transposed: a cache line of residues.
const GROUP: usize = 16;

impl Layout {
    /// `slot_places` as in [`restante_bfv::Encoder::slot_places`].
    pub(super) fn new(slot_places: &[u32], clue: ClueParameters, backend: Backend) -> Self {
        let mut slots = vec![0; slot_places.len()];
        for (slot, &place) in (0..).zip(slot_places) {
            slots[place as usize] = slot;
        }
        let (modulus, dropped) = (clue.modulus(), clue.dropped_bits());
        let bits = u32::BITS - modulus.leading_zeros();
        Self {
            columns: slots.len() / 2,
            slots,
            clue,
            coefficients: Unpacker::new(bits - dropped, dropped, modulus, backend),
            coordinates: Unpacker::new(bits, 0, modulus, backend),
        }
    }

    /// Fills row b with the evaluations modulo t of rot_(-shift)(D_(shift + b)).
    ///
    /// Place p stands for slot (r, i). There the vector is D_(shift + b) at slot (r, i - shift): the coefficient with index
    /// -(i + b) modulo n of the message in that slot. Messages that are missing count as zero.
    ///
    /// The coefficients of one place, for all b, are consecutive in their clue, in descending order. A group of places
    /// is unpacked into the lines of a small table and leaves it by its columns; the next group's clues, which lie far
    /// apart, are asked for in the meantime.
    pub(super) fn fill(&self, clues: &[&[u8]], shift: usize, rows: &mut [Vec<u32>]) {
        let (degree, steps) = (self.clue.degree(), rows.len());
        let mut table = vec![0; GROUP * steps];
        let source = |slot: u32| {
            let (row, column) = (slot as usize / self.columns, slot as usize % self.columns);
            let message = row * self.columns + (column + self.columns - shift) % self.columns;
            // The lowest index of the run, which may wrap around.
            let lowest = (2 * degree - column % degree - (steps - 1)) % degree;
            clues.get(message).map(|clue| (*clue, lowest))
        };
        for (group, places) in self.slots.chunks_exact(GROUP).enumerate() {
            let next = &self.slots[((group + 1) * GROUP).min(self.slots.len())..];
            for (clue, lowest) in next.iter().take(GROUP).filter_map(|&slot| source(slot)) {
                self.coefficients.prefetch(clue, lowest, steps);
            }
            for (line, &slot) in table.chunks_exact_mut(steps).zip(places) {
                match source(slot) {
                    Some((clue, lowest)) => {
                        let (straight, wrapped) = line.split_at_mut(steps.min(degree - lowest));
                        self.coefficients.unpack(clue, lowest, straight);
                        self.coefficients.unpack(clue, 0, wrapped);
                    }
                    None => line.fill(0),
                }
            }
            let first = group * GROUP;
            for (step, row) in rows.iter_mut().rev().enumerate() {
                let column: [u32; GROUP] = std::array::from_fn(|place| table[place * steps + step]);
                row[first..first + GROUP].copy_from_slice(&column);
            }
        }
    }

    /// The coefficient of a' with that index, of each message, in slots.
    pub(super) fn coefficients(&self, clues: &[&[u8]], index: usize) -> Vec<u32> {
        self.slots_of(clues, |clue| (&self.coefficients, clue, index))
    }

    /// The coordinate of b' with that index, of each message, in slots.
    pub(super) fn coordinates(&self, clues: &[&[u8]], index: usize) -> Vec<u32> {
        let bits = u32::BITS - self.clue.modulus().leading_zeros() - self.clue.dropped_bits();
        let start = packed_bytes(self.clue.degree(), bits);
        self.slots_of(clues, |clue| (&self.coordinates, &clue[start..], index))
    }

    fn slots_of<'a>(
        &self,
        clues: &[&'a [u8]],
        source: impl Fn(&'a [u8]) -> (&Unpacker, &'a [u8], usize),
    ) -> Vec<u32> {
        let mut slots = vec![0; self.slots.len()];
        for (slot, clue) in slots.iter_mut().zip(clues) {
            let (unpacker, bytes, index) = source(clue);
            unpacker.unpack(bytes, index, std::slice::from_mut(slot));
        }
        slots
    }
}
