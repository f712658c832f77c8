"""The account of the vectors, and forty clues, two of which are for it: what both kinds of digests are made of."""

import blake3
from account import Account
from parameters import CLUE_MODULUS
from seeds import Stream

ACCOUNT = Account(blake3.hash(b"restante test vectors: account 0"))
CLUE_SEED = blake3.hash(b"restante test vectors: clues")
COUNT, OWN = 40, (3, 31)
RANGE = 131


def clues():
    for number in range(COUNT):
        stream = Stream(CLUE_SEED, "testvectors/clue", number)
        if number in OWN:
            yield ACCOUNT.clue.clue(stream)
        else:
            residues = stream.uniform(CLUE_MODULUS, 1026)
            yield residues[:1024], residues[1024:]


def pertinent(first, distances):
    """The indices of the clues whose distances are both within the range."""
    return [first + i for i, pair in enumerate(distances) if all(abs(x) <= RANGE for x in pair)]
