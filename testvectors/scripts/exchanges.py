#!/usr/bin/env python3
"""Makes testvectors/1/exchanges.json: requests to a relay whose board is empty, and its answers, by docs/protocol.md.

`python3 testvectors/scripts/exchanges.py FOLDER` writes elsewhere. A new request goes where it belongs in the story; a new part of the
story is a generator that `exchanges` names.
"""

import blake3
import ed25519
from hash_tree import Tree, encode_proof, leaf
from vector_files import text, write
from parameters import CLUE, STREAM
from protocol import CONSISTENCY, HEAD, PAGE, POST, head_json, post_body, seal, signed_head, u32, u64

PARAMETERS = CLUE["standard"]
SECRET = blake3.hash(b"the relay of the exchanges")
RELAY = ed25519.public_key(SECRET)
BOARD = blake3.hash(b"the board of the exchanges")[:16]
PERIOD = 20454
CLUE_BYTES, PAYLOAD_BYTES_MAX, KEY_BYTES = 2569, 65536, 212048
MEDIA = "application/vnd.restante."
JSON, PROBLEM = "application/json", "application/problem+json"


def message(index):
    """Any residues are a clue."""
    return u32(PERIOD) + u32(index) + bytes(CLUE_BYTES - 8), b"payload %d" % index


def identified(index, payload=None):
    clue, usual = message(index)
    return bytes([index + 1] * 16), clue, usual if payload is None else payload


TREE = Tree([leaf(*message(index)) for index in range(3)])


def parts(data):
    """Bytes as a list: hexadecimal digits, or a byte and how many times it follows."""
    result, start, place = [], 0, 0
    while place < len(data):
        end = place
        while end < len(data) and data[end] == data[place]:
            end += 1
        if end - place >= 32:
            if start < place:
                result.append(data[start:place].hex())
            result.append({"byte": data[place], "times": end - place})
            start = end
        place = end
    if start < len(data):
        result.append(data[start:].hex())
    return result


