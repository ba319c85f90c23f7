"""Two samples in the same bins: edges of equal mass, an exact test of whether they differ, and by
how much.

Given how many of all events lie below an edge, the number of recent events below it is
hypergeometric as long as nothing changes, whatever the distribution (Fisher's exact test). So the
probability of a false alarm is bounded, not estimated, even far out in the tail, and a rare feature
is tested as sharply as a dense one. The edges are chosen from events that are in neither sample.
The level is divided (Bonferroni) by the number of edges that have events on both sides, and by 2
for the two directions.
"""

import math

import numpy as np

from learners.batch import Array, Ints
from learners.jit import kernel

SAMPLE = 128
"""Events from which the edges are chosen."""

BINS = 16
EDGES = BINS - 1

NO_EDGE = math.inf
"""Takes the place of edges that are not needed: no value is above it."""

CERTAIN = 4.0
"""Squared deviations. A gap up to this needs no test: it is significant at no level in use."""


@kernel
def set_edges(edges: Array, sample: Array) -> None:
    """Set edges at quantiles.

    A value that is several quantiles also gets an edge just below it, and so a separate bin.
    """
    values = np.sort(sample)
    step = SAMPLE // BINS
    edges[:] = NO_EDGE
    used = 0
    for first in range(step - 1, SAMPLE - step, step):
        q = values[first]
        if first >= step and values[first - step] == q:
            continue
        if first + step < SAMPLE - step and values[first + step] == q:
            below = np.nextafter(q, -np.inf)
            if used == 0 or edges[used - 1] < below:
                edges[used] = below
                used += 1
        edges[used] = q
        used += 1


@kernel
def bin_of(edges: Array, x: float) -> int:
    """Count the edges below x.

    Comparing with all of them is faster than bisection, whose branches cannot be predicted.
    """
    below = 0
    for k in range(EDGES):
        below += 1 if edges[k] < x else 0
    return below


@kernel
def differ(base: Ints, recent: Ints, m: int, n: int, log_level: float) -> bool:
    """Whether m events and n later ones have different distributions.

    The probability of a wrong True is below the level.
    """
    # cuts between non-empty bins: which bins those are does not depend on which events are recent
    cuts = -1
    for k in range(BINS):
        cuts += 1 if base[k] + recent[k] > 0 else 0
    N = m + n
    a, b = 0, 0
    for k in range(EDGES):
        if base[k] + recent[k] == 0:
            continue
        a += base[k]
        b += recent[k]
        K = a + b
        p = K / N
        gap = b - n * p
        if gap * gap <= CERTAIN * n * p * (1.0 - p) * (m / N):
            continue
        # too many recent events are below the cut, or above it
        log_p = log_tail(N, K, n, b) if gap > 0.0 else log_tail(N, N - K, n, n - b)
        if log_p <= log_level - math.log(2.0 * cuts):
            return True
    return False


@kernel
def log_tail(N: int, K: int, n: int, b: int) -> float:
    """The logarithm of P(X ≥ b), where X of n events drawn from N are among K.

    They are drawn without replacement, and b is above the mean.
    """
    total, term = 1.0, 1.0
    for x in range(b, min(n, K)):
        # P(x + 1) / P(x) < 1, falling
        term *= (float(K - x) / float(x + 1)) * (float(n - x) / float(N - K - n + x + 1))
        total += term
        if term < 1e-17 * total:
            break
    return _log_choose(K, b) + _log_choose(N - K, n - b) - _log_choose(N, n) + math.log(total)


@kernel
def _log_choose(n: int, k: int) -> float:
    return _log_factorial(n) - _log_factorial(k) - _log_factorial(n - k)


@kernel
def _log_factorial(n: int) -> float:
    """Stirling's series. The first omitted term is below 1e-11 for n ≥ 16."""
    if n < 16:
        total = 0.0
        for k in range(2, n + 1):
            total += math.log(k)
        return total
    x = float(n)
    series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * x * x)) / (x * x)) / x
    return (x + 0.5) * math.log(x) - x + 0.5 * math.log(2.0 * math.pi) + series


@kernel
def ks_distance(base: Ints, recent: Ints, m: int, n: int) -> float:
    """Kolmogorov–Smirnov: the largest difference of the distribution functions, at the edges."""
    a, b, largest = 0, 0, 0.0
    for k in range(EDGES):
        a += base[k]
        b += recent[k]
        largest = max(largest, abs(a / m - b / n))
    return largest


@kernel
def stability_index(base: Ints, recent: Ints, m: int, n: int) -> float:
    """PSI, Σ (q − p) ln(q/p).

    One event, spread as all events are, is added to both samples, so that no share is 0.
    """
    index = 0.0
    for k in range(BINS):
        if base[k] + recent[k] > 0:
            one = (base[k] + recent[k]) / (m + n)
            p, q = (base[k] + one) / (m + 1), (recent[k] + one) / (n + 1)
            index += (q - p) * math.log(q / p)
    return index
