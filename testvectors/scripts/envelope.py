"""The envelope around files and bodies (docs/format.md, docs/protocol.md), and parameter ids."""

import blake3

NO_PARAMETERS = bytes(8)


def seal(kind, parameters, body, version=1, reserved=0, length=None):
    """An envelope; the last two arguments are for those that must be refused."""
    length = len(body) if length is None else length
    header = b"RSTN" + bytes([kind, reserved]) + version.to_bytes(2, "little") + parameters
    content = header + length.to_bytes(8, "little") + body
    return content + blake3.hash(content)[:16]


def open(file, kind, parameters, version=1):
    """The body of an envelope that is as expected."""
    assert file[:4] == b"RSTN" and file[4] == kind and file[5] == 0
    assert int.from_bytes(file[6:8], "little") == version and file[8:16] == parameters
    assert int.from_bytes(file[16:24], "little") == len(file) - 40
    assert file[-16:] == blake3.hash(file[:-16])[:16]
    return file[24:-16]


def parameter_id(description):
    return blake3.hash(description.encode())[:8]
