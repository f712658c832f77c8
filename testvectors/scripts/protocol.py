#!/usr/bin/env python3
"""Makes testvectors/1/protocol.json and protocol_bad.json: the bodies of docs/protocol.md and the envelope around them.

Written from the documents, with the standard library alone. `python3 testvectors/scripts/protocol.py FOLDER` writes elsewhere.

To add a binary body: functions for good and bad ones, and an entry in `SECTIONS` and in `BAD_SECTIONS`. To add a JSON type: entries
in `JSON_GOOD`, `JSON_EXTENDED` and `JSON_BAD`.
"""

import blake3
import ed25519
from envelope import NO_PARAMETERS
from envelope import seal as seal_version
from binding import bind
from hash_tree import MAX_HASHES, TAIL_BYTES, Tree, encode_proof, leaf
from vector_files import text, write

PARAMETERS = bytes.fromhex("0102030405060708")
OTHER_PARAMETERS = bytes.fromhex("0102030405060709")
CLUE_BYTES = 9
BOARD_ID = bytes(range(16, 32))
OTHER_BOARD = bytes(range(32, 48))
# The version of each kind of body.
VERSIONS = {3: 3, 4: 2, 32: 2, 33: 2, 34: 2}
SECRET = bytes(range(32))

HEAD, POST, PAGE, CONSISTENCY, DIGESTS = 32, 33, 34, 35, 36
KINDS = {
    1: "secret key",
    2: "address",
    3: "detection key",
    4: "stream digest",
    5: "DPF key",
    6: "fetch query",
    7: "fetch answer",
    8: "fetch state",
    9: "board manifest",
    10: "board head",
    11: "segment seal",
    12: "range of messages",
    13: "fetch epoch",
    14: "compact detection key",
    15: "pertinency vector",
    16: "compact digest",
    17: "search query",
    18: "search answer",
    19: "search state",
    32: "signed head",
    33: "batch of messages to post",
    34: "page of messages",
    35: "consistency proof",
    36: "list of digests",
    37: "board retention",
    48: "sync state",
    49: "outbox",
    50: "contact",
}


def seal(kind, parameters, body, version=None, **changes):
    return seal_version(kind, parameters, body, VERSIONS.get(kind, 1) if version is None else version, **changes)


def u32(value):
    return value.to_bytes(4, "little")


def u64(value):
    return value.to_bytes(8, "little")


def damaged(file, place):
    return file[:place] + bytes([file[place] ^ 1]) + file[place + 1 :]


def frame_errors(kind, file):
    """What every binary body must be refused for: pairs of an error and bytes, with the reason."""
    body = file[24:-16]
    middle = len(file) // 2
    return [
        ("empty", "foreign-file", b""),
        ("three bytes", "foreign-file", file[:3]),
        ("another first byte", "foreign-file", b"r" + file[1:]),
        ("cut within the header", "truncated", file[:20]),
        ("last byte missing", "truncated", file[:-1]),
        ("a byte behind the end", "trailing", file + b"\0"),
        ("a bit flipped in the middle", "corrupted", damaged(file, middle)),
        ("a bit flipped in the checksum", "corrupted", damaged(file, len(file) - 1)),
        ("another kind", "wrong-kind", seal(10, PARAMETERS, body)),
        ("a kind that is not assigned", "unknown-kind", seal(255, PARAMETERS, body)),
        ("version 0", "unsupported-version", seal(kind, PARAMETERS, body, version=0)),
        ("the version before", "unsupported-version", seal(kind, PARAMETERS, body, version=VERSIONS.get(kind, 1) - 1)),
        ("the version behind", "unsupported-version", seal(kind, PARAMETERS, body, version=VERSIONS.get(kind, 1) + 1)),
        ("reserved byte not zero", "out-of-range", seal(kind, PARAMETERS, body, reserved=1)),
        ("length too large by one", "truncated", seal(kind, PARAMETERS, body, length=len(body) + 1)),
        ("length too small by one", "trailing", seal(kind, PARAMETERS, body[:-1] + b"\0", length=len(body) - 1)),
        ("length 2^64 - 1", "truncated", seal(kind, PARAMETERS, body, length=2**64 - 1)),
    ]


def refused(cases):
    return [{"reason": reason, "error": error, "file": file.hex()} for reason, error, file in cases]


# The envelope.


def envelope_good():
    cases = [(kind, 1, NO_PARAMETERS, b"") for kind in KINDS]
    cases += [(1, 0, PARAMETERS, b"\0"), (2, 0xFFFE, PARAMETERS, bytes(range(100))), (36, 258, b"\xff" * 8, bytes(2000))]
    return [
        {
            "kind": kind,
            "name": KINDS[kind],
            "version": version,
            "parameters": parameters.hex(),
            "body": body.hex(),
            "file": seal(kind, parameters, body, version).hex(),
        }
        for kind, version, parameters, body in cases
    ]


