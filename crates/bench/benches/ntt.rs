//! Transforms against `tfhe-ntt`, and sums of products.
//!
//! `cargo bench -p restante-bench --features criterion --bench ntt`. Set `RESTANTE_BACKEND` to scalar, avx2 or avx512 to choose the kernels.
#![allow(missing_docs, clippy::unwrap_used)]

use std::{env, hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use restante_ring::{
    AlignedVec, Backend, Column, NttPlan, Tiles, Word, multiply_accumulate, primes::ntt_primes,
};

fn backend() -> Backend {
    env::var("RESTANTE_BACKEND").map_or_else(|_| Backend::best(), |name| name.parse().unwrap())
}

fn random<W: Word>(plan: &NttPlan<W>, seed: u64) -> AlignedVec<W> {
    let mix = |i: u64| (i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let values = (0..plan.degree() as u64).map(|i| plan.modulus().reduce(mix(i) ^ mix(i) >> 29));
    AlignedVec::from_iter(64, values)
}

fn transforms<W: Word>(criterion: &mut Criterion, bits: u32, degree: usize, theirs: [&dyn Fn(&mut [W]); 2]) {
    let q = ntt_primes(bits, degree, 1).unwrap()[0];
    let plan = NttPlan::<W>::with_backend(q, degree, backend()).unwrap();
    let mut values = random(&plan, 1);
    let name = format!("{}-bit prime, {}-bit words", bits, W::BITS);
    for (direction, ours, theirs) in [
        ("forward", &(|values: &mut [W]| plan.forward(values)) as &dyn Fn(&mut [W]), theirs[0]),
        ("inverse", &|values: &mut [W]| plan.inverse(values), theirs[1]),
    ] {
        let mut group = criterion.benchmark_group(format!("{direction}, {name}"));
        group.bench_function(BenchmarkId::new(plan.backend().to_string(), degree), |bencher| {
            bencher.iter(|| ours(black_box(&mut values)));
        });
        group.bench_function(BenchmarkId::new("tfhe-ntt", degree), |bencher| {
            bencher.iter(|| theirs(black_box(&mut values)));
        });
    }
}

fn ntt(criterion: &mut Criterion) {
    for bits in [29, 30, 31] {
        let degree = 1 << 12;
        let q = ntt_primes(bits, degree, 1).unwrap()[0];
        let plan = tfhe_ntt::prime32::Plan::try_new(degree, q as u32).unwrap();
        transforms::<u32>(criterion, bits, degree, [&|values| plan.fwd(values), &|values| plan.inv(values)]);
    }
    for bits in [49, 50] {
        for log_degree in [12, 13, 14, 16] {
            let degree = 1 << log_degree;
            let q = ntt_primes(bits, degree, 1).unwrap()[0];
            let plan = tfhe_ntt::prime64::Plan::try_new(degree, q).unwrap();
            transforms::<u64>(
                criterion,
                bits,
                degree,
                [&|values| plan.fwd(values), &|values| plan.inv(values)],
            );
        }
    }
}

/// The throughput is in products of a row and a column, N residues each.
fn sums<W: Word>(criterion: &mut Criterion, bits: u32, degree: usize, rows: usize, columns: usize) {
    let q = ntt_primes(bits, degree, 1).unwrap()[0];
    let plan = NttPlan::<W>::with_backend(q, degree, backend()).unwrap();
    let fill = |rows: usize, seed: u64| {
        let mut tiles = Tiles::new(rows, degree);
        (0..rows).for_each(|row| tiles.set_row(row, &random(&plan, seed + row as u64)));
        tiles
    };
    let plain = fill(rows, 1);
    // Every two columns share rows, shifted by one, as the two coordinates of a clue do.
    let encrypted: Vec<_> = (0..columns / 2).map(|c| fill(rows + 1, 1000 * c as u64)).collect();
    let columns: Vec<_> =
        encrypted.iter().flat_map(|tiles| [0, 1].map(|first_row| Column { tiles, first_row })).collect();
    let mut outputs = vec![random(&plan, 5); columns.len()];
    let mut group = criterion.benchmark_group("multiply_accumulate");
    group.throughput(Throughput::Elements((rows * columns.len()) as u64));
    let name = format!("{}, {bits}-bit prime, degree {degree}", plan.backend());
    group.bench_function(
        BenchmarkId::new(name, format!("{rows} rows, {} columns", columns.len())),
        |bencher| {
            bencher.iter(|| {
                let mut slices: Vec<&mut [W]> = outputs.iter_mut().map(|output| &mut output[..]).collect();
                multiply_accumulate(&plan, black_box(&plain), black_box(&columns), &mut slices);
            });
        },
    );
}

fn multiply_accumulates(criterion: &mut Criterion) {
    sums::<u32>(criterion, 29, 1 << 12, 64, 4);
    sums::<u32>(criterion, 30, 1 << 12, 64, 4);
    sums::<u32>(criterion, 31, 1 << 12, 64, 4);
    sums::<u32>(criterion, 30, 1 << 12, 64, 64);
    sums::<u64>(criterion, 50, 1 << 13, 64, 2);
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    targets = ntt, multiply_accumulates
}
criterion_main!(benches);