def request(method, path, media=None, body=None, **headers):
    """Names of header fields have underscores here for hyphens."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    if media:
        fields["content-type"] = media
    result = {"method": method, "path": path, "headers": fields}
    if body is not None:
        result["body"] = parts(body)
    return result


def json_request(method, path, value, **headers):
    return request(method, path, JSON, text(value).encode(), **headers)


def answer(status, **headers):
    return {"status": status, "headers": {name.replace("_", "-"): value for name, value in headers.items()}}


def json_answer(status, value, varies=(), **headers):
    """A JSON answer; what the pointers in `varies` name is there and may have any value."""
    return answer(status, content_type=JSON, **headers) | {"json": value, "json_varies": list(varies)}


def binary_answer(media, body, varies=(), **headers):
    """A binary answer; the ranges (start, length) in `varies` may hold anything."""
    result = answer(200, content_type=MEDIA + media, **headers)
    return result | {"body": parts(body), "body_varies": [list(place) for place in varies]}


def refusal(status, code, field=None, **headers):
    return answer(status, content_type=PROBLEM, **headers) | {"problem": {"code": code, "field": field}}


def head(count):
    return signed_head(SECRET, PARAMETERS, count, TREE.root(0, count), 0, BOARD)


def of_head(file):
    """Where the time, the signature and the checksum of a file are that starts with a head."""
    return (24 + 88, 8), (24 + 96, 64), (len(file) - 16, 16)


def head_exchange(count):
    file = seal(HEAD, PARAMETERS, head(count))
    return request("GET", "/v1/head"), binary_answer("head.v2", file, of_head(file), restante_complete_to=str(count))


def page_exchange(query, first, end, count):
    body = head(count) + u64(first) + u32(end - first) + encode_proof(TREE.range_proof(first, end, count))
    for index in range(first, end):
        clue, payload = message(index)
        body += clue + u32(len(payload)) + payload
    file = seal(PAGE, PARAMETERS, body)
    return (
        request("GET", f"/v1/messages?{query}"),
        binary_answer("page.v2", file, of_head(file), restante_complete_to=str(end)),
    )


def consistency_exchange(older, newer):
    file = seal(CONSISTENCY, PARAMETERS, encode_proof(TREE.consistency(older, newer)))
    return (
        request("GET", f"/v1/consistency?from={older}&to={newer}"),
        binary_answer("consistency.v1", file, restante_complete_to=str(newer)),
    )


def post(messages, **changes):
    return request("POST", "/v1/messages", MEDIA + "post.v2", seal(POST, PARAMETERS, post_body(messages), **changes))


def posted(indices, count):
    return json_answer(
        200,
        {
            "messages": [{"index": index, "replayed": replayed} for index, replayed in indices],
            "head": head_json(PARAMETERS, head(count), 0),
        },
        ["/head/time", "/head/signature"],
    )


def board():
    """Until three messages are on the board."""
    yield "an empty board's head", *head_exchange(0)
    yield "an empty page", *page_exchange("first=0", 0, 0, 0)
    yield "three messages", post([identified(index) for index in range(3)]), posted([(0, False), (1, False), (2, False)], 3)
    yield "two of them again", post([identified(2), identified(0)]), posted([(2, True), (0, True)], 3)
    yield (
        "a new one, and an id with another payload: nothing is posted",
        post([identified(3), identified(1, b"another")]),
        refusal(409, "conflict", "body:messages[1].id"),
    )
    same_clue = "the same clue with another payload, and a new one: nothing is posted"
    others = [identified(3), (b"\xa0" * 16, message(1)[0], b"another")]
    yield same_clue, post(others), refusal(409, "duplicate", "body:messages[1].clue")
    bent = message(1)[0][:-1] + b"\1"
    yield "the same clue with another tail", post([(b"\xa1" * 16, bent, message(1)[1])]), refusal(409, "duplicate", "body:messages[0].clue")
    twice = [identified(3), (b"\xa2" * 16, message(3)[0], b"another")]
    yield "a clue twice in a batch", post(twice), refusal(409, "duplicate", "body:messages[1].clue")
    yield "the same message with another id", post([(b"\xa3" * 16, *message(1))]), posted([(1, True)], 3)
    for days in (-2, 2, -PERIOD, 2**32 - 1 - PERIOD):
        clue = u32(PERIOD + days) + message(3)[0][4:]
        other = post([identified(3), (b"\xa4" * 16, clue, b"")])
        yield f"a clue of {days} days from today", other, refusal(422, "period", "body:messages[1].clue")
    yield "the head", *head_exchange(3)
    json_head = json_answer(200, head_json(PARAMETERS, head(3), 0), ["/time", "/signature"])
    yield "the head in JSON", request("GET", "/v1/head", accept=JSON), json_head
    yield "a page up to the end", *page_exchange("first=0", 0, 3, 3)
    yield "a page", *page_exchange("first=1&end=2", 1, 2, 3)
    yield "a page without messages", *page_exchange("first=3", 3, 3, 3)
    for older, newer in ((0, 3), (1, 3), (2, 3), (3, 3), (1, 2)):
        yield f"from {older} to {newer}", *consistency_exchange(older, newer)


def board_refusals():
    def get(path, status, code, field):
        return f"GET {path}", request("GET", path), refusal(status, code, field)

    yield get("/v1/messages", 400, "malformed", "query:first")
    yield get("/v1/messages?first=-1", 400, "malformed", "query:first")
    yield get("/v1/messages?first=+1", 400, "malformed", "query:first")
    yield get("/v1/messages?first=1&first=1", 400, "malformed", "query:first")
    yield get("/v1/messages?first=18446744073709551616", 400, "malformed", "query:first")
    yield get("/v1/messages?first=4", 416, "range", "query:first")
    yield get("/v1/messages?first=0&end=4", 416, "range", "query:end")
    yield get("/v1/messages?first=2&end=1", 416, "range", "query:end")
    yield get("/v1/consistency?to=3", 400, "malformed", "query:from")
    yield get("/v1/consistency?from=3&to=1", 416, "range", "query:from")
    yield get("/v1/consistency?from=1&to=4", 416, "range", "query:to")
    yield get("/v1/nothing", 404, "not-found", None)
    yield get("/v2/head", 404, "not-found", None)
    yield get("/v1/epochs", 404, "not-found", None)
    yield get("/v1/directory", 404, "not-found", None)
    yield "a method that there is not", request("DELETE", "/v1/head"), refusal(405, "method")

    good = seal(POST, PARAMETERS, post_body([identified(3)]))
    for reason, body, field in [
        ("a bit flipped", good[:100] + b"\1" + good[101:], "body:checksum"),
        ("version 1", seal(POST, PARAMETERS, post_body([identified(3)]), version=1), "body:version"),
        ("another kind", seal(PAGE, PARAMETERS, post_body([identified(3)])), "body:kind"),
        ("parameters of short clues", seal(POST, CLUE["short"], post_body([identified(3)])), "body:parameters"),
        ("no message", seal(POST, PARAMETERS, post_body([])), "body:messages"),
        ("an id twice", seal(POST, PARAMETERS, post_body([identified(3), identified(3)])), "body:messages[1].id"),
        ("truncated", good[:-1], "body"),
        ("no envelope", b"", "body:kind"),
    ]:
        yield f"post: {reason}", request("POST", "/v1/messages", MEDIA + "post.v2", body), refusal(422, "invalid", field)
    long = post([identified(3, bytes(PAYLOAD_BYTES_MAX + 1))])
    yield "post: a payload too long", long, refusal(413, "too-large", "body:messages[0].payload")
    for media in (None, "application/octet-stream", MEDIA + "post.v1", MEDIA + "page.v2"):
        wrong = request("POST", "/v1/messages", media, good)
        yield f"post: as {media}", wrong, refusal(415, "media-type", "header:content-type")
    yield "nothing of all this was posted", *head_exchange(3)


# A key's file that can be read: every residue is zero.
KEY_FILE = seal(3, STREAM["standard"], bytes(KEY_BYTES - 40))
KEY_HASH = blake3.hash(KEY_FILE)
KEY = f"/v1/keys/{KEY_HASH[:16].hex()}"
REGISTER = {"kind": "stream", "parameters": STREAM["standard"].hex(), "bytes": KEY_BYTES, "hash": KEY_HASH.hex()}
TOKEN = {"authorization": "Bearer {token}"}


def key_status(uploaded, state="uploading", key_hash=KEY_HASH, **more):
    fixed = {"key": key_hash[:16].hex(), "kind": "stream", "state": state, "bytes": KEY_BYTES, "uploaded": uploaded}
    return fixed | {"registered": 0} | more


def registered(key_hash=KEY_HASH):
    location = f"/v1/keys/{key_hash[:16].hex()}"
    value = {"token": "", "key": key_status(0, key_hash=key_hash)}
    return json_answer(201, value, ["/token", "/key/registered"], location=location) | {"save": {"token": "/token"}}


def part(offset, data, key=KEY, **headers):
    return request("PATCH", f"{key}/content", MEDIA + "key-part.v1", data, upload_offset=str(offset), **TOKEN, **headers)


def upload_offset(offset, key=KEY):
    return (
        request("HEAD", f"{key}/content", **TOKEN),
        answer(204, upload_offset=str(offset), upload_length=str(KEY_BYTES)),
    )


def uploads():
    def register(reason, changes, status, code, field):
        return f"register: {reason}", json_request("POST", "/v1/keys", REGISTER | changes), refusal(status, code, field)

    yield register("unknown field", {"note": ""}, 400, "malformed", "body:note")
    yield register("upper-case digits", {"hash": KEY_HASH.hex().upper()}, 400, "malformed", "body:hash")
    yield register("unknown kind", {"kind": "short"}, 400, "malformed", "body:kind")
    yield register("other parameters", {"parameters": STREAM["short"].hex()}, 422, "invalid", "body:parameters")
    yield register("another length", {"bytes": KEY_BYTES + 1}, 422, "invalid", "body:bytes")
    missing = {name: value for name, value in REGISTER.items() if name != "bytes"}
    yield "register: missing field", json_request("POST", "/v1/keys", missing), refusal(400, "malformed", "body:bytes")
    twice = request("POST", "/v1/keys", JSON, text(REGISTER).encode() * 2)
    yield "register: more behind the end", twice, refusal(400, "malformed", "body")
    plain = request("POST", "/v1/keys", "text/plain", text(REGISTER).encode())
    yield "register: as text", plain, refusal(415, "media-type", "header:content-type")

    # A file that is not what was announced, then one that is and is no key.
    for reason, announced, sent, field in [
        ("another file than announced", KEY_HASH, bytes(KEY_BYTES), "body:hash"),
        ("no envelope", blake3.hash(bytes(KEY_BYTES)), bytes(KEY_BYTES), "body:kind"),
    ]:
        key = f"/v1/keys/{announced[:16].hex()}"
        value = REGISTER | {"hash": announced.hex()}
        yield f"{reason}: registered", json_request("POST", "/v1/keys", value), registered(announced)
        yield f"{reason}: refused", part(0, sent, key), refusal(422, "invalid", field)
        yield f"{reason}: start again", *upload_offset(0, key)
        yield f"{reason}: removed", request("DELETE", key, **TOKEN), answer(204)

    yield "registered", json_request("POST", "/v1/keys", REGISTER), registered()
    unauthorized = refusal(401, "unauthorized", "header:authorization", www_authenticate="Bearer")
    yield "no token", request("GET", KEY), unauthorized
    yield "another token", request("GET", KEY, authorization=f"Bearer rst1_{'0' * 64}"), unauthorized
    yield "no such key", request("GET", f"/v1/keys/{'0' * 32}", **TOKEN), unauthorized
    upper = request("GET", KEY.upper().replace("/V1/KEYS", "/v1/keys"), **TOKEN)
    yield "a key's id in upper case", upper, refusal(400, "malformed", "path:key")
    yield "nothing uploaded", *upload_offset(0)
    yield "a part", part(0, KEY_FILE[:1000]), json_answer(200, key_status(1000), ["/registered"])
    yield "how far it is", *upload_offset(1000)
    yield (
        "a part that starts elsewhere",
        part(5, KEY_FILE[5:2000]),
        refusal(409, "offset", "header:upload-offset", upload_offset="1000"),
    )
    yield "a part that is too long", part(1000, KEY_FILE[1000:] + b"\0"), refusal(413, "too-large", "header:content-length")
    without_offset = request("PATCH", f"{KEY}/content", MEDIA + "key-part.v1", b"\0", **TOKEN)
    yield "a part without offset", without_offset, refusal(400, "malformed", "header:upload-offset")
    early = json_request("POST", f"{KEY}/jobs", {"id": "01" * 16, "kind": "stream", "first": 0}, **TOKEN)
    yield "a job before the key is there", early, refusal(409, "conflict")
    yield "an order before the key is there", json_request("PUT", f"{KEY}/standing", {}, **TOKEN), refusal(409, "conflict")
    ready = key_status(KEY_BYTES, "ready")
    yield "the last part", part(1000, KEY_FILE[1000:]), json_answer(200, ready, ["/registered"])
    yield "the key", request("GET", KEY, **TOKEN), json_answer(200, ready, ["/registered"])
    yield (
        "a part behind the end",
        part(KEY_BYTES, b""),
        refusal(409, "offset", "header:upload-offset", upload_offset=str(KEY_BYTES)),
    )


def jobs():
    identifier = "ab" * 16
    job, path = {"id": identifier, "kind": "stream", "first": 0, "end": 3}, f"{KEY}/jobs/{identifier}"

    def submit(value):
        return json_request("POST", f"{KEY}/jobs", value, **TOKEN)

    status = {"id": identifier, "kind": "stream", "first": 0, "complete_to": 3, "state": "done", "done": 3, "created": 0}
    # How far it is by then is the relay's.
    early = {name: status[name] for name in ("id", "kind", "first", "complete_to")}
    yield "a job", submit(job), answer(202, content_type=JSON, location=path) | {"json_contains": early}
    yield "the same again", submit(job), answer(200, content_type=JSON, location=path) | {"json_contains": early}
    for name, value in (("first", 1), ("end", 2)):
        yield f"the same id, another {name}", submit(job | {name: value}), refusal(409, "conflict", "body:id")
    for name, value, code, number in (
        ("end", 4, "range", 416),
        ("first", 3, "range", 416),
        ("capacity", 5, "invalid", 422),
        ("payload_bytes", 0, "invalid", 422),
        ("kind", "compact", "invalid", 422),
        ("id", "AB" * 16, "malformed", 400),
        ("lsat", 3, "malformed", 400),
    ):
        wrong = {"id": "cd" * 16} | job | {"id": "cd" * 16, name: value}
        yield f"a job with {name} {value}", submit(wrong), refusal(number, code, f"body:{name}")
    digest_bytes = 24 + 8 + 8 + 16 + 32 + 2 * 26112 + 16
    done = status | {"result_bytes": digest_bytes, "result_hash": ""}
    yield (
        "the job, when it is done",
        request("GET", path, **TOKEN),
        json_answer(200, done, ["/created", "/result_hash"]) | {"until": True},
    )
    jobs = {"jobs": [done]}
    yield "all jobs", request("GET", f"{KEY}/jobs", **TOKEN), json_answer(200, jobs, ["/jobs/0/created", "/jobs/0/result_hash"])
    # First message, number of messages and the key's id are known; seed, ciphertexts and checksum are drawn.
    start = b"RSTN\4\0\2\0" + STREAM["standard"] + u64(digest_bytes - 40) + u64(0) + u64(3) + KEY_HASH[:16]
    varies = [(len(start), digest_bytes - len(start))]
    digest = start + bytes(digest_bytes - len(start))
    result = binary_answer("stream-digest.v1", digest, varies, restante_complete_to="3")
    yield "its result", request("GET", f"{path}/result", **TOKEN), result
    yield "a job that there is not", request("GET", f"{KEY}/jobs/{'0' * 32}", **TOKEN), refusal(404, "not-found", "path:job")
    yield "no job's id", request("GET", f"{KEY}/jobs/1", **TOKEN), refusal(400, "malformed", "path:job")
    yield "the job is forgotten", request("DELETE", path, **TOKEN), answer(204)
    yield "the job is gone", request("GET", path, **TOKEN), refusal(404, "not-found", "path:job")


def standing_orders():
    def order(value):
        return json_request("PUT", f"{KEY}/standing", value, **TOKEN)

    get = request("GET", f"{KEY}/digests?first=0", **TOKEN)
    yield "no order yet", get, refusal(404, "not-found")
    status = key_status(KEY_BYTES, "ready", standing={"first": 0, "complete_to": 0})
    given = json_answer(200, status, ["/registered", "/standing/complete_to"])
    yield "an order behind the end", order({"first": 4}), refusal(416, "range", "body:first")
    yield "an order", order({"first": 0}), given
    yield "the same again", order({"first": 0}), given
    yield "the same again: rounded down to a block", order({}), given
    yield "an order with an unknown field", order({"end": 5}), refusal(400, "malformed", "body:end")
    complete = answer(200, content_type=MEDIA + "digests.v1", restante_complete_to="3")
    yield "its digests, when they are there", get, complete | {"until": True}
    yield "digests behind the end", request("GET", f"{KEY}/digests?first=4", **TOKEN), refusal(416, "range", "query:first")
    yield "the order is deleted", request("DELETE", f"{KEY}/standing", **TOKEN), answer(204)
    yield "no order any more", get, refusal(404, "not-found")
    yield "the key is deleted", request("DELETE", KEY, **TOKEN), answer(204)
    yield "and unknown", request("GET", KEY, **TOKEN), refusal(401, "unauthorized", "header:authorization")


def exchanges():
    for part in (board, board_refusals, uploads, jobs, standing_orders):
        for name, ask, expected in part():
            yield {"name": name, "request": ask, "answer": expected}


def main():
    relay = {
        "identity": SECRET.hex(),
        "board": BOARD.hex(),
        "period": PERIOD,
        "key": RELAY.hex(),
        "clue": "standard",
        "parameters": PARAMETERS.hex(),
        "segment_capacity": 64,
        "standing_seconds": 1,
    }
    form = {"format": "docs/protocol.md, Vectors", "format_version": 1}
    write("exchanges.json", form | {"relay": relay, "exchanges": list(exchanges())})


if __name__ == "__main__":
    main()
