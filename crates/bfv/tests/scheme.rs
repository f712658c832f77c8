//! The scheme against plaintext arithmetic, for both word classes and every back end.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use restante_bfv::{
    BfvError, Ciphertext, Context, FineGaloisKey, GaloisKey, KeySwitchingKey, Parameters, SecretKey,
    Security, SeededCiphertext, ShortCiphertext, ShortDecryptor, ShortModuli, max_modulus_bits,
};
use restante_ring::{Backend, Evaluation, Poly, Word, primes::ntt_primes, sample::Seed};
use restante_wire::{Reader, WireError};

const DEGREE: usize = 256;
const PLAINTEXT_MODULUS: u64 = 786_433;

fn parameters(bits: u32, limbs: usize, special: usize) -> Parameters {
    let primes = ntt_primes(bits, DEGREE, limbs + special).unwrap();
    Parameters {
        name: "test".into(),
        degree: DEGREE,
        plaintext_modulus: PLAINTEXT_MODULUS,
        ciphertext_moduli: primes[..limbs].to_vec(),
        special_moduli: primes[limbs..].to_vec(),
        security: Security::InsecureForTests,
    }
}

fn context<W: Word>(bits: u32, limbs: usize, special: usize, backend: Backend) -> Context<W> {
    Context::new(parameters(bits, limbs, special), backend).unwrap()
}

fn slots<W: Word>(context: &Context<W>, salt: u64) -> Vec<W> {
    let mut values = vec![W::default(); context.degree()];
    Seed::from([3; 32]).stream("test", &[salt]).uniform(context.plaintext_plan().modulus(), &mut values);
    values
}

fn encrypt<W: Word>(secret: &SecretKey<W>, slots: &[W], salt: u8) -> Ciphertext<W, Evaluation> {
    let coefficients = secret.context().encoder().slots_to_coefficients(slots);
    secret.encrypt(Seed::from([salt; 32]), &coefficients).expand()
}

fn decrypt<W: Word>(secret: &SecretKey<W>, ciphertext: &Ciphertext<W, Evaluation>) -> Vec<W> {
    secret.context().encoder().coefficients_to_slots(secret.decrypt(ciphertext))
}

/// Every combination that the tests below run with.
fn for_every_context(check32: impl Fn(Context<u32>), check64: impl Fn(Context<u64>)) {
    for backend in Backend::available() {
        for (limbs, special) in [(2, 1), (2, 2), (3, 2)] {
            check32(context(30, limbs, special, backend));
            check64(context(50, limbs, special, backend));
        }
    }
}

fn arithmetic<W: Word>(context: Context<W>) {
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    let t = *context.plaintext_plan().modulus();
    let (x, y) = (slots(&context, 1), slots(&context, 2));
    let (a, b) = (encrypt(&secret, &x, 11), encrypt(&secret, &y, 12));
    let map = |f: &dyn Fn(W, W) -> W| -> Vec<W> { x.iter().zip(&y).map(|(&x, &y)| f(x, y)).collect() };
    assert_eq!(decrypt(&secret, &a), x);

    let mut sum = a.clone();
    sum.add_assign(&b);
    assert_eq!(decrypt(&secret, &sum), map(&|x, y| t.add(x, y)));

    let mut difference = a.clone();
    difference.sub_assign(&b);
    difference.negate();
    assert_eq!(decrypt(&secret, &difference), map(&|x, y| t.sub(y, x)));

    let coefficients = context.encoder().slots_to_coefficients(&y);
    let mut shifted = a.clone();
    shifted.add_plain(&context.encoder().to_summand(&coefficients).into_evaluation());
    assert_eq!(decrypt(&secret, &shifted), map(&|x, y| t.add(x, y)));

    let factor = context.encoder().to_factor(&coefficients);
    let mut product = a.clone();
    product.mul_plain(&factor);
    assert_eq!(decrypt(&secret, &product), map(&|x, y| t.mul(x, y)));
    product.mul_plain_add(&b, &factor);
    assert_eq!(decrypt(&secret, &product), map(&|x, y| t.add(t.mul(x, y), t.mul(y, y))));

    let zero = Ciphertext::zero(&context);
    assert!(decrypt(&secret, &zero).iter().all(|&value| value == W::default()));
}

