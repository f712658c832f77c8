#!/usr/bin/env python3
"""Makes testvectors/1/payload.json: an address, and payloads sealed for it, by docs/format.md, Address file and Payload.

`python3 testvectors/scripts/payload.py FOLDER` writes elsewhere.
"""

import blake3
import hpke
from account import Account
from board import ACCOUNT, BOARD
from seeds import Stream
from vector_files import write

SIZES = [1536, 2048, 4096, 8192, 16384, 32768, 65536]
OVERHEAD = 1120 + 16
CLUE = bytes(range(50))
TAIL_BYTES = 5


def randomness(number):
    """64 bytes: what X-Wing takes for ML-KEM, and for X25519."""
    return Stream(blake3.hash(b"restante test vectors: payloads"), "testvectors/payload", number).bytes(64)


def seal(contents, number, clue=CLUE, board=BOARD, info=b"restante/1/payload", public=ACCOUNT.public_key):
    associated = blake3.derive_key("restante/2/payload/clue", board + blake3.hash(clue[:-TAIL_BYTES]))
    return hpke.seal(public, info, associated, contents, randomness(number))


def contents(text, size=None, length=None, padding=b""):
    size = size or next(size for size in SIZES if len(text) + 4 + OVERHEAD <= size)
    data = (len(text) if length is None else length).to_bytes(4, "little") + text
    return data + bytes(size - OVERHEAD - len(data) - len(padding)) + padding


def texts():
    yield b""
    yield "See you at five. \u2709".encode()
    yield bytes(i % 251 for i in range(396))
    yield bytes(i % 251 for i in range(397))


def good():
    for number, text in enumerate(texts()):
        payload = seal(contents(text), number)
        yield {
            "board": BOARD.hex(),
            "clue": CLUE.hex(),
            "text": text.hex(),
            "randomness": randomness(number).hex(),
            "payload": payload.hex(),
        }


def bad():
    text = b"text"
    payload = seal(contents(text), 10)

    def flipped(place):
        return payload[:place] + bytes([payload[place] ^ 1]) + payload[place + 1 :]

    other = Account(blake3.hash(b"restante test vectors: account 1"))
    yield "empty", "size", b""
    yield "a byte missing", "size", payload[:-1]
    yield "a byte too many", "size", payload + b"\0"
    yield "a bit of ML-KEM's ciphertext", "not-for-us", flipped(0)
    yield "a bit of X25519's key", "not-for-us", flipped(1088)
    yield "a bit of the ciphertext", "not-for-us", flipped(1120)
    yield "a bit of the padding", "not-for-us", flipped(1500)
    yield "a bit of the tag", "not-for-us", flipped(1535)
    yield "for another clue", "not-for-us", seal(contents(text), 11, clue=CLUE[1:])
    yield "for another board", "not-for-us", seal(contents(text), 19, board=bytes(16))
    yield "for another account", "not-for-us", seal(contents(text), 12, public=other.public_key)
    yield "for another use", "not-for-us", seal(contents(text), 13, info=b"restante/2/payload")
    yield "a size that there is not", "size", seal(contents(text, 1600), 14)
    yield "longer than the contents", "contents", seal(contents(text, length=397), 15)
    yield "a length of 2^32 - 1", "contents", seal(contents(text, length=2**32 - 1), 16)
    yield "padding that is not zero", "contents", seal(contents(text, padding=b"\1"), 17)
    yield "text behind the length", "contents", seal(contents(text, length=3), 18)


def main():
    account = {
        "seed": ACCOUNT.seed.hex(),
        "address_file": ACCOUNT.address_file().hex(),
        "fingerprint": ACCOUNT.fingerprint(),
    }
    refused = [
        {"reason": reason, "error": error, "board": BOARD.hex(), "clue": CLUE.hex(), "payload": payload.hex()}
        for reason, error, payload in bad()
    ]
    form = {"format": "docs/format.md, Payload", "format_version": 1}
    write("payload.json", form | {"account": [account], "good": list(good()), "bad": refused})


if __name__ == "__main__":
    main()
