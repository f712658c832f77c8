#!/usr/bin/env python3
"""Makes testvectors/1/compact.json: compact digests made by their definition, and one that a detector made, read.

In the ring of degree 2,048 that the program's tests use, which protects nothing and has the formats of the real one.
`testvectors/compact.digest` is a detector's digest: the only thing here that the program made. `python3 testvectors/scripts/compact.py FOLDER` writes elsewhere.
"""

import math
import pathlib

import blake3
from board import ACCOUNT, COUNT, MESSAGES, OWN, all_distances, payload, pertinent
from envelope import open, parameter_id, seal
from parameters import CLUE_MODULUS as T
from parameters import compact_description, ntt_primes
from polynomials import centered, interpolate, pack, primitive_root, product, slot_places, unpack
from seeds import Stream, derive
from vector_files import write

COMPACT_DIGEST, VERSION = 16, 2
BABY_STEPS = 32
DEGREE, LONG_BITS = 2048, 44
C0_BITS, C1_BITS = 23, 27
DIGEST_DEGREE = DEGREE // 4
DESCRIPTION, Q, P = compact_description(DEGREE, LONG_BITS, C1_BITS)
PARAMETERS = parameter_id(DESCRIPTION)
EXACT = ntt_primes(50, DIGEST_DEGREE, 1)[0]
GROUP_BYTES, GROUP_DIGITS = 22, 9


def u32(value):
    return value.to_bytes(4, "little")


def u64(value):
    return value.to_bytes(8, "little")


