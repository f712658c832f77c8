//! Whether what touches secrets takes longer for some than for others, by the clock: the test of dudect (Reparaz, Balasch and
//! Verbauwhede, ePrint 2016/1123), for the vector back ends, which Valgrind does not know.
//!
//! `cargo run --release -p restante-constant-time --bin dudect [SECONDS]`. Each operation runs on two classes of secrets, a fixed one and random
//! ones, in random order, and made anew each time so that both lie at the same addresses. Welch's t compares their times, whole and with the slowest cut off. |t| above 4.5 suggests a difference,
//! above 10 there is one. The first two lines are controls: one must differ, one must not.

#![forbid(unsafe_code)]

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use restante_bfv::{Context, SecretKey, ShortCiphertext, ShortDecryptor, ShortModuli};
use restante_clue::{Clue, ClueMaker, ClueParameters, ClueSecretKey};
use restante_dpf::{Bits, Parameters, Variant, generate};
use restante_omr::compact::{CompactContext, CompactParameters};
use restante_omr::stream::{StreamContext, StreamParameters};
use restante_ring::sample::{Gaussian, Seed};
use restante_ring::{Backend, Word};
use restante_wire::{
    binding::{Binding, BoardId, Period},
    merkle::Hash,
};

const CLUE: ClueParameters = ClueParameters::STANDARD;
/// Inputs of each class: those with an even index are alike, the others are not. There are as many of either, so that what is read to
/// make an input comes from a cache as often.
const INPUTS: usize = 64;

/// A number for each input: zero for the fixed class.
fn names() -> impl Iterator<Item = usize> {
    (0..2 * INPUTS).map(|index| if index % 2 == 0 { 0 } else { index })
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let time = Duration::from_secs(seconds);
    println!(
        "| operation | measurements | t, all | t, fastest 90 % | t, fastest 50 % |\n|---|---|---|---|---|"
    );
    controls(time);
    let seeds: Vec<Seed> = names().map(|i| Seed::from([i as u8; 32])).collect();
    let mut values = vec![0; 1024];
    report("Gaussian sampler, sigma 3.2, 1,024 values", time, &seeds, Seed::clone, |seed| {
        seed.stream("check", &[]).gaussian(Gaussian::Standard, &mut values);
    });
    clues(time, &seeds);
    for backend in Backend::available() {
        let context = StreamContext::new(StreamParameters::new(CLUE)?, backend)?;
        decryption("stream", time, context.bfv(), context.parameters().short, backend)?;
        let context = CompactContext::new(CompactParameters::insecure(CLUE)?, backend)?;
        let (circuit, short) = (context.circuit().context(), context.parameters().short);
        decryption("compact (small ring)", time, circuit, short, backend)?;
    }
    point_functions(time)
}

/// One operation whose time depends on the secret, and one whose time does not.
fn controls(time: Duration) {
    let numbers: Vec<u64> = names().map(|i| 10 + i as u64 % 20).collect();
    report(
        "control: a loop as long as the secret",
        time,
        &numbers,
        |&n| n,
        |&n| (0..n).fold(n, |sum, i| black_box(sum ^ i)),
    );
    report(
        "control: a loop of one length",
        time,
        &numbers,
        |&n| n,
        |&n| (0..20).fold(n, |sum, i| black_box(sum ^ i)),
    );
}

/// A key against clues for it and for others, and one clue against many keys.
fn clues(time: Duration, seeds: &[Seed]) {
    let secret = ClueSecretKey::new(CLUE, &seeds[1]);
    let mut stream = seeds[2].stream("check", &[]);
    let others = ClueSecretKey::new(CLUE, &seeds[5]).clue_key().prepare();
    let mut make = |maker: &ClueMaker| {
        let draft = maker.draft(Period(20_000), &mut stream);
        let binding = Binding::new(&BoardId([3; 16]), &draft.bound_hash(), &Hash([4; 32]));
        (draft.bind(&binding), binding)
    };
    let own = make(&secret.clue_key().prepare());
    let clues: Vec<(Clue, Binding)> =
        names().map(|i| if i == 0 { own.clone() } else { make(&others) }).collect();
    let about = "is_pertinent: a clue for the key, clues for others";
    report(about, time, &clues, Clone::clone, |(clue, binding)| secret.is_pertinent(clue, binding));
    report(
        "distances of one clue, under different keys",
        time,
        seeds,
        |seed| ClueSecretKey::new(CLUE, seed),
        |secret| secret.distances(&clues[0].0, &clues[0].1),
    );
}

