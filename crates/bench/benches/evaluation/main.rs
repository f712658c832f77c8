//! `cargo bench -p restante-bench --features criterion --bench evaluation`: key generation, full evaluation on every back end beside its limits, and a binary tree
//! for comparison.

use std::hint::black_box;
use std::time::{Duration, Instant};

use chacha20::ChaCha20Rng;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rand_core::SeedableRng;
use restante_dpf::{Backend, Bits, Bytes, DpfKey, Evaluator, Output, Parameters, Variant, generate};

mod binary_tree;

const VARIANTS: [Variant; 2] = [Variant::Plain, Variant::HalfTree];

fn key<O: Output>(domain: u64, output: O, variant: Variant, message: &O::Message) -> DpfKey<O> {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let parameters = Parameters::new(domain, output, variant).expect("the domain is in range");
    let [key, _] = generate(&parameters, domain / 2, message, &mut rng).expect("the point is in the domain");
    key
}

fn consume<T: Copy>(block: &[T]) {
    black_box(block[0]);
}

/// The time of the stores alone.
fn store(backend: Backend, memory: &mut [u8]) -> Duration {
    let start = Instant::now();
    backend.fill(black_box(memory));
    start.elapsed()
}

/// The time of the AES calls alone, out of registers.
fn aes(backend: Backend, blocks: u64) -> Duration {
    let at_once = backend.encrypt_only_blocks() as u64;
    let rounds = blocks.div_ceil(at_once).max(1);
    let start = Instant::now();
    black_box(backend.encrypt_only(black_box(rounds)));
    start.elapsed().mul_f64(blocks as f64 / (rounds * at_once) as f64)
}

fn generation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("generation of 3^14 x 256 bits");
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    for variant in VARIANTS {
        let parameters = Parameters::new(3u64.pow(14), Bytes(32), variant).expect("the domain is in range");
        group.bench_function(format!("{variant:?}"), |bencher| {
            bencher.iter(|| generate(&parameters, black_box(12_345), &[7; 32], &mut rng));
        });
    }
}

fn evaluation(criterion: &mut Criterion) {
    let domain = 3u64.pow(14);
    let mut out = vec![0; domain as usize * 32];
    let mut group = criterion.benchmark_group("full evaluation of 3^14 x 256 bits");
    group.sample_size(20);
    for backend in Backend::available() {
        group.bench_function(BenchmarkId::new("limit: stores", backend), |bencher| {
            bencher.iter_custom(|runs| (0..runs).map(|_| store(backend, &mut out)).sum());
        });
        for variant in VARIANTS {
            let key = key(domain, Bytes(32), variant, &[7; 32]);
            let evaluator = Evaluator::new(&key, backend);
            let blocks = key.parameters().aes_blocks(0..domain) as u64;
            let id = |what: &str| BenchmarkId::new(format!("{what}, {variant:?}"), backend);
            group.bench_function(id("limit: AES"), |bencher| {
                bencher.iter_custom(|runs| (0..runs).map(|_| aes(backend, blocks)).sum());
            });
            group.bench_function(id("into memory"), |bencher| bencher.iter(|| evaluator.all(&mut out)));
            group.bench_function(id("to a consumer"), |bencher| {
                bencher.iter(|| evaluator.blocks(0..domain, |_, block| consume(block)));
            });
        }
    }
}

fn bits(criterion: &mut Criterion) {
    let domain = 1 << 22;
    let mut out = vec![0; domain as usize / 8];
    let mut group = criterion.benchmark_group("full evaluation of 2^22 bits");
    for backend in Backend::available() {
        for variant in VARIANTS {
            let key = key(domain, Bits, variant, &true);
            let evaluator = Evaluator::new(&key, backend);
            let blocks = key.parameters().aes_blocks(0..domain) as u64;
            let id = |what: &str| BenchmarkId::new(format!("{what}, {variant:?}"), backend);
            group.bench_function(id("limit: AES"), |bencher| {
                bencher.iter_custom(|runs| (0..runs).map(|_| aes(backend, blocks)).sum());
            });
            group.bench_function(id("into memory"), |bencher| bencher.iter(|| evaluator.all(&mut out)));
            group.bench_function(id("one point"), |bencher| {
                bencher.iter(|| evaluator.point(black_box(4711), &mut out[..1]));
            });
        }
    }
}

/// Leaves of eight blocks each, on the AES of the `aes` crate in both cases.
fn arity(criterion: &mut Criterion) {
    let leaves = 1 << 16;
    let mut group = criterion.benchmark_group("2^16 leaves of 128 bytes, scalar");
    let scalar = Backend::Scalar;
    for variant in VARIANTS {
        let key = key(leaves, Bytes(128), variant, &[7; 128]);
        let evaluator = Evaluator::new(&key, scalar);
        group.bench_function(format!("ternary, {variant:?}"), |bencher| {
            bencher.iter(|| evaluator.blocks(0..leaves, |_, block| consume(block)));
        });
        let key = binary_tree::BinaryKey {
            half_tree: variant == Variant::HalfTree,
            seed: 1,
            levels: vec![[1 << 127 | 5, 1 << 127 | 6]; 16],
            output_word: [7; 8],
        };
        group.bench_function(format!("binary, {variant:?}"), |bencher| {
            bencher.iter(|| key.blocks(leaves as usize, &mut consume));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1));
    targets = generation, evaluation, bits, arity
}
criterion_main!(benches);
