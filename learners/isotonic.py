"""Isotonic regression over cells: an online summary of pairs (score, hit), and the curve that is drawn through it."""

import numpy as np

from learners.batch import Array
from learners.kernels import kernel

CELLS = 32
"""How finely scores are told apart."""

PRIOR = 0.5
"""Events of the overall rate that are added to each cell, so that no probability is 0 or 1."""


@kernel
def _place(scores: Array, used: int, s: float) -> int:
    """The first that is not below s."""
    low, high = 0, used
    while low < high:
        middle = (low + high) // 2
        if scores[middle] < s:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def read(points: int, at: Array, rate: Array, s: float) -> float:
    """The curve at s: straight between two points, level beyond the outermost."""
    if np.isnan(s):
        return s
    if points == 0:
        return 0.5
    k = _place(at, points, s)
    low: float = rate[max(0, k - 1)]
    if k in (0, points):
        return low
    high: float = rate[k]
    rise: float = (high - low) * ((s - at[k - 1]) / (at[k] - at[k - 1]))
    return min(low + rise, high)  # rounding may not lift it above what follows


@kernel
def add(score: Array, mass: Array, hits: Array, used: int, s: float, m: float, h: float) -> int:
    """Bring in a cell; if that is one too many, make one of the two neighbours that are lightest together."""
    place = _place(score, used, s)
    if place < used and score[place] == s:
        mass[place] += m
        hits[place] += h
        return used
    free = used
    if used == CELLS:
        near = place if place == 0 or (place < used and mass[place] < mass[place - 1]) else place - 1
        pair, lightest = -1, mass[near] + m
        for k in range(CELLS - 1):
            if mass[k] + mass[k + 1] < lightest and k != place - 1:  # those two are no longer neighbours
                pair, lightest = k, mass[k] + mass[k + 1]
        if pair < 0:
            _join(score, mass, hits, near, s, m, h)
            return used
        free = pair + 1
        _join(score, mass, hits, pair, score[free], mass[free], hits[free])
        used -= 1
    if free < place:
        place -= 1
    for k in range(free, place):
        score[k], mass[k], hits[k] = score[k + 1], mass[k + 1], hits[k + 1]
    for k in range(free, place, -1):
        score[k], mass[k], hits[k] = score[k - 1], mass[k - 1], hits[k - 1]
    score[place], mass[place], hits[place] = s, m, h
    return used + 1


@kernel
def _join(score: Array, mass: Array, hits: Array, k: int, s: float, m: float, h: float) -> None:
    """Make cell k one with another; the mean of their scores is between them, whatever is rounded."""
    share = m / (mass[k] + m) if m > 0.0 else 0.0  # what nothing was added to for millions of events has faded to 0
    mean = score[k] + (s - score[k]) * share
    score[k] = max(mean, s) if s < score[k] else min(mean, s)
    mass[k] += m
    hits[k] += h


@kernel
def draw(rate: Array, used: int, mass: Array, hits: Array, unit: float, total: Array) -> None:
    """Rates of the cells that nowhere fall: neighbours whose would are pooled (Ayer et al., 1955)."""
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
        rate[first : last[block] + 1] = (
            h[block] / m[block]
        )  # rises: a rounded product is below only if the exact one is
        first = last[block] + 1
