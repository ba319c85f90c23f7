"""Split text fields into tokens, and parse trees in bracket notation."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from learners.batch import Trees
from learners.kernel.tree_parser import TreeSyntaxError, flatten_tree
from service.features.reject import Reject

CHUNK = 1024
"""Tokens per chunk. Between two chunks a reader can stop, and other threads run."""

CHARACTERS_PER_NODE = 64
"""Characters that a tree's text may have for each inner node allowed. A longer text is rejected
unparsed, because to cut a megabyte into words would delay every other request."""

WORD = re.compile(r"[^\W_]+")


def tokenize(text: str, ngrams: int) -> Iterator[list[str]]:
    """Yield the lower-cased words, then the runs of 2 to `ngrams` words, in chunks."""
    words: list[str] = []
    for chunk in chunks(map(re.Match.group, WORD.finditer(text.lower()))):
        words += chunk
        yield chunk
    for length in range(2, ngrams + 1):
        shifted = (islice(words, first, None) for first in range(length))
        yield from chunks(map(" ".join, zip(*shifted, strict=False)))


def chunks(tokens: Iterable[str]) -> Iterator[list[str]]:
    """Yield the tokens in order, `CHUNK` at a time."""
    remaining = iter(tokens)
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk


def parse_tree(value: Any, max_nodes: int) -> Trees | Reject:
    """Parse a field with at most `max_nodes` inner nodes. Reject a field that is not text."""
    if not isinstance(value, str):
        return Reject("tree")
    longest = CHARACTERS_PER_NODE * max_nodes
    if len(value) > longest:
        return Reject("tree", character=longest)
    try:
        return flatten_tree(value, max_nodes)
    except TreeSyntaxError as error:
        return Reject("tree", character=error.position)
