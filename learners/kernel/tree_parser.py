"""Parser of bracketed trees, `(S (NP (PRP I)) (VP (VBP run)))`, to flat arrays. It does not
recurse, so any depth works.

The hash of a production is part of the checkpoint format. It never changes within a format version.
"""

import hashlib
import re
from functools import lru_cache
from itertools import accumulate, islice

import numpy as np

from learners.batch import Trees

PIECES = re.compile(r"\(\s*[^\s()]*\s*\)?|\)|[^\s()]+")
"""Matches an opening bracket with its label (and the closing one, for a word in brackets), a
closing bracket, or a bare word."""

MOST_CACHED = 1 << 16
LONGEST = 96
"""Maximum number of cached hashes, and of characters of a cached production. Hostile input
cannot exhaust the memory."""

AFTER = "text after the tree"
NO_BRACKET = "a tree must begin with an opening bracket"

OpenNode = tuple[int, list[str], list[int]]
"""A node that is not closed yet: the index of its piece, its label followed by the labels of its
children (with a bracket before the label of an inner child; a label has neither spaces nor
brackets), and its inner children."""


class TreeSyntaxError(ValueError):
    """Text that is not a tree. The position counts characters from 0."""

    def __init__(self, why: str, position: int) -> None:
        super().__init__(f"{why} at character {position}")
        self.position = position


def flatten_tree(text: str, most: int) -> Trees:
    """Parse one tree of at most `most` inner nodes. A node without children is a word."""
    opened: list[OpenNode] = []
    productions: list[int] = []
    children: list[list[int]] = []
    for index, piece in enumerate(PIECES.findall(text)):
        if piece[0] == "(":
            if not opened and productions:
                raise TreeSyntaxError(AFTER, _start(text, index))
            if piece[-1] != ")":
                if len(opened) + len(productions) >= most:  # each open node becomes an inner node
                    raise TreeSyntaxError(f"more than {most} inner nodes", _start(text, index))
                opened.append((index, [piece[1:].strip()], []))
                continue
            word = piece[1:-1].strip()
            if opened:
                opened[-1][1].append(word)
                continue
            labels, inner = [word], list[int]()  # the root is an inner node even without children
        elif not opened:
            raise TreeSyntaxError(AFTER if productions else NO_BRACKET, _start(text, index))
        elif piece == ")":
            _, labels, inner = opened.pop()
        else:
            opened[-1][1].append(piece)
            continue
        if len(productions) == most:
            raise TreeSyntaxError(f"more than {most} inner nodes", _start(text, index))
        if opened:
            _, around, nodes = opened[-1]
            around.append("(" + labels[0])
            nodes.append(len(productions))
        productions.append(_hash_production(" ".join(labels)))
        children.append(inner)
    if opened:
        raise TreeSyntaxError("a bracket is never closed", _start(text, opened[-1][0]))
    if not productions:
        raise TreeSyntaxError("there is no tree", len(text))
    return _sort_nodes(productions, children)


def _hash_production(production: str) -> int:
    return _cached_hash(production) if len(production) <= LONGEST else _hash(production)


def _hash(production: str) -> int:
    digest = hashlib.blake2b(production.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


_cached_hash = lru_cache(MOST_CACHED)(_hash)


def _start(text: str, piece: int) -> int:
    """Character at which a piece begins. Only called for errors."""
    return next(islice(PIECES.finditer(text), piece, None)).start()


def _sort_nodes(productions: list[int], children: list[list[int]]) -> Trees:
    """Sort nodes by production. They come in the order of closing brackets, children first."""
    size = len(productions)
    ranks = sorted(range(size), key=productions.__getitem__)
    positions = [0] * size
    for index, node in enumerate(ranks):
        positions[node] = index
    own = [positions[child] for node in ranks for child in children[node]]
    ends = accumulate([len(children[node]) for node in ranks], initial=0)
    # One array cut in five: making five arrays takes longer than parsing a short tree.
    whole = np.array([0, size, *sorted(productions), *positions, *ends, *own], np.int64)
    return Trees(
        whole[:2],
        whole[2 : 2 + size],
        whole[2 + size : 2 + 2 * size],
        whole[2 + 2 * size : 3 + 3 * size],
        whole[3 + 3 * size :],
    )
