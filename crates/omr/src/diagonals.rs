//! Clues as the plaintexts of the product: transposed, one vector per diagonal, and the messages' bindings beside them;
//! and the vectors that they meet, S and V, which a detection key encrypts. [`crate::stream`] has the algebra.

use restante_clue::{BINDING, BoundClue, ClueParameters, ClueSecretKey, PERIOD_BYTES};
use restante_ring::{Backend, Multiplier, RingError, Unpacker, transpose_lines};

/// Entries of V for each coordinate, and of what each message multiplies them by: the binding's vector, and one more for
/// the sign of s_1. So many giant steps have a share of it.
pub(crate) const ENTRIES: usize = BINDING + 1;

/// Rotations of V that meet the bindings: for the coordinates and for messages in odd slots, each one further.
pub(crate) const TAG_ROTATIONS: usize = 3;

/// The vectors of plaintexts that a giant step has for bindings: for messages in even slots, and in odd ones.
pub(crate) const BOUND_ROWS: usize = 2;

/// S at a column of either row of slots: s_0, -s_1, ..., -s_(n-1), again and again. In (-q, q).
pub(crate) fn secret_entry(clue: &ClueSecretKey, column: usize) -> i64 {
    let secret = clue.secret_coefficients();
    match column % secret.len() {
        0 => secret[0],
        index => -secret[index],
    }
}

/// V at a column of either row of slots, for this number of baby steps: in even columns T_0 and 0, in odd ones T_1 and
/// 2 s_1, with one entry for as many columns as there are baby steps, again and again. In (-q, q).
pub(crate) fn tag_entry(clue: &ClueSecretKey, steps: usize, column: usize) -> i64 {
    let (coordinate, entry) = (column % 2, column / steps % ENTRIES);
    match (clue.tags()[coordinate].get(entry), coordinate) {
        (Some(&entry), _) => entry.into(),
        (None, 0) => 0,
        (None, _) => 2 * clue.secret_coefficients()[1],
    }
}

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
    /// One for each slot, from a' on, or none.
    bytes: Vec<Option<&'a [u8]>>,
    /// One for each slot.
    factors: Vec<Multiplier<u32>>,
    /// The plaintexts that meet V, times the factors: the binding's vector and a'_0. Zeros where there is no clue.
    bound: Vec<[u32; ENTRIES]>,
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
        assert!(
            steps.is_multiple_of(2) && columns.is_multiple_of(ENTRIES * steps) && steps * ENTRIES <= degree
        );
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

    /// The clues of a block from those of its slots and a factor for each slot.
    pub(crate) fn clues<'a>(
        &self,
        slots: &[Option<BoundClue<'a>>],
        factors: Vec<Multiplier<u32>>,
    ) -> Clues<'a> {
        let modulus = self.coefficients.modulus();
        let bound = slots.iter().zip(&factors).map(|(clue, factor)| {
            let mut entries = [0; ENTRIES];
            let Some(clue) = clue else { return entries };
            let h = self.clue.binding_vector(&clue.binding);
            entries.iter_mut().zip(h).for_each(|(entry, h)| *entry = factor.mul(modulus, h));
            self.coefficients.unpack(behind_period(clue), 0, *factor, &mut entries[BINDING..]);
            entries
        });
        Clues {
            bound: bound.collect(),
            bytes: slots.iter().map(|clue| clue.as_ref().map(behind_period)).collect(),
            factors,
        }
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

    /// Fills row b with the evaluations modulo t of what rotations of V by b and b + 1 meet in one giant step, one of the first
    /// [`ENTRIES`].
    ///
    /// Place p stands for slot (r, i), where the message of slot (r, i - giant * baby steps) is looked at, as in
    /// [`Layout::fill`]. If i + b is even, the rotation has an entry for coordinate 0 there, the same one as the next
    /// rotation has for coordinate 1, and the message's number for that entry is what it gets. Otherwise it gets zero.
    pub(crate) fn fill_bound(&self, clues: &Clues<'_>, giant: usize, rows: &mut [Vec<u32>]) {
        assert!(giant < ENTRIES && rows.len() == BOUND_ROWS);
        for (b, row) in rows.iter_mut().enumerate() {
            for (value, place) in row.iter_mut().zip(&self.places) {
                let column = place.column as usize;
                let message = (column + self.columns - giant * self.steps) & (self.columns - 1);
                let entry = (column + b) / self.steps % ENTRIES;
                let own = (column + b).is_multiple_of(2);
                *value = if own { clues.bound[place.row as usize + message][entry] } else { 0 };
            }
        }
    }

    /// The coordinate of b' with that index, of each message, in slots.
    pub(crate) fn coordinates(&self, clues: &Clues<'_>, index: usize) -> Vec<u32> {
        let start = self.clue.bound_bytes() - PERIOD_BYTES;
        let mut slots = vec![0; self.places.len()];
        for ((slot, clue), &factor) in slots.iter_mut().zip(&clues.bytes).zip(&clues.factors) {
            if let Some(clue) = clue {
                self.coordinates.unpack(&clue[start..], index, factor, std::slice::from_mut(slot));
            }
        }
        slots
    }
}

/// An encoded clue from a' on.
fn behind_period<'a>(clue: &BoundClue<'a>) -> &'a [u8] {
    &clue.bytes[PERIOD_BYTES..]
}
