#!/usr/bin/env python3
"""Makes testvectors/1/dpf.json and dpf_bad.json: the DPF of docs/fetch.md, written from its definition.

Standard library only, and slow: AES is spelt out, BLAKE3 in blake3.py. `python3 testvectors/scripts/dpf.py FOLDER` writes elsewhere.
"""

import hashlib
import struct

import blake3
from vector_files import write

# AES-128, FIPS 197.


def field_multiply(a, b):
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def make_sbox():
    sbox = []
    for value in range(256):
        inverse = next((x for x in range(256) if field_multiply(value, x) == 1), 0)
        bits = 0x63
        for i in range(8):
            bit = sum(inverse >> (i + k) % 8 for k in (0, 4, 5, 6, 7)) & 1
            bits ^= bit << i
        sbox.append(bits)
    return sbox


SBOX = make_sbox()
DOUBLE = [field_multiply(x, 2) for x in range(256)]


def round_keys(key):
    words = [list(key[i : i + 4]) for i in range(0, 16, 4)]
    constant = 1
    for i in range(4, 44):
        word = list(words[-1])
        if i % 4 == 0:
            word = [SBOX[x] for x in word[1:] + word[:1]]
            word[0] ^= constant
            constant = field_multiply(constant, 2)
        words.append([a ^ b for a, b in zip(word, words[-4])])
    return [sum(words[4 * i : 4 * i + 4], []) for i in range(11)]


def aes(keys, block):
    state = [a ^ b for a, b in zip(block, keys[0])]
    for i in range(1, 11):
        state = [SBOX[state[(4 * (c + r) + r) % 16]] for c in range(4) for r in range(4)]
        if i < 10:
            mixed = []
            for c in range(0, 16, 4):
                column = state[c : c + 4]
                total = column[0] ^ column[1] ^ column[2] ^ column[3]
                mixed += [column[r] ^ total ^ DOUBLE[column[r] ^ column[(r + 1) % 4]] for r in range(4)]
            state = mixed
        state = [a ^ b for a, b in zip(state, keys[i])]
    return bytes(state)


assert aes(round_keys(bytes(range(16))), bytes(17 * i for i in range(16))).hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"

# The hash.

KEYS = [
    round_keys(blake3.hash(b"restante dpf v1: fixed AES-128 key, " + name)[:16])
    for name in (b"child 0", b"child 1", b"child 2", b"output")
]


def xor(a, b):
    assert len(a) == len(b)
    return bytes(x ^ y for x, y in zip(a, b))


def sigma(block):
    right, left = block[:8], block[8:]
    return left + xor(left, right)


def hash_block(index, block):
    return xor(aes(KEYS[index], sigma(block)), sigma(block))


def control(block):
    return block[15] >> 7


# Parameters. outputs: 0 bits, 1 byte strings, 2 integers.

PLAIN, HALF_TREE = 0, 1
BITS, BYTES, INTEGERS = 0, 1, 2


