//! Deep circuits against plaintext arithmetic, and noise against its estimates, in a small insecure ring.

#![allow(clippy::unwrap_used)]

use restante_bfv::{
    Chain, Context, GaloisKey, KeySwitchingKey, Leveled, Parameters, SecretKey, Security, noise, ring_switch,
};
use restante_ring::{Backend, primes::ntt_primes, sample::Seed};

const DEGREE: usize = 256;
const T: u64 = 786_433;
const DIGITS: usize = 3;

/// Q: primes of 24 and 36 bits, then six of 48; P: two of 49.
fn context(backend: Backend) -> Context<u64> {
    let mut ciphertext_moduli = ntt_primes(24, DEGREE, 1).unwrap();
    ciphertext_moduli.extend(ntt_primes(36, DEGREE, 1).unwrap());
    ciphertext_moduli.extend(ntt_primes(48, DEGREE, 6).unwrap());
    let parameters = Parameters {
        name: "deep test".into(),
        degree: DEGREE,
        plaintext_modulus: T,
        ciphertext_moduli,
        special_moduli: ntt_primes(49, DEGREE, 3).unwrap(),
        security: Security::InsecureForTests,
    };
    Context::new(parameters, backend).unwrap()
}

/// Levels of 348, 312, 276, 240, 204, 168, 132, 96 and 60 bits.
fn levels() -> Vec<Vec<usize>> {
    let mut levels = vec![(0..8).collect::<Vec<_>>()];
    for bigs in (0..=6).rev() {
        for short in [vec![], vec![1], vec![0], vec![0, 1]] {
            levels.push(short.into_iter().chain(2..2 + bigs).collect());
        }
    }
    let bits = |level: &Vec<usize>| level.iter().map(|&limb| [24, 36, 48][limb.min(2)]).sum::<u32>();
    levels.sort_by_key(|level| std::cmp::Reverse(bits(level)));
    levels.dedup_by_key(|level| bits(level));
    levels.into_iter().filter(|level| bits(level) % 36 == 24 && bits(level) >= 60).collect()
}

struct Setting {
    chain: Chain<u64>,
    secret: SecretKey<u64>,
    relinearisation: KeySwitchingKey<u64>,
}

impl Setting {
    fn new(backend: Backend) -> Self {
        let context = context(backend);
        let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
        let relinearisation = KeySwitchingKey::relinearisation(&secret, DIGITS, Seed::from([2; 32])).unwrap();
        Self { chain: Chain::new(&context, &levels(), DIGITS).unwrap(), secret, relinearisation }
    }

    fn slots(&self, salt: u64) -> Vec<u64> {
        let mut values = vec![0; DEGREE];
        let t = self.chain.context().plaintext_plan().modulus();
        Seed::from([3; 32]).stream("test", &[salt]).uniform(t, &mut values);
        values
    }

    fn encrypt(&self, slots: &[u64], salt: u8) -> Leveled<u64> {
        let coefficients = self.chain.context().encoder().slots_to_coefficients(slots);
        self.chain.enter(&self.secret.encrypt(Seed::from([salt; 32]), &coefficients).expand(), 0)
    }

    fn decrypt(&self, ciphertext: &Leveled<u64>) -> Vec<u64> {
        let coefficients = self.secret.decrypt_leveled(&self.chain, ciphertext);
        self.chain.context().encoder().coefficients_to_slots(coefficients)
    }

    fn noise(&self, ciphertext: &Leveled<u64>) -> f64 {
        self.secret.leveled_noise(&self.chain, ciphertext).deviation_bits
    }
}

fn close(what: &str, measured: f64, estimated: f64, tolerance: f64) {
    assert!((measured - estimated).abs() < tolerance, "{what}: {measured:.2} bits, estimated {estimated:.2}");
}

