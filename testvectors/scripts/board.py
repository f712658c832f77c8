"""The account of the vectors, and forty messages, two of which are for it: what both kinds of digests are made of."""

import blake3
from account import Account, Message
from parameters import CLUE_MODULUS
from seeds import Stream

ACCOUNT = Account(blake3.hash(b"restante test vectors: account 0"))
CLUE_SEED = blake3.hash(b"restante test vectors: clues")
COUNT, OWN = 40, (3, 31)
RANGE = 131
BOARD = blake3.hash(b"restante test vectors: board")[:16]
PERIOD = 20454


def payload(number, length):
    return Stream(blake3.hash(b"restante test vectors: payloads of a board"), "testvectors/payload", number).bytes(length)


MESSAGES = [Message(BOARD, PERIOD, payload(1000 + number, 10 + number)) for number in range(COUNT)]


def clues():
    for number, message in enumerate(MESSAGES):
        stream = Stream(CLUE_SEED, "testvectors/clue", number)
        if number in OWN:
            yield ACCOUNT.clue.clue(stream, message)
        else:
            residues = stream.uniform(CLUE_MODULUS, 1026)
            yield residues[:1024], residues[1024:]


def all_distances():
    return [ACCOUNT.clue.distances(*clue, message) for clue, message in zip(clues(), MESSAGES)]


def pertinent(first, distances):
    """The indices of the clues whose distances are both within the range."""
    return [first + i for i, pair in enumerate(distances) if all(abs(x) <= RANGE for x in pair)]
