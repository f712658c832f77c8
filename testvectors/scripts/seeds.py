"""Seeds, streams and samplers: docs/format.md, Seeds and streams."""

from decimal import ROUND_HALF_EVEN, Decimal, getcontext

import blake3
import chacha20


def keyed(seed, kind, purpose, indices):
    data = f"restante/1/{kind}/{purpose}".encode() + b"\0"
    return blake3.keyed(seed, data + b"".join(index.to_bytes(8, "little") for index in indices))


def derive(seed, purpose, *indices):
    return keyed(seed, "derive", purpose, indices)


class Stream:
    def __init__(self, seed, purpose, *indices):
        self.blocks = chacha20.key_stream(keyed(seed, "stream", purpose, indices))
        self.left = b""

    def bytes(self, count):
        parts = [self.left]
        have = len(self.left)
        while have < count:
            parts.append(next(self.blocks))
            have += 64
        data = b"".join(parts)
        self.left = data[count:]
        return data[:count]

    def uniform(self, modulus, count, word_bytes=4):
        """Residues, from words of 4 bytes for moduli below 2^31, of 8 bytes for others."""
        mask = (1 << modulus.bit_length()) - 1
        values = []
        while len(values) < count:
            data = self.bytes((count - len(values)) * word_bytes)
            words = (int.from_bytes(data[i : i + word_bytes], "little") & mask for i in range(0, len(data), word_bytes))
            values += [word for word in words if word < modulus]
        return values

    def ternary(self, count):
        values = []
        while len(values) < count:
            for byte in self.bytes(64):
                if byte < 243:
                    values += [byte // 3**i % 3 - 1 for i in range(5)]
        return values[:count]

    def gaussian(self, thresholds, count):
        values = []
        while len(values) < count:
            data = self.bytes(65 * 8)
            words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]
            for i, word in enumerate(words[:64]):
                magnitude = sum(word >= threshold for threshold in thresholds)
                values.append(-magnitude if words[64] >> i & 1 else magnitude)
        return values[:count]


def thresholds(deviation_squared):
    """2^64 P(|x| <= k), rounded, for k = 0, 1, ..., as long as it is below 2^64.

    The weight of x is exp(-x^2 / (2 deviation^2)); `deviation_squared` is a decimal text.
    """
    getcontext().prec = 80

    def weight(x):
        return (-Decimal(x * x) / (2 * Decimal(deviation_squared))).exp()

    weights = [weight(0)] + [2 * weight(k) for k in range(1, 200)]
    total, below, result = sum(weights), Decimal(0), []
    for one in weights:
        below += one
        value = int((below / total * 2**64).to_integral_value(ROUND_HALF_EVEN))
        if value >= 2**64:
            return result
        result.append(value)