#[test]
fn homomorphic_arithmetic_agrees_with_plaintext_arithmetic() {
    for_every_context(arithmetic, arithmetic);
}

fn rotations<W: Word>(context: Context<W>) {
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    let x = slots(&context, 1);
    let ciphertext = encrypt(&secret, &x, 11);
    let (top, bottom) = x.split_at(DEGREE / 2);
    for digits in 1..=context.ciphertext_basis().limbs() {
        // Without enough special moduli a long digit's noise would swallow the message; the key still decodes.
        let special: u64 = context.parameters().special_moduli.len() as u64;
        if context.ciphertext_basis().limbs().div_ceil(digits) as u64 > special {
            continue;
        }
        for columns in [1, 5, DEGREE / 2 - 1] {
            let element = GaloisKey::<W>::rotation_element(DEGREE, columns);
            let key = GaloisKey::generate(&secret, element, digits, Seed::from([21; 32])).unwrap();
            let rotated = key.apply(&ciphertext);
            let mut expected = [top, bottom].map(<[W]>::to_vec);
            expected.iter_mut().for_each(|row| row.rotate_left(columns));
            assert_eq!(decrypt(&secret, &rotated), expected.concat());
            let hoisted = key.apply_hoisted(&ciphertext, &key.decompose(&ciphertext));
            assert_eq!(hoisted, rotated);

            let mut bytes = Vec::new();
            key.key().encode_body(&mut bytes);
            assert_eq!(bytes.len(), KeySwitchingKey::body_bytes(&context, digits));
            let mut reader = Reader::new("key", &bytes);
            let loaded =
                GaloisKey::decode_body(&context, element, digits, Seed::from([21; 32]), &mut reader).unwrap();
            reader.finish().unwrap();
            assert_eq!(loaded.apply(&ciphertext), rotated);
            let mut again = Vec::new();
            loaded.key().encode_body(&mut again);
            assert_eq!(again, bytes, "saving a loaded key changes nothing");
        }
        let element = GaloisKey::<W>::row_swap_element(DEGREE);
        let key = GaloisKey::generate(&secret, element, digits, Seed::from([22; 32])).unwrap();
        assert_eq!(decrypt(&secret, &key.apply(&ciphertext)), [bottom, top].concat());
    }
}

#[test]
fn rotations_move_slots_and_keys_survive_the_wire() {
    for_every_context(rotations, rotations);
}

#[test]
fn key_switching_noise_is_as_estimated() {
    let context = context::<u32>(30, 2, 2, Backend::best());
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    let ciphertext = encrypt(&secret, &slots(&context, 1), 11);
    let fresh = secret.noise(&ciphertext);
    // Error 3.2 and the rounding of the message.
    assert!((fresh.deviation_bits - 3.2f64.log2()).abs() < 0.2, "{fresh:?}");
    let element = GaloisKey::<u32>::rotation_element(DEGREE, 1);
    for (digits, gadget) in [(1, 1.0), (2, 0.0)] {
        let key = GaloisKey::generate(&secret, element, digits, Seed::from([21; 32])).unwrap();
        let noise = secret.noise(&key.apply(&ciphertext)).deviation_bits;
        let n = DEGREE as f64;
        let rounding = (1.0 + 2.0 * n / 3.0) / 12.0;
        // Digits of the size of P: each multiplies an error of variance 3.2^2 by up to P/sqrt(12), over P.
        let switching = gadget * n * 3.2f64.powi(2) / 12.0;
        let expected = (3.2f64.powi(2) + rounding + switching).sqrt().log2();
        assert!((noise - expected).abs() < 0.4, "{digits} digits: {noise}, expected {expected}");
    }
}