def envelope_bad():
    cases = frame_errors(1, seal(1, PARAMETERS, bytes(range(40))))
    # Opening alone does not know what the caller wants.
    cases = [case for case in cases if case[1] not in ("wrong-kind", "unsupported-version")]
    cases += [(f"kind {kind}", "unknown-kind", seal(kind, PARAMETERS, b"")) for kind in (0, 200)]
    return refused(cases)


# Signed heads.


def head_fields(secret, count, root, time, board=BOARD_ID):
    return board + ed25519.public_key(secret) + u64(count) + root + u64(time)


def signed_bytes(parameters, fields):
    return b"restante/2/head\0" + parameters + fields


def signed_head(secret, parameters, count, root, time, board=BOARD_ID):
    """The body of kind 32."""
    fields = head_fields(secret, count, root, time, board)
    return fields + ed25519.sign(secret, signed_bytes(parameters, fields))


def head_json(parameters, body, retained_from):
    return {
        "parameters": parameters.hex(),
        "board": body[:16].hex(),
        "relay": body[16:48].hex(),
        "count": int.from_bytes(body[48:56], "little"),
        "root": body[56:88].hex(),
        "time": int.from_bytes(body[88:96], "little"),
        "signature": body[96:].hex(),
        "retained_from": retained_from,
    }


def heads():
    cases = [
        (SECRET, PARAMETERS, 0, blake3.hash(b""), 0, 0),
        (SECRET, PARAMETERS, 5, blake3.hash(b"root"), 1_800_000_000, 4),
        (blake3.hash(b"another relay"), b"\xff" * 8, 2**64 - 1, b"\xff" * 32, 2**64 - 1, 2**53 + 1),
    ]
    vectors = []
    for secret, parameters, count, root, time, retained_from in cases:
        body = signed_head(secret, parameters, count, root, time)
        vectors.append(
            {
                "secret": secret.hex(),
                "parameters": parameters.hex(),
                "board": BOARD_ID.hex(),
                "relay": ed25519.public_key(secret).hex(),
                "count": count,
                "root": root.hex(),
                "time": time,
                "signed": signed_bytes(parameters, body[:96]).hex(),
                "signature": body[96:].hex(),
                "file": seal(HEAD, parameters, body).hex(),
                "json": head_json(parameters, body, retained_from),
            }
        )
    return vectors


def heads_bad():
    body = signed_head(SECRET, PARAMETERS, 5, blake3.hash(b"root"), 1_800_000_000)
    cases = frame_errors(HEAD, seal(HEAD, PARAMETERS, body))
    cases += [
        ("no body", "truncated", seal(HEAD, PARAMETERS, b"")),
        ("half a signature", "truncated", seal(HEAD, PARAMETERS, body[:128])),
        ("a byte behind the signature", "trailing", seal(HEAD, PARAMETERS, body + b"\0")),
    ]
    return refused(cases)


