"""Check counts from a checkpoint. Raise ValueError if no events could have led to them."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learners.evaluation.history import MOST, History, grows, latest, whole
from learners.evaluation.progress import WINDOW, Progress
from learners.evaluation.quality import (
    ACTUAL,
    ERRORS,
    EVENTS,
    FADING,
    LOSSES,
    MAJORITY,
    MASS,
    NONE,
    SCORED,
    SCORED_LOSSES,
    SCORED_MASS,
    SMALLEST,
    WRONG,
    Quality,
    fresh_quality,
)
from learners.state import restore

ROUNDING = 1e-3
"""Relative rounding error of a sum over a long life."""


def restore_quality(classes: int, arrays: dict[str, NDArray[Any]]) -> Quality:
    """Restore flattened quality counts. Raise ValueError if no events could have led to them."""
    q: Quality = restore(fresh_quality(classes), arrays)
    if not _counts_are_valid(q, classes):
        raise ValueError("corrupt checkpoint: quality counts are inconsistent")
    if not (_baselines_are_valid(q) and _sums_are_valid(q)):
        raise ValueError("corrupt checkpoint: quality baselines or sums are inconsistent")
    return q


def check_together(progress: Progress, quality: Quality, history: History) -> None:
    """Raise ValueError unless these restored parts of one model count the same events."""
    lived = np.array([progress.events[0], progress.errors[0]])
    points = [curve[-1:] for curve in (whole(history), latest(history))]
    if not (
        all(grows(np.concatenate([point, quality.totals[None, :SCORED]])) for point in points)
        and history.marked[0] == quality.totals[EVENTS]
        and grows(np.array([quality.totals[:MAJORITY], lived]))
    ):
        raise ValueError(
            "corrupt checkpoint: progress, quality and history do not count the same events"
        )


def _counts_are_valid(q: Quality, classes: int) -> bool:
    events, errors = int(q.totals[EVENTS]), int(q.totals[ERRORS])
    if not (0 <= events <= MOST and ((q.totals >= 0) & (q.totals <= events)).all()):
        return False
    actual, guessed, hits = q.classes
    if not (
        (hits >= 0)
        & (hits <= actual)
        & (hits <= guessed)
        & (actual <= events)
        & (guessed <= events)
    ).all():
        return False
    missed, mistaken = actual - hits, guessed - hits
    if classes == 0:  # every event has a class; what one class misses is predicted as the other
        fine = actual.sum() == events and missed[0] == mistaken[1] and missed[1] == mistaken[0]
    else:
        fine = max(actual.sum(), guessed.sum()) <= events and not q.classes[:, classes:].any()
    return bool(fine and hits.sum() == events - errors)


def _baselines_are_valid(q: Quality) -> bool:
    actual, columns, events = q.classes[ACTUAL], q.classes.shape[1], int(q.totals[EVENTS])
    most, last = q.said.tolist()
    if not (NONE <= most < columns and NONE <= last < columns and (q.outcomes <= 1).all()):
        return False
    recent, all_wrong, older = (
        q.outcomes.sum(axis=1, dtype=np.int64),
        q.totals[MAJORITY:SCORED],
        max(0, events - WINDOW),
    )
    return bool(
        (actual[most] == actual.max() > 0 if most != NONE else not actual.any())
        and (actual[last] > 0 if last != NONE else columns > 2 or events == 0)
        and not q.outcomes[:, events:].any()
        and (all_wrong >= min(events, 1)).all()  # both are wrong at the first event
        and (recent + min(older, 1) <= all_wrong).all()
        and (all_wrong <= recent + older).all()
    )


def _sums_are_valid(q: Quality) -> bool:
    events, errors, scored = (int(q.totals[index]) for index in (EVENTS, ERRORS, SCORED))
    least, worst = -math.log(1.0 - SMALLEST), -math.log(SMALLEST)
    return (
        _is_faded_mass(q.sums[MASS], events)
        and _between(q.sums[WRONG], 0.0, q.sums[MASS] if errors else 0.0)
        and _between(q.sums[LOSSES], least * scored, worst * scored)
        and _is_faded_mass(q.sums[SCORED_MASS], scored)
        and _between(
            q.sums[SCORED_LOSSES], least * q.sums[SCORED_MASS], worst * q.sums[SCORED_MASS]
        )
    )


def _is_faded_mass(mass: float, events: int) -> bool:
    """Whether the mass is Σ FADINGⁱ over this many events."""
    expected = (1.0 - FADING**events) / (1.0 - FADING)
    return _between(mass, expected, expected)


def _between(value: float, least: float, most: float) -> bool:
    """Whether the value is in the range, up to rounding. False for NaN."""
    return bool(least * (1.0 - ROUNDING) <= value <= most * (1.0 + ROUNDING))
