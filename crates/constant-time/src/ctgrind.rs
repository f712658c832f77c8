//! Runs everything that touches secrets under Valgrind with the secrets marked, and fails where a branch or an address depends on one.
//!
//! `scripts/constant-time` builds and starts it. What is found, and what is not: docs/constant-time.md.

#![forbid(unsafe_code)]

use std::error::Error;
use std::hint::black_box;

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_bfv::{Context, SecretKey, ShortCiphertext, ShortDecryptor, ShortModuli};
use restante_clue::{Clue, ClueKey, ClueParameters, ClueSecretKey};
use restante_ctgrind::{classify, declassify, errors, is_running};
use restante_dpf::{Bits, Bytes, Integers, Output, Parameters, Variant, generate};
use restante_omr::compact::{CompactContext, CompactParameters, CompactSecret};
use restante_omr::stream::{RecipientSecret, StreamContext, StreamParameters};
use restante_pir::search::{Preset, Query, Scheme, Shape};
use restante_ring::sample::{Gaussian, Seed};
use restante_ring::{Backend, Modulus, Word};
use restante_wire::binding::{Binding, BoardId, Period};
use restante_wire::merkle::Hash;
use restante_wire::{Decode, Encode};

type Outcome = Result<(), Box<dyn Error>>;

const CLUE: ClueParameters = ClueParameters::STANDARD;
const BOARD: BoardId = BoardId([3; 16]);
const PERIOD: Period = Period(20_000);
/// The hash of a payload.
const PAYLOAD: Hash = Hash([4; 32]);

fn main() {
    if !is_running() {
        eprintln!("ctgrind: run this under Valgrind, by scripts/constant-time");
        std::process::exit(2);
    }
    let mut wrong = 0;
    // What must be found, or nothing that is not found means anything.
    for (name, leak) in [("a branch", leaking_branch as fn(u8)), ("an address", leaking_address)] {
        let before = errors();
        leak(secret_byte());
        let found = errors() - before;
        println!("control, {name} that depends on a secret: found {found}, expected at least 1");
        wrong += usize::from(found == 0);
    }
    let mut check = |name: String, work: &dyn Fn() -> Outcome| {
        let before = errors();
        if let Err(error) = work() {
            println!("{name}: failed: {error}");
            wrong += 1;
        }
        let found = errors() - before;
        println!("{name}: {found} dependences on secrets");
        wrong += usize::from(found > 0);
    };
    check("samplers".into(), &samplers);
    check("making a clue key".into(), &|| {
        black_box(ClueSecretKey::new(CLUE, &secret_seed(1)).clue_key().to_bytes());
        Ok(())
    });
    check("making a clue".into(), &make_clue);
    check("distances of a clue".into(), &distances);
    for backend in [Backend::Scalar, Backend::Avx2] {
        if !backend.is_available() {
            println!("{backend}: NOT CHECKED: this processor, or Valgrind, has no such instructions");
            continue;
        }
        check(format!("stream detection key, {backend}"), &|| stream_key(backend));
        check(format!("decryption of a stream digest's block, {backend}"), &|| stream_block(backend));
        check(format!("compact detection key, {backend}"), &|| compact_key(backend));
        check(format!("decryption of a compact digest's ciphertext, {backend}"), &|| compact_block(backend));
        check(format!("private search's query, {backend}"), &|| search_query(backend));
    }
    for variant in [Variant::Plain, Variant::HalfTree] {
        check(format!("point function to bits, {variant:?}"), &|| point_function(variant, Bits, &mut true));
        check(format!("point function to bytes, {variant:?}"), &|| {
            point_function(variant, Bytes(40), &mut [7; 40][..])
        });
        check(format!("point function to integers, {variant:?}"), &|| {
            point_function(variant, Integers, &mut 9u64)
        });
    }
    if wrong > 0 {
        println!("{wrong} checks failed; Valgrind's log has the places");
        std::process::exit(1);
    }
}

fn secret_byte() -> u8 {
    let mut byte = black_box(5u8);
    classify(&mut byte);
    byte
}

#[inline(never)]
fn leaking_branch(secret: u8) {
    if secret > 3 {
        black_box(vec![1u8; 100]);
    }
}

#[inline(never)]
fn leaking_address(secret: u8) {
    let table = black_box([3u8; 256]);
    black_box(table[usize::from(secret)]);
}

/// A seed of which nothing is known.
fn secret_seed(name: u8) -> Seed {
    let mut bytes = [name; 32];
    classify(&mut bytes);
    Seed::from(bytes)
}

/// A vector of which nothing is known.
fn secrets<T: Clone>(value: T, count: usize) -> Vec<T> {
    let mut values = vec![value; count];
    classify(values.as_mut_slice());
    values
}

fn samplers() -> Outcome {
    fn uniform<W: Word>(q: u64) -> Outcome {
        let mut values = vec![W::default(); 1000];
        secret_seed(1).stream("check", &[]).uniform(&Modulus::<W>::new(q)?, &mut values);
        black_box(values);
        Ok(())
    }
    uniform::<u32>(786_433)?;
    uniform::<u64>(1_125_899_906_826_241)?;
    let mut values = vec![0; 1001];
    secret_seed(2).stream("check", &[]).ternary(&mut values);
    for gaussian in [Gaussian::Half, Gaussian::Standard] {
        secret_seed(3).stream("check", &[]).gaussian(gaussian, &mut values);
    }
    black_box(values);
    Ok(())
}

