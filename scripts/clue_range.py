"""The range within which a pertinent clue's distances lie, for every clue preset.

The distance of one coordinate is a sum of independent terms,

    sum_{i<n} e_i r_i  +  e2  -  sum_{i<n} e1_i s_i  -  sum_{i<n} delta_i s_i,

with r and s uniform on {-1, 0, 1}, e, e1 and e2 discrete Gaussians with sigma = 1/2, and delta the error of dropping
d low bits of a uniform residue modulo q. All terms are symmetric, so signs from X^n = -1 do not matter. The script
convolves the exact probability mass functions in fixed point with FRACTION_BITS bits after the point; whatever a
step rounds away or cuts off is below 2^-(FRACTION_BITS - 30) and irrelevant to a probability of 2^-40.

A message is missed if a coordinate leaves the range, so the probability over both is at most twice that of one.

Keys differ: the more coefficients of s and e are not zero, the wider the distances spread. The range is the least one that
keeps the probability of a miss below 2^-40 for a heavy key, whose s and e both have squared lengths three standard deviations
above the mean: all but one key in a hundred thousand are lighter in each of the two. Over all keys and clues together the
probability is printed too.

Run: python3 scripts/clue_range.py
"""

from decimal import Decimal, getcontext
from fractions import Fraction
from math import ceil, log2, sqrt

getcontext().prec = 120

DEGREE = 1024
MODULUS = 786433
COORDINATES = 2
SIGMA = Decimal("0.5")
PRESETS = {"standard": 0, "short": 4}
TARGET_BITS = 40
# How many standard deviations above the mean the squared lengths of a heavy key's s and e are.
HEAVY = 3

FRACTION_BITS = 256
ONE = 1 << FRACTION_BITS
# Distances beyond this have probability below 2^-200 and are cut.
BOUND = 4095


def gaussian():
    """x -> probability of the discrete Gaussian, cut where the sampler's 64-bit table ends."""
    weight = lambda x: (-(Decimal(x) ** 2) / (2 * SIGMA**2)).exp()
    total = sum(weight(x) for x in range(-40, 41))
    return {x: Fraction(weight(x) / total) for x in range(-5, 6)}


def rounding(dropped_bits):
    """delta -> probability, over all residues modulo q."""
    half = (1 << dropped_bits) >> 1
    counts = {}
    for value in range(MODULUS):
        delta = ((value + half) >> dropped_bits << dropped_bits) - value
        counts[delta] = counts.get(delta, 0) + 1
    return {delta: Fraction(count, MODULUS) for delta, count in counts.items()}


def times_ternary(pmf):
    """The distribution of x t, with t uniform on {-1, 0, 1}."""
    product = {}
    for x, p in pmf.items():
        for t in (-1, 0, 1):
            product[x * t] = product.get(x * t, 0) + p / 3
    return product


def add(f, g):
    """The distribution of the sum of two independent variables."""
    total = {}
    for x, p in f.items():
        for y, q in g.items():
            total[x + y] = total.get(x + y, 0) + p * q
    return total


class FixedPoint:
    """Probabilities of -BOUND..BOUND as integers over ONE."""

    LIMB_BYTES = 2 * FRACTION_BITS // 8 + 4

    def __init__(self, values):
        self.values = values

    @classmethod
    def of(cls, pmf):
        values = [0] * (2 * BOUND + 1)
        for x, p in pmf.items():
            values[x + BOUND] = int(p * ONE)
        return cls(values)

    def convolve(self, other):
        """By Kronecker substitution: one product of big integers."""
        pack = lambda values: int.from_bytes(b"".join(v.to_bytes(self.LIMB_BYTES, "little") for v in values), "little")
        product = pack(self.values) * pack(other.values)
        data = product.to_bytes(self.LIMB_BYTES * (4 * BOUND + 1), "little")
        limb = lambda i: int.from_bytes(data[i * self.LIMB_BYTES : (i + 1) * self.LIMB_BYTES], "little")
        return FixedPoint([limb(i) >> FRACTION_BITS for i in range(BOUND, 3 * BOUND + 1)])

    def power(self, exponent):
        """The distribution of the sum of `exponent` independent copies."""
        result, square = FixedPoint.of({0: Fraction(1)}), self
        while exponent > 0:
            if exponent % 2 == 1:
                result = result.convolve(square)
            exponent //= 2
            if exponent > 0:
                square = square.convolve(square)
        return result

    def variance(self):
        return sum(p * (x - BOUND) ** 2 for x, p in enumerate(self.values)) / ONE

    def outside(self, limit):
        """The probability of a magnitude above `limit`."""
        return Fraction(sum(p for x, p in enumerate(self.values) if abs(x - BOUND) > limit), ONE)


def moments_of_square(pmf):
    """Mean and variance of the square."""
    mean = sum(p * x**2 for x, p in pmf.items())
    return mean, sum(p * x**4 for x, p in pmf.items()) - mean**2


def heavy_square(pmf):
    """The squared length that a vector of DEGREE independent entries exceeds HEAVY standard deviations above the mean."""
    mean, variance = moments_of_square(pmf)
    return ceil(DEGREE * mean + HEAVY * sqrt(DEGREE * variance))


def distance(dropped_bits):
    """Over keys and clues."""
    error = gaussian()
    term = add(times_ternary(error), times_ternary(add(error, rounding(dropped_bits))))
    return FixedPoint.of(term).power(DEGREE).convolve(FixedPoint.of(error))


def heavy_distance(dropped_bits):
    """For a heavy key, over clues: entries of s and e with magnitude 1 and either sign, as many as its squared lengths say."""
    error = gaussian()
    ternary = {x: Fraction(1, 3) for x in (-1, 0, 1)}
    multiplied = add(error, rounding(dropped_bits))
    either_sign = {x: (multiplied.get(x, 0) + multiplied.get(-x, 0)) / 2 for y in multiplied for x in (y, -y)}
    by_error = FixedPoint.of(ternary).power(heavy_square(error))
    by_secret = FixedPoint.of(either_sign).power(heavy_square(ternary))
    return by_error.convolve(by_secret).convolve(FixedPoint.of(error))


def main():
    for name, dropped_bits in PRESETS.items():
        pmf, heavy = distance(dropped_bits), heavy_distance(dropped_bits)
        missed = lambda pmf, limit: COORDINATES * pmf.outside(limit)
        limit = next(limit for limit in range(BOUND) if missed(heavy, limit) <= Fraction(1, 1 << TARGET_BITS))
        rate = ((2 * limit + 1) / MODULUS) ** COORDINATES
        print(
            f"{name}: dropped bits {dropped_bits}, range {limit}, standard deviation {sqrt(pmf.variance()):.2f} "
            f"(heavy key {sqrt(heavy.variance()):.2f}), false negatives 2^{log2(missed(pmf, limit)):.1f} "
            f"(heavy key 2^{log2(missed(heavy, limit)):.1f}), false positives {rate:.2e} = 2^{log2(rate):.1f}"
        )


if __name__ == "__main__":
    main()