#[test]
fn circuits_agree_with_plaintext_arithmetic_on_every_level() {
    for backend in Backend::available() {
        let setting = Setting::new(backend);
        let (chain, key) = (&setting.chain, &setting.relinearisation);
        let mul = |a: u64, b: u64| a * b % T;
        let (mut x, y) = (setting.slots(1), setting.slots(2));
        let (mut a, b) = (setting.encrypt(&x, 11), setting.encrypt(&y, 12));
        assert_eq!(setting.decrypt(&a), x);
        for level in 1..chain.levels() {
            // x := x y + x^2, both summands relinearised at once.
            let b = chain.rescale(&b, level - 1);
            assert_eq!(setting.decrypt(&b), y);
            let mut product = chain.multiply(&a, &b);
            assert_eq!(product.parts().len(), 3);
            let square = chain.square(&a);
            let expected: Vec<u64> = x.iter().zip(&y).map(|(&x, &y)| mul(x, y)).collect();
            assert_eq!(setting.decrypt(&product), expected);
            x = if a.factor() == b.factor() {
                product.add_assign(&square);
                x.iter().zip(&y).map(|(&x, &y)| (mul(x, y) + mul(x, x)) % T).collect()
            } else {
                expected
            };
            let apart = chain.rescale(&chain.relinearise(&product, key), level);
            a = chain.relinearise_and_rescale(&product, key, level);
            assert_eq!(setting.decrypt(&a), x, "level {level}");
            assert_eq!(setting.decrypt(&apart), x);
            assert_eq!((a.level(), a.factor()), (level, apart.factor()));
        }
        chain.add_constant(&mut a, 5);
        let coefficients = chain.context().encoder().slots_to_coefficients(&y);
        chain.add_plain(&mut a, &coefficients);
        chain.mul_scalar(&mut a, 3);
        let expected: Vec<u64> = x.iter().zip(&y).map(|(&x, &y)| 3 * (x + 5 + y) % T).collect();
        assert_eq!(setting.decrypt(&a), expected);
        let (bfv, factor) = chain.leave(&a);
        assert_eq!(bfv.c0.basis(), chain.basis(chain.levels() - 1));
        assert_ne!(factor, 0);
    }
}

#[test]
fn sums_with_scalars_make_up_for_factors() {
    let setting = Setting::new(Backend::best());
    let (x, y) = (setting.slots(1), setting.slots(2));
    let a = setting.chain.rescale(&setting.encrypt(&x, 11), 1);
    let b = setting.chain.rescale(&setting.encrypt(&y, 12), 1);
    let t = setting.chain.context().plaintext_plan().modulus();
    let scalar = |ciphertext: &Leveled<u64>, value| t.mul(value, t.inv(ciphertext.factor()));
    let sum = setting.chain.scalar_sum(&[(&a, scalar(&a, 700_000)), (&b, scalar(&b, 13))]);
    let expected: Vec<u64> = x.iter().zip(&y).map(|(&x, &y)| (700_000 * x + 13 * y) % T).collect();
    assert_eq!(setting.decrypt(&sum), expected);
    assert_eq!(sum.factor(), 1);
}

#[test]
fn rotations_work_on_every_level() {
    let setting = Setting::new(Backend::best());
    let x = setting.slots(1);
    let (top, bottom) = x.split_at(DEGREE / 2);
    let element = GaloisKey::<u64>::rotation_element(DEGREE, 5);
    let key = GaloisKey::generate(&setting.secret, element, DIGITS, Seed::from([4; 32])).unwrap();
    let fresh = setting.encrypt(&x, 11);
    for level in 0..setting.chain.levels() {
        let rotated = setting.chain.rotate(&setting.chain.rescale(&fresh, level), &key);
        let mut expected = [top, bottom].map(<[u64]>::to_vec);
        expected.iter_mut().for_each(|row| row.rotate_left(5));
        assert_eq!(setting.decrypt(&rotated), expected.concat(), "level {level}");
    }
}

