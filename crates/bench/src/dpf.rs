//! `restante bench dpf`: evaluations of distributed point functions, and their generation.

use std::hint::black_box;
use std::time::{Duration, Instant};

use chacha20::ChaCha20Rng;
use restante_dpf::{Backend, Bits, Bytes, DpfKey, Evaluator, Output, Parameters, Variant, generate};

use crate::{Bench, BenchError, Measurement, kernels};

/// The private-lookup size of the seed program: 3^14 outcomes of 256 bits.
const DOMAIN: u64 = 3u64.pow(14);
const MESSAGE_BYTES: usize = 32;
/// Outcomes that are bits.
const BITS_DOMAIN: u64 = 1 << 22;
/// Every measurement and its limit are taken in turn this many times; the best of each count.
const ROUNDS: usize = 7;
/// Key generations per measurement.
const GENERATIONS: u32 = 1000;

/// Evaluates and makes keys: a measurement for every operation, variant and back end.
///
/// # Errors
///
/// [`BenchError::Dpf`].
pub fn measure(bench: &Bench<'_>) -> Result<Vec<Measurement>, BenchError> {
    let mut rng = bench.rng()?;
    let mut found = Vec::new();
    let mut memory = vec![0; DOMAIN as usize * MESSAGE_BYTES];
    for (variant, name) in [(Variant::Plain, "plain"), (Variant::HalfTree, "half-tree")] {
        let wide = Parameters::new(DOMAIN, Bytes(MESSAGE_BYTES as u32), variant)?;
        let bits = Parameters::new(BITS_DOMAIN, Bits, variant)?;
        let message = [7; MESSAGE_BYTES];
        let [wide_key, _] = generate(&wide, DOMAIN / 2, &message, &mut rng)?;
        let [bits_key, _] = generate(&bits, BITS_DOMAIN / 2, &true, &mut rng)?;
        for backend in Backend::available() {
            found.push(full_evaluation(bench, "full-evaluation", name, backend, &wide_key, &mut memory)?);
            let memory = &mut memory[..BITS_DOMAIN as usize / 8];
            found.push(full_evaluation(bench, "full-evaluation-bits", name, backend, &bits_key, memory)?);
        }
        found.push(generation(name, &wide, &message, &mut rng)?);
    }
    Ok(found)
}

/// Evaluates a key everywhere, into memory that was touched before.
fn full_evaluation<O: Output<Element = u8>>(
    bench: &Bench<'_>,
    operation: &str,
    variant: &str,
    backend: Backend,
    key: &DpfKey<O>,
    memory: &mut [u8],
) -> Result<Measurement, BenchError> {
    let evaluator = Evaluator::new(key, backend);
    let domain = key.parameters().domain();
    let threads = bench.runner.threads();
    let blocks = key.parameters().aes_blocks(0..domain) as u64;
    let (mut best, mut aes, mut store) = (Duration::MAX, Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        store = store.min(kernels::store(backend, memory));
        aes = aes.min(kernels::aes(backend, blocks));
        let start = Instant::now();
        match threads {
            1 => evaluator.all(memory)?,
            _ => bench.runner.install(|| evaluator.range_parallel(0..domain, memory))?,
        }
        best = best.min(start.elapsed());
        black_box(&*memory);
    }
    let aes = aes.as_secs_f64() / threads as f64;
    let limit = aes.max(store.as_secs_f64());
    Ok(line(operation, variant, backend, key.parameters(), best.as_secs_f64(), limit)
        .with("aes_seconds", aes)
        .with("store_seconds", store.as_secs_f64())
        .with("threads", threads))
}

/// Makes key pairs. The limit is the time of the AES calls alone, as many of them at once as evaluations have; a generation
/// waits for each level before the next.
fn generation(
    variant: &str,
    parameters: &Parameters<Bytes>,
    message: &[u8],
    rng: &mut ChaCha20Rng,
) -> Result<Measurement, BenchError> {
    let backend = Backend::best();
    // Two parties' evaluations of one point.
    let blocks = 2 * parameters.aes_blocks(0..1) as u64;
    let (mut best, mut limit) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        limit = limit.min(kernels::aes(backend, blocks * u64::from(GENERATIONS)));
        let start = Instant::now();
        for point in 0..GENERATIONS {
            black_box(generate(parameters, black_box(u64::from(point)), message, rng)?);
        }
        best = best.min(start.elapsed());
    }
    let [best, limit] = [best, limit].map(|time| time.as_secs_f64() / f64::from(GENERATIONS));
    Ok(line("generate", variant, backend, parameters, best, limit).with("threads", 1))
}

fn line<O: Output>(
    operation: &str,
    variant: &str,
    backend: Backend,
    parameters: &Parameters<O>,
    seconds: f64,
    limit: f64,
) -> Measurement {
    Measurement::new()
        .with("bench", "dpf")
        .with("operation", operation)
        .with("variant", variant)
        .with("backend", backend.to_string())
        .with("domain", parameters.domain())
        .with("depth", parameters.depth())
        .with("message_bytes", parameters.output_elements(1) as u64)
        .with("key_bytes", parameters.key_bytes())
        .with("seconds", seconds)
        .with("limit_seconds", limit)
        .with("limit_ratio", seconds / limit)
}
