"""From scores to probabilities: isotonic regression over fading cells of equal mass (Zadrozny & Elkan, KDD 2002).

A cell keeps the mean score, the mass and the hits of neighbouring events. An event is a cell of its own until the
lightest pair of neighbours is made one (Ben-Haim & Tom-Tov, JMLR 2010, join the nearest): so only the order of scores
matters, not their scale. Every few events a curve is drawn through the cells; it alone is read. The learners' first
four laws hold: `calibrate` returns what `probabilities` said just before, cuts and restores change nothing, and
`probabilities` writes nothing.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.batch import Array, Ints
from learners.isotonic import CELLS, add, draw, read
from learners.kernels import kernel
from learners.outputs import predicted
from learners.state import restore

FADING = 1.0 / 2000
"""What a cell loses of its mass and hits with each event: the last few thousand decide."""

EARLY, EVERY = 512, 16
"""The curve is drawn after each of the first events, then after so many: drawing costs more than all the rest."""

BINS = 15
"""Of equal width, over which probabilities are compared with what came."""

LARGEST = 1e300
"""Scores beyond it are taken as it: the difference of any two stays finite."""

Marks = NDArray[np.bool_]


class Calibration(NamedTuple):
    """Cells and points of the curve, both in ascending order of score, and what became of the probabilities given."""

    events: Ints
    cells: Ints
    """How many are in use, the first ones of the arrays."""
    unit: Array
    """Mass of the next event: it grows from 1 to 2 instead of all others fading, then all are halved, exactly."""
    total: Array
    """Mass and hits of all events."""
    score: Array
    mass: Array
    hits: Array
    points: Ints
    """How many the curve has."""
    at: Array
    """Their scores."""
    rate: Array
    """Their probabilities, which nowhere fall."""
    given: Ints
    """Events whose probability was in each bin."""
    expected: Array
    """The sum of those probabilities."""
    came: Ints
    """How many of those events were hits."""


def fresh_calibration() -> Calibration:
    events, cells, points = (np.zeros(1, np.int64) for _ in range(3))
    score, mass, hits, at, rate = (np.zeros(CELLS) for _ in range(5))
    given, came = (np.zeros(BINS, np.int64) for _ in range(2))
    return Calibration(
        events, cells, np.ones(1), np.zeros(2), score, mass, hits, points, at, rate, given, np.zeros(BINS), came
    )


def probabilities(calibration: Calibration, scores: Array) -> Array:
    """That each event is positive or, of several classes, that the highest one is right; NaN where no class is seen."""
    return _probabilities(calibration.points, calibration.at, calibration.rate, _sure(scores))


def calibrate(calibration: Calibration, y: Array, scores: Array, weights: Array) -> Array:
    """Row by row: the probability, then learn from what came; an event of weight 0 changes nothing."""
    hits = y > 0.0 if scores.ndim == 1 else predicted(scores) == y
    return _calibrate(calibration, hits, _sure(scores), weights != 0.0)


def calibration_error(calibration: Calibration) -> float:
    """Expected calibration error: how far probabilities were from what came, in bins by their share of the events."""
    return float(np.abs(calibration.expected - calibration.came).sum()) / max(1, int(calibration.given.sum()))


def restored_calibration(arrays: dict[str, NDArray[Any]]) -> Calibration:
    """The inverse of `flatten`; what no events could have led to is refused."""
    c: Calibration = restore(fresh_calibration(), arrays)
    floats = np.concatenate([c.unit, c.total, c.score, c.mass, c.hits, c.at, c.rate, c.expected])
    parts = ((int(c.cells[0]), c.score, (c.mass, c.hits)), (int(c.points[0]), c.at, (c.rate,)))
    if not (
        (np.abs(floats) <= LARGEST).all()
        and all(_in_order(used, scores, others) for used, scores, others in parts)
        and 1.0 <= c.unit[0] < 2.0
        and 0.0 <= c.total[1] <= c.total[0] <= 3.0 / FADING
        and ((c.hits >= 0.0) & (c.hits <= c.mass) & (c.mass <= 3.0 / FADING)).all()
        and ((c.rate >= 0.0) & (c.rate <= 1.0)).all()
        and (np.diff(c.rate[: int(c.points[0])]) >= 0.0).all()
        and ((c.came >= 0) & (c.came <= c.given)).all()
        and ((c.expected >= 0.0) & (c.expected <= c.given)).all()
        and int(c.given.sum()) == int(c.events[0])
    ):
        raise ValueError("it has a calibration that cannot be")
    return c


def _in_order(used: int, scores: Array, others: tuple[Array, ...]) -> bool:
    """Scores in use ascend, and the places that are not in use are empty."""
    if not 0 <= used <= CELLS or not (np.diff(scores[:used]) > 0.0).all():
        return False
    return not any(array[used:].any() for array in (scores, *others))


def _sure(scores: Array) -> Array:
    """The one number that goes with the probability."""
    return scores if scores.ndim == 1 else _lead(np.ascontiguousarray(scores))


@kernel
def _lead(scores: Array) -> Array:
    """Best score of each row minus the second, which is 0 where only one class is seen; NaN where none is."""
    lead = np.empty(scores.shape[0])
    for t in range(lead.size):
        best, second = -np.inf, -np.inf
        for c in range(scores.shape[1]):
            if scores[t, c] > best:
                best, second = scores[t, c], best
            elif scores[t, c] > second:
                second = scores[t, c]
        lead[t] = np.nan if best == -np.inf else best if second == -np.inf else best - second
    return lead


@kernel
def _probabilities(points: Ints, at: Array, rate: Array, scores: Array) -> Array:
    found = np.empty(scores.size)
    for t in range(scores.size):
        found[t] = read(points[0], at, rate, _bounded(scores[t]))
    return found


@kernel
def _calibrate(calibration: Calibration, came: Marks, scores: Array, counted: Marks) -> Array:
    events, cells, unit, total, score, mass, hits, points, at, rate, given, expected, positive = calibration
    found = np.empty(scores.size)
    for t in range(scores.size):
        s, hit = _bounded(scores[t]), 1.0 if came[t] else 0.0
        p = read(points[0], at, rate, s)
        found[t] = p
        if not counted[t] or np.isnan(s):
            continue
        b = min(int(p * BINS), BINS - 1)
        given[b] += 1
        expected[b] += p
        positive[b] += came[t]
        events[0] += 1
        total[0] += unit[0]
        total[1] += unit[0] * hit
        cells[0] = add(score, mass, hits, cells[0], s, unit[0], unit[0] * hit)
        unit[0] *= 1.0 + FADING
        if unit[0] >= 2.0:
            for array in (unit, total, mass, hits):
                for k in range(array.size):
                    array[k] /= 2.0
        if events[0] < EARLY or events[0] % EVERY == 0:
            points[0] = cells[0]
            at[:] = score
            draw(rate, cells[0], mass, hits, unit[0], total)
    return found


@kernel
def _bounded(s: float) -> float:
    return s if np.isnan(s) else min(max(s, -LARGEST), LARGEST)