def signature_cases():
    """Heads that can be read and must not be believed: (reason, the key that is known, parameters, body)."""
    count, root, time = 5, blake3.hash(b"root"), 1_800_000_000
    key = ed25519.public_key(SECRET)
    good = signed_head(SECRET, PARAMETERS, count, root, time)
    message = signed_bytes(PARAMETERS, good[:96])
    commitment, answer = good[96:128], int.from_bytes(good[128:], "little")
    yield "another key is known", ed25519.public_key(bytes(32)), PARAMETERS, good
    yield "the head names another key", key, PARAMETERS, good[:16] + ed25519.public_key(bytes(32)) + good[48:]
    for name, place in (("board", 0), ("count", 48), ("root", 56), ("time", 88), ("signature", 96), ("signature's second half", 128)):
        yield f"another {name}", key, PARAMETERS, damaged(good, place)
    yield "other parameters", key, OTHER_PARAMETERS, good
    other_context = ed25519.sign(SECRET, b"restante/2/haed\0" + message[16:])
    yield "signed for another context", key, PARAMETERS, good[:96] + other_context
    old_context = ed25519.sign(SECRET, b"restante/1/head\0" + message[16:])
    yield "signed for the version before", key, PARAMETERS, good[:96] + old_context
    yield "signed without context", key, PARAMETERS, good[:96] + ed25519.sign(SECRET, message[16:])
    for times in (1, 2):
        larger = (answer + times * ed25519.ORDER).to_bytes(32, "little")
        yield f"s + {times} L: not canonical", key, PARAMETERS, good[:128] + larger
    yield "signature of zeros", key, PARAMETERS, good[:96] + bytes(64)

    # With a key of small order, R = s B and any s satisfy the equation if the point's order divides the hash.
    small = ed25519.points_of_small_order()
    for place, point in enumerate(small):
        small_key = ed25519.encode(point)
        fields = good[:16] + small_key + good[48:96]
        for number in range(1, 64):
            forged_commitment = ed25519.encode(ed25519.multiply(number, ed25519.BASE))
            hashed = ed25519.integer_hash(forged_commitment, small_key, signed_bytes(PARAMETERS, fields))
            if ed25519.multiply(hashed, point) == ed25519.NEUTRAL:
                break
        else:
            raise AssertionError("no forgery was found")
        forged = forged_commitment + number.to_bytes(32, "little")
        yield f"key of small order, point {place} of 8; the equation holds", small_key, PARAMETERS, fields + forged
    # y of p and of p + 1, for 0 and 1: other names of two of these points.
    for y in (ed25519.P, ed25519.P + 1):
        odd_key = y.to_bytes(32, "little")
        yield "key whose y is not canonical", odd_key, PARAMETERS, good[:16] + odd_key + good[48:]
    negative_zero = (1 | 1 << 255).to_bytes(32, "little")
    yield "key with x = 0 and a sign", negative_zero, PARAMETERS, good[:16] + negative_zero + good[48:]
    off_curve = next(y.to_bytes(32, "little") for y in range(2, 99) if ed25519.recover_x(y, 0) is None)
    yield "key that is no point", off_curve, PARAMETERS, good[:16] + off_curve + good[48:]

    # R of small order: s = k a fits it. The signer itself can do that, and two messages would share a signature.
    scalar = ed25519.scalar_and_prefix(SECRET)[0]
    neutral = ed25519.encode(ed25519.NEUTRAL)
    forged = ed25519.integer_hash(neutral, key, message) * scalar % ed25519.ORDER
    yield "R of small order; the equation holds", key, PARAMETERS, good[:96] + neutral + forged.to_bytes(32, "little")

    # A key with a part of small order: the equation times 8 holds, the equation itself does not.
    mixed = ed25519.encode(ed25519.add(ed25519.multiply(scalar, ed25519.BASE), small[1]))
    fields = good[:16] + mixed + good[48:96]
    number = 1
    while True:
        forged_commitment = ed25519.encode(ed25519.multiply(number, ed25519.BASE))
        hashed = ed25519.integer_hash(forged_commitment, mixed, signed_bytes(PARAMETERS, fields))
        if hashed % 8:
            break
        number += 1
    forged = (number + hashed * scalar) % ed25519.ORDER
    signature = forged_commitment + forged.to_bytes(32, "little")
    yield "the equation holds only when multiplied by 8", mixed, PARAMETERS, fields + signature


def signatures_bad():
    return [
        {"reason": reason, "known": known.hex(), "file": seal(HEAD, parameters, body).hex()}
        for reason, known, parameters, body in signature_cases()
    ]


# The hash tree. Message i has 9 bytes of clue, of which 4 are i and the tail is i mod 251, and a payload of i mod 7 bytes of i mod 256.


def message(index):
    return u32(index) + bytes([index % 251]) * TAIL_BYTES, bytes([index % 256]) * (index % 7)


LEAVES = [leaf(*message(index)) for index in range(1000)]
TREE = Tree(LEAVES)


def leaves():
    vectors = []
    for index in (*range(10), 255, 256, 999):
        clue, payload = message(index)
        vectors.append(
            {
                "board": BOARD_ID.hex(),
                "clue": clue.hex(),
                "payload": payload.hex(),
                "leaf": LEAVES[index].hex(),
                "binding": bind(BOARD_ID, blake3.hash(clue[:-TAIL_BYTES]), blake3.hash(payload)).hex(),
            }
        )
    return vectors


def roots():
    counts = [*range(18), 31, 32, 33, 63, 64, 65, 127, 128, 129, 500, 512, 999, 1000]
    return [{"messages": count, "root": TREE.root(0, count).hex()} for count in counts]


LARGE_PAIRS = [(1, 1000), (7, 64), (63, 64), (64, 64), (64, 65), (33, 129), (512, 1000), (513, 1000), (999, 1000), (1000, 1000)]


def consistency_file(hashes):
    return seal(CONSISTENCY, PARAMETERS, encode_proof(hashes))


def consistency():
    pairs = [(older, newer) for newer in range(10) for older in range(newer + 1)] + LARGE_PAIRS
    return [
        {"from": older, "to": newer, "file": consistency_file(TREE.consistency(older, newer)).hex()}
        for older, newer in pairs
    ]


def consistency_bad():
    hashes = TREE.consistency(3, 7)
    cases = frame_errors(CONSISTENCY, consistency_file(hashes))
    for reason, error, body in [
        ("no body", "truncated", b""),
        ("fewer hashes than announced", "truncated", u32(len(hashes) + 1) + b"".join(hashes)),
        ("more hashes than announced", "trailing", u32(len(hashes) - 1) + b"".join(hashes)),
        ("half a hash", "truncated", encode_proof(hashes)[:-16]),
        ("129 hashes", "out-of-range", encode_proof([hashes[0]] * (MAX_HASHES + 1))),
        ("2^32 - 1 hashes announced", "out-of-range", u32(2**32 - 1)),
    ]:
        cases.append((reason, error, seal(CONSISTENCY, PARAMETERS, body)))
    return refused(cases)


