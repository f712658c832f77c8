"""Polynomials modulo X^N + 1 and a prime, and their evaluations in the order of docs/format.md; packed integers."""

import functools


@functools.cache
def primitive_root(order, modulus):
    """The smallest root of unity whose order is `order`, a power of two."""
    candidate = 2
    while True:
        root = pow(candidate, (modulus - 1) // order, modulus)
        if pow(root, order // 2, modulus) == modulus - 1:
            break
        candidate += 1
    square, power, least = root * root % modulus, root, root
    for _ in range(order // 2 - 1):
        power = power * square % modulus
        least = min(least, power)
    return least


@functools.cache
def powers(root, count, modulus):
    values = [1]
    for _ in range(count - 1):
        values.append(values[-1] * root % modulus)
    return values


@functools.cache
def reversed_bits(degree):
    bits = degree.bit_length() - 1
    return [int(f"{i:0{bits}b}"[::-1], 2) for i in range(degree)]


def fourier(values, root, modulus):
    """Sums of values[i] root^(i k), in the order of k."""
    count = len(values)
    if count == 1:
        return list(values)
    square = root * root % modulus
    even, odd = fourier(values[::2], square, modulus), fourier(values[1::2], square, modulus)
    odd = [x * power % modulus for x, power in zip(odd, powers(root, count // 2, modulus))]
    return [(x + y) % modulus for x, y in zip(even, odd)] + [(x - y) % modulus for x, y in zip(even, odd)]


def evaluate(coefficients, modulus):
    """Place i holds the value at psi^(2 rev(i) + 1), psi the smallest primitive 2N-th root of unity."""
    degree = len(coefficients)
    psi = primitive_root(2 * degree, modulus)
    twisted = [x * power % modulus for x, power in zip(coefficients, powers(psi, degree, modulus))]
    # Value k is that at psi^(2k + 1).
    values = fourier(twisted, psi * psi % modulus, modulus)
    return [values[k] for k in reversed_bits(degree)]


def interpolate(evaluations, modulus):
    degree = len(evaluations)
    psi = primitive_root(2 * degree, modulus)
    values = [evaluations[i] for i in reversed_bits(degree)]
    twisted = fourier(values, pow(psi, -2, modulus), modulus)
    scale = pow(degree, -1, modulus)
    return [x * power * scale % modulus for x, power in zip(twisted, powers(pow(psi, -1, modulus), degree, modulus))]


def product(first, second, modulus):
    values = zip(evaluate(first, modulus), evaluate(second, modulus))
    return interpolate([x * y % modulus for x, y in values], modulus)


def automorphism(coefficients, element):
    """f(X^g), for coefficients that may be negative."""
    degree = len(coefficients)
    result = [0] * degree
    for i, value in enumerate(coefficients):
        exponent = i * element % (2 * degree)
        result[exponent % degree] = value if exponent < degree else -value
    return result


def centered(value, modulus):
    value %= modulus
    return value - modulus if value > modulus // 2 else value


def slot_places(degree):
    """For each slot, row 0 and then row 1, its place in an evaluation vector: psi^(3^column), psi^(-3^column)."""
    place_of = {2 * k + 1: place for place, k in enumerate(reversed_bits(degree))}
    exponents = powers(3, degree // 2, 2 * degree)
    return [place_of[exponent] for exponent in exponents] + [place_of[2 * degree - exponent] for exponent in exponents]


def pack(values, width):
    """Value i takes bits width i to width (i + 1) - 1; bit k is bit k mod 8 of byte k / 8."""
    # By groups of 64 values, which are whole bytes, so that no integer becomes long.
    out = []
    for start in range(0, len(values), 64):
        group = values[start : start + 64]
        number = 0
        for i, value in enumerate(group):
            number |= value << width * i
        out.append(number.to_bytes((len(group) * width + 7) // 8, "little"))
    return b"".join(out)


def unpack(data, width, count):
    values = []
    for start in range(0, count, 64):
        group = min(64, count - start)
        number = int.from_bytes(data[start * width // 8 : (start * width + group * width + 7) // 8], "little")
        values += [number >> width * i & (1 << width) - 1 for i in range(group)]
    return values


# By the definition, for a small ring.
SMALL = [3, 1, 4, 1, 5, 9, 2, 6]
PSI = primitive_root(16, 97)
BY_DEFINITION = [sum(x * PSI ** ((2 * k + 1) * i) for i, x in enumerate(SMALL)) % 97 for k in reversed_bits(8)]
assert evaluate(SMALL, 97) == BY_DEFINITION
assert interpolate(evaluate(SMALL, 97), 97) == SMALL
assert unpack(pack(SMALL, 5), 5, 8) == SMALL
