//! Primality, primes for a given ring degree, roots of unity.

pub use crate::primality::is_prime;
use crate::{Modulus, RingError, Word};

/// The `count` largest primes of exactly `bits` bits that are 1 modulo 2 `degree`, largest first.
pub fn ntt_primes(bits: u32, degree: usize, count: usize) -> Result<Vec<u64>, RingError> {
    let order = 2 * degree as u64;
    let too_few = RingError::TooFewPrimes { bits, order, count };
    if !(2..=62).contains(&bits) || degree == 0 {
        return Err(too_few);
    }
    let (low, high) = (1u64 << (bits - 1), 1u64 << bits);
    let top = (high - 2) / order * order + 1;
    let primes: Vec<u64> = (0..)
        .map_while(|step: u64| top.checked_sub(step.checked_mul(order)?))
        .take_while(|&candidate| candidate >= low)
        .filter(|&candidate| is_prime(candidate))
        .take(count)
        .collect();
    if primes.len() == count { Ok(primes) } else { Err(too_few) }
}

/// The smallest primitive root of unity of order `order`, a power of two.
///
/// Taking the smallest makes the order of evaluations a function of the modulus and the degree alone.
pub fn primitive_root<W: Word>(modulus: &Modulus<W>, order: u64) -> Result<W, RingError> {
    let q = modulus.as_u64();
    let missing = RingError::NoRootOfUnity { modulus: q, order };
    if !order.is_power_of_two() || (q - 1) % order != 0 {
        return Err(missing);
    }
    let minus_one = W::truncate(q - 1);
    let root = (2..q)
        .map(|candidate| modulus.pow(W::truncate(candidate), (q - 1) / order))
        .find(|&root| modulus.pow(root, order / 2) == minus_one)
        .ok_or(missing)?;
    let square = modulus.mul(root, root);
    let mut power = root;
    let mut smallest = root;
    for _ in 1..order / 2 {
        power = modulus.mul(power, square);
        smallest = smallest.min(power);
    }
    Ok(smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primality_agrees_with_trial_division() {
        let slow = |n: u64| n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| n % d != 0);
        for n in (0..20_000).chain((1 << 32) - 200..(1 << 32) + 200) {
            assert_eq!(is_prime(n), slow(n), "{n}");
        }
        // The largest prime below 2^64, and strong pseudoprimes to bases 2 to 13 and 2 to 23.
        assert!(is_prime(18_446_744_073_709_551_557));
        assert!(!is_prime(3_474_749_660_383));
        assert!(!is_prime(3_825_123_056_546_413_051));
    }

    #[test]
    fn primes_have_the_length_and_the_residue_asked_for() {
        for (bits, degree) in [(20, 1 << 10), (30, 1 << 12), (31, 1 << 12), (50, 1 << 16), (49, 1 << 17)] {
            let primes = ntt_primes(bits, degree, 3).unwrap();
            assert!(primes.windows(2).all(|pair| pair[0] > pair[1]));
            for prime in primes {
                assert!(is_prime(prime) && prime % (2 * degree as u64) == 1 && prime >> (bits - 1) == 1);
            }
        }
        assert!(matches!(ntt_primes(14, 1 << 13, 2), Err(RingError::TooFewPrimes { .. })));
    }

    #[test]
    fn roots_are_primitive_and_smallest() {
        for (q, order) in [(786_433u64, 2048u64), (12289, 4096), (17, 16)] {
            let modulus = Modulus::<u32>::new(q).unwrap();
            let root = primitive_root(&modulus, order).unwrap();
            let all: Vec<u32> =
                (1..q as u32).filter(|&x| modulus.pow(x, order / 2) == q as u32 - 1).collect();
            assert_eq!(all.len() as u64, order / 2);
            assert_eq!(root, all[0]);
        }
        let modulus = Modulus::<u32>::new(12289).unwrap();
        assert!(primitive_root(&modulus, 1 << 13).is_err());
    }
}
