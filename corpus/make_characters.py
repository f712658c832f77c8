"""Writes characters.csv from the Unicode Character Database.

    python3 corpus/make_characters.py DIRECTORY > corpus/characters.csv

DIRECTORY has UnicodeData.txt and Blocks.txt of version 15.0.0 (Debian's package unicode-data 15.0.0-1).
"""

import csv
import sys
from pathlib import Path


def blocks(path):
    """The block of every code: the lines of the file are "first..last; name"."""
    of = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.split("#")[0].strip()
        if line:
            codes, name = (part.strip() for part in line.split(";"))
            first, last = (int(code, 16) for code in codes.split(".."))
            of.update(dict.fromkeys(range(first, last + 1), name))
    return of


def main():
    folder = Path(sys.argv[1])
    block = blocks(folder / "Blocks.txt")
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["code", "name", "category", "block", "decomposition"])
    for line in (folder / "UnicodeData.txt").read_text(encoding="utf-8").splitlines():
        code, name, category, _, _, decomposition, *_ = line.split(";")
        if name.endswith((", First>", ", Last>")):
            continue  # The two ends of a range of characters without names of their own.
        out.writerow([code, name, category, block[int(code, 16)], decomposition])


main()
