//! Sums of products of many evaluation vectors: the hot loop of every engine here.
//!
//! *Plaintext matrix times encrypted vector* comes down to out = sum over k of plain_k * encrypted_k, element by
//! element, for hundreds of k, and for many encrypted vectors with the same plain ones. Taken one vector after the
//! other, each term would pass over the whole sum in memory. [`Tiles`] therefore stores vectors cut into cache
//! lines, the lines with the same position next to each other; [`multiply_accumulate`] then runs over k with its
//! sums in registers, and reduces modulo q once at the end.

use crate::{NttPlan, Word, buffer::Buffer, tile_rows::TileRows};

/// Rows of N residues each, stored by position: all rows' first cache line, then all rows' second one, and so on.
#[derive(Debug, Clone)]
pub struct Tiles<W: Word> {
    rows: usize,
    degree: usize,
    data: Buffer<W>,
}

impl<W: Word> Tiles<W> {
    /// The number of residues in a cache line.
    pub const WIDTH: usize = TileRows::<W>::WIDTH;
    /// The most rows that a kernel sums up without overflow.
    pub const MAX_ROWS: usize = 1 << 16;

    /// `rows` rows of zeros.
    pub fn new(rows: usize, degree: usize) -> Self {
        assert!(rows <= Self::MAX_ROWS && degree % Self::WIDTH == 0, "at most {} rows", Self::MAX_ROWS);
        let data = Buffer::zeros(Self::words(rows, degree));
        Self { rows, degree, data }
    }

    /// `rows` rows of any words, each of which must be replaced before it is used.
    pub fn unfilled(rows: usize, degree: usize) -> Self {
        assert!(rows <= Self::MAX_ROWS && degree % Self::WIDTH == 0, "at most {} rows", Self::MAX_ROWS);
        Self { rows, degree, data: Buffer::any(Self::words(rows, degree)) }
    }

    fn words(rows: usize, degree: usize) -> usize {
        Self::stride(rows) * (degree / Self::WIDTH)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The memory that the rows take, with what lies between them.
    pub fn memory_bytes(&self) -> usize {
        Self::bytes(self.rows, self.degree)
    }

    /// The memory that so many rows take, with what lies between them.
    pub fn bytes(rows: usize, degree: usize) -> usize {
        Self::words(rows, degree) * size_of::<W>()
    }

    /// Residues in a row.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// Replaces a row.
    pub fn set_row(&mut self, row: usize, values: &[W]) {
        assert!(row < self.rows && values.len() == self.degree);
        let stride = Self::stride(self.rows);
        let first = row * Self::WIDTH;
        for (line, tile) in values.chunks_exact(Self::WIDTH).zip(self.data.chunks_exact_mut(stride)) {
            tile[first..first + Self::WIDTH].copy_from_slice(line);
        }
    }

    /// Replaces consecutive rows. Several at once are quicker than one after the other, since the lines of a row lie far apart.
    pub fn set_rows(&mut self, first_row: usize, rows: &[impl AsRef<[W]>]) {
        assert!(
            first_row + rows.len() <= self.rows && rows.iter().all(|row| row.as_ref().len() == self.degree)
        );
        let stride = Self::stride(self.rows);
        let first = first_row * Self::WIDTH;
        for (line, tile) in self.data.chunks_exact_mut(stride).enumerate() {
            let lines = tile[first..].chunks_exact_mut(Self::WIDTH);
            for (target, row) in lines.zip(rows) {
                target.copy_from_slice(&row.as_ref()[line * Self::WIDTH..(line + 1) * Self::WIDTH]);
            }
        }
    }

    /// Copies a row out.
    pub fn row(&self, row: usize) -> Vec<W> {
        assert!(row < self.rows);
        let first = row * Self::WIDTH;
        let tiles = self.data.chunks_exact(Self::stride(self.rows));
        tiles.flat_map(|tile| &tile[first..first + Self::WIDTH]).copied().collect()
    }

    /// The distance between tiles, in residues. One line more than the rows take, so that the same row's lines in
    /// different tiles do not all fall into one set of the cache.
    fn stride(rows: usize) -> usize {
        let lines = if rows % 2 == 0 { rows + 1 } else { rows };
        lines * Self::WIDTH
    }

    fn window(&self, first_row: usize, rows: usize) -> TileRows<'_, W> {
        assert!(first_row + rows <= self.rows, "rows {first_row} to {} of {}", first_row + rows, self.rows);
        TileRows { data: &self.data, stride: Self::stride(self.rows), first: first_row * Self::WIDTH, rows }
    }
}

/// One encrypted vector of rows: `tiles`' rows from `first_row` on.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a, W: Word> {
    /// Where the rows are stored.
    pub tiles: &'a Tiles<W>,
    /// The row that meets the first plain row.
    pub first_row: usize,
}

