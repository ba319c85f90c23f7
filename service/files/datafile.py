"""What one pass over a data file found: enough to turn its rows into events without looking at them again.

The label keeps the file's name for it, so one label field serves rows that are events and rows made into them.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from service.errors import BadSettings
from service.files.reading import Format
from service.settings import canonical_label

Sign = Literal["positive", "negative", "word"]

MAX_LABELS = 1000
RESERVED = {"features", "id", "ts", "weight"}


@dataclass(frozen=True)
class DataFile:
    path: Path
    format: Format
    rows: int
    label: str = "label"
    """The events' field that carries the label."""
    columns: tuple[str, ...] = ()
    """Features that are written as numbers in every row that has them; none for JSON lines."""
    words: tuple[str, ...] = ()
    """CSV columns with something that is not a number; written as strings."""
    text: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    tree: str | None = None
    """The field or column that has a tree; it is beside the features, and keeps its name."""
    header: tuple[str, ...] = ()
    """Every CSV column, in the file's order."""
    labels: tuple[str, ...] = ()
    """Distinct labels by first appearance, as the decoder spells them; at most MAX_LABELS."""
    more_labels: bool = False
    signs: frozenset[Sign] = frozenset()
    """What kinds of labels there are, over all rows."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Labels of the file and what they are called in the events; none: as they are."""

    @property
    def hashed(self) -> bool:
        """Whether a feature lies outside the columns."""
        return self.format == "jsonl" or bool(self.words or self.text)


class Labels:
    """The distinct labels of a file, gathered in order."""

    def __init__(self) -> None:
        self.more = False
        self.signs: set[Sign] = set()
        self._seen: dict[str, None] = {}

    def see(self, value: object) -> None:
        """Count a label as JSON holds it; what cannot be one (a list, null) is the decoder's to reject."""
        if not isinstance(value, (bool, int, float, str)):
            return
        name = canonical_label(value)
        if name in self._seen:
            return
        self.signs.add(sign_of(name))
        if len(self._seen) < MAX_LABELS:
            self._seen[name] = None
        else:
            self.more = True

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._seen)


def sign_of(label: str) -> Sign:
    if label in {"true", "false"}:
        return "positive" if label == "true" else "negative"
    value = number(label)
    if value is None or not math.isfinite(value):
        return "word"
    return "positive" if value > 0 else "negative"


def number(text: str) -> float | None:
    """The number that the text spells, if it does; Python's `1_000` is not one in a data file."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def check_names(label: str, tree: str | None = None) -> None:
    if label in RESERVED:
        raise BadSettings(f"label {label}: an event has its own field of that name; rename the label")
    if tree in RESERVED:
        raise BadSettings(f"--tree {tree}: an event has its own field of that name; rename the tree")
    if tree == label:
        raise BadSettings(f"--tree {tree}: that is the label; name the field that has the tree")
