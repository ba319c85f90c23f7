"""Whether counts that come from a checkpoint can be: what no events could have led to is refused, in words."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learners.evaluation import WINDOW, Progress
from learners.history import MOST, History, grows, latest, whole
from learners.quality import (
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
"""Relative, of a sum over a long life."""


def restored_quality(classes: int, arrays: dict[str, NDArray[Any]]) -> Quality:
    """The inverse of `flatten`; what no events could have led to is refused."""
    q: Quality = restore(fresh_quality(classes), arrays)
    if not (_counts_can_be(q, classes) and _baselines_can_be(q) and _sums_can_be(q)):
        raise ValueError("it has figures of quality that cannot be")
    return q


def check_together(progress: Progress, quality: Quality, history: History) -> None:
    """Refuse parts of one model, each restored, that are not of the same events."""
    lived = np.array([progress.events[0], progress.errors[0]])
    points = [curve[-1:] for curve in (whole(history), latest(history))]
    if not (
        all(grows(np.concatenate([point, quality.totals[None, :SCORED]])) for point in points)
        and history.marked[0] == quality.totals[EVENTS]
        and grows(np.array([quality.totals[:MAJORITY], lived]))
    ):
        raise ValueError("its counts, figures of quality and history are not of the same events")


def _counts_can_be(q: Quality, classes: int) -> bool:
    events, errors = int(q.totals[EVENTS]), int(q.totals[ERRORS])
    if not (0 <= events <= MOST and ((q.totals >= 0) & (q.totals <= events)).all()):
        return False
    actual, guessed, hits = q.classes
    if not ((hits >= 0) & (hits <= actual) & (hits <= guessed) & (actual <= events) & (guessed <= events)).all():
        return False
    missed, mistaken = actual - hits, guessed - hits
    if classes == 0:  # each has its class, and what one class misses is taken for the other
        fine = actual.sum() == events and missed[0] == mistaken[1] and missed[1] == mistaken[0]
    else:
        fine = max(actual.sum(), guessed.sum()) <= events and not q.classes[:, classes:].any()
    return bool(fine and hits.sum() == events - errors)


def _baselines_can_be(q: Quality) -> bool:
    actual, places, events = q.classes[ACTUAL], q.classes.shape[1], int(q.totals[EVENTS])
    most, last = q.said.tolist()
    if not (NONE <= most < places and NONE <= last < places and (q.outcomes <= 1).all()):
        return False
    recent, all_wrong, older = (
        q.outcomes.sum(axis=1, dtype=np.int64),
        q.totals[MAJORITY:SCORED],
        max(0, events - WINDOW),
    )
    return bool(
        (actual[most] == actual.max() > 0 if most != NONE else not actual.any())
        and (actual[last] > 0 if last != NONE else places > 2 or events == 0)
        and not q.outcomes[:, events:].any()
        and (all_wrong >= min(events, 1)).all()  # the first event
        and (recent + min(older, 1) <= all_wrong).all()
        and (all_wrong <= recent + older).all()
    )


def _sums_can_be(q: Quality) -> bool:
    events, errors, scored = (int(q.totals[place]) for place in (EVENTS, ERRORS, SCORED))
    least, worst = -math.log(1.0 - SMALLEST), -math.log(SMALLEST)
    return (
        _faded(q.sums[MASS], events)
        and _between(q.sums[WRONG], 0.0, q.sums[MASS] if errors else 0.0)
        and _between(q.sums[LOSSES], least * scored, worst * scored)
        and _faded(q.sums[SCORED_MASS], scored)
        and _between(q.sums[SCORED_LOSSES], least * q.sums[SCORED_MASS], worst * q.sums[SCORED_MASS])
    )


def _faded(mass: float, events: int) -> bool:
    """Whether it is Σ FADINGⁱ over so many events."""
    expected = (1.0 - FADING**events) / (1.0 - FADING)
    return _between(mass, expected, expected)


def _between(value: float, least: float, most: float) -> bool:
    """Up to rounding; false for NaN."""
    return bool(least * (1.0 - ROUNDING) <= value <= most * (1.0 + ROUNDING))
