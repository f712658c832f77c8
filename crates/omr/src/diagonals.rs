//! Clues as the plaintexts of the product: transposed, one vector per diagonal.

use restante_clue::ClueParameters;
use restante_ring::{Backend, Multiplier, RingError, Unpacker, transpose_lines};
use restante_wire::packed_bytes;

/// The places of a slot vector, and where each one's message and coefficients are.
#[derive(Debug)]
pub(crate) struct Layout {
    /// For each place of an evaluation vector modulo t, what it stands for.
    places: Vec<Place>,
    /// Slots in a row, a power of two.
    columns: usize,
    /// Number of consecutive coefficients that are read for a place.
    steps: usize,
    clue: ClueParameters,
    backend: Backend,
    /// Reads the coefficients of a'.
    coefficients: Unpacker,
    /// Reads the coordinates of b'.
    coordinates: Unpacker,
}

/// The slot that a place stands for.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// The first slot of its row.
    row: u32,
    /// Its column.
    column: u32,
    /// The lowest index of its run of coefficients, which may wrap around.
    lowest: u32,
}

/// The clues of a block, and what each is multiplied by.
#[derive(Debug)]
pub(crate) struct Clues<'a> {
    /// One for each slot, or none.
    pub(crate) bytes: Vec<Option<&'a [u8]>>,
    /// One for each slot.
    pub(crate) factors: Vec<Multiplier<u32>>,
}

/// How many places are unpacked before they are transposed: a cache line of residues.
const GROUP: usize = 16;

impl Layout {
    /// `slot_places` as in [`restante_bfv::Encoder::slot_places`]; `steps` is the number of rows that [`Layout::fill`] fills.
    pub(crate) fn new(
        slot_places: &[u32],
        clue: ClueParameters,
        steps: usize,
        backend: Backend,
    ) -> Result<Self, RingError> {
        let (columns, degree) = (slot_places.len() / 2, clue.degree());
        assert!(columns.is_power_of_two() && steps <= degree);
        let mut places = vec![Place::default(); slot_places.len()];
        for (slot, &place) in slot_places.iter().enumerate() {
            let column = slot % columns;
            places[place as usize] = Place {
                row: (slot - column) as u32,
                column: column as u32,
                lowest: ((2 * degree - column % degree - (steps - 1)) % degree) as u32,
            };
        }
        let (modulus, dropped) = (clue.modulus(), clue.dropped_bits());
        let bits = u32::BITS - modulus.leading_zeros();
        Ok(Self {
            places,
            columns,
            steps,
            clue,
            backend,
            coefficients: Unpacker::new(bits - dropped, dropped, modulus, backend)?,
            coordinates: Unpacker::new(bits, 0, modulus, backend)?,
        })
    }

    /// Fills row b with the evaluations modulo t of rot_(-shift)(D_(shift + b)).
    ///
    /// Place p stands for slot (r, i). There the vector is D_(shift + b) at slot (r, i - shift): the coefficient with index
    /// -(i + b) modulo n of the message in that slot, times its factor. Messages that are missing count as zero.
    ///
    /// The coefficients of one place, for all b, are consecutive in their clue, in descending order. A group of places
    /// is unpacked into the lines of a small table and leaves it by its columns; the next group's clues, which lie far
    /// apart, are asked for in the meantime.
    pub(crate) fn fill(&self, clues: &Clues<'_>, shift: usize, rows: &mut [Vec<u32>]) {
        let (degree, steps) = (self.clue.degree(), self.steps);
        assert_eq!(rows.len(), steps);
        let mut table = vec![0; GROUP * steps];
        let mut columns = vec![[0; GROUP]; steps];
        let source = |place: &Place| {
            let column = (place.column as usize + self.columns - shift) & (self.columns - 1);
            let message = place.row as usize + column;
            let clue = clues.bytes[message]?;
            Some((clue, place.lowest as usize, clues.factors[message]))
        };
        for (group, places) in self.places.chunks_exact(GROUP).enumerate() {
            let next = &self.places[((group + 1) * GROUP).min(self.places.len())..];
            for (clue, lowest, _) in next.iter().take(GROUP).filter_map(source) {
                self.coefficients.prefetch(clue, lowest, steps);
            }
            for (line, place) in table.chunks_exact_mut(steps).zip(places) {
                match source(place) {
                    Some((clue, lowest, factor)) => {
                        let (straight, wrapped) = line.split_at_mut(steps.min(degree - lowest));
                        self.coefficients.unpack(clue, lowest, factor, straight);
                        self.coefficients.unpack(clue, 0, factor, wrapped);
                    }
                    None => line.fill(0),
                }
            }
            let first = group * GROUP;
            transpose_lines(self.backend, &table, &mut columns);
            for (column, row) in columns.iter().zip(rows.iter_mut().rev()) {
                row[first..first + GROUP].copy_from_slice(column);
            }
        }
    }

    /// The coefficient of a' with that index, of each message, in slots.
    pub(crate) fn coefficients(&self, clues: &Clues<'_>, index: usize) -> Vec<u32> {
        self.slots_of(clues, |clue| (&self.coefficients, clue, index))
    }

    /// The coordinate of b' with that index, of each message, in slots.
    pub(crate) fn coordinates(&self, clues: &Clues<'_>, index: usize) -> Vec<u32> {
        let bits = u32::BITS - self.clue.modulus().leading_zeros() - self.clue.dropped_bits();
        let start = packed_bytes(self.clue.degree(), bits);
        self.slots_of(clues, |clue| (&self.coordinates, &clue[start..], index))
    }

    fn slots_of<'a>(
        &self,
        clues: &Clues<'a>,
        source: impl Fn(&'a [u8]) -> (&Unpacker, &'a [u8], usize),
    ) -> Vec<u32> {
        let mut slots = vec![0; self.places.len()];
        for ((slot, clue), &factor) in slots.iter_mut().zip(&clues.bytes).zip(&clues.factors) {
            if let Some(clue) = clue {
                let (unpacker, bytes, index) = source(clue);
                unpacker.unpack(bytes, index, factor, std::slice::from_mut(slot));
            }
        }
        slots
    }
}
