//! Sums of products, written once over [`Sums`].

#![allow(unsafe_op_in_unsafe_fn, reason = "all functions share the contract of Sums")]
#![allow(clippy::needless_range_loop, reason = "loops of fixed length over several arrays, to be unrolled")]

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::lanes::Sums;
use crate::{Modulus, Multiplier, Word, tile_rows::TileRows};

/// Rows that are taken before the next register of the same lines: few enough that four columns and the plain rows
/// stay in a first-level cache.
const ROWS: usize = 64;

/// See [`super::Kernels::multiply_accumulate`].
///
/// # Safety
///
/// The contract of [`Sums`].
#[inline(always)]
pub(super) unsafe fn multiply_accumulate<S: Sums>(
    modulus: &Modulus<S::Word>,
    plains: &[TileRows<'_, S::Word>],
    columns: &[TileRows<'_, S::Word>],
    outputs: &mut [&mut [S::Word]],
) {
    let sums = S::new(modulus, modulus.as_u64() - 1);
    let tiles = outputs.first().map_or(0, |output| output.len() / TileRows::<S::Word>::WIDTH);
    for tile in 0..tiles {
        let mut first = 0;
        while first < columns.len() {
            let count = match columns.len() - first {
                4.. => 4,
                2.. => 2,
                _ => 1,
            };
            let (group, rest) = columns[first..].split_at(count);
            // A group's lines stay in a cache while every plain matrix meets them; the first asks for the next group's.
            let mut ahead = if rest.is_empty() { (columns, (tile + 1).min(tiles - 1)) } else { (rest, tile) };
            let mut total = columns.len();
            for (matrix, plain) in plains.iter().enumerate() {
                let place = matrix * columns.len() + first;
                let (a, outputs) = (plain.tile(tile), &mut outputs[place..place + count]);
                match count {
                    4 => column_group::<S, 4>(sums, a, tile, group, ahead, outputs, total),
                    2 => column_group::<S, 2>(sums, a, tile, group, ahead, outputs, total),
                    _ => column_group::<S, 1>(sums, a, tile, group, ahead, outputs, total),
                }
                (ahead, total) = ((group, tile), 0);
            }
            first += count;
        }
    }
}

/// One cache line of `C` outputs. The columns `ahead` will be needed next; there are `total` of them in the call.
#[inline(always)]
unsafe fn column_group<S: Sums, const C: usize>(
    sums: S,
    a: &[S::Word],
    tile: usize,
    columns: &[TileRows<'_, S::Word>],
    (ahead, ahead_tile): (&[TileRows<'_, S::Word>], usize),
    outputs: &mut [&mut [S::Word]],
    total: usize,
) {
    let width = TileRows::<S::Word>::WIDTH;
    let mut next = [a.as_ptr(); C];
    for (next, ahead) in next.iter_mut().zip(ahead) {
        *next = ahead.tile(ahead_tile).as_ptr();
    }
    let step = if total <= C { 0 } else { prefetch_step(&next) };
    let mut b = [a.as_ptr(); C];
    let mut out = [std::ptr::null_mut(); C];
    for c in 0..C {
        let column = columns[c].tile(tile);
        assert!(column.len() >= a.len());
        b[c] = column.as_ptr();
        out[c] = outputs[c][tile * width..(tile + 1) * width].as_mut_ptr();
    }
    let rows = a.len() / width;
    if width == S::LANES {
        let start = [sums.zero(); C];
        let sum = match step {
            0 => row_sums::<S, C, 0>(sums, 0..rows, a.as_ptr(), b, next, start),
            1 => row_sums::<S, C, 1>(sums, 0..rows, a.as_ptr(), b, next, start),
            _ => row_sums::<S, C, 2>(sums, 0..rows, a.as_ptr(), b, next, start),
        };
        for c in 0..C {
            sums.finish(out[c], sum[c]);
        }
    } else {
        let (mut low, mut high) = ([sums.zero(); C], [sums.zero(); C]);
        let mut row = 0;
        while row < rows {
            let end = rows.min(row + ROWS);
            low = match step {
                0 => row_sums::<S, C, 0>(sums, row..end, a.as_ptr(), b, next, low),
                1 => row_sums::<S, C, 1>(sums, row..end, a.as_ptr(), b, next, low),
                _ => row_sums::<S, C, 2>(sums, row..end, a.as_ptr(), b, next, low),
            };
            let mut b = b;
            for pointer in &mut b {
                *pointer = pointer.add(S::LANES);
            }
            high = row_sums::<S, C, 0>(sums, row..end, a.as_ptr().add(S::LANES), b, next, high);
            row = end;
        }
        for c in 0..C {
            sums.finish(out[c], low[c]);
            sums.finish(out[c].add(S::LANES), high[c]);
        }
    }
}

/// The distance of the columns whose next lines are to be prefetched.
///
/// Lines of other columns are elsewhere in memory, and too few for a hardware prefetcher to be of much use; those of the next
/// tile follow the present ones. Often every two columns share their lines but for the first or the last.
#[inline(always)]
fn prefetch_step<T: Word>(next: &[*const T]) -> usize {
    let shared = |pair: &[*const T]| pair[0] == pair[pair.len() - 1].wrapping_sub(TileRows::<T>::WIDTH);
    if next.chunks(2).all(shared) { 2 } else { 1 }
}

/// Adds up rows. Prefetches the lines `ahead` of every `STEP`-th column, or none if `STEP` is 0.
#[inline(always)]
unsafe fn row_sums<S: Sums, const C: usize, const STEP: usize>(
    sums: S,
    rows: std::ops::Range<usize>,
    a: *const S::Word,
    b: [*const S::Word; C],
    ahead: [*const S::Word; C],
    mut sum: [S::Sum; C],
) -> [S::Sum; C] {
    let width = TileRows::<S::Word>::WIDTH;
    let mut row = rows.start;
    while row < rows.end {
        let end = rows.end.min(row + sums.period());
        let terms = end - row;
        while row < end {
            let plain = sums.plain(a.add(row * width));
            for c in 0..C {
                sum[c] = sums.add(sum[c], plain, b[c].add(row * width));
                if STEP != 0 && c % STEP == 0 {
                    _mm_prefetch::<_MM_HINT_T0>(ahead[c].wrapping_add(row * width).cast());
                }
            }
            row += 1;
        }
        for c in 0..C {
            sum[c] = sums.fold(sum[c], terms);
        }
    }
    sum
}

/// See [`super::Kernels::combine`].
///
/// # Safety
///
/// The contract of [`Sums`].
#[inline(always)]
pub(super) unsafe fn combine<S: Sums>(
    modulus: &Modulus<S::Word>,
    out: &mut [S::Word],
    rows: &[&[S::Word]],
    weights: &[Multiplier<S::Word>],
) {
    const UNROLL: usize = 4;
    let largest = if size_of::<S::Word>() == 4 { u32::MAX.into() } else { (1 << 50) - 1 };
    let sums = S::new(modulus, largest);
    assert!(rows.len() == weights.len() && rows.iter().all(|row| row.len() == out.len()));
    let mut plain = Vec::with_capacity(weights.len());
    for weight in weights {
        plain.push(sums.weight(weight.factor));
    }
    let mut place = 0;
    while place < out.len() {
        let mut sum = [sums.zero(); UNROLL];
        let mut row = 0;
        while row < rows.len() {
            let end = rows.len().min(row + sums.period());
            let terms = end - row;
            while row < end {
                let from = rows[row].as_ptr().add(place);
                for k in 0..UNROLL {
                    sum[k] = sums.add(sum[k], plain[row], from.add(k * S::LANES));
                }
                row += 1;
            }
            for k in 0..UNROLL {
                sum[k] = sums.fold(sum[k], terms);
            }
        }
        for k in 0..UNROLL {
            sums.finish(out.as_mut_ptr().add(place + k * S::LANES), sum[k]);
        }
        place += UNROLL * S::LANES;
    }
}

/// See [`super::Kernels::multiply_accumulate_rows`].
///
/// # Safety
///
/// The contract of [`Sums`].
#[inline(always)]
pub(super) unsafe fn multiply_accumulate_rows<S: Sums>(
    modulus: &Modulus<S::Word>,
    rows: &[(&[S::Word], usize)],
    encrypted: TileRows<'_, S::Word>,
    outputs: &mut [&mut [S::Word]],
) {
    let sums = S::new(modulus, modulus.as_u64() - 1);
    let width = TileRows::<S::Word>::WIDTH;
    let degree = outputs.first().map_or(0, |output| output.len());
    let lines = encrypted.rows();
    assert!(degree % width == 0 && outputs.iter().all(|output| output.len() == degree));
    assert!(rows.iter().all(|(row, first)| row.len() == degree && first + outputs.len() <= lines));
    let mut first = 0;
    while first < outputs.len() {
        let count = if outputs.len() - first >= 2 { 2 } else { 1 };
        let out = &mut outputs[first..first + count];
        match (count, width / S::LANES) {
            (2, 2) => row_group::<S, 2, 2>(sums, rows, encrypted, first, out),
            (2, _) => row_group::<S, 2, 1>(sums, rows, encrypted, first, out),
            (_, 2) => row_group::<S, 1, 2>(sums, rows, encrypted, first, out),
            _ => row_group::<S, 1, 1>(sums, rows, encrypted, first, out),
        }
        first += count;
    }
}

/// `P` of the outputs, a cache line of `H` registers at a time.
#[inline(always)]
unsafe fn row_group<S: Sums, const P: usize, const H: usize>(
    sums: S,
    rows: &[(&[S::Word], usize)],
    encrypted: TileRows<'_, S::Word>,
    first: usize,
    outputs: &mut [&mut [S::Word]],
) {
    let width = TileRows::<S::Word>::WIDTH;
    let one = sums.weight(S::Word::truncate(1));
    let mut place = 0;
    while place < outputs[0].len() {
        let lines = encrypted.tile(place / width).as_ptr().add(first * width);
        let mut sum = [[sums.zero(); H]; P];
        // What is there already is one more term.
        for p in 0..P {
            let out = outputs[p].as_ptr().add(place);
            for h in 0..H {
                sum[p][h] = sums.add(sum[p][h], one, out.add(h * S::LANES));
            }
        }
        let (mut row, mut terms) = (0, 1);
        while row < rows.len() {
            let end = rows.len().min(row + sums.period() - terms);
            terms += end - row;
            while row < end {
                let (values, line) = *rows.get_unchecked(row);
                let (values, line) = (values.as_ptr().add(place), lines.add(line * width));
                for h in 0..H {
                    let plain = sums.plain(values.add(h * S::LANES));
                    for p in 0..P {
                        sum[p][h] = sums.add(sum[p][h], plain, line.add(p * width + h * S::LANES));
                    }
                }
                row += 1;
            }
            if row < rows.len() {
                for p in 0..P {
                    for h in 0..H {
                        sum[p][h] = sums.fold(sum[p][h], terms);
                    }
                }
                terms = 0;
            }
        }
        for p in 0..P {
            let out = outputs[p].as_mut_ptr().add(place);
            for h in 0..H {
                sums.finish(out.add(h * S::LANES), sums.fold(sum[p][h], terms));
            }
        }
        place += width;
    }
}
