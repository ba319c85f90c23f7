"""The tree of an event: text from outside to flat arrays, or why not and where."""

from typing import Any

from learners.batch import Trees
from learners.dual.brackets import BadTree, flattened
from service.reasons import Reject

CHARACTERS = 64
"""Of a text, for each inner node that it may have: to cut a megabyte into words would hold everybody up."""


def tree_of(value: Any, most: int) -> Trees | Reject:
    """A field's bracketed parse with at most so many inner nodes; what is missing or no text is no tree."""
    if not isinstance(value, str):
        return Reject("tree")
    if len(value) > CHARACTERS * most:
        return Reject("tree", character=CHARACTERS * most)
    try:
        return flattened(value, most)
    except BadTree as error:
        return Reject("tree", character=error.position)