#[test]
fn noise_is_measured_exactly_and_may_exceed_one_limb() {
    let context = context::<u64>(50, 3, 1, Backend::best());
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    let x = slots(&context, 1);
    for noise_bits in [0u32, 10, 49, 100, 125] {
        // A ciphertext under any key: c1 = 0, c0 = Q/t m + noise. The noise is larger than one prime at the end.
        let coefficients = context.encoder().slots_to_coefficients(&x);
        let mut c0 = context.encoder().to_summand(&coefficients);
        for place in 0..DEGREE {
            for limb in 0..3 {
                let modulus = *context.ciphertext_basis().plans()[limb].modulus();
                let power = modulus.pow(2, noise_bits.into());
                let noise = if place % 2 == 0 { power } else { modulus.neg(power) };
                let value = &mut c0.limb_mut(limb)[place];
                *value = modulus.add(*value, noise);
            }
        }
        let c1 = Poly::zero(context.ciphertext_basis());
        let ciphertext = Ciphertext { c0: c0.into_evaluation(), c1 };
        let noise = secret.noise(&ciphertext);
        assert!((noise.max_bits - f64::from(noise_bits)).abs() < 0.6, "{noise_bits}: {noise:?}");
        assert!(noise.budget_bits() > 0.0);
        assert_eq!(decrypt(&secret, &ciphertext), x);
    }
}

fn short<W: Word>(context: Context<W>) {
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    let decryptor = ShortDecryptor::new(&secret).unwrap();
    let moduli = ShortModuli::new(23, 27).unwrap();
    let x = slots(&context, 1);
    let coefficients = context.encoder().slots_to_coefficients(&x);
    let ciphertext = encrypt(&secret, &x, 11).into_coefficient();
    let short = ShortCiphertext::new(&context, &ciphertext, moduli);
    let mut bytes = Vec::new();
    short.encode(moduli, &mut bytes);
    assert_eq!(bytes.len(), moduli.ciphertext_bytes(DEGREE));
    let mut reader = Reader::new("short", &bytes);
    let loaded = ShortCiphertext::decode(DEGREE, moduli, &mut reader).unwrap();
    assert_eq!(loaded, short);
    let found = decryptor.decrypt(&loaded, moduli);
    let expected: Vec<u64> = coefficients.iter().map(|&value| value.into()).collect();
    assert_eq!(*found.coefficients, expected);
    let deviation = moduli.rounding_deviation(DEGREE, PLAINTEXT_MODULUS);
    assert!((found.error_deviation / deviation - 1.0).abs() < 0.2, "{} {deviation}", found.error_deviation);
    // A ciphertext for another key is noise, and says so.
    let stranger = ShortDecryptor::new(&SecretKey::generate(&context, &Seed::from([2; 32]))).unwrap();
    assert!((stranger.decrypt(&loaded, moduli).error_deviation - 12f64.powf(-0.5)).abs() < 0.03);
    for (c0, c1) in [(0, 5), (6, 5), (5, 49)] {
        assert!(matches!(ShortModuli::new(c0, c1), Err(BfvError::ShortModuli { .. })));
    }
}

#[test]
fn short_ciphertexts_decrypt() {
    for_every_context(short, short);
}

/// Case 24 of the field: a seed expanded alike for two rows gives the secret away.
#[test]
fn no_two_rows_are_related() {
    let context = context::<u32>(30, 3, 1, Backend::best());
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    let mut rows: Vec<[Poly<u32, Evaluation>; 2]> = Vec::new();
    for salt in [1, 2] {
        let element = GaloisKey::<u32>::rotation_element(DEGREE, salt.into());
        let key = GaloisKey::generate(&secret, element, 3, Seed::from([salt; 32])).unwrap();
        rows.extend(key.key().rows().map(|row| row.map(Clone::clone)));
    }
    let limbs = 0..context.ciphertext_basis().limbs();
    let rows: Vec<_> = rows
        .iter()
        .map(|row| row.each_ref().map(|half| half.part(limbs.clone())))
        .chain([11, 12].map(|salt| {
            let ciphertext = encrypt(&secret, &slots(&context, 1), salt);
            [ciphertext.c0, ciphertext.c1]
        }))
        .collect();
    let is_short = |poly: Poly<u32, Evaluation>| {
        let poly = poly.into_coefficient();
        poly.limbs().any(|(plan, values)| {
            let largest = values.iter().map(|&value| plan.modulus().to_signed(value).unsigned_abs()).max();
            largest.unwrap() < plan.modulus().as_u64() / 4
        })
    };
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[..i] {
            for (x, y) in (1..=4).flat_map(|x| (-4..=4).map(move |y| (x, y))) {
                for half in 0..2 {
                    let scaled = |poly: &Poly<u32, Evaluation>, factor: i64| {
                        let mut poly = poly.clone();
                        let factors: Vec<_> = poly
                            .basis()
                            .plans()
                            .iter()
                            .map(|plan| plan.modulus().multiplier(plan.modulus().from_signed(factor)))
                            .collect();
                        poly.scale(&factors);
                        poly
                    };
                    let mut combination = scaled(&a[half], x);
                    combination.add_assign(&scaled(&b[half], y));
                    assert!(!is_short(combination), "{x} row {i} + {y} another, half {half}");
                }
            }
        }
    }
    // The check itself finds what it is for: a row minus itself plus a small error.
    let mut related = rows[0][1].clone();
    related.sub_assign(&rows[0][1]);
    assert!(is_short(related));
}

