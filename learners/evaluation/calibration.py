"""Calibration of scores: isotonic regression over fading cells of equal mass (Zadrozny & Elkan, KDD
2002).

A cell holds the mean score, the mass and the hits of neighbouring events. Each new event gets a
cell. When there are too many, the two neighbours with the least mass are merged (Ben-Haim &
Tom-Tov, JMLR 2010, merge the nearest), so only the order of scores matters, not their scale. A
curve is fitted through the cells every few events; probabilities are read from the curve only.

The first four laws of learners hold: `calibrate` returns what `probabilities` would have returned
just before; batches and restores make no difference; `probabilities` writes nothing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.batch import Array, Ints
from learners.evaluation.progress import predict_labels
from learners.jit import kernel
from learners.state import restore

CELLS = 32
"""Number of cells. More cells separate scores more finely."""

PRIOR = 0.5
"""Events of the overall rate added to each cell, so that no probability is 0 or 1."""

FADING = 1.0 / 2000
"""Share of its mass and hits that a cell loses per event. The last few thousand events dominate."""

EARLY, EVERY = 512, 16
"""Events. The curve is fitted after each of the first EARLY events, then after every EVERY events:
fitting costs more than the rest of an update."""

BINS = 15
"""Bins of equal width in which probabilities are compared with outcomes."""

LARGEST = 1e300
"""Scores beyond it are clipped to it, so that the difference of any two stays finite."""

Bools = NDArray[np.bool_]


class Calibration(NamedTuple):
    """Cells and curve in ascending order of score, and the outcomes by probability."""

    events: Ints
    cells: Ints
    """Cells in use: the first entries of the arrays."""
    unit: Array
    """Mass of the next event. Instead of fading all others, it grows from 1 to 2; then all masses
    are halved, which is exact."""
    total: Array
    """Mass and hits of all events."""
    score: Array
    mass: Array
    hits: Array
    points: Ints
    """Points of the curve in use."""
    at: Array
    """Scores of the points."""
    rate: Array
    """Probabilities of the points, non-decreasing."""
    given: Ints
    """Events whose probability was in each bin."""
    expected: Array
    """Sum of those probabilities."""
    came: Ints
    """Hits among those events."""


def fresh_calibration() -> Calibration:
    events, cells, points = (np.zeros(1, np.int64) for _ in range(3))
    score, mass, hits, at, rate = (np.zeros(CELLS) for _ in range(5))
    given, came = (np.zeros(BINS, np.int64) for _ in range(2))
    return Calibration(
        events,
        cells,
        np.ones(1),
        np.zeros(2),
        score,
        mass,
        hits,
        points,
        at,
        rate,
        given,
        np.zeros(BINS),
        came,
    )


def probabilities(calibration: Calibration, scores: Array) -> Array:
    """Probability that each event is positive.

    With several classes: that the class with the highest score is right. NaN where no class has
    been seen.
    """
    return _probabilities(
        calibration.points, calibration.at, calibration.rate, _confidences(scores)
    )


def calibrate(calibration: Calibration, y: Array, scores: Array, weights: Array) -> Array:
    """Row by row: return the probability, then learn from the outcome.

    An event of weight 0 changes nothing.
    """
    hits = y > 0.0 if scores.ndim == 1 else predict_labels(scores) == y
    return _calibrate(calibration, hits, _confidences(scores), weights != 0.0)


def calibration_error(calibration: Calibration) -> float:
    """Expected calibration error: mean distance of probability and outcome per bin, weighted by
    the bin's events.
    """
    return float(np.abs(calibration.expected - calibration.came).sum()) / max(
        1, int(calibration.given.sum())
    )


def restore_calibration(arrays: dict[str, NDArray[Any]]) -> Calibration:
    """Restore a flattened calibration. Raise ValueError if no events could have led to it."""
    c: Calibration = restore(fresh_calibration(), arrays)
    for fault, is_valid in _checks(c):
        if not is_valid():
            raise ValueError(f"corrupt checkpoint: calibration {fault}")
    return c


def _checks(c: Calibration) -> tuple[tuple[str, Callable[[], bool]], ...]:
    """Faults and the checks that find them, in order: later checks rely on earlier ones."""
    floats = np.concatenate([c.unit, c.total, c.score, c.mass, c.hits, c.at, c.rate, c.expected])
    parts = ((int(c.cells[0]), c.score, (c.mass, c.hits)), (int(c.points[0]), c.at, (c.rate,)))
    most = 3.0 / FADING
    return (
        ("numbers are out of range", lambda: bool((np.abs(floats) <= LARGEST).all())),
        ("cells or curve are out of order", lambda: all(_in_order(*part) for part in parts)),
        (
            "total mass is out of range",
            lambda: bool(1.0 <= c.unit[0] < 2.0 and 0.0 <= c.total[1] <= c.total[0] <= most),
        ),
        (
            "counts are inconsistent (hits > mass)",
            lambda: bool(((c.hits >= 0.0) & (c.hits <= c.mass) & (c.mass <= most)).all()),
        ),
        (
            "rates do not rise within 0 to 1",
            lambda: bool(
                ((c.rate >= 0.0) & (c.rate <= 1.0)).all()
                and (np.diff(c.rate[: int(c.points[0])]) >= 0.0).all()
            ),
        ),
        (
            "bins do not add up to the events",
            lambda: bool(
                ((c.came >= 0) & (c.came <= c.given)).all()
                and ((c.expected >= 0.0) & (c.expected <= c.given)).all()
                and int(c.given.sum()) == int(c.events[0])
            ),
        ),
    )


def _in_order(used: int, scores: Array, others: tuple[Array, ...]) -> bool:
    """Whether the scores in use ascend and the unused entries are 0."""
    if not 0 <= used <= CELLS or not (np.diff(scores[:used]) > 0.0).all():
        return False
    return not any(array[used:].any() for array in (scores, *others))


def _confidences(scores: Array) -> Array:
    """The one number per row from which the probability is read."""
    return scores if scores.ndim == 1 else _lead(np.ascontiguousarray(scores))


@kernel
def _lead(scores: Array) -> Array:
    """Best score of each row minus the second best. 0 with one seen class, NaN with none."""
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
    result = np.empty(scores.size)
    for t in range(scores.size):
        result[t] = read_curve(points[0], at, rate, _bound(scores[t]))
    return result


@kernel
def _calibrate(calibration: Calibration, came: Bools, scores: Array, counted: Bools) -> Array:
    events, cells, unit, total, score, mass, hits, points, at, rate, given, expected, positive = (
        calibration
    )
    result = np.empty(scores.size)
    for t in range(scores.size):
        s, hit = _bound(scores[t]), 1.0 if came[t] else 0.0
        p = read_curve(points[0], at, rate, s)
        result[t] = p
        if not counted[t] or np.isnan(s):
            continue
        b = min(int(p * BINS), BINS - 1)
        given[b] += 1
        expected[b] += p
        positive[b] += came[t]
        events[0] += 1
        total[0] += unit[0]
        total[1] += unit[0] * hit
        cells[0] = add_cell(score, mass, hits, cells[0], s, unit[0], unit[0] * hit)
        unit[0] *= 1.0 + FADING
        if unit[0] >= 2.0:
            for array in (unit, total, mass, hits):
                for k in range(array.size):
                    array[k] /= 2.0
        if events[0] < EARLY or events[0] % EVERY == 0:
            points[0] = cells[0]
            at[:] = score
            fit_curve(rate, cells[0], mass, hits, unit[0], total)
    return result


@kernel
def _bound(s: float) -> float:
    return s if np.isnan(s) else min(max(s, -LARGEST), LARGEST)


@kernel
def read_curve(points: int, at: Array, rate: Array, s: float) -> float:
    """The curve at s: linear between two points, constant beyond the outermost."""
    if np.isnan(s):
        return s
    if points == 0:
        return 0.5
    k = _lower_bound(at, points, s)
    low: float = rate[max(0, k - 1)]
    if k in (0, points):
        return low
    high: float = rate[k]
    rise: float = (high - low) * ((s - at[k - 1]) / (at[k] - at[k - 1]))
    return min(low + rise, high)  # rounding must not lift it above the next point


@kernel
def add_cell(
    score: Array, mass: Array, hits: Array, used: int, s: float, m: float, h: float
) -> int:
    """Add a cell. If there is one too many, merge the two lightest neighbours."""
    position = _lower_bound(score, used, s)
    if position < used and score[position] == s:
        mass[position] += m
        hits[position] += h
        return used
    free = used
    if used == CELLS:
        near = (
            position
            if position == 0 or (position < used and mass[position] < mass[position - 1])
            else position - 1
        )
        pair, lightest = -1, mass[near] + m
        for k in range(CELLS - 1):
            # the new cell separates these two
            if mass[k] + mass[k + 1] < lightest and k != position - 1:
                pair, lightest = k, mass[k] + mass[k + 1]
        if pair < 0:
            _join(score, mass, hits, near, s, m, h)
            return used
        free = pair + 1
        _join(score, mass, hits, pair, score[free], mass[free], hits[free])
        used -= 1
    if free < position:
        position -= 1
    for k in range(free, position):
        score[k], mass[k], hits[k] = score[k + 1], mass[k + 1], hits[k + 1]
    for k in range(free, position, -1):
        score[k], mass[k], hits[k] = score[k - 1], mass[k - 1], hits[k - 1]
    score[position], mass[position], hits[position] = s, m, h
    return used + 1


@kernel
def _join(score: Array, mass: Array, hits: Array, k: int, s: float, m: float, h: float) -> None:
    """Merge another cell into cell k. Even with rounding, the mean score lies between the two."""
    # a cell that got none of the last millions of events has faded to 0
    share = m / (mass[k] + m) if m > 0.0 else 0.0
    mean = score[k] + (s - score[k]) * share
    score[k] = max(mean, s) if s < score[k] else min(mean, s)
    mass[k] += m
    hits[k] += h


@kernel
def fit_curve(rate: Array, used: int, mass: Array, hits: Array, unit: float, total: Array) -> None:
    """Fit non-decreasing rates by pooling neighbours whose rates fall (Ayer et al., 1955)."""
    m, h, last = np.empty(CELLS), np.empty(CELLS), np.empty(CELLS, np.int64)
    prior = PRIOR * unit * ((total[1] + 0.5 * unit) / (total[0] + unit))
    blocks = 0
    for k in range(used):
        pooled, pooled_hits = mass[k] + PRIOR * unit, hits[k] + prior
        while blocks > 0 and h[blocks - 1] * pooled >= pooled_hits * m[blocks - 1]:
            blocks -= 1
            pooled += m[blocks]
            pooled_hits += h[blocks]
        m[blocks], h[blocks], last[blocks] = pooled, pooled_hits, k
        blocks += 1
    first = 0
    for block in range(blocks):
        # never falls: a rounded product is smaller only if the exact one is
        rate[first : last[block] + 1] = h[block] / m[block]
        first = last[block] + 1


@kernel
def _lower_bound(scores: Array, used: int, s: float) -> int:
    """Index of the first score that is not below s."""
    low, high = 0, used
    while low < high:
        middle = (low + high) // 2
        if scores[middle] < s:
            low = middle + 1
        else:
            high = middle
    return low
