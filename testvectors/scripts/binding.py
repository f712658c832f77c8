"""What a clue is bound to: docs/format.md, Clues, Binding."""

import blake3

WORDS = 7


def encode_period(period):
    return period.to_bytes(4, "little")


def bound_hash(bound_part):
    return blake3.hash(bound_part)


def bind(board, bound, payload_hash):
    assert (len(board), len(bound), len(payload_hash)) == (16, 32, 32)
    return blake3.derive_key("restante/2/clue/binding", board + bound + payload_hash)


def vector(binding, modulus):
    data = blake3.keyed(binding, b"restante/2/clue/binding-vector", 8 * WORDS)
    return [int.from_bytes(data[i : i + 8], "little") % modulus for i in range(0, 8 * WORDS, 8)]