/// For each column c: outputs\[c\] = sum over rows k of plain\[k\] * columns\[c\]\[k\], element by element modulo q.
///
/// Outputs have the degree of the plan and are residues in [0, q). The plain rows are read once for a handful of
/// columns: give all columns that meet the same plain rows in one call.
pub fn multiply_accumulate<W: Word>(
    plan: &NttPlan<W>,
    plain: &Tiles<W>,
    columns: &[Column<'_, W>],
    outputs: &mut [&mut [W]],
) {
    multiply_accumulate_each(plan, &[(plain, plain.rows)], columns, outputs);
}

/// [`multiply_accumulate`] for several plain matrices against the same columns, which then come from a cache
/// for all matrices but the first. The number beside a matrix is how many of its rows are taken, from the
/// first on. The outputs of the first matrix come first, one for each column.
pub fn multiply_accumulate_each<W: Word>(
    plan: &NttPlan<W>,
    plains: &[(&Tiles<W>, usize)],
    columns: &[Column<'_, W>],
    outputs: &mut [&mut [W]],
) {
    let degree = plan.degree();
    let most = plains.iter().map(|(_, rows)| *rows).max().unwrap_or(0);
    assert_eq!(plains.len() * columns.len(), outputs.len(), "one output per matrix and column");
    assert!(plains.iter().all(|(plain, _)| plain.degree == degree));
    assert!(columns.iter().all(|column| column.tiles.degree == degree));
    assert!(outputs.iter().all(|output| output.len() == degree));
    let plains: Vec<_> = plains.iter().map(|(plain, rows)| plain.window(0, *rows)).collect();
    let columns: Vec<_> = columns.iter().map(|column| column.tiles.window(column.first_row, most)).collect();
    (plan.kernels().multiply_accumulate)(plan.modulus(), &plains, &columns, outputs);
}

/// For each output p: outputs\[p\] += sum over (row, first) of row * encrypted\[first + p\], element by element modulo q.
///
/// For few plain rows that have just been computed: they are read where they lie, and only the encrypted ones are in tiles. Outputs
/// and rows have the degree of the plan and are residues in [0, q).
pub fn multiply_accumulate_rows<W: Word>(
    plan: &NttPlan<W>,
    rows: &[(&[W], usize)],
    encrypted: &Tiles<W>,
    outputs: &mut [&mut [W]],
) {
    let degree = plan.degree();
    assert!(encrypted.degree == degree && outputs.iter().all(|output| output.len() == degree));
    let fits = |(row, first): &(&[W], usize)| row.len() == degree && first + outputs.len() <= encrypted.rows;
    assert!(rows.len() <= Tiles::<W>::MAX_ROWS && rows.iter().all(fits), "rows of the plan's degree");
    let encrypted = encrypted.window(0, encrypted.rows);
    (plan.kernels().multiply_accumulate_rows)(plan.modulus(), rows, encrypted, outputs);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backend, primes::ntt_primes};

    fn check<W: Word>(bits: u32, rows: usize, columns: usize, worst_case: bool) {
        let degree = 64;
        let q = ntt_primes(bits, degree, 1).unwrap()[0];
        let scalar = NttPlan::<W>::with_backend(q, degree, Backend::Scalar).unwrap();
        let value = |row: usize, place: usize, salt: u64| {
            if worst_case {
                return W::truncate(q - 1);
            }
            let mixed = (row as u64 * 1_000_003 + place as u64 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            scalar.modulus().reduce(mixed ^ mixed >> 31)
        };
        let fill = |rows: usize, salt: u64| {
            let mut tiles = Tiles::<W>::new(rows, degree);
            for row in 0..rows {
                let values: Vec<W> = (0..degree).map(|place| value(row, place, salt)).collect();
                tiles.set_row(row, &values);
                assert_eq!(tiles.row(row), values);
                let last = row.saturating_sub(1);
                let mut again = Tiles::<W>::unfilled(rows, degree);
                again.set_rows(last, &[tiles.row(last), values.clone()][..row + 1 - last]);
                assert!(row == 0 || again.row(row) == values && again.row(last) == tiles.row(last));
            }
            tiles
        };
        let plain = fill(rows, 0);
        // Every second column starts one row further down, as the second coordinate of a clue does.
        let encrypted: Vec<_> = (0..columns).map(|c| fill(rows + 1, 77 + c as u64)).collect();
        let columns: Vec<_> =
            encrypted.iter().enumerate().map(|(c, tiles)| Column { tiles, first_row: c % 2 }).collect();
        for backend in Backend::available() {
            let plan = NttPlan::<W>::with_backend(q, degree, backend).unwrap();
            let mut outputs = vec![vec![W::default(); degree]; columns.len()];
            let mut slices: Vec<_> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            multiply_accumulate(&plan, &plain, &columns, &mut slices);
            // Three matrices at once: the same, its first rows, the same again.
            let fewer = rows.div_ceil(2);
            let mut first_rows = Tiles::<W>::new(fewer, degree);
            (0..fewer).for_each(|row| first_rows.set_row(row, &plain.row(row)));
            let mut part = vec![vec![W::default(); degree]; columns.len()];
            let mut slices: Vec<_> = part.iter_mut().map(Vec::as_mut_slice).collect();
            multiply_accumulate(&plan, &first_rows, &columns, &mut slices);
            let mut each = vec![vec![W::default(); degree]; 3 * columns.len()];
            let mut slices: Vec<_> = each.iter_mut().map(Vec::as_mut_slice).collect();
            let matrices = [(&plain, rows), (&plain, fewer), (&plain, rows)];
            multiply_accumulate_each(&plan, &matrices, &columns, &mut slices);
            assert_eq!(each, [outputs.clone(), part, outputs.clone()].concat());
            for (c, output) in outputs.iter().enumerate() {
                for (place, &found) in output.iter().enumerate() {
                    let sum: u128 = (0..rows)
                        .map(|row| {
                            let (a, b): (u64, u64) = (
                                value(row, place, 0).into(),
                                value(row + c % 2, place, 77 + c as u64).into(),
                            );
                            u128::from(a) * u128::from(b)
                        })
                        .sum();
                    let expected = (sum % u128::from(q)) as u64;
                    assert_eq!(found.into(), expected, "{bits} bits, {rows} rows, column {c}, {backend}");
                }
            }
        }
    }

    #[test]
    fn sums_agree_with_wide_integers() {
        for rows in [1, 2, 3, 15, 16, 17, 63, 64, 65, 300] {
            for columns in 1..=9 {
                for bits in [20, 30, 31] {
                    check::<u32>(bits, rows, columns, false);
                }
                for bits in [20, 45, 50] {
                    check::<u64>(bits, rows, columns, false);
                }
            }
        }
    }

    #[test]
    fn the_largest_residues_do_not_overflow() {
        for rows in [16, 64, 1000, 5000] {
            check::<u32>(31, rows, 4, true);
            check::<u64>(50, rows, 4, true);
        }
    }

    fn check_rows<W: Word>(bits: u32, rows: usize, outputs: usize, worst_case: bool) {
        let degree = 64;
        let q = ntt_primes(bits, degree, 1).unwrap()[0];
        let scalar = NttPlan::<W>::with_backend(q, degree, Backend::Scalar).unwrap();
        let random = |salt: u64| -> Vec<W> {
            let mut values = vec![W::truncate(q - 1); degree];
            if !worst_case {
                crate::sample::Seed::from([7; 32])
                    .stream("test", &[salt])
                    .uniform(scalar.modulus(), &mut values);
            }
            values
        };
        let lines: Vec<Vec<W>> = (0..rows as u64 + 3).map(random).collect();
        let mut encrypted = Tiles::<W>::new(lines.len(), degree);
        encrypted.set_rows(0, &lines);
        let plain: Vec<Vec<W>> = (0..rows as u64).map(|row| random(1000 + row)).collect();
        let places: Vec<usize> = (0..rows).map(|row| row * 5 % (rows + 4 - outputs)).collect();
        let start: Vec<Vec<W>> = (0..outputs as u64).map(|output| random(5000 + output)).collect();
        for backend in Backend::available() {
            let plan = NttPlan::<W>::with_backend(q, degree, backend).unwrap();
            let mut found = start.clone();
            let mut slices: Vec<_> = found.iter_mut().map(Vec::as_mut_slice).collect();
            let pairs: Vec<_> = plain.iter().map(Vec::as_slice).zip(places.iter().copied()).collect();
            multiply_accumulate_rows(&plan, &pairs, &encrypted, &mut slices);
            for (output, found) in found.iter().enumerate() {
                for (place, &found) in found.iter().enumerate() {
                    let products = plain.iter().zip(&places).map(|(row, first)| {
                        u128::from(row[place].into()) * u128::from(lines[first + output][place].into())
                    });
                    let expected =
                        (products.sum::<u128>() + u128::from(start[output][place].into())) % u128::from(q);
                    assert_eq!(u128::from(found.into()), expected, "{bits} bits, {rows} rows, {backend}");
                }
            }
        }
    }

    #[test]
    fn sums_of_rows_agree_with_wide_integers() {
        for rows in [0, 1, 2, 4, 15, 16, 31, 32, 33, 63, 64, 65, 300] {
            for outputs in 1..=4 {
                for worst_case in [false, true] {
                    for bits in [20, 30, 31] {
                        check_rows::<u32>(bits, rows, outputs, worst_case);
                    }
                    for bits in [20, 45, 50] {
                        check_rows::<u64>(bits, rows, outputs, worst_case);
                    }
                }
            }
        }
    }
}