def consistency_unproved():
    """Proofs that can be read and prove nothing."""
    vectors = []

    def case(reason, error, older, newer, hashes, old_root=None, new_root=None):
        vectors.append(
            {
                "reason": reason,
                "error": error,
                "from": older,
                "to": newer,
                "from_root": (old_root or TREE.root(0, older)).hex(),
                "to_root": (new_root or TREE.root(0, newer)).hex(),
                "file": consistency_file(hashes).hex(),
            }
        )

    other = blake3.hash(b"other")
    for older, newer in ((3, 7), (4, 7), (1, 9), (6, 8), (512, 1000), (999, 1000)):
        hashes = TREE.consistency(older, newer)
        case("a hash is missing", "length", older, newer, hashes[:-1])
        case("the first hash is missing", "length", older, newer, hashes[1:])
        case("a hash too many", "length", older, newer, hashes + [other])
        for place in range(len(hashes)):
            changed = hashes[:place] + [damaged(hashes[place], 31)] + hashes[place + 1 :]
            case(f"hash {place} is another", "root", older, newer, changed)
        if len(hashes) > 1:
            case("the order is reversed", "root", older, newer, hashes[::-1])
        case("another older root", "root", older, newer, hashes, old_root=other)
        case("another newer root", "root", older, newer, hashes, new_root=other)
        case("the roots are exchanged", "root", older, newer, hashes, TREE.root(0, newer), TREE.root(0, older))
    case("equal counts, different roots", "root", 5, 5, [], new_root=other)
    case("equal counts and a hash", "length", 5, 5, [other])
    case("from nothing with a hash", "length", 0, 5, [TREE.root(0, 5)])
    case("from nothing with a root", "root", 0, 5, [], old_root=other)
    case("from nothing to nothing with a root", "root", 0, 0, [], new_root=other)
    case("the newer board is shorter", "shrunk", 7, 3, TREE.consistency(3, 7))
    return vectors


# Pages.


def page_body(count, first, end, hashes=None, head=None, messages=None, announced=None):
    messages = [message(index) for index in range(first, end)] if messages is None else messages
    hashes = TREE.range_proof(first, end, count) if hashes is None else hashes
    head = head or signed_head(SECRET, PARAMETERS, count, TREE.root(0, count), 1_800_000_000)
    announced = len(messages) if announced is None else announced
    return (
        head
        + u64(first)
        + u32(announced)
        + encode_proof(hashes)
        + b"".join(clue + u32(len(payload)) + payload for clue, payload in messages)
    )


def pages():
    cases = [(0, 0, 0), (1, 0, 1), (1, 1, 1), (2, 1, 2), (9, 0, 9), (9, 2, 6), (9, 8, 9), (9, 9, 9), (9, 0, 4)]
    cases += [(64, 63, 64), (100, 37, 38), (129, 127, 129), (129, 100, 110), (1000, 512, 513)]
    return [
        {
            "clue_bytes": CLUE_BYTES,
            "count": count,
            "first": first,
            "end": end,
            "hashes": len(TREE.range_proof(first, end, count)),
            "file": seal(PAGE, PARAMETERS, page_body(count, first, end)).hex(),
        }
        for count, first, end in cases
    ]


def pages_bad():
    body = page_body(9, 2, 6)
    cases = frame_errors(PAGE, seal(PAGE, PARAMETERS, body))
    cases.append(("other parameters", "wrong-parameters", seal(PAGE, OTHER_PARAMETERS, body)))
    for reason, error, wrong in [
        ("no body", "truncated", b""),
        ("half a head", "truncated", body[:100]),
        ("a message more than announced", "trailing", page_body(9, 2, 6, announced=3)),
        ("a message less than announced", "truncated", page_body(9, 2, 6, announced=5)),
        ("2^32 - 1 messages announced", "truncated", page_body(9, 2, 6, announced=2**32 - 1)),
        ("129 hashes", "out-of-range", page_body(9, 2, 6, hashes=[bytes(32)] * (MAX_HASHES + 1))),
        ("half a clue", "truncated", page_body(9, 9, 9, announced=1) + b"\0\0"),
        ("a payload of 2^32 - 1 bytes", "truncated", page_body(9, 9, 9, announced=1) + bytes(9) + b"\xff" * 4),
    ]:
        cases.append((reason, error, seal(PAGE, PARAMETERS, wrong)))
    return refused(cases)


