"""Writes files of vectors to the folder that the command line names, testvectors/1 without one."""

import json
import pathlib
import sys

FOLDER = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "1"


def text(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def write(name, sections):
    """One line for each vector, so that a change shows which."""
    parts = []
    for title, section in sections.items():
        lines = ",\n".join(text(vector) for vector in section) if isinstance(section, list) else None
        parts.append(f"{text(title)}: " + (text(section) if lines is None else f"[\n{lines}\n]"))
    write_bytes(name, ("{\n" + ",\n".join(parts) + "\n}\n").encode())


def write_bytes(name, data):
    (FOLDER / name).write_bytes(data)
