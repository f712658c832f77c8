"""HPKE in base mode (RFC 9180) with X-Wing, HKDF-SHA256 and ChaCha20-Poly1305; keys from draft-ietf-hpke-pq, section 4."""

import hmac

import chacha20
import xwing

KEM = b"KEM\x64\x7a"
SUITE = b"HPKE\x64\x7a\x00\x01\x00\x03"


def secret_key(material):
    """DeriveKeyPair, with the one-stage LabeledDerive of draft-ietf-hpke-hpke."""
    label = b"DeriveKeyPair"
    data = material + b"HPKE-v1" + KEM + len(label).to_bytes(2, "big") + label + (32).to_bytes(2, "big")
    return xwing.shake256(data, 32)


def mac(key, data):
    return hmac.digest(key, data, "sha256")


def extract(salt, label, material):
    return mac(salt, b"HPKE-v1" + SUITE + label + material)


def expand(key, label, info, length):
    """One block is enough for what is needed here."""
    assert length <= 32
    return mac(key, length.to_bytes(2, "big") + b"HPKE-v1" + SUITE + label + info + b"\1")[:length]


def schedule(shared, info):
    """Key and first nonce."""
    context = b"\0" + extract(b"", b"psk_id_hash", b"") + extract(b"", b"info_hash", info)
    secret = extract(shared, b"secret", b"")
    return expand(secret, b"key", context, 32), expand(secret, b"base_nonce", context, 12)


def seal(public, info, associated, plaintext, randomness):
    """The encapsulated key, the ciphertext, the tag."""
    shared, encapsulated = xwing.encapsulate(public, randomness)
    key, nonce = schedule(shared, info)
    return encapsulated + chacha20.seal(key, nonce, associated, plaintext)