def pages_unproved():
    """Pages that can be read and whose messages are not what the head counts."""
    hashes = TREE.range_proof(2, 6, 9)
    some = [message(index) for index in range(2, 6)]
    head = signed_head(SECRET, PARAMETERS, 9, blake3.hash(b"other"), 1_800_000_000)
    cases = [
        ("another clue", "root", page_body(9, 2, 6, messages=[(b"\xff" * 9, some[0][1])] + some[1:])),
        ("another tail", "root", page_body(9, 2, 6, messages=[(damaged(some[0][0], 8), some[0][1])] + some[1:])),
        ("another payload", "root", page_body(9, 2, 6, messages=some[:3] + [(some[3][0], b"\0")])),
        ("two messages exchanged", "root", page_body(9, 2, 6, messages=[some[1], some[0]] + some[2:])),
        ("a bit of the proof", "root", page_body(9, 2, 6, hashes=[damaged(hashes[0], 0)] + hashes[1:])),
        ("hashes exchanged", "root", page_body(9, 2, 6, hashes=hashes[::-1])),
        ("another root", "root", page_body(9, 2, 6, head=head)),
        ("a message left out in the middle", "length", page_body(9, 2, 6, messages=some[:1] + some[2:])),
        ("a hash is missing", "length", page_body(9, 2, 6, hashes=hashes[:-1])),
        ("a hash too many", "length", page_body(9, 2, 6, hashes=hashes + [bytes(32)])),
        ("the right messages at another place", "length", page_body(9, 3, 7, hashes=hashes, messages=some)),
        ("behind the end", "range", page_body(9, 6, 10, hashes=hashes, messages=some)),
        ("no message, behind the end", "range", page_body(9, 10, 10, hashes=[])),
        ("an index near 2^64", "range", page_body(9, 2**64 - 2, 0, hashes=hashes, messages=some)),
    ]
    return [
        {"reason": reason, "error": error, "clue_bytes": CLUE_BYTES, "file": seal(PAGE, PARAMETERS, body).hex()}
        for reason, error, body in cases
    ]


# Batches to post, lists of digests.


def post_body(messages, announced=None):
    body = u32(len(messages) if announced is None else announced)
    for identifier, clue, payload in messages:
        body += identifier + clue + u32(len(payload)) + payload
    return body


def post_messages(count):
    return [(bytes([16 * index + 1] * 16), *message(index)) for index in range(count)]


def batches():
    vectors = []
    extreme = [(bytes(16), bytes(9), bytes(1000)), (b"\xff" * 16, b"\xff" * 9, b"")]
    for messages in (post_messages(1), post_messages(4), extreme):
        vectors.append(
            {
                "clue_bytes": CLUE_BYTES,
                "parameters": PARAMETERS.hex(),
                "messages": [
                    {"id": identifier.hex(), "clue": clue.hex(), "payload": payload.hex()}
                    for identifier, clue, payload in messages
                ],
                "file": seal(POST, PARAMETERS, post_body(messages)).hex(),
            }
        )
    return vectors


def batches_bad():
    messages = post_messages(4)
    body = post_body(messages)
    cases = frame_errors(POST, seal(POST, PARAMETERS, body))
    cases.append(("other parameters", "wrong-parameters", seal(POST, OTHER_PARAMETERS, body)))
    for reason, error, wrong in [
        ("no body", "truncated", b""),
        ("no message", "out-of-range", post_body([])),
        ("a message more than announced", "trailing", post_body(messages, 3)),
        ("a message less than announced", "truncated", post_body(messages, 5)),
        ("4,097 messages announced", "out-of-range", post_body(messages, 4097)),
        ("2^32 - 1 messages announced", "out-of-range", post_body(messages, 2**32 - 1)),
        ("half an id", "truncated", u32(1) + bytes(8)),
        ("half a clue", "truncated", u32(1) + bytes(20)),
        ("half a payload's length", "truncated", u32(1) + bytes(27)),
        ("a payload longer than the rest", "truncated", u32(1) + bytes(25) + u32(5) + bytes(4)),
        ("a payload of 2^32 - 1 bytes", "truncated", u32(1) + bytes(25) + b"\xff" * 4),
        ("a payload shorter than the rest", "trailing", u32(1) + bytes(25) + u32(3) + bytes(4)),
    ]:
        cases.append((reason, error, seal(POST, PARAMETERS, wrong)))
    return refused(cases)


def digests_body(files, announced=None):
    body = u32(len(files) if announced is None else announced)
    return body + b"".join(u64(len(file)) + file for file in files)


def digest_lists():
    return [
        {
            "parameters": PARAMETERS.hex(),
            "files": [file.hex() for file in files],
            "file": seal(DIGESTS, PARAMETERS, digests_body(files)).hex(),
        }
        for files in ([], [b""], [b"\1", b"", b"\2" * 300])
    ]


def digest_lists_bad():
    files = [b"\1", b"\2" * 30]
    body = digests_body(files)
    cases = frame_errors(DIGESTS, seal(DIGESTS, PARAMETERS, body))
    cases.append(("other parameters", "wrong-parameters", seal(DIGESTS, OTHER_PARAMETERS, body)))
    for reason, error, wrong in [
        ("no body", "truncated", b""),
        ("a file more than announced", "trailing", digests_body(files, 1)),
        ("a file less than announced", "truncated", digests_body(files, 3)),
        ("4,097 files announced", "out-of-range", digests_body(files, 4097)),
        ("half a length", "truncated", u32(1) + bytes(4)),
        ("a file longer than the rest", "truncated", u32(1) + u64(3) + b"\1\2"),
        ("a file of 2^64 - 1 bytes", "truncated", u32(1) + u64(2**64 - 1)),
    ]:
        cases.append((reason, error, seal(DIGESTS, PARAMETERS, wrong)))
    return refused(cases)