class CompactSecret:
    """What opens digests, and the id of the key that they are made with."""

    def __init__(self, account):
        s, places = account.clue.secret, slot_places(DEGREE)
        period = [s[0]] + [-x for x in s[1:]]
        tags = [account.clue.entry(BABY_STEPS, column) for column in range(DEGREE // 2)]
        layout = PARAMETERS + u64(VERSION)
        for values in (period, tags):
            evaluations = [0] * DEGREE
            for slot, place in enumerate(places):
                evaluations[place] = values[slot % (DEGREE // 2) % len(values)] % T
            layout += b"".join(map(u64, interpolate(evaluations, T)))
        seed = derive(account.seed, "account/detection")
        seed = blake3.keyed(derive(seed, "omr/compact-layout"), layout)
        public = derive(seed, "omr/public")
        self.key = blake3.hash(b"restante/1/compact-key-id" + PARAMETERS + public)[:16]
        place = [DIGEST_DEGREE, T, Q[3], P[0], 1]
        self.secret = Stream(derive(seed, "omr/digest-secret"), "bfv/secret/ternary", *place).ternary(DIGEST_DEGREE)

    def times_secret(self, coefficients):
        return [centered(x, EXACT) for x in product(coefficients, self.secret, EXACT)]

    def encrypt(self, message, stream):
        c1 = [int.from_bytes(stream.bytes(4), "little") >> 32 - C1_BITS for _ in range(DIGEST_DEGREE)]
        noise = [byte % 31 - 15 for byte in stream.bytes(DIGEST_DEGREE)]
        step = 1 << C1_BITS - C0_BITS
        c0 = []
        for m, x, e in zip(message, self.times_secret(c1), noise):
            phase = (2 * (m << C1_BITS) + T) // (2 * T) + e - x
            c0.append((phase + step // 2) // step % (1 << C0_BITS))
        return pack(c0, C0_BITS) + pack(c1, C1_BITS)

    def decrypt(self, data):
        c0 = unpack(data, C0_BITS, DIGEST_DEGREE)
        c1 = unpack(data[DIGEST_DEGREE * C0_BITS // 8 :], C1_BITS, DIGEST_DEGREE)
        coefficients, squares = [], 0
        for x, y in zip(c0, self.times_secret(c1)):
            scaled = ((x << C1_BITS - C0_BITS) + y) % (1 << C1_BITS) * T
            rounded = (scaled + (1 << C1_BITS - 1)) >> C1_BITS
            squares += (scaled - (rounded << C1_BITS)) ** 2
            coefficients.append(rounded % T)
        assert math.sqrt(squares / DIGEST_DEGREE) / 2**C1_BITS < 0.125
        return coefficients


SECRET = CompactSecret(ACCOUNT)


class Request:
    def __init__(self, first, end, capacity, payload_bytes):
        self.first, self.end, self.capacity, self.payload_bytes = first, end, capacity, payload_bytes
        self.sums = 64
        while self.sums <= capacity:
            self.sums *= 2
        self.per_ciphertext = DIGEST_DEGREE // self.sums
        self.columns = len(self.column_values(b""))
        omega = pow(primitive_root(2 * DEGREE, T), DEGREE // self.sums, T)
        exponents = [pow(3, e, 2 * self.sums) for e in range(self.sums // 2)]
        self.points = [pow(omega, e, T) for e in exponents] + [pow(omega, -e, T) for e in exponents]

    def column_values(self, payload):
        """A one, the payload's length, and the digits to the base t of its bytes, 22 at a time."""
        if self.payload_bytes == 0:
            return [1]
        values, kept = [1, len(payload)], payload[: self.payload_bytes].ljust(self.payload_bytes, b"\0")
        for start in range(0, self.payload_bytes, GROUP_BYTES):
            group = kept[start : start + GROUP_BYTES]
            number, digits = int.from_bytes(group, "little"), 0
            while T**digits < 256 ** len(group):
                digits += 1
            assert (digits == GROUP_DIGITS) == (len(group) == GROUP_BYTES)
            values += [number // T**i % T for i in range(digits)]
        return values

    def power_sums(self, messages):
        """F_l(e) for each column, from the indices of pertinent messages and their payloads."""
        rows = [(index - self.first + 1, self.column_values(payload)) for index, payload in messages]
        return [
            [sum(pow(node, e, T) * values[column] for node, values in rows) % T for e in range(self.sums)]
            for column in range(self.columns)
        ]

    def header(self, factor):
        body = u64(self.first) + u64(self.end)
        return body + u32(self.capacity) + u32(self.payload_bytes) + u32(factor) + SECRET.key

    def ciphertexts(self):
        return -(-self.columns // self.per_ciphertext)

    def write(self, sums, factor, stream):
        messages = [stream.uniform(T, DIGEST_DEGREE) for _ in range(self.ciphertexts())]
        inverse = pow(self.sums, -1, T)
        for column, values in enumerate(sums):
            for a in range(self.sums):
                total = sum(value * pow(point, -a, T) for value, point in zip(values, self.points))
                place = column % self.per_ciphertext + self.per_ciphertext * a
                messages[column // self.per_ciphertext][place] = factor * inverse * total % T
        return self.header(factor) + b"".join(SECRET.encrypt(message, stream) for message in messages)

    def read(self, file):
        """The sums of each column."""
        body = open(file, COMPACT_DIGEST, PARAMETERS, VERSION)
        factor = int.from_bytes(body[24:28], "little")
        assert body[:44] == self.header(factor) and 0 < factor < T
        length = DIGEST_DEGREE * (C0_BITS + C1_BITS) // 8
        assert len(body) == 44 + length * self.ciphertexts()
        messages = [SECRET.decrypt(body[44 + i * length : 44 + (i + 1) * length]) for i in range(self.ciphertexts())]
        inverse, sums = pow(factor, -1, T), []
        for column in range(self.columns):
            own = messages[column // self.per_ciphertext][column % self.per_ciphertext :: self.per_ciphertext]
            values = [sum(c * pow(point, a, T) for a, c in enumerate(own)) * inverse % T for point in self.points]
            sums.append(values)
        return sums


def found(messages, payload_bytes):
    return [
        {
            "index": index,
            "payload": content[:payload_bytes].hex(),
            "payload_bytes": len(content) if payload_bytes else 0,
        }
        for index, content in messages
    ]


STREAM = Stream(blake3.hash(b"restante test vectors: compact digests"), "testvectors/digest")


def written():
    cases = [
        ("indices only", Request(0, 786432, 5, 0), [(0, b""), (786430, b"")]),
        ("none", Request(2**63, 2**63 + 9, 1, 30), []),
        ("long and short payloads", Request(7, 9000, 3, 30), [(7, payload(7, 40)), (100, b""), (8999, b"\xff" * 30)]),
        ("as many as there is room for", Request(50, 1000, 64, 22), [(50 + 7 * i, payload(i, i % 30)) for i in range(64)]),
    ]
    for comment, request, messages in cases:
        sums = request.power_sums(messages)
        file = seal(COMPACT_DIGEST, PARAMETERS, request.write(sums, 12345, STREAM), VERSION)
        assert request.read(file) == sums
        yield {
            "comment": comment,
            "first": request.first,
            "end": request.end,
            "capacity": request.capacity,
            "payload_bytes": request.payload_bytes,
            "found": found(messages, request.payload_bytes),
            "file": file.hex(),
        }


def bad():
    """Digests that cannot be read, or say nothing; `damaged` are sums that no messages give."""
    request = Request(0, 100, 2, 6)
    messages = [(3, payload(3, 5)), (70, payload(70, 30))]
    sums = request.power_sums(messages)
    body = request.write(sums, 1, STREAM)

    def one_changed(column, e):
        changed = [list(values) for values in sums]
        changed[column][e] = (changed[column][e] + 1) % T
        return changed

    three = request.power_sums(messages + [(71, b"")])
    twice = request.power_sums(messages[:1] * 2)
    outside = request.power_sums([(100, b"")])
    digits = [list(values) for values in request.power_sums([(3, b"")])]
    for e in range(request.sums):
        # The highest digit of six bytes, as large as it gets: more than six bytes.
        digits[4][e] = (T - 1) * pow(4, e, T) % T
    padding = request.power_sums([(3, b"abc")])
    padding[1] = [2 * pow(4, e, T) % T for e in range(request.sums)]
    base = seal(COMPACT_DIGEST, PARAMETERS, body, VERSION)
    yield {"reason": "none: `offset` and `bytes` of the following change its body", "file": base.hex()}
    for reason, error, offset, data in [
        ("capacity 0", "request", 16, u32(0)),
        ("capacity 256", "request", 16, u32(256)),
        ("payloads of 4,097 bytes", "request", 20, u32(4097)),
        ("the end before the start", "request", 0, u64(101)),
        ("786,433 messages", "range", 8, u64(786433)),
        ("factor 0", "out-of-range", 24, u32(0)),
        ("factor t", "out-of-range", 24, u32(T)),
        ("room for 64 messages: the ciphertexts are too few", "truncated", 16, u32(64) + u32(600)),
        ("a byte too many", "trailing", len(body), b"\0"),
        ("of another key", "foreign", 28, bytes(16)),
        ("zeros for the second half", "noise", 44 + DIGEST_DEGREE * C0_BITS // 8, bytes(DIGEST_DEGREE * C1_BITS // 8)),
        ("a range of one message", "damaged", 8, u64(1)),
    ]:
        yield {"reason": reason, "error": error, "offset": offset, "bytes": data.hex()}
    for reason, error, data in [
        ("more messages than there is room for", "overflow", three),
        ("more messages than the range has", "damaged", [[101] + sums[0][1:]] + sums[1:]),
        ("a message twice", "damaged", twice),
        ("a message outside the range", "damaged", outside),
        ("a power sum", "damaged", one_changed(0, 1)),
        ("a sum that is left over", "damaged", one_changed(0, 60)),
        ("a sum of a payload", "damaged", one_changed(3, 40)),
        ("digits that no bytes give", "damaged", digits),
        ("bytes behind the payload's length", "damaged", padding),
    ]:
        file = seal(COMPACT_DIGEST, PARAMETERS, request.write(data, 1, STREAM), VERSION)
        yield {"reason": reason, "error": error, "file": file.hex()}


def detected():
    """Of the forty clues of detect.py, with a payload for each."""
    request = Request(4096000, 4096000 + COUNT, 5, 30)
    payloads = [message.payload for message in MESSAGES]
    messages = [(index, payloads[index - request.first]) for index in pertinent(request.first, all_distances())]
    file = (pathlib.Path(__file__).parent.parent / "compact.digest").read_bytes()
    assert [index - request.first for index, _ in messages] == list(OWN)
    assert request.read(file) == request.power_sums(messages)
    return {
        "first": request.first,
        "end": request.end,
        "capacity": request.capacity,
        "payload_bytes": request.payload_bytes,
        "payloads": [content.hex() for content in payloads],
        "found": found(messages, request.payload_bytes),
        "slots_seed": blake3.hash(b"restante test vectors: slots").hex(),
        "file_hash": blake3.hash(file).hex(),
    }


def main():
    form = {"format": "docs/format.md, Compact digest", "format_version": 1}
    account = {"seed": ACCOUNT.seed.hex(), "key": SECRET.key.hex(), "parameters": PARAMETERS.hex()}
    account["real_parameters"] = parameter_id(compact_description(65536, 48, 29)[0]).hex()
    sections = {"account": [account], "written": list(written()), "bad": list(bad()), "detected": [detected()]}
    write("compact.json", form | sections)


if __name__ == "__main__":
    main()
