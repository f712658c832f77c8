"""Ed25519 by RFC 8032, section 5.1, on Python's integers."""

import hashlib

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT_OF_MINUS_1 = pow(2, (P - 1) // 4, P)
NEUTRAL = (0, 1)


def add(first, second):
    (x1, y1), (x2, y2) = first, second
    product = D * x1 * x2 * y1 * y2 % P
    # One inverse for both denominators, 1 + product and 1 - product.
    inverse = pow(1 - product * product, -1, P)
    x = (x1 * y2 + x2 * y1) * (1 - product) * inverse % P
    return x, (y1 * y2 + x1 * x2) * (1 + product) * inverse % P


def multiply(scalar, point):
    result = NEUTRAL
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point = add(point, point)
        scalar >>= 1
    return result


def recover_x(y, sign):
    """The x of a point on the curve, or None."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_1 % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    return P - x if x % 2 != sign else x


BASE_Y = 4 * pow(5, -1, P) % P
BASE = (recover_x(BASE_Y, 0), BASE_Y)


def encode(point):
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def scalar_and_prefix(secret):
    hashed = hashlib.sha512(secret).digest()
    scalar = int.from_bytes(hashed[:32], "little")
    return scalar & (2**254 - 8) | 2**254, hashed[32:]


def integer_hash(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


def public_key(secret):
    return encode(multiply(scalar_and_prefix(secret)[0], BASE))


def sign(secret, message):
    scalar, prefix = scalar_and_prefix(secret)
    nonce = integer_hash(prefix, message)
    commitment, key = encode(multiply(nonce, BASE)), encode(multiply(scalar, BASE))
    answer = (nonce + integer_hash(commitment, key, message) * scalar) % ORDER
    return commitment + answer.to_bytes(32, "little")


def points_of_small_order():
    """The eight points whose order divides 8, the neutral one first: multiples of one of order 8."""
    y = 3
    while True:
        x = recover_x(y, 0)
        if x is not None:
            point = multiply(ORDER, (x, y))
            if multiply(4, point) != NEUTRAL:
                return [multiply(i, point) for i in range(8)]
        y += 1


# RFC 8032, section 7.1, test 2.
SECRET = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
assert public_key(SECRET).hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
assert sign(SECRET, b"\x72").hex() == (
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)