#[test]
fn bytes_from_outside_are_checked() {
    let context = context::<u32>(30, 2, 1, Backend::best());
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    let seed = Seed::from([11; 32]);
    let coefficients = context.encoder().slots_to_coefficients(&slots(&context, 1));
    let mut bytes = Vec::new();
    secret.encrypt(seed.clone(), &coefficients).encode_body(&mut bytes);
    assert_eq!(bytes.len(), SeededCiphertext::body_bytes(&context));
    let decode = |bytes: &[u8]| {
        SeededCiphertext::decode_body(&context, seed.clone(), &mut Reader::new("ciphertext", bytes))
    };
    assert_eq!(decrypt(&secret, &decode(&bytes).unwrap().expand()), slots(&context, 1));
    assert!(matches!(decode(&bytes[..bytes.len() - 1]), Err(WireError::Truncated { .. })));
    bytes[..8].fill(0xff);
    assert!(matches!(decode(&bytes), Err(WireError::OutOfRange { what: "residue", .. })));
}

#[test]
fn insecure_and_impossible_parameters_are_refused() {
    let backend = Backend::best();
    let secure = |bits: &[u32], special: &[u32]| Parameters {
        name: "candidate".into(),
        degree: 4096,
        plaintext_modulus: PLAINTEXT_MODULUS,
        ciphertext_moduli: bits.iter().map(|&bits| ntt_primes(bits, 4096, 1).unwrap()[0]).collect(),
        special_moduli: special.iter().map(|&bits| ntt_primes(bits, 4096, 2).unwrap()[1]).collect(),
        security: Security::Classical128,
    };
    assert!(Context::<u64>::new(secure(&[49], &[49]), backend).is_ok());
    let refused = Context::<u64>::new(secure(&[49], &[50, 20]), backend).unwrap_err();
    assert!(matches!(refused, BfvError::Insecure { allowed: 106, .. }), "{refused}");
    // A degree that the standard does not list allows nothing.
    let odd = Parameters { degree: 512, ..secure(&[25], &[26]) };
    assert!(matches!(Context::<u64>::new(odd, backend), Err(BfvError::Insecure { allowed: 0, .. })));
    assert_eq!(max_modulus_bits(65536), 1739);

    let wide = Parameters { plaintext_modulus: (1 << 31) - 1, ..secure(&[30], &[31]) };
    assert!(matches!(Context::<u32>::new(wide, backend), Err(BfvError::PlaintextModulus { .. })));
    let few_roots = Parameters { plaintext_modulus: 12289, ..secure(&[30], &[31]) };
    assert!(matches!(Context::<u32>::new(few_roots, backend), Err(BfvError::Ring(_))));
    let twice = Parameters { special_moduli: secure(&[30], &[]).ciphertext_moduli, ..secure(&[30], &[]) };
    assert!(matches!(Context::<u32>::new(twice, backend), Err(BfvError::Ring(_))));

    let context = context::<u32>(30, 2, 1, backend);
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    for digits in [0, 3] {
        let key = GaloisKey::generate(&secret, 3, digits, Seed::from([1; 32]));
        assert!(matches!(key, Err(BfvError::Digits { limbs: 2, .. })));
    }
}

#[test]
fn debug_output_hides_secrets() {
    let context = context::<u32>(30, 2, 1, Backend::best());
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    assert_eq!(format!("{secret:?}"), "SecretKey { .. }");
    let decryptor = ShortDecryptor::new(&secret).unwrap();
    assert_eq!(format!("{decryptor:?}"), "ShortDecryptor { .. }");
}