/// Keys for points of a domain.
fn point_functions(time: Duration) -> Result<(), Box<dyn Error>> {
    let mut rng = ChaCha20Rng::from_seed([5; 32]);
    for variant in [Variant::Plain, Variant::HalfTree] {
        let parameters = Parameters::new(1 << 20, Bits, variant)?;
        let points: Vec<u64> = names().map(|i| i as u64 * 8_191 % (1 << 20)).collect();
        let name = format!("point function, {variant:?}, {}", restante_dpf::Backend::best());
        report(
            &name,
            time,
            &points,
            |&point| point,
            |&point| generate(&parameters, point, &true, &mut rng).is_ok(),
        );
    }
    Ok(())
}

/// Encryptions of zero and of random plaintexts under one key, and one ciphertext under different keys.
fn decryption<W: Word>(
    name: &str,
    time: Duration,
    context: &Context<W>,
    short: ShortModuli,
    backend: Backend,
) -> Result<(), Box<dyn Error>> {
    let t = context.plaintext_plan().modulus();
    let secret = SecretKey::generate(context, &Seed::from([1; 32]));
    let ciphertexts: Vec<ShortCiphertext> = names()
        .map(|i| {
            let mut plain = vec![W::default(); context.degree()];
            let seed = Seed::from([i as u8; 32]);
            if i > 0 {
                seed.stream("plain", &[]).uniform(t, &mut plain);
            }
            let fresh = secret.encrypt(seed, &plain).expand().into_coefficient();
            ShortCiphertext::new(context, &fresh, short)
        })
        .collect();
    let decryptor = ShortDecryptor::new(&secret)?;
    report(
        &format!("decryption of zero and others, {name}, {backend}"),
        time,
        &ciphertexts,
        ShortCiphertext::clone,
        |ciphertext| decryptor.decrypt(ciphertext, short).error_deviation,
    );
    let keys = names().map(|i| SecretKey::generate(context, &Seed::from([i as u8; 32])));
    let keys: Vec<SecretKey<W>> = keys.collect();
    report(
        &format!("decryption under different keys, {name}, {backend}"),
        time,
        &keys,
        |key| ShortDecryptor::new(key).ok(),
        |key| key.as_ref().map(|key| key.decrypt(&ciphertexts[0], short).error_deviation),
    );
    Ok(())
}

/// Measures an operation on inputs of both classes in random order.
///
/// `make` gives what the operation reads, at addresses that do not depend on the class: where an input lies decides what it shares a
/// cache set with.
fn report<I, X, O>(
    name: &str,
    time: Duration,
    inputs: &[I],
    make: impl Fn(&I) -> X,
    mut operation: impl FnMut(&X) -> O,
) {
    let mut rng = ChaCha20Rng::from_seed([9; 32]);
    let mut measured: Vec<(bool, f64)> = Vec::new();
    let end = Instant::now() + time;
    while Instant::now() < end {
        let choice = rng.next_u64();
        let fixed = choice & 1 == 0;
        let input = &inputs[2 * ((choice >> 1) as usize % INPUTS) + usize::from(!fixed)];
        let input = black_box(make(input));
        black_box(operation(&input));
        let start = Instant::now();
        black_box(operation(&input));
        measured.push((fixed, start.elapsed().as_nanos() as f64));
    }
    // The first ones warm caches up.
    measured.drain(..measured.len() / 20);
    let mut times: Vec<f64> = measured.iter().map(|(_, nanoseconds)| *nanoseconds).collect();
    times.sort_by(f64::total_cmp);
    let t = |share: f64| {
        let limit = times[((times.len() - 1) as f64 * share) as usize];
        welch(measured.iter().filter(|(_, nanoseconds)| *nanoseconds <= limit))
    };
    println!("| {name} | {} | {:.1} | {:.1} | {:.1} |", measured.len(), t(1.0), t(0.9), t(0.5));
}

/// Welch's t between the two classes.
fn welch<'a>(measured: impl Iterator<Item = &'a (bool, f64)> + Clone) -> f64 {
    let moments = |class: bool| {
        let values = measured.clone().filter(move |(fixed, _)| *fixed == class).map(|(_, value)| *value);
        let count = values.clone().count() as f64;
        let mean = values.clone().sum::<f64>() / count;
        let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, variance / count)
    };
    let ((a, first), (b, second)) = (moments(true), moments(false));
    (a - b) / (first + second).sqrt()
}
