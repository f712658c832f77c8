"""The hash tree over messages and proofs from it: docs/protocol.md, after RFC 6962, sections 2.1 and 2.1.2."""

import blake3

MAX_HASHES = 128


TAIL_BYTES = 5


def leaf(clue, payload):
    bound, tail = clue[:-TAIL_BYTES], clue[-TAIL_BYTES:]
    return blake3.hash(b"\0" + blake3.hash(bound) + blake3.hash(payload) + tail)


def node(left, right):
    return blake3.hash(b"\1" + left + right)


def split(count):
    """The largest power of two below the number of leaves."""
    return 1 << (count - 1).bit_length() - 1


class Tree:
    """A tree over leaves; roots of its subtrees are kept."""

    def __init__(self, leaves):
        self.leaves, self.roots = leaves, {}

    def root(self, start, end):
        if start == end:
            return blake3.hash(b"")
        if end - start == 1:
            return self.leaves[start]
        if (start, end) not in self.roots:
            middle = start + split(end - start)
            self.roots[start, end] = node(self.root(start, middle), self.root(middle, end))
        return self.roots[start, end]

    def consistency(self, older, newer):
        """PROOF(older, D[newer]) of the RFC."""
        return self.subproof(older, 0, newer, True) if older else []

    def subproof(self, older, start, end, whole):
        count = end - start
        if older == count:
            return [] if whole else [self.root(start, end)]
        middle = start + split(count)
        if older <= middle - start:
            return self.subproof(older, start, middle, whole) + [self.root(middle, end)]
        return self.subproof(older - (middle - start), middle, end, False) + [self.root(start, middle)]

    def range_proof(self, first, end, count):
        """The roots of the subtrees beside the range, from left to right."""
        return self.beside(first, end, 0, count) if first < end else []

    def beside(self, first, end, start, stop):
        if stop <= first or end <= start:
            return [self.root(start, stop)]
        if first <= start and stop <= end:
            return []
        middle = start + split(stop - start)
        return self.beside(first, end, start, middle) + self.beside(first, end, middle, stop)


def encode_proof(hashes):
    return len(hashes).to_bytes(4, "little") + b"".join(hashes)