# Tokens.


def tokens():
    values = [bytes(32), bytes(range(32)), b"\xff" * 32]
    return [{"bytes": value.hex(), "text": f"rst1_{value.hex()}"} for value in values]


def tokens_bad():
    digits = bytes(range(32)).hex()
    cases = [
        ("empty", ""),
        ("without prefix", digits),
        ("prefix alone", "rst1_"),
        ("another version", f"rst2_{digits}"),
        ("upper-case prefix", f"RST1_{digits}"),
        ("upper-case digits", f"rst1_{digits.upper()}"),
        ("a digit missing", f"rst1_{digits[:-1]}"),
        ("a digit too many", f"rst1_{digits}0"),
        ("not hexadecimal", f"rst1_{digits[:-1]}g"),
        ("a space in front", f" rst1_{digits}"),
        ("a line end behind", f"rst1_{digits}\n"),
        ("prefix twice", f"rst1_rst1_{digits[:59]}"),
        ("letters beyond ASCII", "rst1_" + "é" * 32),
    ]
    return [{"reason": reason, "text": value} for reason, value in cases]


# JSON. Types whose name ends in Request are requests, in which a relay refuses fields that it does not know.

KEY, JOB, HASH32, SHORT = "00" * 15 + "0f", "ab" * 16, "cd" * 32, PARAMETERS.hex()
RELAY = ed25519.public_key(SECRET).hex()
HEAD_STATUS = head_json(PARAMETERS, signed_head(SECRET, PARAMETERS, 5, blake3.hash(b"root"), 1_800_000_000), 4)
JOB_STATUS = {"id": JOB, "kind": "stream", "first": 40960, "complete_to": 45056, "state": "running", "done": 0}
JOB_STATUS["created"] = 1_800_000_000
KEY_STATUS = {"key": KEY, "kind": "stream", "state": "uploading", "bytes": 273480, "uploaded": 1000, "registered": 1_800_000_000}
LIMITS = {
    "batch_messages": 256,
    "batch_bytes": 2**24,
    "page_messages": 4096,
    "page_bytes": 2**24,
    "upload_part_bytes": 2**23,
    "job_messages": 2**24,
    "jobs": 64,
    "id_seconds": 604800,
    "job_seconds": 86400,
}
BOARD = {"id": BOARD_ID.hex(), "parameters": SHORT, "clue_bytes": 2569, "payload_bytes_max": 65536, "segment_capacity": 65536}
STREAM_INFO = {"kind": "stream", "parameters": SHORT, "key_bytes": 273480, "block": 4096, "block_bytes": 52328}
STREAM_INFO["messages_max"] = 2**24
COMPACT_INFO = STREAM_INFO | {"kind": "compact", "capacity_max": 255, "payload_bytes_max": 4064}
FETCH = {"record_bytes": 4608, "part": "message", "messages": 4096}
INFO = {"protocol": 2, "relay": RELAY, "board": BOARD, "digests": [STREAM_INFO], "limits": LIMITS}
EPOCH = {"epoch": HASH32, "first": 0, "complete_to": 4096, "record_bytes": 4608}
DIRECTORY = {
    "version": KEY,
    "entries": 1000,
    "schema": SHORT,
    "parameters": SHORT,
    "hash_bits": 10,
    "hash_key": HASH32,
    "columns": 1,
    "query_bytes": 4272210,
    "answer_bytes": 78953,
}
PROBLEM = {
    "type": "urn:restante:problem:offset",
    "title": "the upload goes on elsewhere",
    "status": 409,
    "detail": "the part starts at byte 7, expected 5",
}
JOB_REQUEST = {"id": JOB, "kind": "stream", "first": 40960}
REGISTER = {"kind": "stream", "parameters": SHORT, "bytes": 273480, "hash": HASH32}

