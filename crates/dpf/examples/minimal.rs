//! The smallest whole use: a message of one AES block at one of 3^10 points, evaluated everywhere by both parties.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_dpf::{Bytes, Parameters, Variant, generate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);

    let domain = 3u64.pow(10);
    let secret_index = 5;
    let secret_message = 1u128.to_le_bytes();

    let parameters = Parameters::new(domain, Bytes(16), Variant::HalfTree)?;
    let [key_a, key_b] = generate(&parameters, secret_index, &secret_message, &mut rng)?;

    let mut shares_a = vec![0; domain as usize * 16];
    let mut shares_b = vec![0; domain as usize * 16];
    key_a.evaluator().all(&mut shares_a)?;
    key_b.evaluator().all(&mut shares_b)?;

    for (index, (a, b)) in (0..).zip(shares_a.as_chunks::<16>().0.iter().zip(shares_b.as_chunks::<16>().0)) {
        let value = u128::from_le_bytes(*a) ^ u128::from_le_bytes(*b);
        assert_eq!(value, if index == secret_index { 1 } else { 0 });
    }
    println!("{domain} points, keys of {} bytes: right everywhere", parameters.key_bytes());
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