/// Digits of 17 bits under a special prime of 22 bits, where digits as long as a prime would drown the plaintext.
fn fine<W: Word>(bits: u32, special_bits: u32, backend: Backend) {
    let mut parameters = parameters(bits, 3, 0);
    parameters.special_moduli = ntt_primes(special_bits, DEGREE, 1).unwrap();
    let context = Context::<W>::new(parameters, backend).unwrap();
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    let x = slots(&context, 1);
    let a = encrypt(&secret, &x, 11);
    let pieces = bits.div_ceil(special_bits - 5);
    for element in [3, DEGREE as u64 / 8 + 1, 2 * DEGREE as u64 - 1] {
        let public = Seed::from([21; 32]);
        let key = FineGaloisKey::generate(&secret, element, pieces, &public).unwrap();
        let mut bytes = Vec::new();
        key.encode_body(&mut bytes);
        assert_eq!(bytes.len(), FineGaloisKey::body_bytes(&context, pieces));
        let mut reader = Reader::new("key", &bytes);
        let loaded = FineGaloisKey::decode_body(&context, element, pieces, &public, &mut reader).unwrap();
        reader.finish().unwrap();
        assert_eq!(loaded.rows(), key.rows());
        let rotated = loaded.apply(&a);
        let map = restante_ring::Automorphism::new(element, DEGREE).unwrap();
        let expected = Poly::<W, _>::from_limbs(&context.ciphertext_basis().part(0..1), |_, _, values| {
            values.copy_from_slice(&context.encoder().slots_to_coefficients(&x));
        });
        // Modulo a prime above t: residues and their opposites are told apart by their size.
        let (q, t) = (*context.ciphertext_basis().plans()[0].modulus(), *context.plaintext_plan().modulus());
        let expected = map.apply_coefficient(&expected);
        let expected: Vec<W> = expected
            .limb(0)
            .iter()
            .map(|&value| t.reduce(q.to_signed(value).rem_euclid(PLAINTEXT_MODULUS as i64) as u64))
            .collect();
        assert_eq!(secret.decrypt(&rotated), expected);
        // The rounding error's deviation, sqrt((1 + 2N/3)/12), and a bit.
        let noise = secret.noise(&rotated);
        let rounding = ((1.0 + 2.0 * DEGREE as f64 / 3.0) / 12.0).sqrt().log2();
        assert!(noise.deviation_bits < rounding + 1.0, "{noise:?} {rounding}");
    }
    let refused = FineGaloisKey::generate(&secret, 3, 1, &Seed::from([1; 32]));
    assert!(matches!(refused, Err(BfvError::Pieces { .. })));
    assert!(matches!(
        FineGaloisKey::generate(&secret, 3, 0, &Seed::from([1; 32])),
        Err(BfvError::Pieces { .. })
    ));
}

#[test]
fn fine_galois_keys_add_little_noise_under_a_short_special_modulus() {
    for backend in Backend::available() {
        fine::<u32>(30, 21, backend);
        fine::<u64>(50, 22, backend);
    }
}

#[test]
fn long_short_moduli_decrypt() {
    let mut parameters = parameters(47, 3, 1);
    parameters.plaintext_modulus =
        (1u64 << 32 >> 9..).map(|k| (k << 9) + 1).find(|&t| restante_ring::primes::is_prime(t)).unwrap();
    let context = Context::<u64>::new(parameters, Backend::best()).unwrap();
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    let decryptor = ShortDecryptor::new(&secret).unwrap();
    let x = slots(&context, 1);
    let ciphertext = encrypt(&secret, &x, 11).into_coefficient();
    for (c0, c1) in [(36, 41), (40, 48), (37, 39)] {
        let moduli = ShortModuli::new(c0, c1).unwrap();
        let found = decryptor.decrypt(&ShortCiphertext::new(&context, &ciphertext, moduli), moduli);
        assert_eq!(*found.coefficients, context.encoder().slots_to_coefficients(&x));
        let deviation = moduli.rounding_deviation(DEGREE, context.parameters().plaintext_modulus);
        assert!(
            (found.error_deviation / deviation - 1.0).abs() < 0.2,
            "{} {deviation}",
            found.error_deviation
        );
    }
}
