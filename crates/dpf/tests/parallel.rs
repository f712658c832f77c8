//! Evaluation on many threads gives what evaluation on one gives.

#![allow(clippy::unwrap_used)] // In the helpers of tests as in the tests.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_dpf::{Bits, Bytes, Integers, Output, Parameters, Variant, generate};

fn check<O: Output>(domain: u64, output: O, point: u64, message: &O::Message, start: u64)
where
    O::Element: PartialEq,
{
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    let parameters = Parameters::new(domain, output, Variant::HalfTree).unwrap();
    for key in generate(&parameters, point, message, &mut rng).unwrap() {
        let evaluator = key.evaluator();
        let mut all = vec![O::Element::default(); parameters.output_elements(domain - start) as usize];
        evaluator.range(start..domain, &mut all).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let mut parallel = vec![O::Element::default(); all.len()];
        pool.install(|| evaluator.range_parallel(start..domain, &mut parallel)).unwrap();
        assert!(all == parallel, "{parameters:?}");
    }
}

#[test]
fn parallel_evaluation_equals_serial_evaluation() {
    check(1 << 21, Bits, 77, &true, 0);
    check(1_234_567, Bits, 1_234_566, &true, 808);
    check(300_001, Bytes(16), 5, &[9; 16], 1);
    check(100_000, Bytes(17), 99_999, &[9; 17], 77);
    check(500, Bytes(4096), 3, &[1; 4096], 0);
    check(200_000, Integers, 100, &7, 3);
    check(1, Integers, 0, &7, 0);
    check(7, Bytes(0), 0, &[], 0);
}

#[test]
fn one_evaluator_serves_many_threads() {
    let mut rng = ChaCha20Rng::from_seed([4; 32]);
    let parameters = Parameters::new(100_000, Integers, Variant::Plain).unwrap();
    let [key, _] = generate(&parameters, 31, &1, &mut rng).unwrap();
    let evaluator = key.evaluator();
    let mut expected = vec![0; 100_000];
    evaluator.all(&mut expected).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (evaluator, expected) = (&evaluator, &expected);
            scope.spawn(move || {
                let range = thread * 25_000..(thread + 1) * 25_000;
                let mut found = vec![0; 25_000];
                evaluator.range(range.clone(), &mut found).unwrap();
                assert_eq!(found, expected[range.start as usize..range.end as usize]);
                let mut one = [0];
                evaluator.point(range.start, &mut one).unwrap();
                assert_eq!(one[0], found[0]);
            });
        }
    });
}
