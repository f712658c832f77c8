"""Parameter sets and their ids (docs/format.md, Parameter ids)."""

from binding import WORDS
from envelope import parameter_id


def is_prime(number):
    """Miller and Rabin's test with bases that decide every number below 2^64."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if number < 2 or any(number % base == 0 for base in bases):
        return number in bases
    odd = number - 1
    twos = (odd & -odd).bit_length() - 1
    odd >>= twos
    for base in bases:
        power = pow(base, odd, number)
        if power not in (1, number - 1) and all(
            (power := power * power % number) != number - 1 for _ in range(twos - 1)
        ):
            return False
    return True


def ntt_primes(bits, degree, count):
    """The largest primes of so many bits that are 1 modulo 2N, the largest first."""
    candidate = (2**bits - 1) // (2 * degree) * 2 * degree + 1
    primes = []
    while len(primes) < count:
        if candidate < 2**bits and is_prime(candidate):
            primes.append(candidate)
        candidate -= 2 * degree
    return primes


CLUE_MODULUS = 786433
# How secrets and errors of the homomorphic encryption are drawn.
DISTRIBUTIONS = "secret=ternary error=3.2"


def clue_key_description(dropped_bits):
    return (
        f"restante/2/clue degree=1024 modulus={CLUE_MODULUS} coordinates=2 binding={WORDS} secret=ternary error=0.5 "
        f"dropped_bits={dropped_bits}"
    )


CLUE = {
    name: parameter_id(f"{clue_key_description(dropped_bits)} range={range_}")
    for name, dropped_bits, range_ in (("standard", 0, 131), ("short", 4, 912))
}

STREAM_DEGREE = 4096
STREAM_Q = ntt_primes(30, STREAM_DEGREE, 2)
STREAM_P = ntt_primes(19, STREAM_DEGREE, 2)
STREAM = {
    name: parameter_id(
        f"restante/2/stream clue={clue.hex()} degree={STREAM_DEGREE} t={CLUE_MODULUS} q={STREAM_Q} p={STREAM_P} "
        f"baby_steps=64 short=23/28 {DISTRIBUTIONS}"
    )
    for name, clue in CLUE.items()
}


def compact_description(degree, long_bits, c1_bits):
    """The description of a set for compact digests, Q and P: the real one has degree 65,536, 48 and 29 bits."""
    q = ntt_primes(-(-3 * long_bits // 5), degree, 2) + ntt_primes(4 * long_bits // 5, degree, 1)
    q += ntt_primes(long_bits, degree, 25)
    p = ntt_primes(long_bits + 1, degree, 9)
    description = (
        f"restante/2/compact clue={CLUE['standard'].hex()} degree={degree} t={CLUE_MODULUS} q={q} p={p} digits=3 "
        f"baby_steps=32 digest_degree={degree // 4} short=23/{c1_bits} {DISTRIBUTIONS}"
    )
    return description, q, p
