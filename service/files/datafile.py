"""`DataFile`: the result of a scan, with all that the conversion of rows to events needs.

The label keeps its name in the file. So one label field works for JSON lines that are events
already and for rows that are converted.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from service.config.settings import canonical_label
from service.errors import SettingsError
from service.files.records import Format

Sign = Literal["positive", "negative", "word"]

MAX_LABELS = 1000
RESERVED = {"features", "id", "ts", "weight"}


@dataclass(frozen=True)
class DataFile:
    path: Path
    format: Format
    rows: int
    label: str = "label"
    """Field of the events that has the label."""
    columns: tuple[str, ...] = ()
    """Features that are numbers in every row that has them. JSON lines have none."""
    words: tuple[str, ...] = ()
    """CSV columns that contain a word. Their cells become strings."""
    text: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    tree: str | None = None
    """Field or column that has a tree. It is not among the features, and it keeps its name."""
    header: tuple[str, ...] = ()
    """All CSV columns, in the file's order."""
    labels: tuple[str, ...] = ()
    """Distinct labels by first appearance, as the decoder spells them, at most MAX_LABELS."""
    more_labels: bool = False
    """Whether the file has more labels than `labels`."""
    signs: frozenset[Sign] = frozenset()
    """Kinds of labels over all rows."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Labels of the file and their names in the events. Empty if labels keep their names."""

    @property
    def hashed(self) -> bool:
        """Whether the file has features that must be hashed."""
        return self.format == "jsonl" or bool(self.words or self.text)


class Labels:
    """The distinct labels of a file, in order of first appearance."""

    def __init__(self) -> None:
        self.more = False
        self.signs: set[Sign] = set()
        self._seen: dict[str, None] = {}

    def see(self, value: object) -> None:
        """Add a label, a decoded JSON value. Ignore a list or null, which the decoder rejects."""
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
    """Parse a number. Return None for other text, and for Python's `1_000`."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def check_names(label: str, tree: str | None = None) -> None:
    if label in RESERVED:
        raise SettingsError(f"label {label}: events use that field already; rename the label")
    if tree in RESERVED:
        raise SettingsError(f"--tree {tree}: events use that field already; rename the tree")
    if tree == label:
        raise SettingsError(f"--tree {tree}: that is the label; name the field that has the tree")
