#!/usr/bin/env python3
"""Makes testvectors/1/clue.json: clues by their definition, with schoolbook arithmetic and nothing else.

Secrets, errors and the uniform polynomial are given as integers, drawn here by a simple generator, so that the
vectors do not depend on how a program expands its seeds.

`python3 testvectors/scripts/clue.py FOLDER` writes elsewhere.
"""

import blake3
from binding import WORDS, bind, bound_hash, encode_period, vector
from vector_files import write

DEGREE, MODULUS, COORDINATES = 1024, 786433, 2
BOARD = bytes(range(100, 116))
PRESETS = {"standard": 0, "short": 4}


class Generator:
    """The multiplicative generator modulo 2^61 - 1: enough for test data."""

    def __init__(self, state):
        self.state = state

    def below(self, bound):
        self.state = self.state * 1234567890123 % (2**61 - 1)
        return self.state // 7 % bound

    def values(self, choices, count):
        return [choices[self.below(len(choices))] for _ in range(count)]


def product(f, g):
    """f g modulo X^n + 1."""
    result = [0] * DEGREE
    for i, x in enumerate(f):
        if x:
            for j, y in enumerate(g):
                if i + j < DEGREE:
                    result[i + j] += x * y
                else:
                    result[i + j - DEGREE] -= x * y
    return result


def pack(values, width):
    """Value i takes bits width i to width (i + 1) - 1; bit k is bit k mod 8 of byte k / 8."""
    number = sum(value << (width * i) for i, value in enumerate(values))
    return number.to_bytes((len(values) * width + 7) // 8, "little")


def stored(values, dropped_bits):
    """What a clue holds of residues: rounded to the nearest multiple of 2^d, halves up."""
    half = 2**dropped_bits // 2
    return [(value + half) // 2**dropped_bits for value in values]


def encode_bound(period, a_stored, dropped_bits):
    return encode_period(period) + pack(a_stored, 20 - dropped_bits)


def encode_clue(a_stored, b, dropped_bits, period=20000):
    return encode_bound(period, a_stored, dropped_bits) + pack(b, 20)


def good(preset, comment, s, a, e, r, e1, e2, T, period):
    dropped_bits = PRESETS[preset]
    b_key = [(x + y) % MODULUS for x, y in zip(product(s, a), e)]
    a_clue = [(x + y) % MODULUS for x, y in zip(product(r, a), e1)]
    a_stored = stored(a_clue, dropped_bits)
    payload = comment.encode()
    bound = bound_hash(encode_bound(period, a_stored, dropped_bits))
    binding = bind(BOARD, bound, blake3.hash(payload))
    h = vector(binding, MODULUS)
    tag = [sum(x * y for x, y in zip(T[c * WORDS : (c + 1) * WORDS], h)) for c in range(COORDINATES)]
    b_clue = [(x + y + z) % MODULUS for x, y, z in zip(product(r, b_key), e2, tag)]
    a_used = [value * 2**dropped_bits % MODULUS for value in a_stored]
    distances = []
    for x, y, z in zip(b_clue, product(s, a_used), tag):
        distance = (x - y - z) % MODULUS
        distances.append(distance - MODULUS if distance > MODULUS // 2 else distance)
    seed = bytes(range(32))
    return {
        "comment": comment,
        "parameters": preset,
        "s": s,
        "a": a,
        "e": e,
        "r": r,
        "e1": e1,
        "e2": e2,
        "T": T,
        "board": BOARD.hex(),
        "period": period,
        "payload": payload.hex(),
        "bound_hash": bound.hex(),
        "binding": binding.hex(),
        "h": h,
        "a_seed": seed.hex(),
        "clue_key": (seed + pack(b_key, 20) + pack(T, 20)).hex(),
        "clue": encode_clue(a_stored, b_clue, dropped_bits, period).hex(),
        "distances": distances,
    }


def random_vector(preset, state):
    g = Generator(state)
    ternary, error = [-1, 0, 1], [0] * 11 + [1, -1] + [0] * 8 + [1, -1, 1, -1, 0, 0]
    return good(
        preset,
        "values as they occur",
        s=g.values(ternary, DEGREE),
        a=[g.below(MODULUS) for _ in range(DEGREE)],
        e=g.values(error, DEGREE),
        r=g.values(ternary, DEGREE),
        e1=g.values(error, DEGREE),
        e2=g.values(error, COORDINATES),
        T=[g.below(MODULUS) for _ in range(COORDINATES * WORDS)],
        period=20454,
    )


def extreme_vector(preset):
    """All secrets at their largest: sums are as long as they get, and the distance is far outside the range."""
    return good(
        preset,
        "every value at the end of its range; not pertinent",
        s=[1] * DEGREE,
        a=[MODULUS - 1] * DEGREE,
        e=[4] * DEGREE,
        r=[1] * DEGREE,
        e1=[-4] * DEGREE,
        e2=[4, -4],
        T=[MODULUS - 1] * WORDS + [0] * WORDS,
        period=2**32 - 1,
    )


def bad_clues(preset):
    dropped_bits = PRESETS[preset]
    largest = stored([MODULUS - 1], dropped_bits)[0]
    zeros, b = [0] * DEGREE, [0, 0]
    valid = encode_clue([largest] * DEGREE, [MODULUS - 1] * 2, dropped_bits)
    cases = {
        "empty": b"",
        "one byte short": valid[:-1],
        "one byte long": valid + b"\x00",
        "first coefficient too large": encode_clue([largest + 1] + zeros[1:], b, dropped_bits),
        "last coefficient too large": encode_clue(zeros[1:] + [largest + 1], b, dropped_bits),
        "all bits set": b"\xff" * len(valid),
        "first coordinate is q": encode_clue(zeros, [MODULUS, 0], dropped_bits),
        "second coordinate is q": encode_clue(zeros, [0, MODULUS], dropped_bits),
    }
    return [{"comment": name, "parameters": preset, "clue": data.hex()} for name, data in cases.items()]


def bad_clue_keys(preset):
    seed, zeros = bytes(32), [0] * DEGREE
    valid = seed + pack([MODULUS - 1] * DEGREE, 20) + pack([MODULUS - 1] * 14, 20)
    cases = {
        "seed only": seed,
        "one byte short": valid[:-1],
        "one byte long": valid + b"\x00",
        "coefficient is q": seed + pack(zeros[1:] + [MODULUS], 20) + pack([0] * 14, 20),
        "first entry of T is q": seed + pack(zeros, 20) + pack([MODULUS] + [0] * 13, 20),
        "last entry of T is q": seed + pack(zeros, 20) + pack([0] * 13 + [MODULUS], 20),
    }
    return [{"comment": name, "parameters": preset, "clue_key": data.hex()} for name, data in cases.items()]


def main():
    vectors = {
        "format": "docs/format.md, Clues",
        "good": [random_vector(preset, 1 + i) for i, preset in enumerate(PRESETS)]
        + [extreme_vector(preset) for preset in PRESETS],
        "bad_clues": [case for preset in PRESETS for case in bad_clues(preset)],
        "bad_clue_keys": bad_clue_keys("standard"),
    }
    write("clue.json", vectors)


if __name__ == "__main__":
    main()