JSON_GOOD = [
    ("RelayInfo", INFO),
    ("RelayInfo", INFO | {"digests": [STREAM_INFO, COMPACT_INFO], "fetch": FETCH}),
    ("RelayInfo", INFO | {"digests": [], "fetch": FETCH | {"server": 1}}),
    ("RelayInfo", INFO | {"digests": [], "fetch": FETCH | {"seconds": 3600, "server": 1}}),
    ("HeadStatus", HEAD_STATUS),
    ("PostResult", {"messages": [{"index": 3, "replayed": True}, {"index": 4, "replayed": False}], "head": HEAD_STATUS}),
    ("PostResult", {"messages": [{"index": 2**64 - 1, "replayed": False}], "head": HEAD_STATUS | {"count": 2**64 - 1}}),
    ("RegisterRequest", REGISTER),
    ("RegisterRequest", REGISTER | {"kind": "compact", "bytes": 2**53 + 1}),
    ("Registered", {"token": f"rst1_{HASH32}", "key": KEY_STATUS}),
    ("KeyStatus", KEY_STATUS),
    ("KeyStatus", KEY_STATUS | {"state": "ready", "uploaded": 273480, "standing": {"first": 4096, "complete_to": 5000}}),
    ("StandingRequest", {}),
    ("StandingRequest", {"first": 0}),
    ("JobRequest", JOB_REQUEST),
    ("JobRequest", JOB_REQUEST | {"end": 45056}),
    ("JobRequest", JOB_REQUEST | {"kind": "compact", "end": 45056, "capacity": 50, "payload_bytes": 0}),
    *(("JobStatus", JOB_STATUS | {"state": state}) for state in ("queued", "running")),
    ("JobStatus", JOB_STATUS | {"state": "done", "done": 4096, "result_bytes": 52328, "result_hash": HASH32}),
    ("JobStatus", JOB_STATUS | {"state": "failed", "error": "no memory"}),
    ("JobStatus", JOB_STATUS | {"kind": "compact", "capacity": 255, "payload_bytes": 4064}),
    ("JobList", {"jobs": []}),
    ("JobList", {"jobs": [JOB_STATUS, JOB_STATUS | {"id": KEY}]}),
    ("EpochList", {"epochs": []}),
    ("EpochList", {"epochs": [EPOCH, EPOCH | {"first": 4096, "complete_to": 8192}]}),
    ("DirectoryInfo", DIRECTORY),
    ("Problem", PROBLEM),
    ("Problem", PROBLEM | {"field": "header:upload-offset"}),
    ("Problem", PROBLEM | {"type": "urn:restante:problem:busy", "status": 503, "retry_after": 10}),
    ("Problem", PROBLEM | {"type": "about:blank"}),
]

# Answers with fields that this version does not know: read as if they were not there.
UNKNOWN = {"tomorrow": [1, {"a": None}]}
JSON_EXTENDED = [
    ("RelayInfo", INFO | {"board": BOARD | UNKNOWN, "limits": LIMITS | UNKNOWN} | UNKNOWN, INFO),
    ("HeadStatus", HEAD_STATUS | UNKNOWN, HEAD_STATUS),
    (
        "PostResult",
        {"messages": [{"index": 0, "replayed": False} | UNKNOWN], "head": HEAD_STATUS},
        {"messages": [{"index": 0, "replayed": False}], "head": HEAD_STATUS},
    ),
    ("Registered", {"token": f"rst1_{HASH32}", "key": KEY_STATUS} | UNKNOWN, {"token": f"rst1_{HASH32}", "key": KEY_STATUS}),
    ("KeyStatus", KEY_STATUS | UNKNOWN, KEY_STATUS),
    ("KeyStatus", KEY_STATUS | {"standing": None}, KEY_STATUS),
    ("JobStatus", JOB_STATUS | UNKNOWN, JOB_STATUS),
    ("JobList", {"jobs": [JOB_STATUS | UNKNOWN]} | UNKNOWN, {"jobs": [JOB_STATUS]}),
    ("EpochList", {"epochs": [EPOCH | UNKNOWN]}, {"epochs": [EPOCH]}),
    ("DirectoryInfo", DIRECTORY | UNKNOWN, DIRECTORY),
    ("Problem", PROBLEM | UNKNOWN, PROBLEM),
]


def without(value, name):
    return {key: item for key, item in value.items() if key != name}


