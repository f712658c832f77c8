#!/usr/bin/env python3
"""Makes testvectors/1/detect.json and stream.digest: an account's keys, a stream digest made by its definition, and one that
a detector made, read.

Written from docs/format.md and docs/detect.md. The detector's digest, `testvectors/detector.digest`, is the only thing here
that the program made: a detector's work takes this script too long, reading it does not. `python3 testvectors/scripts/detect.py FOLDER` writes elsewhere.
"""

import math
import pathlib

import blake3
from board import ACCOUNT, BOARD, CLUE_SEED, MESSAGES, OWN, PERIOD, RANGE, all_distances, clues, pertinent
from envelope import open, seal
from vector_files import write, write_bytes
from parameters import CLUE_MODULUS, STREAM, STREAM_DEGREE, ntt_primes
from polynomials import centered, evaluate, interpolate, pack, product, slot_places, unpack
from seeds import Stream

STREAM_DIGEST, VERSION = 4, 2
C0_BITS, C1_BITS = 23, 28
BLOCK = STREAM_DEGREE
HALF_BYTES = BLOCK * C0_BITS // 8, BLOCK * C1_BITS // 8
# Products with a ternary secret are exact modulo a prime of 50 bits.
EXACT = ntt_primes(50, STREAM_DEGREE, 1)[0]

DETECTION = ACCOUNT.detection()
KEY_FILE = DETECTION.key_file()
KEY_ID = blake3.hash(KEY_FILE)[:16]
KEY_BODY_BYTES = len(KEY_FILE) - 40
FACTORS_SEED = blake3.hash(b"restante test vectors: factors of the detector")


def u64(value):
    return value.to_bytes(8, "little")


def inverse_factors(seed, block):
    return [max(value, 1) for value in Stream(seed, "omr/randomizer", block).uniform(CLUE_MODULUS, BLOCK)]


def times_secret(coefficients):
    return [centered(x, EXACT) for x in product(coefficients, DETECTION.secret, EXACT)]


# Writing.


