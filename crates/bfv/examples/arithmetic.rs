//! Encrypts numbers, rotates them and multiplies them without the secret key, and shows what each step costs in noise.
//!
//! `cargo run --release -p restante-bfv --example arithmetic`

use restante_bfv::{
    Chain, Context, GaloisKey, KeySwitchingKey, Parameters, SecretKey, Security, SeededCiphertext,
};
use restante_ring::{Backend, primes::ntt_primes, sample::Seed};

const DEGREE: usize = 8192;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let primes = ntt_primes(49, DEGREE, 4)?;
    let parameters = Parameters {
        name: "example".into(),
        degree: DEGREE,
        plaintext_modulus: 786_433,
        ciphertext_moduli: primes[..3].to_vec(),
        special_moduli: primes[3..].to_vec(),
        // Refuses sets of less than 128 bits.
        security: Security::Classical128,
    };
    let context = Context::<u64>::new(parameters, Backend::best())?;
    println!("ring: N = {DEGREE}, log2 QP = {:.0}", context.parameters().key_modulus_bits());

    // A real program draws the secret seed, and each public one, from the operating system.
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    let element = GaloisKey::<u64>::rotation_element(DEGREE, 1);
    let rotation = GaloisKey::generate(&secret, element, 3, Seed::from([2; 32]))?;
    let relinearisation = KeySwitchingKey::relinearisation(&secret, 3, Seed::from([3; 32]))?;
    println!("key: {} bytes each on the wire", KeySwitchingKey::body_bytes(&context, 3));

    let slots: Vec<u64> = (0..DEGREE as u64).collect();
    let coefficients = context.encoder().slots_to_coefficients(&slots);
    let ciphertext = secret.encrypt(Seed::from([4; 32]), &coefficients).expand();
    let bytes = SeededCiphertext::body_bytes(&context);
    println!(
        "encrypted: {DEGREE} numbers in {bytes} bytes, noise budget {:.1} bits",
        secret.noise(&ciphertext).budget_bits()
    );

    let rotated = rotation.apply(&ciphertext);
    println!("rotated: noise budget {:.1} bits", secret.noise(&rotated).budget_bits());

    // Level 0 has all three primes; level 1, which a product is rescaled to, two.
    let chain = Chain::new(&context, &[vec![0, 1, 2], vec![0, 1]], 3)?;
    let product = chain.multiply(&chain.enter(&ciphertext, 0), &chain.enter(&rotated, 0));
    let product = chain.rescale(&chain.relinearise(&product, &relinearisation), 1);
    println!("multiplied: noise budget {:.1} bits", secret.leveled_noise(&chain, &product).budget_bits());

    let found = context.encoder().coefficients_to_slots(secret.decrypt_leveled(&chain, &product));
    println!("slots 40 to 43: {:?}", &found[40..44]);
    assert_eq!(found[40..44], [40 * 41, 41 * 42, 42 * 43, 43 * 44]);
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