class Parameters:
    def __init__(self, domain, outputs, message_bytes, variant):
        self.domain, self.outputs, self.message_bytes, self.variant = domain, outputs, message_bytes, variant
        fitting = 1024 if outputs == BITS else max(1, 128 // message_bytes) if message_bytes else 1
        self.per_leaf = 1
        while self.per_leaf * 2 <= fitting and self.per_leaf < domain:
            self.per_leaf *= 2
        leaves = -(-domain // self.per_leaf)
        self.depth = 0
        while 3**self.depth < leaves:
            self.depth += 1
        self.leaf_bytes = (self.per_leaf + 7) // 8 if outputs == BITS else self.per_leaf * message_bytes

    def trits(self, leaf):
        return [leaf // 3 ** (self.depth - 1 - level) % 3 for level in range(self.depth)]


def children(variant, seed):
    first, second = hash_block(0, seed), hash_block(1, seed)
    third = hash_block(2, seed) if variant == PLAIN else xor(xor(first, second), seed)
    return [first, second, third]


def pad(seed, length):
    blocks = b""
    for j in range(-(-length // 16)):
        counter = j.to_bytes(16, "little")
        blocks += xor(hash_block(3, xor(seed, counter)), sigma(counter))
    return blocks[:length]


def integers(data):
    return [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]


def flatten(values):
    return b"".join((value % 2**64).to_bytes(8, "little") for value in values)


def generate(parameters, point, message, randomness):
    """The two keys, serialised."""
    p = parameters
    offset = bytearray(randomness[16:32])
    offset[15] |= 0x80
    roots = [randomness[:16], xor(randomness[:16], offset)]
    seeds = list(roots)
    words = b""
    third_bits = 0
    for level, trit in enumerate(p.trits(point // p.per_leaf)):
        expanded = [children(p.variant, seed) for seed in seeds]
        differences = [xor(a, b) for a, b in zip(*expanded)]
        correction = list(differences)
        if p.variant == PLAIN:
            others = [differences[i] for i in range(3) if i != trit]
            word = bytearray(xor(*others))
            word[15] = word[15] & 0x7F | (control(differences[trit]) ^ 1) << 7
            correction[trit] = bytes(word)
            third_bits |= control(correction[2]) << level
        else:
            for child in (0, 1):
                if child == trit:
                    correction[child] = xor(differences[child], xor(*seeds))
            correction[2] = xor(correction[0], correction[1])
        words += correction[0] + correction[1]
        seeds = [
            xor(nodes[trit], correction[trit]) if control(seed) else nodes[trit]
            for seed, nodes in zip(seeds, expanded)
        ]
        assert control(seeds[0]) != control(seeds[1])

    leaf = bytearray(p.leaf_bytes)
    slot = point % p.per_leaf
    if p.outputs == BITS:
        leaf[slot // 8] |= message[0] << slot % 8
    else:
        leaf[slot * p.message_bytes : (slot + 1) * p.message_bytes] = message
    pads = [pad(seed, p.leaf_bytes) for seed in seeds]
    if p.outputs == INTEGERS:
        sign = control(seeds[0]) - control(seeds[1])
        output_word = flatten(
            sign * (value - ours + theirs) for value, ours, theirs in zip(integers(leaf), *map(integers, pads))
        )
    else:
        output_word = bytearray(xor(leaf, xor(*pads)))
        if p.outputs == BITS and p.per_leaf < 8:
            output_word[0] &= (1 << p.per_leaf) - 1
    keys = []
    for party in (0, 1):
        key = bytes([1, party, p.variant, p.outputs])
        key += struct.pack("<IQ", p.message_bytes, p.domain) + roots[party] + words
        if p.variant == PLAIN:
            key += third_bits.to_bytes((p.depth + 7) // 8, "little")
        keys.append(key + output_word)
    return keys


def share_of_leaf(parameters, key, index):
    """A party's share of all outcomes of a leaf."""
    p = parameters
    party, seed = key[1], key[16:32]
    third_bits = int.from_bytes(key[32 + 32 * p.depth :][: (p.depth + 7) // 8], "little")
    output_word = key[len(key) - p.leaf_bytes :]
    for level, trit in enumerate(p.trits(index)):
        first, second = key[32 + 32 * level :][:16], key[48 + 32 * level :][:16]
        third = bytearray(xor(first, second))
        if p.variant == PLAIN:
            third[15] = third[15] & 0x7F | (third_bits >> level & 1) << 7
        child = children(p.variant, seed)[trit]
        seed = xor(child, (first, second, third)[trit]) if control(seed) else child
    leaf = pad(seed, p.leaf_bytes)
    if p.outputs == INTEGERS:
        sign = -1 if party else 1
        return flatten(
            sign * (value + control(seed) * word) for value, word in zip(integers(leaf), integers(output_word))
        )
    return xor(leaf, output_word) if control(seed) else leaf


def share(parameters, key, point):
    """A party's share of one outcome; a bit as a byte of 0 or 1."""
    p = parameters
    leaf = share_of_leaf(p, key, point // p.per_leaf)
    slot = point % p.per_leaf
    if p.outputs == BITS:
        return bytes([leaf[slot // 8] >> slot % 8 & 1])
    return leaf[slot * p.message_bytes : (slot + 1) * p.message_bytes]


NAMES = {PLAIN: "plain", HALF_TREE: "half-tree"}, {BITS: "bits", BYTES: "bytes", INTEGERS: "integers"}


def good_vector(number, domain, outputs, message_bytes, variant, point):
    p = Parameters(domain, outputs, message_bytes, variant)
    randomness = hashlib.shake_256(f"restante dpf test vector {number}".encode()).digest(32)
    message = hashlib.shake_256(f"restante dpf message {number}".encode()).digest(message_bytes)
    if outputs == BITS:
        message = b"\1"
    keys = generate(p, point, message, randomness)
    if domain <= 20:
        points = list(range(domain))
    else:
        points = sorted({0, 1, max(point, 1) - 1, point, min(point + 1, domain - 1), domain // 2, domain - 1})
    shares = []
    for at in points:
        both = [share(p, key, at) for key in keys]
        if outputs == INTEGERS:
            combined = flatten([sum(integers(b"".join(both)))])
        else:
            combined = xor(*both)
        assert combined == (message if at == point else bytes(len(combined))), (number, at)
        shares.append({"point": at, "share_0": both[0].hex(), "share_1": both[1].hex()})
    return {
        "variant": NAMES[0][variant],
        "outputs": NAMES[1][outputs],
        "message_bytes": message_bytes,
        "domain": domain,
        "depth": p.depth,
        "point": point,
        "message": message.hex(),
        "randomness": randomness.hex(),
        "key_0": keys[0].hex(),
        "key_1": keys[1].hex(),
        "shares": shares,
    }


def good_vectors():
    cases = []
    for variant in (PLAIN, HALF_TREE):
        cases += [
            (1, BITS, 0, variant, 0),
            (3, BITS, 0, variant, 2),
            (20, BITS, 0, variant, 9),
            (5000, BITS, 0, variant, 3333),
            (2**20, BITS, 0, variant, 2**20 - 1),
            (3**40, BITS, 0, variant, 3**39 + 5),
            (4, BYTES, 0, variant, 1),
            (1, BYTES, 16, variant, 0),
            (10, BYTES, 15, variant, 8),
            (28, BYTES, 128, variant, 27),
            (26, BYTES, 129, variant, 13),
            (3**14, BYTES, 32, variant, 123456),
            (9, BYTES, 300, variant, 4),
            (2, INTEGERS, 8, variant, 1),
            (17, INTEGERS, 8, variant, 16),
            (3**10 + 1, INTEGERS, 8, variant, 3**10),
        ]
    return [good_vector(number, *case) for number, case in enumerate(cases)]


def bad_vectors():
    p = Parameters(5000, BITS, 0, PLAIN)
    key = generate(p, 7, b"\1", bytes(range(32)))[0]

    def changed(at, *values):
        return key[:at] + bytes(values) + key[at + len(values) :]

    small = generate(Parameters(3, BITS, 0, HALF_TREE), 1, b"\1", bytes(range(32)))[0]
    counts = generate(Parameters(50, INTEGERS, 8, HALF_TREE), 1, bytes(8), bytes(range(32)))[0]
    cases = [
        ("empty", BITS, b""),
        ("header only", BITS, key[:16]),
        ("last byte missing", BITS, key[:-1]),
        ("one byte too many", BITS, key + b"\0"),
        ("version 0", BITS, changed(0, 0)),
        ("version 2", BITS, changed(0, 2)),
        ("party 2", BITS, changed(1, 2)),
        ("variant 2", BITS, changed(2, 2)),
        ("half-tree variant with the plain variant's length", BITS, changed(2, 1)),
        ("outputs 3", BITS, changed(3, 3)),
        ("byte strings where bits are expected", BITS, changed(3, 1)),
        ("bits with a message length", BITS, changed(4, 1)),
        ("integers of 4 bytes", INTEGERS, counts[:4] + b"\4" + counts[5:]),
        ("empty domain", BITS, changed(8, 0, 0, 0, 0, 0, 0, 0, 0)),
        ("domain of 3^40 + 1", BITS, changed(8, *(3**40 + 1).to_bytes(8, "little"))),
        ("domain too large for the length", BITS, changed(8, 0xFF, 0xFF)),
        ("unused control bit set", BITS, changed(32 + 32 * p.depth, 0x80)),
        ("unused output bit set", BITS, small[:-1] + bytes([small[-1] | 0x80])),
    ]
    return [{"reason": reason, "outputs": NAMES[1][outputs], "key": key.hex()} for reason, outputs, key in cases]


def main():
    form = {"format": "docs/fetch.md, Vectors", "format_version": 1}
    good = {"description": "DPF keys from given randomness, and shares of outcomes. Byte strings are hexadecimal."}
    write("dpf.json", form | good | {"vectors": good_vectors()})
    bad = {"description": "Bytes that are no DPF key with the outputs named."}
    write("dpf_bad.json", form | bad | {"vectors": bad_vectors()})


if __name__ == "__main__":
    main()
