"""X-Wing (draft-connolly-cfrg-xwing-kem): ML-KEM-768 of FIPS 203 and X25519 of RFC 7748, combined with SHA3-256."""

import hashlib

Q, N, RANK = 3329, 256, 3
ETA, DU, DV = 2, 10, 4
LABEL = b"\\.//^\\"
ZETAS = [pow(17, int(f"{i:07b}"[::-1], 2), Q) for i in range(128)]
GAMMAS = [pow(17, 2 * int(f"{i:07b}"[::-1], 2) + 1, Q) for i in range(128)]


def shake256(data, length):
    return hashlib.shake_256(data).digest(length)


# ML-KEM-768.


def forward(f):
    f, i, length = list(f), 1, 128
    while length >= 2:
        for start in range(0, N, 2 * length):
            for j in range(start, start + length):
                t = ZETAS[i] * f[j + length] % Q
                f[j], f[j + length] = (f[j] + t) % Q, (f[j] - t) % Q
            i += 1
        length //= 2
    return f


def inverse(f):
    f, i, length = list(f), 127, 2
    while length <= 128:
        for start in range(0, N, 2 * length):
            for j in range(start, start + length):
                t = f[j]
                f[j], f[j + length] = (t + f[j + length]) % Q, ZETAS[i] * (f[j + length] - t) % Q
            i -= 1
        length *= 2
    return [x * 3303 % Q for x in f]


def multiply(f, g):
    h = []
    for i in range(128):
        a, b, c, d = f[2 * i], f[2 * i + 1], g[2 * i], g[2 * i + 1]
        h += [(a * c + b * d * GAMMAS[i]) % Q, (a * d + b * c) % Q]
    return h


def add(*polynomials):
    return [sum(values) % Q for values in zip(*polynomials)]


def dot(row, column):
    return add(*(multiply(f, g) for f, g in zip(row, column)))


def sample_uniform(seed, j, i):
    data = hashlib.shake_128(seed + bytes([j, i])).digest(168 * 8)
    values = []
    for place in range(0, len(data), 3):
        a, b, c = data[place : place + 3]
        values += [x for x in (a + 256 * (b % 16), b // 16 + 16 * c) if x < Q]
    assert len(values) >= N
    return values[:N]


def sample_binomial(seed, nonce):
    bits = int.from_bytes(shake256(seed + bytes([nonce]), 64 * ETA), "little")
    bit = lambda place: bits >> place & 1
    return [(bit(4 * i) + bit(4 * i + 1) - bit(4 * i + 2) - bit(4 * i + 3)) % Q for i in range(N)]


def encode(f, width):
    return sum(x << width * i for i, x in enumerate(f)).to_bytes(32 * width, "little")


def decode(data, width):
    number = int.from_bytes(data, "little")
    return [number >> width * i & (1 << width) - 1 for i in range(N)]


def compress(f, width):
    return [((x << width) * 2 + Q) // (2 * Q) % (1 << width) for x in f]


def decompress(f, width):
    return [(x * Q * 2 + (1 << width)) // (2 << width) for x in f]


def matrix(rho):
    return [[sample_uniform(rho, j, i) for j in range(RANK)] for i in range(RANK)]


def ml_kem_keys(d, z):
    expanded = hashlib.sha3_512(d + bytes([RANK])).digest()
    rho, sigma = expanded[:32], expanded[32:]
    s = [forward(sample_binomial(sigma, i)) for i in range(RANK)]
    e = [forward(sample_binomial(sigma, RANK + i)) for i in range(RANK)]
    t = [add(dot(row, s), e[i]) for i, row in enumerate(matrix(rho))]
    public = b"".join(encode(f, 12) for f in t) + rho
    return public, (s, public, z)


def encrypt(public, message, randomness):
    t = [decode(public[384 * i : 384 * (i + 1)], 12) for i in range(RANK)]
    assert all(x < Q for f in t for x in f)
    a = matrix(public[-32:])
    y = [forward(sample_binomial(randomness, i)) for i in range(RANK)]
    e1 = [sample_binomial(randomness, RANK + i) for i in range(RANK)]
    e2 = sample_binomial(randomness, 2 * RANK)
    u = [add(inverse(dot([a[j][i] for j in range(RANK)], y)), e1[i]) for i in range(RANK)]
    v = add(inverse(dot(t, y)), e2, decompress(decode(message, 1), 1))
    return b"".join(encode(compress(f, DU), DU) for f in u) + encode(compress(v, DV), DV)


def ml_kem_encapsulate(public, message):
    expanded = hashlib.sha3_512(message + hashlib.sha3_256(public).digest()).digest()
    return expanded[:32], encrypt(public, message, expanded[32:])


def ml_kem_decapsulate(secret, ciphertext):
    s, public, z = secret
    u = [decompress(decode(ciphertext[320 * i : 320 * (i + 1)], DU), DU) for i in range(RANK)]
    v = decompress(decode(ciphertext[960:], DV), DV)
    product = inverse(dot(s, [forward(f) for f in u]))
    message = encode(compress([(x - y) % Q for x, y in zip(v, product)], 1), 1)
    shared, again = ml_kem_encapsulate(public, message)
    return shared if again == ciphertext else shake256(z + ciphertext, 32)


# X25519.

P = 2**255 - 19
BASE = (9).to_bytes(32, "little")


def x25519(scalar, point):
    k = int.from_bytes(scalar, "little") & (2**254 - 8) | 2**254
    x1 = int.from_bytes(point, "little") % 2**255
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for place in reversed(range(255)):
        bit = k >> place & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P, b * b % P, d * a % P, c * b % P
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, (aa - bb) * (aa + 121665 * (aa - bb)) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


# The combination.


def expand(secret):
    expanded = shake256(secret, 96)
    public, ml_kem = ml_kem_keys(expanded[:32], expanded[32:64])
    return ml_kem, expanded[64:], public + x25519(expanded[64:], BASE)


def public_key(secret):
    return expand(secret)[2]


def combine(ml_kem_shared, shared, ciphertext, public):
    return hashlib.sha3_256(ml_kem_shared + shared + ciphertext + public + LABEL).digest()


def encapsulate(public, randomness):
    """The shared secret and the ciphertext; the randomness has 64 bytes."""
    ml_kem_shared, ciphertext = ml_kem_encapsulate(public[:1184], randomness[:32])
    own, theirs = x25519(randomness[32:], BASE), public[1184:]
    shared = combine(ml_kem_shared, x25519(randomness[32:], theirs), own, theirs)
    return shared, ciphertext + own


def decapsulate(secret, ciphertext):
    ml_kem, scalar, public = expand(secret)
    theirs = ciphertext[1088:]
    ml_kem_shared = ml_kem_decapsulate(ml_kem, ciphertext[:1088])
    return combine(ml_kem_shared, x25519(scalar, theirs), theirs, public[1184:])


# The first vector of the draft, appendix C: its secret key, the randomness of encapsulation, and the shared secret.
SECRET = bytes.fromhex("7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26")
RANDOMNESS = bytes.fromhex(
    "3cb1eea988004b93103cfb0aeefd2a686e01fa4a58e8a3639ca8a1e3f9ae57e2"
    "35b8cc873c23dc62b8d260169afa2f75ab916a58d974918835d25e6a435085b2"
)
SHARED, CIPHERTEXT = encapsulate(public_key(SECRET), RANDOMNESS)
assert SHARED == decapsulate(SECRET, CIPHERTEXT)
assert SHARED.hex() == "d2df0522128f09dd8e2c92b1e905c793d8f57a54c3da25861f10bf4ca613e384"
