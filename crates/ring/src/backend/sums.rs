//! Sums of products, written once over [`Sums`].

#![allow(unsafe_op_in_unsafe_fn, reason = "all functions share the contract of Sums")]
#![allow(clippy::needless_range_loop, reason = "loops of fixed length over several arrays, to be unrolled")]

use super::lanes::Sums;
use crate::{Modulus, Multiplier, tiles::TileRows};

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
    plain: TileRows<'_, S::Word>,
    columns: &[TileRows<'_, S::Word>],
    outputs: &mut [&mut [S::Word]],
) {
    let sums = S::new(modulus, modulus.as_u64() - 1);
    let width = TileRows::<S::Word>::WIDTH;
    let tiles = outputs.first().map_or(0, |output| output.len() / width);
    for tile in 0..tiles {
        let mut columns = columns;
        let mut outputs = &mut *outputs;
        let a = plain.tile(tile);
        while !outputs.is_empty() {
            let count = match outputs.len() {
                4.. => 4,
                2.. => 2,
                _ => 1,
            };
            let (now, later) = outputs.split_at_mut(count);
            let (group, rest) = columns.split_at(count);
            match count {
                4 => column_group::<S, 4>(sums, a, tile, group, now),
                2 => column_group::<S, 2>(sums, a, tile, group, now),
                _ => column_group::<S, 1>(sums, a, tile, group, now),
            }
            (columns, outputs) = (rest, later);
        }
    }
}

/// One cache line of `C` outputs.
#[inline(always)]
unsafe fn column_group<S: Sums, const C: usize>(
    sums: S,
    a: &[S::Word],
    tile: usize,
    columns: &[TileRows<'_, S::Word>],
    outputs: &mut [&mut [S::Word]],
) {
    let width = TileRows::<S::Word>::WIDTH;
    let mut b = [a.as_ptr(); C];
    let mut out = [std::ptr::null_mut(); C];
    for c in 0..C {
        let column = columns[c].tile(tile);
        assert!(column.len() == a.len());
        b[c] = column.as_ptr();
        out[c] = outputs[c][tile * width..(tile + 1) * width].as_mut_ptr();
    }
    let rows = a.len() / width;
    if width == S::LANES {
        let sum = row_sums(sums, 0..rows, a.as_ptr(), b, [sums.zero(); C]);
        for c in 0..C {
            sums.finish(out[c], sum[c]);
        }
    } else {
        let (mut low, mut high) = ([sums.zero(); C], [sums.zero(); C]);
        let mut row = 0;
        while row < rows {
            let end = rows.min(row + ROWS);
            low = row_sums(sums, row..end, a.as_ptr(), b, low);
            let mut next = b;
            for pointer in &mut next {
                *pointer = pointer.add(S::LANES);
            }
            high = row_sums(sums, row..end, a.as_ptr().add(S::LANES), next, high);
            row = end;
        }
        for c in 0..C {
            sums.finish(out[c], low[c]);
            sums.finish(out[c].add(S::LANES), high[c]);
        }
    }
}

#[inline(always)]
unsafe fn row_sums<S: Sums, const C: usize>(
    sums: S,
    rows: std::ops::Range<usize>,
    a: *const S::Word,
    b: [*const S::Word; C],
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
