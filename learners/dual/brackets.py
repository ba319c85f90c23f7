"""Bracketed parses, `(S (NP (PRP I)) (VP (VBP run)))`, to flat trees; without recursion, so depth does not matter.

The hash of a production is part of the checkpoint format: it never changes within a format version.
"""

import hashlib
import re
from functools import lru_cache
from itertools import accumulate, islice

import numpy as np

from learners.batch import Trees

PIECES = re.compile(r"\(\s*[^\s()]*\s*\)?|\)|[^\s()]+")
"""A bracket with its label, and with its end where it is a word in brackets; an end; a word without any."""

REMEMBERED = 1 << 16
LONGEST = 96
"""Productions whose hash is kept at hand, and characters of one that is: hostile ones cannot fill the memory."""


class BadTree(ValueError):
    """Text that is no tree; the position counts characters from 0."""

    def __init__(self, why: str, position: int) -> None:
        super().__init__(f"{why} at character {position}")
        self.position = position


def flattened(text: str, most: int) -> Trees:
    """The one tree of a text, with no more inner nodes than `most`; a node without children is a word."""
    # Nodes that are not closed yet: the place of their piece, their label with those of their children (an inner one's
    # behind a bracket; a label holds neither spaces nor brackets), and which nodes the inner children are.
    opened: list[tuple[int, list[str], list[int]]] = []
    productions: list[int] = []
    children: list[list[int]] = []
    for place, piece in enumerate(PIECES.findall(text)):
        if piece[0] == "(":
            if not opened and productions:
                raise BadTree("text after the tree", _start(text, place))
            if piece[-1] != ")":
                if len(opened) + len(productions) >= most:  # each will be an inner node
                    raise BadTree(f"more than {most} inner nodes", _start(text, place))
                opened.append((place, [piece[1:].strip()], []))
                continue
            word = piece[1:-1].strip()
            if opened:
                opened[-1][1].append(word)
                continue
            labels, inner = [word], list[int]()  # the root is a node even so
        elif not opened:
            why = "text after the tree" if productions else "a tree begins with a bracket, not with a word or its end"
            raise BadTree(why, _start(text, place))
        elif piece == ")":
            _, labels, inner = opened.pop()
        else:
            opened[-1][1].append(piece)
            continue
        if len(productions) == most:
            raise BadTree(f"more than {most} inner nodes", _start(text, place))
        if opened:
            _, around, nodes = opened[-1]
            around.append("(" + labels[0])
            nodes.append(len(productions))
        production = " ".join(labels)
        productions.append(_known(production) if len(production) <= LONGEST else _hash(production))
        children.append(inner)
    if opened:
        raise BadTree("a bracket is never closed", _start(text, opened[-1][0]))
    if not productions:
        raise BadTree("there is no tree", len(text))
    return _sorted(productions, children)


def _start(text: str, place: int) -> int:
    """Where a piece begins; only asked for one that is wrong."""
    return next(islice(PIECES.finditer(text), place, None)).start()


def _hash(production: str) -> int:
    digest = hashlib.blake2b(production.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


_known = lru_cache(REMEMBERED)(_hash)


def _sorted(productions: list[int], children: list[list[int]]) -> Trees:
    """Nodes come as they were closed, children first, and go by production."""
    size = len(productions)
    ranks = sorted(range(size), key=productions.__getitem__)
    places = [0] * size
    for place, node in enumerate(ranks):
        places[node] = place
    own = [places[child] for node in ranks for child in children[node]]
    ends = accumulate([len(children[node]) for node in ranks], initial=0)
    # One array cut in five: to make each of its own takes longer than to parse a short tree.
    whole = np.array([0, size, *sorted(productions), *places, *ends, *own], np.int64)
    return Trees(
        whole[:2],
        whole[2 : 2 + size],
        whole[2 + size : 2 + 2 * size],
        whole[2 + 2 * size : 3 + 3 * size],
        whole[3 + 3 * size :],
    )
