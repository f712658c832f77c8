//! Primality.

/// Whether `n` is prime: Miller–Rabin with the first twelve primes as bases, which is exact below 3.3 * 10^24
/// (Sorenson and Webster, Strong pseudoprimes to twelve prime bases, 2017).
pub fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 {
        return false;
    }
    if let Some(base) = BASES.iter().find(|&&base| n % base == 0) {
        return n == *base;
    }
    let mul = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(n)) as u64;
    let twos = (n - 1).trailing_zeros();
    BASES.iter().all(|&base| {
        let (mut power, mut square, mut exponent) = (1, base, (n - 1) >> twos);
        while exponent != 0 {
            if exponent & 1 == 1 {
                power = mul(power, square);
            }
            square = mul(square, square);
            exponent >>= 1;
        }
        if power == 1 || power == n - 1 {
            return true;
        }
        (1..twos).any(|_| {
            power = mul(power, power);
            power == n - 1
        })
    })
}
