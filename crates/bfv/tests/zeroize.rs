//! What is left of secrets in the buffers that polynomials are stored in, which are kept for the next ones. The only test of its program: tests
//! that run beside it would take the buffers.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Mutex;

use restante_bfv::{Context, GaloisKey, KeySwitchingKey, Parameters, SecretKey, Security};
use restante_ring::{Backend, Coefficient, Poly, primes::ntt_primes, sample::Seed};
use zeroize::Zeroize;

/// The first limbs of the buffers that the next `count` polynomials get, which are cleared.
fn left_behind(context: &Context<u64>, count: usize) -> Vec<Vec<u64>> {
    let found = Mutex::new(Vec::new());
    // All are held until the last one is there, so that each is another buffer.
    let polys = (0..count).map(|_| {
        Poly::<u64, Coefficient>::build(context.ciphertext_basis(), |limb, _, values| {
            if limb == 0 {
                found.lock().unwrap().push(values.to_vec());
            }
            values.fill(0);
        })
    });
    drop(polys.collect::<Vec<_>>());
    found.into_inner().unwrap()
}

#[test]
fn no_error_and_no_secret_is_left_in_a_buffer() {
    // Long enough for buffers to be kept.
    let degree: usize = 1 << 14;
    let mut primes = ntt_primes(45, degree, 6).unwrap();
    let special_moduli = primes.split_off(4);
    let parameters = Parameters {
        name: "test".into(),
        degree,
        plaintext_modulus: 786_433,
        ciphertext_moduli: primes,
        special_moduli,
        security: Security::Classical128,
    };
    let context = Context::<u64>::new(parameters, Backend::best()).unwrap();
    let secret = SecretKey::generate(&context, &Seed::from([1; 32]));
    let basis = context.ciphertext_basis();
    let of_secret = Poly::<u64, Coefficient>::from_signed(basis, secret.coefficients());
    let mut secrets = vec![of_secret.limb(0).to_vec()];
    let mut of_secret = of_secret.into_evaluation();
    secrets.push(of_secret.limb(0).to_vec());
    // What the test itself would leave behind is held until its end.
    let check = |left: Vec<Vec<u64>>, secrets: &[Vec<u64>], what: &str| {
        assert!(left.iter().all(|buffer| !secrets.contains(buffer)), "{what} leaves a secret");
    };

    let relinearisation = KeySwitchingKey::relinearisation(&secret, 2, Seed::from([2; 32])).unwrap();
    drop((relinearisation, GaloisKey::generate(&secret, 3, 2, Seed::from([3; 32])).unwrap()));
    let left = left_behind(&context, 64);
    assert!(left.iter().any(|buffer| buffer.iter().any(|&word| word != 0)), "no buffer was kept");
    check(left, &secrets, "key generation");

    let ciphertext = secret.encrypt(Seed::from([4; 32]), &vec![0; degree]);
    // More than there can be from before, all of which are clear.
    let left = left_behind(&context, 128);
    // c0 + c1 s
    let ciphertext = ciphertext.expand();
    let mut error = ciphertext.c1.clone();
    error.mul_assign(&of_secret);
    error.add_assign(&ciphertext.c0);
    secrets.push(error.limb(0).to_vec());
    secrets.push(error.into_coefficient().limb(0).to_vec());
    assert!(secrets[3].iter().all(|&word| word < 64 || word > basis.plans()[0].modulus().as_u64() - 64));
    check(left, &secrets, "encryption");
    of_secret.zeroize();
}
