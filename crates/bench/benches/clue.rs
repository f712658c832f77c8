//! The time that senders and trial-decrypting recipients spend on one clue.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use restante_clue::{Clue, ClueParameters, ClueSecretKey, unpack_coefficients};
use restante_ring::sample::Seed;
use restante_wire::{
    Decode, Encode,
    binding::{Binding, Period},
};

fn clue(criterion: &mut Criterion) {
    for parameters in ClueParameters::ALL {
        let secret = ClueSecretKey::new(parameters, &Seed::from([1; 32]));
        let maker = secret.clue_key().prepare();
        let mut stream = Seed::from([2; 32]).stream("bench", &[]);
        let (period, binding) = (Period(20_000), Binding([3; 32]));
        let clue = maker.draft(period, &mut stream).bind(&binding);
        let bytes = clue.to_bytes();
        let mut a = vec![0; parameters.degree()];
        let mut group = criterion.benchmark_group(format!("clue/{parameters}"));
        group.bench_function("prepare", |bencher| bencher.iter(|| secret.clue_key().prepare()));
        group.bench_function("make", |bencher| {
            bencher.iter(|| maker.draft(period, &mut stream).bind(&binding));
        });
        group.bench_function("encode", |bencher| bencher.iter(|| clue.to_bytes()));
        group.bench_function("decode", |bencher| bencher.iter(|| Clue::from_bytes(&parameters, &bytes)));
        group.bench_function("unpack", |bencher| {
            bencher.iter(|| unpack_coefficients(&parameters, black_box(&bytes), &mut a));
        });
        group.bench_function("is pertinent", |bencher| {
            bencher.iter(|| secret.is_pertinent(black_box(&clue), &binding))
        });
        group.finish();
    }
}

criterion_group!(benches, clue);
criterion_main!(benches);
