"""What follows from an account's seed: docs/format.md, Secrets of an account, Clues, Detection key. Presets: standard."""

import base64

import blake3
import hpke
import xwing
from binding import WORDS, bind, bound_hash, encode_period, vector
from envelope import parameter_id, seal
from parameters import CLUE, CLUE_MODULUS, STREAM, STREAM_DEGREE, STREAM_P, STREAM_Q, clue_key_description
from polynomials import automorphism, centered, evaluate, interpolate, pack, product, slot_places
from seeds import Stream, derive, thresholds

CLUE_DEGREE, COORDINATES = 1024, 2
BABY_STEPS = 64
NARROW, WIDE = thresholds("0.25"), thresholds("10.24")


def integer(data):
    return int.from_bytes(data, "little")


def u64(value):
    return value.to_bytes(8, "little")


class ClueSecret:
    def __init__(self, account_seed):
        seed = derive(account_seed, "account/clue")
        place = integer(parameter_id(clue_key_description(0)))
        self.secret = Stream(seed, "clue/secret", place).ternary(CLUE_DEGREE)
        error = Stream(seed, "clue/error", place).gaussian(NARROW, CLUE_DEGREE)
        entries = Stream(seed, "clue/tags", place).uniform(CLUE_MODULUS, COORDINATES * WORDS)
        self.tags = [entries[:WORDS], entries[WORDS:]]
        self.a_seed = derive(seed, "clue/uniform-seed", place)
        self.a = Stream(self.a_seed, "clue/uniform").uniform(CLUE_MODULUS, CLUE_DEGREE)
        self.b = [(x + e) % CLUE_MODULUS for x, e in zip(product(self.secret, self.a, CLUE_MODULUS), error)]

    def clue_key(self):
        return self.a_seed + pack(self.b, 20) + pack(self.tags[0] + self.tags[1], 20)

    def tag(self, h):
        return [sum(x * y for x, y in zip(row, h)) % CLUE_MODULUS for row in self.tags]

    def entry(self, steps, column):
        """V at a column of slots, for so many baby steps."""
        coordinate, entry = column % 2, column // steps % (WORDS + 1)
        if entry < WORDS:
            return self.tags[coordinate][entry]
        return 2 * self.secret[1] % CLUE_MODULUS if coordinate else 0

    def clue(self, stream, message):
        """A clue for this account from the sender's randomness; which draws a sender makes is its own matter."""
        r, e1 = stream.ternary(CLUE_DEGREE), stream.gaussian(NARROW, CLUE_DEGREE)
        e2 = stream.gaussian(NARROW, COORDINATES)
        a = [(x + e) % CLUE_MODULUS for x, e in zip(product(r, self.a, CLUE_MODULUS), e1)]
        b, tag = product(r, self.b, CLUE_MODULUS), self.tag(message.vector(a))
        return a, [(b[c] + e2[c] + tag[c]) % CLUE_MODULUS for c in range(COORDINATES)]

    def distances(self, a, b, message):
        inner, tag = product(a, self.secret, CLUE_MODULUS), self.tag(message.vector(a))
        return [centered(b[c] - inner[c] - tag[c], CLUE_MODULUS) for c in range(COORDINATES)]


class Message:
    """What a clue is bound to, beside its a'."""

    def __init__(self, board, period, payload):
        self.board, self.period, self.payload = board, period, payload

    def bound_part(self, a):
        return encode_period(self.period) + pack(a, 20)

    def vector(self, a):
        return vector(bind(self.board, bound_hash(self.bound_part(a)), blake3.hash(self.payload)), CLUE_MODULUS)

    def encode_clue(self, a, b):
        return self.bound_part(a) + pack(b, 20)