#[test]
fn noise_is_as_estimated() {
    let setting = Setting::new(Backend::best());
    let (chain, key) = (&setting.chain, &setting.relinearisation);
    let fresh = setting.encrypt(&setting.slots(1), 11);
    let estimate = noise::fresh_bits(T);
    close("fresh", setting.noise(&fresh), estimate, 0.2);

    let other = setting.encrypt(&setting.slots(2), 12);
    let product = noise::product_bits(DEGREE, estimate, estimate);
    close("product", setting.noise(&chain.multiply(&fresh, &other)), product, 0.4);
    let square = noise::square_bits(DEGREE, estimate);
    close("square", setting.noise(&chain.square(&fresh)), square, 0.4);

    let coefficients = chain.context().encoder().slots_to_coefficients(&setting.slots(3));
    let mut by_plain = fresh.clone();
    by_plain.mul_plain(&chain.to_factor(0, &coefficients));
    let plain = noise::product_bits(DEGREE, estimate, noise::plaintext_bits(T));
    close("plain product", setting.noise(&by_plain), plain, 0.3);

    let rescaled = noise::rescaled_bits(DEGREE, T, product, 36.0);
    for ciphertext in [
        chain.rescale(&chain.relinearise(&chain.multiply(&fresh, &other), key), 1),
        chain.relinearise_and_rescale(&chain.multiply(&fresh, &other), key, 1),
    ] {
        close("rescaled", setting.noise(&ciphertext), rescaled, 0.4);
    }
    // Key switching alone, on a ciphertext with as little noise as there can be.
    let element = GaloisKey::<u64>::rotation_element(DEGREE, 1);
    let galois = GaloisKey::generate(&setting.secret, element, DIGITS, Seed::from([4; 32])).unwrap();
    let switched = noise::key_switching_bits(DEGREE, T, DIGITS, 144.0, 147.0);
    let low = chain.rescale(&fresh, 1);
    let expected = noise::sum_bits(&[noise::rounding_bits(DEGREE, T), switched]);
    close("rotated", setting.noise(&chain.rotate(&low, &galois)), expected, 0.4);
}

#[test]
fn rings_are_switched() {
    const SPREAD: usize = 4;
    let large = |degree: usize| {
        let parameters = Parameters {
            name: "ring switch test".into(),
            degree,
            plaintext_modulus: T,
            ciphertext_moduli: ntt_primes(48, DEGREE, 1).unwrap(),
            special_moduli: ntt_primes(49, DEGREE, 1).unwrap(),
            security: Security::InsecureForTests,
        };
        Context::<u64>::new(parameters, Backend::best()).unwrap()
    };
    let (large, small) = (large(DEGREE), large(DEGREE / SPREAD));
    let secret = SecretKey::generate(&large, &Seed::from([1; 32]));
    let small_secret = SecretKey::generate(&small, &Seed::from([2; 32]));
    let target = SecretKey::embed(&large, &small_secret);
    let key = KeySwitchingKey::generate_to(&secret, &target, 1, Seed::from([4; 32])).unwrap();
    let chain = Chain::new(&large, &[vec![0]], 1).unwrap();
    let coefficients: Vec<u64> = (0..DEGREE as u64).map(|i| i * 7919 % T).collect();
    let ciphertext = chain.enter(&secret.encrypt(Seed::from([5; 32]), &coefficients).expand(), 0);
    let switched = chain.switch_key(&ciphertext, &key);
    assert_eq!(target.decrypt_leveled(&chain, &switched), coefficients);
    let (bfv, factor) = chain.leave(&switched);
    let low = ring_switch::to_subring(&small, &bfv.into_coefficient());
    let found = small_secret.decrypt(&low.into_evaluation());
    let expected: Vec<u64> = coefficients.iter().step_by(SPREAD).map(|&m| factor * m % T).collect();
    assert_eq!(found, expected);
}

#[test]
fn impossible_levels_are_refused() {
    let context = context(Backend::best());
    assert!(Chain::new(&context, &[vec![]], 1).is_err());
    assert!(Chain::new(&context, &[vec![0, 8]], 1).is_err());
    assert!(Chain::new(&context, &[vec![0]], 0).is_err());
    assert!(Chain::new(&context, &[vec![0]], 9).is_err());
}

/// The other way round every coefficient would fall into one, and the secret could be guessed.
#[test]
#[should_panic(expected = "a ring of degree 256 is not part of one of degree 64")]
fn a_large_secret_is_not_embedded_in_a_small_ring() {
    let large = context(Backend::best());
    let parameters = Parameters { degree: 64, ..large.parameters().clone() };
    let small = Context::new(parameters, Backend::best()).unwrap();
    SecretKey::embed(&small, &SecretKey::generate(&large, &Seed::from([1; 32])));
}
