#!/usr/bin/env python3
"""Makes testvectors/1/fetch.json: epochs, queries, answers and states of a private fetch, by docs/format.md and docs/fetch.md.

`python3 testvectors/scripts/fetch.py FOLDER` writes elsewhere.
"""

import hashlib

import blake3
import dpf
from envelope import NO_PARAMETERS, seal
from hash_tree import Tree
from vector_files import write

RECORD_KEY = blake3.hash(b"restante/1/fetch/record")
QUERY, ANSWER, STATE, EPOCH = 6, 7, 8, 13
RAW, PADDED = 0, 1


def u32(value):
    return value.to_bytes(4, "little")


def u64(value):
    return value.to_bytes(8, "little")


def drawn(name, length):
    return hashlib.shake_256(f"restante test vectors: {name}".encode()).digest(length)


class Epoch:
    """`payloads` are the records themselves, or what is padded to them."""

    def __init__(self, record_bytes, content, payloads):
        self.record_bytes, self.content, self.payloads = record_bytes, content, payloads
        self.records = [payload if content == RAW else self.pad(payload) for payload in payloads]
        assert all(len(record) == record_bytes for record in self.records)
        self.hashes = [blake3.keyed(RECORD_KEY, record) for record in self.records]
        self.tree = Tree(self.hashes)
        self.root = self.tree.root(0, len(self.records))
        self.id = blake3.derive_key("restante/1/fetch/epoch", self.header() + self.root)

    def pad(self, payload):
        return (u32(len(payload)) + payload).ljust(self.record_bytes, b"\0")

    def header(self):
        return u32(self.record_bytes) + bytes([self.content]) + u64(len(self.records))

    def subtrees(self):
        """Roots of the complete subtrees, the largest first."""
        count, start, roots = len(self.records), 0, []
        for level in reversed(range(count.bit_length())):
            if count >> level & 1:
                roots.append(self.tree.root(start, start + 2**level))
                start += 2**level
        return roots

    def file(self):
        return seal(EPOCH, NO_PARAMETERS, self.header() + b"".join(self.subtrees()))

    def key_pair(self, index, name):
        parameters = dpf.Parameters(len(self.records), dpf.BITS, 0, dpf.HALF_TREE)
        return dpf.generate(parameters, index, b"\1", drawn(name, 32))

    def query_body(self, party, keys):
        return self.id + bytes([party]) + u32(len(keys)) + b"".join(keys)

    def share(self, key):
        """The XOR of the records whose bit the key gives as 1."""
        parameters = dpf.Parameters(len(self.records), dpf.BITS, 0, dpf.HALF_TREE)
        total = bytes(self.record_bytes)
        leaves = -(-len(self.records) // parameters.per_leaf)
        bits = b"".join(dpf.share_of_leaf(parameters, key, leaf) for leaf in range(leaves))
        for index, record in enumerate(self.records):
            if bits[index // 8] >> index % 8 & 1:
                total = dpf.xor(total, record)
        return total


def query_hash(body):
    return blake3.derive_key("restante/1/fetch/query", body)[:16]


def answer_body(epoch, party, query, shares):
    return epoch.id + bytes([party]) + query_hash(query) + u32(epoch.record_bytes) + u32(len(shares)) + b"".join(shares)


EPOCHS = [
    ("one record", Epoch(8, RAW, [b"restante"])),
    ("padded, of any length up to what fits", Epoch(20, PADDED, [drawn(f"payload {i}", i) for i in range(17)])),
    ("several leaves of the tree", Epoch(8, RAW, [u64(i * i) for i in range(3000)])),
]
# Indices that are wanted, and dummies.
FETCHES = [([0], []), ([16, 3, 16], [5]), ([2999], [0, 1024])]


def vector(name, epoch, wanted, dummies):
    pairs = [epoch.key_pair(index, f"{name} {place}") for place, index in enumerate(wanted + dummies)]
    queries = [epoch.query_body(party, [pair[party] for pair in pairs]) for party in (0, 1)]
    shares = [[epoch.share(pair[party]) for pair in pairs] for party in (0, 1)]
    answers = [answer_body(epoch, party, queries[party], shares[party]) for party in (0, 1)]
    for index, first, second in zip(wanted + dummies, *shares):
        assert dpf.xor(first, second) == epoch.records[index]
    state = epoch.id + u32(epoch.record_bytes) + bytes([epoch.content]) + query_hash(queries[0]) + query_hash(queries[1])
    state += u32(len(wanted)) + u32(len(pairs))
    state += b"".join(u64(index) + epoch.hashes[index] for index in wanted + dummies)
    squares = len(epoch.records) > 100
    return {
        "name": name,
        "record_bytes": epoch.record_bytes,
        "content": "raw" if epoch.content == RAW else "padded",
        "records": len(epoch.records),
        # Of the largest, record i is the square of i in eight bytes.
        "payloads": "squares" if squares else [payload.hex() for payload in epoch.payloads],
        "hashes_hash": blake3.hash(b"".join(epoch.hashes)).hex(),
        "root": epoch.root.hex(),
        "id": epoch.id.hex(),
        "epoch": epoch.file().hex(),
        "wanted": wanted,
        "dummies": dummies,
        "queries": [seal(QUERY, NO_PARAMETERS, body).hex() for body in queries],
        "answers": [seal(ANSWER, NO_PARAMETERS, body).hex() for body in answers],
        "state": seal(STATE, NO_PARAMETERS, state).hex(),
    }


def bad():
    """What cannot be read."""
    epoch = EPOCHS[1][1]
    header, roots = epoch.header(), b"".join(epoch.subtrees())
    zero = u64(0)
    cases = [
        ("epoch", "records of 7 bytes", "out-of-range", EPOCH, u32(7) + header[4:] + roots),
        ("epoch", "records of 65,537 bytes", "out-of-range", EPOCH, u32(65537) + header[4:] + roots),
        ("epoch", "content 2", "out-of-range", EPOCH, header[:4] + b"\2" + header[5:] + roots),
        ("epoch", "no record", "out-of-range", EPOCH, header[:5] + zero),
        ("epoch", "2^32 + 1 records", "out-of-range", EPOCH, header[:5] + u64(2**32 + 1) + roots[:64]),
        ("epoch", "a root is missing", "truncated", EPOCH, header + roots[:32]),
        ("epoch", "a root too many", "trailing", EPOCH, header + roots + bytes(32)),
    ]
    first, second = epoch.key_pair(3, "bad")
    body = epoch.query_body(0, [first, first])
    plain = dpf.generate(dpf.Parameters(17, dpf.BITS, 0, dpf.PLAIN), 3, b"\1", drawn("bad", 32))[0]
    other = dpf.generate(dpf.Parameters(18, dpf.BITS, 0, dpf.HALF_TREE), 3, b"\1", drawn("bad", 32))[0]
    byte_strings = dpf.generate(dpf.Parameters(17, dpf.BYTES, 1, dpf.HALF_TREE), 3, b"\1", drawn("bad", 32))[0]
    cases += [
        ("query", "server 2", "out-of-range", QUERY, body[:32] + b"\2" + body[33:]),
        ("query", "no fetch", "out-of-range", QUERY, epoch.query_body(0, [])),
        ("query", "1,025 fetches announced", "out-of-range", QUERY, body[:33] + u32(1025) + body[37:]),
        ("query", "a key is missing", "truncated", QUERY, body[:33] + u32(3) + body[37:]),
        ("query", "a key too many", "trailing", QUERY, body[:33] + u32(1) + body[37:]),
        ("query", "a key of the other server", "out-of-range", QUERY, epoch.query_body(0, [first, second])),
        ("query", "keys of both for server 1", "out-of-range", QUERY, epoch.query_body(1, [second, first])),
        ("query", "a plain key", "out-of-range", QUERY, epoch.query_body(0, [plain])),
        ("query", "keys for other numbers of records", "out-of-range", QUERY, epoch.query_body(0, [first, other])),
        ("query", "a key for byte strings", "out-of-range", QUERY, epoch.query_body(0, [byte_strings])),
    ]
    answer = answer_body(epoch, 0, body, [bytes(20)] * 2)
    cases += [
        ("answer", "server 2", "out-of-range", ANSWER, answer[:32] + b"\2" + answer[33:]),
        ("answer", "records of 7 bytes", "out-of-range", ANSWER, answer[:49] + u32(7) + answer[53:]),
        ("answer", "no fetch", "out-of-range", ANSWER, answer[:53] + u32(0)),
        ("answer", "1,025 fetches", "out-of-range", ANSWER, answer[:53] + u32(1025) + bytes(20 * 1025)),
        ("answer", "a share is missing", "truncated", ANSWER, answer[:-20]),
        ("answer", "a share too many", "trailing", ANSWER, answer + bytes(20)),
    ]
    state = epoch.id + u32(20) + b"\1" + bytes(32) + u32(1) + u32(1) + u64(3) + epoch.hashes[3]
    cases += [
        ("state", "more real fetches than fetches", "out-of-range", STATE, state[:69] + u32(2) + state[73:]),
        ("state", "content 2", "out-of-range", STATE, state[:36] + b"\2" + state[37:]),
        ("state", "no fetch", "out-of-range", STATE, state[:69] + u32(0) + u32(0)),
        ("state", "half a hash", "truncated", STATE, state[:-16]),
        ("state", "a byte behind the end", "trailing", STATE, state + b"\0"),
    ]
    kinds = {"epoch": EPOCH, "query": QUERY, "answer": ANSWER, "state": STATE}
    bodies = {"epoch": header + roots, "query": body, "answer": answer, "state": state}
    for name, kind in kinds.items():
        cases.append((name, "another kind", "wrong-kind", 1, bodies[name]))
    vectors = [
        {"type": name, "reason": reason, "error": error, "file": seal(kind, NO_PARAMETERS, body).hex()}
        for name, reason, error, kind, body in cases
    ]
    for name, kind in kinds.items():
        for reason, error, file in [
            ("version 2", "unsupported-version", seal(kind, NO_PARAMETERS, bodies[name], version=2)),
            ("with a parameter id", "wrong-parameters", seal(kind, b"\1" + bytes(7), bodies[name])),
            ("a bit of the checksum", "corrupted", seal(kind, NO_PARAMETERS, bodies[name])[:-1] + b"?"),
        ]:
            vectors.append({"type": name, "reason": reason, "error": error, "file": file.hex()})
    return vectors


def refused():
    """Answers that can be read and are none to the second vector's queries: `first` and `second` in its answers' place."""
    name, epoch = EPOCHS[1]
    wanted, dummies = FETCHES[1]
    good = vector(name, epoch, wanted, dummies)
    first, second = (bytes.fromhex(answer)[24:-16] for answer in good["answers"])

    def case(reason, error, one=first, two=second):
        return {
            "reason": reason,
            "error": error,
            "answers": [seal(ANSWER, NO_PARAMETERS, body).hex() for body in (one, two)],
        }

    yield case("of another epoch", "epoch", one=bytes(32) + first[32:])
    yield case("twice of server 0", "same-server", two=first)
    yield case("to another query", "other-query", two=second[:33] + bytes(16) + second[49:])
    yield case("for longer records", "size", two=second[:49] + u32(40) + u32(2) + second[57:])
    yield case("of fewer fetches", "size", two=second[:53] + u32(3) + second[57:-20])
    yield case("a bit of the first record", "wrong-record", one=first[:57] + bytes([first[57] ^ 1]) + first[58:])
    yield case("a bit of a dummy", "wrong-record", two=second[:-1] + bytes([second[-1] ^ 1]))


def main():
    form = {"format": "docs/format.md, Private fetch", "format_version": 1}
    good = [vector(name, epoch, *fetch) for (name, epoch), fetch in zip(EPOCHS, FETCHES)]
    write("fetch.json", form | {"good": good, "bad": bad(), "refused": list(refused())})


if __name__ == "__main__":
    main()
