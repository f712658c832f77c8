"""The key stream of ChaCha20 with a counter and a nonce of 8 bytes (D. J. Bernstein, 2008), and the AEAD of RFC 8439."""

import struct

CONSTANTS = struct.unpack("<4I", b"expand 32-byte k")
ROUNDS = [(i, 4 + i, 8 + i, 12 + i) for i in range(4)] + [
    (i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)
]


def block(words):
    """64 bytes of key stream from the 16 words of a state."""
    mask = 0xFFFFFFFF
    state = list(words)
    for _ in range(10):
        for a, b, c, d in ROUNDS:
            va, vb, vc, vd = state[a], state[b], state[c], state[d]
            va = va + vb & mask
            vd ^= va
            vd = vd << 16 & mask | vd >> 16
            vc = vc + vd & mask
            vb ^= vc
            vb = vb << 12 & mask | vb >> 20
            va = va + vb & mask
            vd ^= va
            vd = vd << 8 & mask | vd >> 24
            vc = vc + vd & mask
            vb ^= vc
            state[a], state[b], state[c], state[d] = va, vb << 7 & mask | vb >> 25, vc, vd
    return struct.pack("<16I", *(x + y & mask for x, y in zip(state, words)))


def key_stream(key):
    """Blocks, without end: the nonce is zero."""
    words = (*CONSTANTS, *struct.unpack("<8I", key))
    counter = 0
    while True:
        yield block((*words, counter & 0xFFFFFFFF, counter >> 32, 0, 0))
        counter += 1


# RFC 8439, section 2.3.2; the counter and the first nonce word make up the 8-byte counter here.
assert block((*CONSTANTS, *struct.unpack("<8I", bytes(range(32))), 1, 0x09000000, 0x4A000000, 0)).hex().startswith(
    "10f1e7e4d13b5915500fdd1fa32071c4"
)


def poly1305(key, data):
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for start in range(0, len(data), 16):
        total = (total + int.from_bytes(data[start : start + 16] + b"\1", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(key[16:], "little")) % 2**128).to_bytes(16, "little")


def seal(key, nonce, associated, plaintext):
    """ChaCha20-Poly1305 of RFC 8439, section 2.8: ciphertext and tag."""
    words = (*CONSTANTS, *struct.unpack("<8I", key))
    tail = struct.unpack("<3I", nonce)
    stream = b"".join(block((*words, counter, *tail)) for counter in range(1, 1 + -(-len(plaintext) // 64)))
    ciphertext = bytes(x ^ y for x, y in zip(plaintext, stream))
    padded = b"".join(part + bytes(-len(part) % 16) for part in (associated, ciphertext))
    lengths = struct.pack("<QQ", len(associated), len(ciphertext))
    return ciphertext + poly1305(block((*words, 0, *tail))[:32], padded + lengths)


# RFC 8439, section 2.8.2.
assert seal(
    bytes(range(0x80, 0xA0)),
    bytes.fromhex("070000004041424344454647"),
    bytes.fromhex("50515253c0c1c2c3c4c5c6c7"),
    b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.",
)[-16:].hex() == "1ae10b594f09e26a7e902ecbd0600691"