fn make_clue() -> Outcome {
    let maker = ClueSecretKey::new(CLUE, &Seed::from([1; 32])).clue_key().prepare();
    let draft = maker.draft(PERIOD, &mut secret_seed(2).stream("check", &[]));
    // The bound part is published.
    let bound = draft.bound_hash();
    declassify(&bound.0);
    black_box(draft.bind(&Binding::new(&BOARD, &bound, &PAYLOAD)).to_bytes());
    Ok(())
}

fn distances() -> Outcome {
    let secret = ClueSecretKey::new(CLUE, &secret_seed(1));
    // Clues are public: those that are for the key, and others.
    let key = secret.clue_key().to_bytes();
    declassify(key.as_slice());
    let maker = ClueKey::from_bytes(&CLUE, &key)?.prepare();
    let draft = maker.draft(PERIOD, &mut Seed::from([2; 32]).stream("check", &[]));
    let binding = Binding::new(&BOARD, &draft.bound_hash(), &PAYLOAD);
    let mut made = draft.bind(&binding).to_bytes();
    let honest = made.clone();
    made[9] ^= 1;
    for clue in [honest, made.clone(), vec![0; made.len()]] {
        let clue = Clue::from_bytes(&CLUE, &clue)?;
        black_box((secret.distances(&clue, &binding), secret.is_pertinent(&clue, &binding)));
    }
    Ok(())
}

fn stream_context(backend: Backend) -> Result<StreamContext, Box<dyn Error>> {
    Ok(StreamContext::new(StreamParameters::new(CLUE)?, backend)?)
}

fn stream_key(backend: Backend) -> Outcome {
    let context = stream_context(backend)?;
    let clue = ClueSecretKey::new(CLUE, &secret_seed(1));
    let secret = RecipientSecret::generate(&context, &secret_seed(2), &clue)?;
    black_box(secret.detection_key()?.to_file());
    Ok(())
}

/// Encryption, and decryption of what a detector could send: the ciphertext is public.
fn decrypt<W: Word>(context: &Context<W>, short: ShortModuli) -> Outcome {
    let secret = SecretKey::generate(context, &secret_seed(1));
    let t = context.plaintext_plan().modulus();
    let coefficients = secrets(t.reduce(5), context.degree());
    let ciphertext = secret.encrypt(Seed::from([2; 32]), &coefficients).expand();
    ciphertext.c0.limbs().chain(ciphertext.c1.limbs()).for_each(|(_, values)| declassify(values));
    black_box(secret.decrypt(&ciphertext));
    let ciphertext = ShortCiphertext::new(context, &ciphertext.into_coefficient(), short);
    let plaintext = ShortDecryptor::new(&secret)?.decrypt(&ciphertext, short);
    let slots = plaintext.coefficients.iter().map(|&value| W::truncate(value)).collect();
    black_box(context.encoder().coefficients_to_slots(slots));
    black_box(plaintext.error_deviation);
    Ok(())
}

fn stream_block(backend: Backend) -> Outcome {
    let context = stream_context(backend)?;
    decrypt(context.bfv(), context.parameters().short)
}

fn compact_context(backend: Backend) -> Result<CompactContext, Box<dyn Error>> {
    Ok(CompactContext::new(CompactParameters::insecure(CLUE)?, backend)?)
}

fn compact_key(backend: Backend) -> Outcome {
    let clue = ClueSecretKey::new(CLUE, &secret_seed(1));
    let secret = CompactSecret::generate(&compact_context(backend)?, &secret_seed(2), &clue)?;
    black_box(secret.detection_key()?.to_file());
    Ok(())
}

fn compact_block(backend: Backend) -> Outcome {
    let context = compact_context(backend)?;
    decrypt(context.circuit().context(), context.parameters().short)
}

fn secret_rng(name: u8) -> ChaCha20Rng {
    let mut bytes = [name; 32];
    classify(&mut bytes);
    ChaCha20Rng::from_seed(bytes)
}

fn search_query(backend: Backend) -> Outcome {
    let scheme = Scheme::new(Preset::insecure_for_tests(), backend)?;
    let buckets = secrets(3u32, 2);
    let (_, query) = Query::new(&scheme, Shape::new(8, 2)?, &buckets, b"note", b"", &mut secret_rng(1))?;
    black_box(query.to_file(&scheme));
    Ok(())
}

fn point_function<O: Output>(variant: Variant, output: O, message: &mut O::Message) -> Outcome {
    let mut point = 12_345u64;
    classify(&mut point);
    classify(message);
    let parameters = Parameters::new(1 << 20, output, variant)?;
    let keys = generate(&parameters, point, message, &mut secret_rng(1))?;
    black_box(keys.map(|key| key.seal().len()));
    Ok(())
}