def short_ciphertext(slots, stream):
    """Both halves of a ciphertext modulo 2^23 and 2^28, with the errors that a digest may have."""
    evaluations = [0] * BLOCK
    for value, place in zip(slots, slot_places(BLOCK)):
        evaluations[place] = value
    message = interpolate(evaluations, CLUE_MODULUS)
    c1 = [int.from_bytes(stream.bytes(4), "little") >> 4 for _ in range(BLOCK)]
    noise = [byte % 61 - 30 for byte in stream.bytes(BLOCK)]
    step = 1 << C1_BITS - C0_BITS
    c0 = []
    for m, x, e in zip(message, times_secret(c1), noise):
        phase = (2 * (m << C1_BITS) + CLUE_MODULUS) // (2 * CLUE_MODULUS) + e - x
        c0.append((phase + step // 2) // step % (1 << C0_BITS))
    return pack(c0, C0_BITS) + pack(c1, C1_BITS)


def digest_file(first, seed, distances, stream):
    inverses = inverse_factors(seed, 0)
    body = u64(first) + u64(len(distances)) + KEY_ID + seed
    # What is behind the last message may be anything.
    rest = stream.uniform(CLUE_MODULUS, 2 * (BLOCK - len(distances)))
    for coordinate in (0, 1):
        slots = [pair[coordinate] * pow(w, -1, CLUE_MODULUS) % CLUE_MODULUS for pair, w in zip(distances, inverses)]
        slots += rest[coordinate * len(rest) // 2 : (coordinate + 1) * len(rest) // 2]
        body += short_ciphertext(slots, stream)
    return seal(STREAM_DIGEST, STREAM["standard"], body, VERSION)


# Reading.


def decrypt(data):
    """The slots, and the standard deviation of the distances from integers."""
    c0, c1 = unpack(data, C0_BITS, BLOCK), unpack(data[HALF_BYTES[0] :], C1_BITS, BLOCK)
    squares, coefficients = 0, []
    for x, y in zip(c0, times_secret(c1)):
        phase = ((x << C1_BITS - C0_BITS) + y) % (1 << C1_BITS)
        scaled = phase * CLUE_MODULUS
        rounded = (scaled + (1 << C1_BITS - 1)) >> C1_BITS
        squares += (scaled - (rounded << C1_BITS)) ** 2
        coefficients.append(rounded % CLUE_MODULUS)
    values = evaluate(coefficients, CLUE_MODULUS)
    return [values[place] for place in slot_places(BLOCK)], math.sqrt(squares / BLOCK) / 2**C1_BITS


def read_digest(file):
    body = open(file, STREAM_DIGEST, STREAM["standard"], VERSION)
    first, count = int.from_bytes(body[:8], "little"), int.from_bytes(body[8:16], "little")
    assert body[16:32] == KEY_ID and len(body) == 64 + 2 * sum(HALF_BYTES) and count <= BLOCK
    inverses = inverse_factors(body[32:64], 0)
    slots = []
    for coordinate in (0, 1):
        start = 64 + coordinate * sum(HALF_BYTES)
        values, deviation = decrypt(body[start : start + sum(HALF_BYTES)])
        assert deviation < 0.08, deviation
        slots.append(values)
    pairs = zip(*slots, inverses)
    return first, [[centered(x * w, CLUE_MODULUS), centered(y * w, CLUE_MODULUS)] for x, y, w in list(pairs)[:count]]


# The two digests.


def written():
    distances = [
        [0, 0],
        [RANGE, -RANGE],
        [RANGE + 1, 0],
        [0, -RANGE - 1],
        [CLUE_MODULUS // 2, -(CLUE_MODULUS // 2)],
        [-17, 40],
    ]
    stream = Stream(blake3.hash(b"restante test vectors: digest"), "testvectors/digest")
    values = [centered(value, CLUE_MODULUS) for value in stream.uniform(CLUE_MODULUS, 60)]
    distances += [values[i : i + 2] for i in range(0, 60, 2)]
    first, seed = 2**40 + 7, blake3.hash(b"restante test vectors: factors")
    file = digest_file(first, seed, distances, stream)
    assert read_digest(file) == (first, distances)
    return {
        "comment": "stream.digest, made from the distances",
        "file_hash": blake3.hash(file).hex(),
        "first": first,
        "distances": distances,
        "pertinent": pertinent(first, distances),
    }, file


def detected():
    file = (pathlib.Path(__file__).parent.parent / "detector.digest").read_bytes()
    first, distances = read_digest(file)
    assert distances == all_distances()
    encoded = [message.encode_clue(*clue) for message, clue in zip(MESSAGES, clues())]
    assert pertinent(first, distances) == [first + number for number in OWN]
    return {
        "comment": "made by a detector from the key and the clues, with these factors' seed",
        "board": BOARD.hex(),
        "period": PERIOD,
        "payloads": [message.payload.hex() for message in MESSAGES],
        "clue_seed": CLUE_SEED.hex(),
        "clues": {str(number): encoded[number].hex() for number in OWN},
        "clues_hash": blake3.hash(b"".join(encoded)).hex(),
        "factors_seed": FACTORS_SEED.hex(),
        "file_hash": blake3.hash(file).hex(),
        "first": first,
        "distances": distances,
        "pertinent": pertinent(first, distances),
    }


def keys():
    return {
        "seed": ACCOUNT.seed.hex(),
        "secret_file": ACCOUNT.secret_file().hex(),
        "clue_key_hash": blake3.hash(ACCOUNT.clue.clue_key()).hex(),
        "detection_key_bytes": len(KEY_FILE),
        "detection_key_hash": blake3.hash(KEY_FILE).hex(),
    }


def patches(file):
    """What must be refused: files whose body is brought to `length` bytes, or overwritten at `offset`, and then sealed anew."""
    body_bytes = len(file) - 40
    yield "key", "the last byte of the body is missing", "truncated", {"length": KEY_BODY_BYTES - 1}
    yield "key", "a byte more", "trailing", {"length": KEY_BODY_BYTES + 1}
    yield "key", "a residue of all ones", "out-of-range", {"offset": 40, "bytes": "ff" * 4}
    yield "key", "the last residue of all ones", "out-of-range", {"offset": KEY_BODY_BYTES - 4, "bytes": "ff" * 4}
    yield "key", "parameters of short clues", "wrong-parameters", {"parameters": STREAM["short"].hex()}
    yield "key", "another kind", "wrong-kind", {"kind": STREAM_DIGEST}
    yield "key", "the version before", "unsupported-version", {"version": 2}
    yield "key", "another version", "unsupported-version", {"version": 4}
    yield "digest", "the last byte of the body is missing", "truncated", {"length": body_bytes - 1}
    yield "digest", "a byte more", "trailing", {"length": body_bytes + 1}
    yield "digest", "no message for the block", "trailing", {"offset": 8, "bytes": u64(0).hex()}
    yield "digest", "two blocks announced", "truncated", {"offset": 8, "bytes": u64(BLOCK + 1).hex()}
    yield "digest", "2^24 + 1 messages", "range", {"offset": 8, "bytes": u64(2**24 + 1).hex()}
    yield "digest", "a range beyond 2^64", "range", {"offset": 0, "bytes": u64(2**64 - 1).hex()}
    yield "digest", "parameters of short clues", "wrong-parameters", {"parameters": STREAM["short"].hex()}
    yield "digest", "another kind", "wrong-kind", {"kind": 3}
    yield "digest", "the version before", "unsupported-version", {"version": 1}
    yield "digest", "for another key", "foreign", {"offset": 16, "bytes": "00" * 16}
    # The highest bit of a coefficient of c1: the phase moves by half of the modulus times s.
    top = 64 + HALF_BYTES[0] + 3
    flipped = file[24 + top] ^ 8
    yield "digest", "too much noise in the first half of the block", "noise", {"offset": top, "bytes": bytes([flipped]).hex()}


def main():
    form = {"format": "docs/format.md, Detection keys and stream digests", "format_version": 1}
    first, file = written()
    bad = [{"file": name, "reason": reason, "error": error} | patch for name, reason, error, patch in patches(file)]
    sections = {"account": [keys()], "written": [first], "detected": [detected()], "bad": bad}
    write("detect.json", form | sections)
    write_bytes("stream.digest", file)


if __name__ == "__main__":
    main()
