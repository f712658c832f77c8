#!/usr/bin/env python3
"""Makes testvectors/1/search.json: a search query, its state, and answers, by docs/format.md and docs/search.md.

In the ring of degree 512, which protects nothing: in the real one, whose formats are the same, this script would take minutes.
`testvectors/search.answer` is a responder's answer: the only thing here that the program made. `python3 testvectors/scripts/search.py FOLDER` writes elsewhere.
"""

import pathlib

import blake3
from envelope import open, parameter_id, seal
from parameters import DISTRIBUTIONS, is_prime, ntt_primes
from polynomials import automorphism, centered, evaluate, pack, primitive_root, product, unpack
from seeds import Stream, derive, thresholds
from vector_files import write

QUERY, ANSWER, STATE = 17, 18, 19
DEGREE, PIECES, PACKING = 512, 3, 32
Q = ntt_primes(47, DEGREE, 3) + ntt_primes(50, DEGREE, 1)
P = ntt_primes(22, DEGREE, 1)[0]
T = next(t for t in range(2**32 + 1, 2**33, 2 * DEGREE) if is_prime(t))
C0_BITS, C1_BITS = 36, 41
PRESET = parameter_id(
    f"restante/1/search search-512: N {DEGREE}, t {T}, Q 47 47 47 50, P 22, pieces {PIECES}, packing 5, answer {C0_BITS} {C1_BITS}, {DISTRIBUTIONS}"
)
WIDE = thresholds("10.24")
EXACT = ntt_primes(60, DEGREE, 1)[0]


def u32(value):
    return value.to_bytes(4, "little")


def u64(value):
    return value.to_bytes(8, "little")


def modular_product(values, modulus):
    result = 1
    for value in values:
        result = result * value % modulus
    return result


# What the plaintexts of answers are multiplied by (docs/format.md, Answer).
ALL, INNER = modular_product(Q, T), modular_product(Q[:3], T)
FACTOR = -pow(ALL, 4, T) * pow(Q[3], -2, T) * pow(INNER, -1, T) % T