# (type, reason, field, JSON): `field` is the one that is to blame, nothing where the whole is no JSON of that type.
JSON_BAD = [
    ("RegisterRequest", "unknown field", "extra", REGISTER | {"extra": 1}),
    ("RegisterRequest", "unknown kind", "kind", REGISTER | {"kind": "streams"}),
    ("RegisterRequest", "upper-case kind", "kind", REGISTER | {"kind": "Stream"}),
    ("RegisterRequest", "upper-case digits", "hash", REGISTER | {"hash": HASH32.upper()}),
    ("RegisterRequest", "a digit missing", "hash", REGISTER | {"hash": HASH32[1:]}),
    ("RegisterRequest", "two digits too many", "hash", REGISTER | {"hash": HASH32 + "00"}),
    ("RegisterRequest", "0x in front", "parameters", REGISTER | {"parameters": "0x" + SHORT[2:]}),
    ("RegisterRequest", "empty digits", "parameters", REGISTER | {"parameters": ""}),
    ("RegisterRequest", "a number for digits", "parameters", REGISTER | {"parameters": 1}),
    ("RegisterRequest", "negative", "bytes", REGISTER | {"bytes": -1}),
    ("RegisterRequest", "a fraction", "bytes", REGISTER | {"bytes": 0.5}),
    ("RegisterRequest", "2^64", "bytes", REGISTER | {"bytes": 2**64}),
    ("RegisterRequest", "a number as text", "bytes", REGISTER | {"bytes": "273480"}),
    ("RegisterRequest", "null", "bytes", REGISTER | {"bytes": None}),
    *(("RegisterRequest", "missing field", name, without(REGISTER, name)) for name in REGISTER),
    ("RegisterRequest", "a list", "", [1]),
    ("StandingRequest", "unknown field", "frist", {"frist": 0}),
    ("StandingRequest", "negative", "first", {"first": -1}),
    ("StandingRequest", "a number alone", "", 0),
    ("JobRequest", "unknown field", "lsat", JOB_REQUEST | {"lsat": 1}),
    ("JobRequest", "another length of id", "id", JOB_REQUEST | {"id": HASH32}),
    ("JobRequest", "upper-case digits", "id", JOB_REQUEST | {"id": JOB.upper()}),
    ("JobRequest", "hyphens as in a UUID", "id", JOB_REQUEST | {"id": "abababab-abab-abab-abab-abababababab"}),
    ("JobRequest", "a capacity of 2^32", "capacity", JOB_REQUEST | {"capacity": 2**32}),
    ("JobRequest", "negative", "end", JOB_REQUEST | {"end": -5}),
    *(("JobRequest", "missing field", name, without(JOB_REQUEST, name)) for name in JOB_REQUEST),
    *(("HeadStatus", "missing field", name, without(HEAD_STATUS, name)) for name in HEAD_STATUS),
    ("HeadStatus", "a signature of 32 bytes", "signature", HEAD_STATUS | {"signature": HASH32}),
    ("HeadStatus", "upper-case digits", "root", HEAD_STATUS | {"root": HASH32.upper()}),
    ("PostResult", "missing field", "head", {"messages": []}),
    ("PostResult", "a number for true or false", "replayed", {"messages": [{"index": 0, "replayed": 0}], "head": HEAD_STATUS}),
    ("Registered", "a token without prefix", "token", {"token": HASH32, "key": KEY_STATUS}),
    ("KeyStatus", "unknown state", "state", KEY_STATUS | {"state": "verified"}),
    ("JobStatus", "unknown state", "state", JOB_STATUS | {"state": "stopped"}),
    ("JobStatus", "missing field", "complete_to", without(JOB_STATUS, "complete_to")),
    ("JobList", "not a list", "jobs", {"jobs": {}}),
    ("EpochList", "missing field", "epochs", {}),
    ("DirectoryInfo", "another length of version", "version", DIRECTORY | {"version": SHORT}),
    ("RelayInfo", "missing field", "limits", without(INFO, "limits")),
    ("RelayInfo", "another length of key", "relay", INFO | {"relay": SHORT}),
    ("Problem", "a status of 65,536", "status", PROBLEM | {"status": 65536}),
    ("Problem", "missing field", "type", without(PROBLEM, "type")),
]
NOT_JSON = [
    ("JobRequest", "a field twice", "id", f'{{"id":"{JOB}","id":"{JOB}","kind":"stream","first":0}}'),
    ("JobRequest", "a comma at the end", "", f'{{"id":"{JOB}","kind":"stream","first":0,}}'),
    ("JobRequest", "cut", "", f'{{"id":"{JOB}","kind":"stream","first":0'),
    ("JobRequest", "more behind the end", "", text(JOB_REQUEST) + "{}"),
    ("JobRequest", "empty", "", ""),
    ("StandingRequest", "2^64 and more digits", "first", '{"first":184467440737095516160}'),
]


def json_good():
    return [{"type": name, "json": value} for name, value in JSON_GOOD]


def json_extended():
    return [{"type": name, "json": value, "meaning": meaning} for name, value, meaning in JSON_EXTENDED]


def json_bad():
    cases = [(name, reason, field, text(value)) for name, reason, field, value in JSON_BAD] + NOT_JSON
    return [{"type": name, "reason": reason, "field": field, "text": value} for name, reason, field, value in cases]


SECTIONS = {
    "envelopes": envelope_good,
    "heads": heads,
    "leaves": leaves,
    "roots": roots,
    "consistency": consistency,
    "pages": pages,
    "batches": batches,
    "digest_lists": digest_lists,
    "tokens": tokens,
    "json": json_good,
    "json_extended": json_extended,
}
BAD_SECTIONS = {
    "envelopes": envelope_bad,
    "heads": heads_bad,
    "signatures": signatures_bad,
    "consistency": consistency_bad,
    "consistency_unproved": consistency_unproved,
    "pages": pages_bad,
    "pages_unproved": pages_unproved,
    "batches": batches_bad,
    "digest_lists": digest_lists_bad,
    "tokens": tokens_bad,
    "json": json_bad,
}


def main():
    common = {"format": "docs/protocol.md, Vectors", "format_version": 1, "parameters": PARAMETERS.hex()}
    good = {name: section() for name, section in SECTIONS.items()}
    write("protocol.json", common | good)
    bad = {name: section() for name, section in BAD_SECTIONS.items()}
    write("protocol_bad.json", common | {"clue_bytes": CLUE_BYTES} | bad)


if __name__ == "__main__":
    main()
