"""A planned drift: four classes of a file in four phases. Regularised PA (L1/L2), section 4.

P1 and P2 are positive, N1 and N2 negative. Within a phase the probabilities change linearly.
Between the second and the third phase P1 vanishes and N2 appears at once. Over all phases the
expected number of events of each class is the length of a phase. The paper does not say whether a
row may occur again. Here it does not.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from learners.batch import Ints
from learners.registry import nearest
from service.config.settings import Label
from service.errors import SettingsError
from service.files.convert import events, label_in
from service.files.datafile import DataFile
from service.files.schema import find_spelling

CLASSES = ("P1", "P2", "N1", "N2")
PHASES = (
    ((7, 0, 3, 0), (5, 0, 5, 0)),
    ((5, 0, 5, 0), (3, 2, 5, 0)),
    ((0, 5, 2, 3), (0, 5, 0, 5)),
    ((0, 5, 0, 5), (0, 3, 0, 7)),
)
"""Tenths: probabilities of P1, P2, N1 and N2 at the beginning and at the end of each phase."""
POSITIVE, NEGATIVE = "positive", "negative"
SHARE = 4, 5
"""Events of a phase as a share of the rows of the rarest class, if there is no limit: 800 of 1,000,
as in the paper.
"""


def build_phases(
    file: DataFile, classes: str, *, limit: int | None, seed: int
) -> tuple[DataFile, Label, Ints]:
    """Return the file with two labels, its label settings, and its rows in order of the phases."""
    names = _find_classes(file, classes)
    signs = zip(names, (POSITIVE, POSITIVE, NEGATIVE, NEGATIVE), strict=True)
    order = _draw_order(file, names, limit, seed)
    label = Label(field=file.label, positive=POSITIVE, negative=NEGATIVE)
    return replace(file, labels=(POSITIVE, NEGATIVE), renamed=tuple(signs)), label, order


def draws(each: int, generator: np.random.Generator) -> Ints:
    """Draw the class of each event as an index in CLASSES, `each` events per phase.

    The draw uses integers, so a class with probability 0 never occurs.
    """
    last = max(1, each - 1)
    at = np.arange(each)[:, None]
    parts = []
    for first, end in PHASES:
        chances = (last - at) * np.array(first) + at * np.array(end)  # in units of 1/(10·last)
        parts.append(
            (chances.cumsum(axis=1) <= generator.integers(10 * last, size=(each, 1))).sum(axis=1)
        )
    return np.concatenate(parts)


def order_of(drawn: Ints, rows: Sequence[Ints], generator: np.random.Generator) -> Ints:
    """Choose a row for each event at random from the rows of its class, without repetition."""
    order = np.empty(drawn.size, np.int64)
    for place, mine in enumerate(rows):
        wanted = drawn == place
        order[wanted] = generator.permutation(mine)[: int(wanted.sum())]
    return order


def sections_of(order: Ints) -> list[tuple[int, str]]:
    """The end of each phase, and its name with its classes."""
    each = order.size // len(PHASES)
    present = [
        [name for name, *chances in zip(CLASSES, *phase, strict=True) if any(chances)]
        for phase in PHASES
    ]
    return [
        (each * (n + 1), f"phase {n + 1}: {', '.join(names)}") for n, names in enumerate(present)
    ]


def _find_classes(file: DataFile, classes: str) -> list[str]:
    names = [name.strip() for name in classes.split(",")]
    if len(names) != len(CLASSES):
        raise SettingsError(
            f"--phases: give four labels of the file for {','.join(CLASSES)}, "
            f"not {len(names)}: {classes}"
        )
    found = [find_spelling(file, name) for name in names]
    for name, label in zip(names, found, strict=True):
        if label is None:
            raise SettingsError(
                f"{file.path}: no row has the label {name}{nearest(name, list(file.labels))}"
            )
    chosen = [label for label in found if label is not None]
    if len(set(chosen)) < len(CLASSES):
        raise SettingsError(f"--phases: give four different labels, not {classes}")
    return chosen


def _draw_order(file: DataFile, names: Sequence[str], limit: int | None, seed: int) -> Ints:
    rows = _rows_of(file, names)
    usual = max(1, min(mine.size for mine in rows) * SHARE[0] // SHARE[1])
    if limit is not None and limit < len(PHASES):
        raise SettingsError(f"--limit must be at least {len(PHASES)}: an event for each phase")
    each = usual if limit is None else limit // len(PHASES)
    if each * len(PHASES) > (total := sum(mine.size for mine in rows)):
        raise SettingsError(
            f"{file.path}: the four labels have {total:,} rows; "
            f"give --limit {len(PHASES) * usual} or less"
        )
    generator = np.random.default_rng(seed)
    drawn = draws(each, generator)
    for place, (name, mine) in enumerate(zip(names, rows, strict=True)):
        if (count := int((drawn == place).sum())) > mine.size:
            fewer = len(PHASES) * max(1, min(usual, each * SHARE[0] // SHARE[1]))
            hint = (
                f"give --limit {fewer} or less"
                if fewer < drawn.size
                else "give another --shuffle SEED"
            )
            raise SettingsError(
                f"{file.path}: label {name} has {mine.size:,} rows and {count:,} were drawn; {hint}"
            )
    return order_of(drawn, rows, generator)


def _rows_of(file: DataFile, names: Sequence[str]) -> list[Ints]:
    """Find the rows of each class, in file order."""
    found: dict[str | None, list[int]] = {name: [] for name in names}
    for row, event in enumerate(events(file)):
        if (mine := found.get(label_in(event, file.label))) is not None:
            mine.append(row)
    return [np.array(found[name], np.int64) for name in names]
