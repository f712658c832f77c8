"""Writes a file of vectors: one line for each, so that a change shows which."""

import json
import pathlib
import sys


def text(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def write(name, sections):
    """Writes to the folder that the command line names, testvectors/1 without one."""
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "1"
    parts = []
    for title, section in sections.items():
        lines = ",\n".join(text(vector) for vector in section) if isinstance(section, list) else None
        parts.append(f"{text(title)}: " + (text(section) if lines is None else f"[\n{lines}\n]"))
    (folder / name).write_text("{\n" + ",\n".join(parts) + "\n}\n")
