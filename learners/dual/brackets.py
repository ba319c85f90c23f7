"""Bracketed parses, `(S (NP (PRP I)) (VP (VBP run)))`, to flat trees; without recursion, so depth does not matter.

The hash of a production is part of the checkpoint format: it never changes within a format version.
"""

import hashlib
import re
from typing import NamedTuple

import numpy as np

from learners.batch import Trees

TOKENS = re.compile(r"[()]|[^\s()]+")


class BadTree(ValueError):
    """Text that is no tree; the position counts characters from 0."""

    def __init__(self, why: str, position: int) -> None:
        super().__init__(f"{why} at character {position}")
        self.position = position


class _Open(NamedTuple):
    """A node whose bracket is not closed yet."""

    position: int
    label: str
    children: list[str]
    """Their labels, an inner one's behind a bracket; a token holds neither spaces nor brackets."""
    inner: list[int]
    """Those that are nodes, by the order in which they were closed."""


def flattened(text: str, most: int) -> Trees:
    """The one tree of a text, with no more inner nodes than `most`; a node without children is a word."""
    opened: list[_Open] = []
    productions: list[int] = []
    children: list[list[int]] = []
    done = False
    tokens = [(found.group(), found.start()) for found in TOKENS.finditer(text)]
    place = 0
    while place < len(tokens):
        piece, position = tokens[place]
        place += 1
        if done:
            raise BadTree("text after the tree", position)
        if piece == "(":
            label = ""
            if place < len(tokens) and tokens[place][0] not in {"(", ")"}:
                label = tokens[place][0]
                place += 1
            opened.append(_Open(position, label, [], []))
        elif not opened:
            raise BadTree("a tree begins with a bracket, not with a word or its end", position)
        elif piece == ")":
            node = opened.pop()
            done = not opened
            if not node.children and not done:
                opened[-1].children.append(node.label)
                continue
            if len(productions) == most:
                raise BadTree(f"more than {most} inner nodes", position)
            if not done:
                opened[-1].children.append("(" + node.label)
                opened[-1].inner.append(len(productions))
            productions.append(_hash(" ".join([node.label, *node.children])))
            children.append(node.inner)
        else:
            opened[-1].children.append(piece)
    if opened:
        raise BadTree("a bracket is never closed", opened[-1].position)
    if not done:
        raise BadTree("there is no tree", len(text))
    return _sorted(productions, children)


def _hash(production: str) -> int:
    digest = hashlib.blake2b(production.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _sorted(productions: list[int], children: list[list[int]]) -> Trees:
    """Nodes come as they were closed, children first, and go by production."""
    ranks = sorted(range(len(productions)), key=productions.__getitem__)
    places = {node: place for place, node in enumerate(ranks)}
    own = [[places[child] for child in children[node]] for node in ranks]
    return Trees(
        np.array([0, len(ranks)]),
        np.array([productions[node] for node in ranks], np.int64),
        np.array([places[node] for node in range(len(ranks))], np.int64),
        np.cumsum([0, *map(len, own)]),
        np.array([child for row in own for child in row], np.int64),
    )
