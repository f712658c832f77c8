//! The definition of every kernel, for any processor.

use super::{Kernels, VectorTables};
use crate::{Modulus, Multiplier, Word, roots::Roots, tile_rows::TileRows};

pub(super) const KERNELS_32: Kernels<u32> = kernels();
pub(super) const KERNELS_64: Kernels<u64> = kernels();

const fn kernels<W: Word>() -> Kernels<W> {
    Kernels {
        prepare: |_| VectorTables::default(),
        forward,
        inverse,
        add,
        sub,
        mul,
        mul_add,
        scale,
        lift,
        lift_words,
        combine,
        multiply_accumulate,
        multiply_accumulate_rows,
    }
}

/// Cooley–Tukey butterflies with the roots in bit-reversed order (Longa and Naehrig, ePrint 2016/504,
/// algorithm 1). Where the coefficients past the period are zeros, the stages before only repeat the others.
fn forward<W: Word>(roots: &Roots<W>, _: &VectorTables<W>, values: &mut [W], period: usize) {
    let modulus = &roots.modulus;
    let mut groups = values.len() / period;
    let mut distance = period / 2;
    while distance > 0 {
        for (group, block) in values.chunks_exact_mut(2 * distance).enumerate() {
            let root = roots.forward[groups + group];
            let (low, high) = block.split_at_mut(distance);
            for (x, y) in low.iter_mut().zip(high) {
                let product = root.mul(modulus, *y);
                *y = modulus.sub(*x, product);
                *x = modulus.add(*x, product);
            }
        }
        groups *= 2;
        distance /= 2;
    }
}

/// Gentleman–Sande butterflies (the same paper, algorithm 2), then the division by the degree.
fn inverse<W: Word>(roots: &Roots<W>, _: &VectorTables<W>, values: &mut [W]) {
    let modulus = &roots.modulus;
    let mut groups = values.len() / 2;
    let mut distance = 1;
    while groups > 0 {
        for (group, block) in values.chunks_exact_mut(2 * distance).enumerate() {
            let root = roots.inverse[groups + group];
            let (low, high) = block.split_at_mut(distance);
            for (x, y) in low.iter_mut().zip(high) {
                let difference = modulus.sub(*x, *y);
                *x = modulus.add(*x, *y);
                *y = root.mul(modulus, difference);
            }
        }
        groups /= 2;
        distance *= 2;
    }
    scale(modulus, values, roots.inverse_degree);
}

fn add<W: Word>(modulus: &Modulus<W>, a: &mut [W], b: &[W]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a = modulus.add(*a, *b));
}

fn sub<W: Word>(modulus: &Modulus<W>, a: &mut [W], b: &[W]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a = modulus.sub(*a, *b));
}

fn mul<W: Word>(modulus: &Modulus<W>, a: &mut [W], b: &[W]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a = modulus.mul(*a, *b));
}

fn mul_add<W: Word>(modulus: &Modulus<W>, a: &mut [W], b: &[W], c: &[W]) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = modulus.add(*a, modulus.mul(*b, *c));
    }
}

fn scale<W: Word>(modulus: &Modulus<W>, a: &mut [W], factor: Multiplier<W>) {
    a.iter_mut().for_each(|a| *a = factor.mul(modulus, *a));
}

#[inline(always)]
pub(super) fn lift<W: Word>(values: &[W], half: W, gap: W, out: &mut [W]) {
    out.iter_mut().zip(values).for_each(|(out, &value)| *out = value.lift(half, gap));
}

#[inline(always)]
pub(super) fn lift_words<W: Word>(values: &[u32], half: W, gap: W, out: &mut [W]) {
    out.iter_mut().zip(values).for_each(|(out, &value)| *out = W::truncate(u64::from(value)).lift(half, gap));
}

fn combine<W: Word>(modulus: &Modulus<W>, out: &mut [W], rows: &[&[W]], weights: &[Multiplier<W>]) {
    for (place, out) in out.iter_mut().enumerate() {
        let terms = rows.iter().zip(weights).map(|(row, weight)| weight.mul(modulus, row[place]));
        *out = terms.fold(W::default(), |sum, term| modulus.add(sum, term));
    }
}

fn multiply_accumulate<W: Word>(
    modulus: &Modulus<W>,
    plains: &[TileRows<'_, W>],
    columns: &[TileRows<'_, W>],
    outputs: &mut [&mut [W]],
) {
    let width = TileRows::<W>::WIDTH;
    let pairs = plains.iter().flat_map(|plain| columns.iter().map(move |column| (plain, column)));
    for ((plain, column), output) in pairs.zip(outputs) {
        for (tile, output) in output.chunks_exact_mut(width).enumerate() {
            let (a, b) = (plain.tile(tile), column.tile(tile));
            for (lane, output) in output.iter_mut().enumerate() {
                // Products are below 2^100, so 2^28 of them fit; Tiles::MAX_ROWS is less.
                let sum: u128 = a[lane..]
                    .iter()
                    .step_by(width)
                    .zip(b[lane..].iter().step_by(width))
                    .map(|(a, b)| u128::from((*a).into()) * u128::from((*b).into()))
                    .sum();
                *output = modulus.reduce_u128(sum);
            }
        }
    }
}

fn multiply_accumulate_rows<W: Word>(
    modulus: &Modulus<W>,
    rows: &[(&[W], usize)],
    encrypted: TileRows<'_, W>,
    sums: &mut [&mut [W]],
) {
    let width = TileRows::<W>::WIDTH;
    for (part, sum) in sums.iter_mut().enumerate() {
        for (tile, sum) in sum.chunks_exact_mut(width).enumerate() {
            let lines = encrypted.tile(tile);
            for (lane, sum) in sum.iter_mut().enumerate() {
                let products = rows.iter().map(|(row, first)| {
                    u128::from(row[tile * width + lane].into())
                        * u128::from(lines[(first + part) * width + lane].into())
                });
                *sum = modulus.reduce_u128(products.sum::<u128>() + u128::from((*sum).into()));
            }
        }
    }
}