class DetectionSecret:
    """The secret of the stream digest's encryption, and the key that a detector gets."""

    VERSION, BABY_DIGITS, GIANT_DIGITS = 3, 2, 1
    # For no relay in particular, nor for a time.
    COMMON = bytes(32), 0

    def __init__(self, account_seed, clue, domain_and_period=COMMON):
        t, degree = CLUE_MODULUS, STREAM_DEGREE
        s = clue.secret
        period = [s[0]] + [-x for x in s[1:]]
        secret, tags = [0] * degree, [0] * degree
        for slot, place in enumerate(slot_places(degree)):
            secret[place] = period[slot % (degree // 2) % CLUE_DEGREE] % t
            tags[place] = clue.entry(BABY_STEPS, slot % (degree // 2))
        self.plaintexts = [interpolate(secret, t), interpolate(tags, t)]

        seed = derive(account_seed, "account/detection")
        domain, period = domain_and_period
        self.public_name = domain + u64(period)
        layout = STREAM["standard"] + b"".join(map(u64, (self.VERSION, self.BABY_DIGITS, self.GIANT_DIGITS)))
        layout += self.public_name
        layout += b"".join(x.to_bytes(4, "little") for plaintext in self.plaintexts for x in plaintext)
        seed = blake3.keyed(derive(seed, "omr/layout"), layout)
        self.public = derive(domain, "omr/public", integer(STREAM["standard"]), period)
        secret = derive(seed, "omr/secret")
        self.primes = STREAM_Q + STREAM_P
        place = [degree, t, *self.primes, len(STREAM_Q)]
        self.secret = Stream(secret, "bfv/secret/ternary", *place).ternary(degree)
        self.errors = derive(secret, "bfv/errors", *place)
        self.evaluated = [evaluate(self.secret, prime) for prime in self.primes]

    def error(self, public, *row):
        words = [integer(public[i : i + 8]) for i in range(0, 32, 8)]
        return Stream(derive(self.errors, "bfv/object", *words), "bfv/error/gaussian-3.2", *row).gaussian(WIDE, STREAM_DEGREE)

    def hide(self, public, message, row, primes):
        """c0 of each limb: the message's evaluations, the error's, and minus c1 s."""
        error = self.error(public, *row)
        limbs = []
        for limb, prime in enumerate(primes):
            c1 = Stream(public, "bfv/uniform", *row, limb).uniform(prime, STREAM_DEGREE)
            rows = zip(message[limb], evaluate(error, prime), c1, self.evaluated[limb])
            limbs.append([(m + e - x * s) % prime for m, e, x, s in rows])
        return limbs

    def ciphertext(self, index):
        """round(Q m / t), encrypted."""
        modulus = STREAM_Q[0] * STREAM_Q[1]
        scaled = [(2 * modulus * m + CLUE_MODULUS) // (2 * CLUE_MODULUS) for m in self.plaintexts[index]]
        message = [evaluate([x % prime for x in scaled], prime) for prime in STREAM_Q]
        return self.hide(derive(self.public, "omr/ciphertext", index), message, (), STREAM_Q)

    def rotation_key(self, index, steps, digits):
        """A row for each digit, a digit being a part of the primes of Q: P s(X^g) modulo these primes."""
        element = pow(3, steps, 2 * STREAM_DEGREE)
        source = automorphism(self.secret, element)
        special = STREAM_P[0] * STREAM_P[1]
        public = derive(self.public, "omr/galois-key", index)
        rows = []
        for row in range(digits):
            own = [row] if digits == 2 else [0, 1]
            message = [
                evaluate([special * x % prime for x in source], prime) if limb in own else [0] * STREAM_DEGREE
                for limb, prime in enumerate(self.primes)
            ]
            rows.append(self.hide(public, message, (row,), self.primes))
        return rows

    def key_file(self):
        body = self.public_name
        objects = [self.ciphertext(index) for index in range(2)]
        objects += self.rotation_key(0, 1, self.BABY_DIGITS)
        objects += self.rotation_key(1, BABY_STEPS, self.GIANT_DIGITS)
        for limbs in objects:
            for prime, limb in zip(self.primes, limbs):
                body += pack(limb, prime.bit_length())
        return seal(3, STREAM["standard"], body, self.VERSION)


class Account:
    def __init__(self, seed):
        self.seed = seed
        self.clue = ClueSecret(seed)
        self.public_key = xwing.public_key(hpke.secret_key(derive(seed, "account/payload")))

    def address_file(self):
        return seal(2, CLUE["standard"], self.clue.clue_key() + self.public_key, version=2)

    def fingerprint(self):
        body = CLUE["standard"] + self.clue.clue_key() + self.public_key
        letters = base64.b32encode(blake3.derive_key("restante/1/address/fingerprint", body)[:20]).decode().lower()
        return "-".join(letters[i : i + 4] for i in range(0, 32, 4))

    def secret_file(self):
        return seal(1, CLUE["standard"], self.seed, version=2)

    def detection(self):
        return DetectionSecret(self.seed, self.clue)