class Search:
    def __init__(self, secret_seed, hash_bits, sharing, buckets):
        self.secret_seed, self.hash_bits, self.sharing, self.buckets = secret_seed, hash_bits, sharing, buckets
        self.public = derive(secret_seed, "search/public", hash_bits, sharing, *buckets)
        seed = derive(secret_seed, "search/secret")
        self.primes = [*Q, P]
        place = [DEGREE, T, *self.primes, len(Q)]
        self.secret = Stream(seed, "bfv/secret/ternary", *place).ternary(DEGREE)
        self.errors = derive(seed, "bfv/errors", *place)
        self.evaluated = [evaluate(self.secret, prime) for prime in self.primes]
        self.roots = [pow(primitive_root(2 * sharing, T), 2 * s + 1, T) for s in range(sharing)]

    def hide(self, public, message, row, primes):
        """c0 of each limb, in evaluation form, packed."""
        words = [int.from_bytes(public[i : i + 8], "little") for i in range(0, 32, 8)]
        error = Stream(derive(self.errors, "bfv/object", *words), "bfv/error/gaussian-3.2", *row).gaussian(WIDE, DEGREE)
        out = b""
        for limb, prime in enumerate(primes):
            c1 = Stream(public, "bfv/uniform", *row, limb).uniform(prime, DEGREE, 8)
            rows = zip(message[limb], evaluate(error, prime), c1, self.evaluated[limb])
            out += pack([(m + e - x * s) % prime for m, e, x, s in rows], prime.bit_length())
        return out

    def digit_bits(self):
        outer, inner = self.hash_bits // 2, -(-self.hash_bits // 2)
        return [outer // 2, -(-outer // 2), inner // 2, -(-inner // 2)]

    def indicators(self, bucket):
        """For each value of each digit, from the upper to the lower, whether the bucket has it."""
        result, shift = [], self.hash_bits
        for bits in self.digit_bits():
            shift -= bits
            result += [int(bucket >> shift & (1 << bits) - 1 == value) for value in range(1 << bits)]
        return result

    def groups(self):
        return [self.buckets[i : i + self.sharing] for i in range(0, len(self.buckets), self.sharing)]

    def idempotent(self, s):
        """The polynomial in Y, by its coefficients, that is 1 at root s of Y^S + 1 and 0 at the others."""
        return [pow(self.sharing, -1, T) * pow(self.roots[s], -i, T) % T for i in range(self.sharing)]

    def messages(self, buckets):
        count = sum(1 << bits for bits in self.digit_bits())
        messages = [[0] * DEGREE for _ in range(-(-count // PACKING))]
        scale = pow(PACKING, -1, T)
        for s, bucket in enumerate(buckets):
            for number, value in enumerate(self.indicators(bucket)):
                for i, coefficient in enumerate(self.idempotent(s)):
                    place = number % PACKING + i * DEGREE // self.sharing
                    message = messages[number // PACKING]
                    message[place] = (message[place] + value * scale * coefficient) % T
        return messages

    def query_body(self, note):
        modulus = Q[0] * Q[1] * Q[2] * Q[3]
        body = bytes([self.hash_bits, self.sharing.bit_length() - 1]) + u32(len(self.buckets)) + u32(len(note))
        body += self.public + note
        for group, buckets in enumerate(self.groups()):
            for index, message in enumerate(self.messages(buckets)):
                scaled = [(2 * modulus * m + T) // (2 * T) for m in message]
                limbs = [evaluate([x % prime for x in scaled], prime) for prime in Q]
                body += self.hide(derive(self.public, "search/indicators", group, index), limbs, (), Q)
        zeros = [0] * DEGREE
        # Three signed digits for each prime: the gadget is P 2^(j w) modulo the prime and zero modulo all others.
        source = automorphism(self.secret, DEGREE // (PACKING // 2) + 1)
        key = derive(self.public, "search/automorphism")
        for row in range(PIECES * len(Q)):
            own, piece = row // PIECES, row % PIECES
            factor = P << piece * -(-Q[own].bit_length() // PIECES)
            message = [
                evaluate([factor * x % prime for x in source], prime) if limb == own else zeros
                for limb, prime in enumerate(self.primes)
            ]
            body += self.hide(key, message, (row,), self.primes)
        key = derive(self.public, "search/relinearisation")
        for row in range(len(Q)):
            message = [
                [P * x * x % prime for x in self.evaluated[limb]] if limb == row else zeros
                for limb, prime in enumerate(self.primes)
            ]
            body += self.hide(key, message, (row,), self.primes)
        return body

    def state_body(self, query, note):
        shape = bytes([self.hash_bits, self.sharing.bit_length() - 1])
        return self.secret_seed + query_hash(query) + shape + u32(len(self.buckets)) + u32(len(note)) + note

    def times_secret(self, coefficients):
        return [centered(x, EXACT) for x in product(coefficients, self.secret, EXACT)]

    def answer_ciphertext(self, chunks, stream):
        """One for a group and column: chunk s is where Y is root s."""
        words = DEGREE // self.sharing
        coefficients = [0] * DEGREE
        for s, chunk in enumerate(chunks):
            idempotent = self.idempotent(s)
            for place in range(words):
                word = int.from_bytes(chunk[4 * place : 4 * place + 4], "little")
                for i, coefficient in enumerate(idempotent):
                    coefficients[place + i * words] += FACTOR * coefficient * word
        c1 = [int.from_bytes(stream.bytes(8), "little") >> 64 - C1_BITS for _ in range(DEGREE)]
        noise = [byte % 61 - 30 for byte in stream.bytes(DEGREE)]
        step = 1 << C1_BITS - C0_BITS
        c0 = []
        for m, x, e in zip(coefficients, self.times_secret(c1), noise):
            phase = (2 * (m % T << C1_BITS) + T) // (2 * T) + e - x
            c0.append((phase + step // 2) // step % (1 << C0_BITS))
        return pack(c0, C0_BITS) + pack(c1, C1_BITS)

    def open_ciphertext(self, data):
        """The chunks of the selectors of a group."""
        c0 = unpack(data, C0_BITS, DEGREE)
        c1 = unpack(data[DEGREE * C0_BITS // 8 :], C1_BITS, DEGREE)
        coefficients, unscale = [], pow(FACTOR, -1, T)
        for x, y in zip(c0, self.times_secret(c1)):
            phase = ((x << C1_BITS - C0_BITS) + y) % (1 << C1_BITS)
            coefficients.append((phase * T + (1 << C1_BITS - 1) >> C1_BITS) * unscale % T)
        words = DEGREE // self.sharing
        chunks = []
        for root in self.roots:
            values = [
                sum(coefficients[place + i * words] * pow(root, i, T) for i in range(self.sharing)) % T
                for place in range(words)
            ]
            assert all(value < 2**32 for value in values)
            chunks.append(b"".join(u32(value) for value in values))
        return chunks

    def open_answer(self, file, query):
        """For each selector its columns, one after the other."""
        body = open(file, ANSWER, PRESET)
        assert body[:16] == query_hash(query)
        columns, groups, note = (int.from_bytes(body[i : i + 4], "little") for i in (24, 28, 32))
        bytes_of_one = DEGREE * (C0_BITS + C1_BITS) // 8
        assert groups == len(self.groups()) and len(body) == 36 + note + columns * groups * bytes_of_one
        contents = [b""] * (groups * self.sharing)
        for index in range(columns * groups):
            start = 36 + note + index * bytes_of_one
            for s, chunk in enumerate(self.open_ciphertext(body[start : start + bytes_of_one])):
                contents[index % groups * self.sharing + s] += chunk
        return contents[: len(self.buckets)]


def query_hash(body):
    return blake3.derive_key("restante/1/search/query", body)[:16]


SEARCH = Search(blake3.hash(b"restante test vectors: search"), 9, 2, [5, 300, 511])
QUERY_NOTE, STATE_NOTE, ANSWER_NOTE = b"to the responder", b"to myself", b"from the responder"
QUERY_BODY = SEARCH.query_body(QUERY_NOTE)
CHUNK_BYTES = DEGREE * 4 // SEARCH.sharing


def contents(bucket):
    """What the table has in a bucket: up to two columns; nothing in bucket 300."""
    return Stream(blake3.hash(b"restante test vectors: table"), "testvectors/bucket", bucket).bytes(
        {5: CHUNK_BYTES + 100, 6: 40, 511: 7}.get(bucket, 0)
    )


def expected():
    return [contents(bucket).ljust(2 * CHUNK_BYTES, b"\0") for bucket in SEARCH.buckets]


def answer(window, columns, ciphertexts, note=ANSWER_NOTE, groups=2):
    body = query_hash(QUERY_BODY) + u64(window) + u32(columns) + u32(groups) + u32(len(note)) + note
    return body + b"".join(ciphertexts)


def written():
    """An answer made from what it must say."""
    stream = Stream(blake3.hash(b"restante test vectors: answer"), "testvectors/answer")
    chunks = [[whole[i : i + CHUNK_BYTES] for i in (0, CHUNK_BYTES)] for whole in expected()] + [[bytes(CHUNK_BYTES)] * 2]
    ciphertexts = [
        SEARCH.answer_ciphertext([chunks[2 * group + s][column] for s in (0, 1)], stream)
        for column in (0, 1)
        for group in (0, 1)
    ]
    file = seal(ANSWER, PRESET, answer(2**40, 2, ciphertexts))
    assert SEARCH.open_answer(file, QUERY_BODY) == expected()
    return {"window": 2**40, "columns": 2, "note": ANSWER_NOTE.hex(), "file": file.hex()}


def responded():
    path = pathlib.Path(__file__).parent.parent / "search.answer"
    file = path.read_bytes()
    assert SEARCH.open_answer(file, QUERY_BODY) == expected()
    return {"table": {str(bucket): contents(bucket).hex() for bucket in (5, 6, 511)}, "file_hash": blake3.hash(file).hex()}


def main():
    form = {"format": "docs/format.md, Private search: queries, answers, states", "format_version": 1}
    query = {
        "preset": PRESET.hex(),
        "secret_seed": SEARCH.secret_seed.hex(),
        "hash_bits": SEARCH.hash_bits,
        "sharing": SEARCH.sharing,
        "buckets": SEARCH.buckets,
        "note": QUERY_NOTE.hex(),
        "state_note": STATE_NOTE.hex(),
        "query_bytes": len(QUERY_BODY) + 40,
        "query_hash": blake3.hash(seal(QUERY, PRESET, QUERY_BODY)).hex(),
        "state": seal(STATE, PRESET, SEARCH.state_body(QUERY_BODY, STATE_NOTE)).hex(),
        "contents": [whole.hex() for whole in expected()],
    }
    write("search.json", form | {"query": query, "written": written(), "responded": responded()})


if __name__ == "__main__":
    main()
