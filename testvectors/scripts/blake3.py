"""BLAKE3 by its specification (the paper of 2020, section 2): hash, keyed hash, key derivation, extended output."""

import struct

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
CHUNK_START, CHUNK_END, PARENT, ROOT, KEYED, CONTEXT, MATERIAL = (1 << i for i in range(7))
BLOCK, CHUNK = 64, 1024


def schedule():
    """Which word of a block each place of each of the seven rounds takes."""
    order = list(range(16))
    rounds = []
    for _ in range(7):
        rounds.append(tuple(order))
        order = [order[place] for place in PERMUTATION]
    return rounds


COLUMNS_AND_DIAGONALS = tuple((i, 4 + i, 8 + i, 12 + i) for i in range(4)) + tuple(
    (i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)
)
STEPS = [
    (*places, order[2 * i], order[2 * i + 1])
    for order in schedule()
    for i, places in enumerate(COLUMNS_AND_DIAGONALS)
]


def compress(chaining, block, counter, length, flags):
    """All sixteen words of the output."""
    mask = 0xFFFFFFFF
    words = struct.unpack("<16I", block.ljust(BLOCK, b"\0"))
    state = [*chaining, *IV[:4], counter & mask, counter >> 32, length, flags]
    for a, b, c, d, first, second in STEPS:
        va, vb, vc, vd = state[a], state[b], state[c], state[d]
        va = (va + vb + words[first]) & mask
        vd ^= va
        vd = vd >> 16 | vd << 16 & mask
        vc = (vc + vd) & mask
        vb ^= vc
        vb = vb >> 12 | vb << 20 & mask
        va = (va + vb + words[second]) & mask
        vd ^= va
        vd = vd >> 8 | vd << 24 & mask
        vc = (vc + vd) & mask
        vb ^= vc
        state[a], state[b], state[c], state[d] = va, vb >> 7 | vb << 25 & mask, vc, vd
    return [state[i] ^ state[i + 8] for i in range(8)] + [state[i + 8] ^ chaining[i] for i in range(8)]


class Output:
    """The last compression of a node, not done yet: it depends on whether the node is the root."""

    def __init__(self, chaining, block, counter, flags):
        self.arguments = chaining, block, counter, len(block), flags

    def chaining(self):
        return compress(*self.arguments)[:8]

    def root(self, length):
        chaining, block, _, block_length, flags = self.arguments
        out = b""
        for counter in range(-(-length // BLOCK)):
            out += struct.pack("<16I", *compress(chaining, block, counter, block_length, flags | ROOT))
        return out[:length]


def chunk(key, data, counter, flags):
    blocks = [data[i : i + BLOCK] for i in range(0, len(data), BLOCK)] or [b""]
    chaining = key
    for i, block in enumerate(blocks[:-1]):
        start = CHUNK_START if i == 0 else 0
        chaining = compress(chaining, block, counter, BLOCK, flags | start)[:8]
    start = CHUNK_START if len(blocks) == 1 else 0
    return Output(chaining, blocks[-1], counter, flags | start | CHUNK_END)


def tree(key, data, counter, flags):
    if len(data) <= CHUNK:
        return chunk(key, data, counter, flags)
    # The left subtree is the largest complete one that leaves something for the right.
    left = CHUNK
    while 2 * left < len(data):
        left *= 2
    halves = tree(key, data[:left], counter, flags), tree(key, data[left:], counter + left // CHUNK, flags)
    block = struct.pack("<16I", *halves[0].chaining(), *halves[1].chaining())
    return Output(key, block, 0, flags | PARENT)


def hash(data, length=32):
    return tree(IV, data, 0, 0).root(length)


def keyed(key, data, length=32):
    return tree(struct.unpack("<8I", key), data, 0, KEYED).root(length)


def derive_key(context, data, length=32):
    key = tree(IV, context.encode(), 0, CONTEXT).root(32)
    return tree(struct.unpack("<8I", key), data, 0, MATERIAL).root(length)


def published(length):
    """The input of the official vectors (BLAKE3-team/BLAKE3, test_vectors.json)."""
    return bytes(i % 251 for i in range(length))


assert hash(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
assert hash(published(1025)).hex() == "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"
assert keyed(b"whats the Elvish word for friend", published(3073), 72).hex() == (
    "68dede9bef00ba89e43f31a6825f4cf433389fedae75c04ee9f0cf16a427c95a96d6da3fe985054d3478865be9a09225"
    "0839a697bbda74e279e8a9e69f0025e4cfddd6cfb434b1cd"
)
assert derive_key("BLAKE3 2019-12-27 16:29:52 test vectors context", published(2049)).hex() == (
    "2ea477c5515cc3dd606512ee72bb3e0e758cfae7232826f35fb98ca1bcbdf273"
)
