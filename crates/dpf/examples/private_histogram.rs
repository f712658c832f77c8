//! Private histogram: clients report one of 1000 categories each, two servers learn how often each was reported, and
//! neither learns what any client said.
//!
//! A client shares the function that is 1 at its category, in integers modulo 2^64. Each server adds up the shares of all
//! clients; the two sums add up to the histogram. (Clients are taken to be honest: one could report 1000 in one go.)

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use restante_dpf::{Integers, Parameters, Variant, generate};

const CATEGORIES: u64 = 1000;
const CLIENTS: usize = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);
    let parameters = Parameters::new(CATEGORIES, Integers, Variant::HalfTree)?;

    let mut truth = vec![0; CATEGORIES as usize];
    let mut sums = [vec![0u64; CATEGORIES as usize], vec![0; CATEGORIES as usize]];
    for _ in 0..CLIENTS {
        let category = rng.next_u64() % 30 * (rng.next_u64() % 30);
        truth[category as usize] += 1;
        let keys = generate(&parameters, category, &1, &mut rng)?;
        for (key, sum) in keys.iter().zip(&mut sums) {
            key.evaluator().blocks(0..CATEGORIES, |first, shares| {
                for (sum, share) in sum[first as usize..].iter_mut().zip(shares) {
                    *sum = sum.wrapping_add(*share);
                }
            })?;
        }
    }

    let histogram: Vec<u64> = sums[0].iter().zip(&sums[1]).map(|(a, b)| a.wrapping_add(*b)).collect();
    assert_eq!(histogram, truth);
    println!("{CLIENTS} reports of {} bytes to each server: the histogram is right", parameters.key_bytes());
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
