"""KSWIN: a Kolmogorov–Smirnov test in a sliding window. Raab, Heusinger & Schleif, Reactive soft
prototypes, 2020.

The newest r of the last n values are compared with the older ones. For each test the paper draws r
of the n − r older values at random. Here all of them are used, at the level that the test of r with
r values has at α (0.0025 for 0.005, because its distances are coarse). Measured on 1,000 streams
with the defaults: of changes from 0.1 to 0.5 it finds 80 % within 200 values (random samples find
75 %), of changes from 0.1 to 0.3 it finds 7 % (they find 6 %). At a steady rate of 0.2 it gives
0.05 alarms in 10,000 values (they give 0.11). It needs no random numbers.

The two-sample Kolmogorov–Smirnov test is exact (Hodges, The significance probability of the Smirnov
test, 1958). With n and m values and L = lcm(n, m), the distance D of the empirical distributions is
h/L for an integer h, so only integers are compared.
"""

import math
from functools import lru_cache
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from learners.batch import Array, Flags, Ints
from learners.drift.detector import ALARM, Detector, Watched, is_finite
from learners.jit import kernel

SMALLEST_DISTANCE = 0.1
"""Distance. A smaller one is no alarm, however significant; as in the authors' program."""


class State(NamedTuple):
    n: Ints
    window: Array
    """The last values as a ring: value n is at index n mod its size."""
    older: Array
    recent: Array
    """Both parts of the window in ascending order, once it is full."""


class Kswin(Detector):
    """Choose it for values that are not 0 or 1: it sees any change of their distribution, not
    only of the mean.
    """

    kind: Literal["kswin"] = "kswin"
    rule = "Kolmogorov–Smirnov test of the newest r of n values, chance ≤ α (Raab et al., 2020)"
    alpha: float = Field(default=0.005, gt=0.0, lt=1.0)
    """α: maximum probability of a false alarm at a value; equal values, such as zeros and ones,
    make it far smaller."""
    n: int = Field(default=100, ge=2, le=4096)
    """Values in the window."""
    r: int = Field(default=30, ge=1)
    """The newest values, which are compared with the others."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if 2 * self.r > self.n:
            raise ValueError(
                "the older part must not be smaller than the newer: r must be at most n/2"
            )
        return self

    def init(self) -> State:
        return State(
            np.zeros(1, np.int64), np.zeros(self.n), np.zeros(self.n - self.r), np.zeros(self.r)
        )

    def watch(self, state: State, values: Array) -> Watched:
        return Watched(*_watch(state, _alarm_distance(self.n, self.r, self.alpha), values))

    def is_valid(self, state: State) -> bool:
        n, position = int(state.n[0]), int(state.n[0]) % self.n
        if not is_finite(state) or n < 0:
            return False
        if n < self.n:
            return not (state.window[n:].any() or state.older.any() or state.recent.any())
        ordered = np.roll(state.window, -position)
        parts = ((state.older, ordered[: -self.r]), (state.recent, ordered[-self.r :]))
        return all((ordered_part == np.sort(values)).all() for ordered_part, values in parts)

    def score(self, state: State) -> float:
        """The distance divided by the distance of an alarm."""
        if state.n[0] < self.n:
            return 0.0
        return distance(state.older, state.recent) / _alarm_distance(self.n, self.r, self.alpha)


@lru_cache(maxsize=64)
def critical_distance(n: int, m: int, alpha: float) -> int:
    """The smallest h whose probability is at most α. L + 1 if there is none."""
    low, high = 1, math.lcm(n, m) + 1
    while low < high:
        middle = (low + high) // 2
        if p_value(n, m, middle) <= alpha:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def p_value(n: int, m: int, h: int) -> float:
    """P(L·D ≥ h) for two samples of one continuous distribution.

    Their merged order is a walk from (0, 0) to (n, m), and all walks are equally likely. The mass
    of each walk is added where it first reaches h, so that a small probability is as exact as a
    large one.
    """
    if h <= 0:
        return 1.0
    g = math.gcd(n, m)
    inside, reached = np.zeros(m + 1), 0.0
    for i in range(n + 1):
        for j in range(m + 1):
            left = float(n + m + 1 - i - j)  # values that remain before this step
            mass = 1.0 if i + j == 0 else 0.0
            if i > 0:
                mass += inside[j] * (n - i + 1) / left
            if j > 0:
                mass += inside[j - 1] * (m - j + 1) / left
            if abs(i * (m // g) - j * (n // g)) >= h:
                reached += mass
                mass = 0.0
            inside[j] = mass
    return reached


@kernel
def distance(one: Array, other: Array) -> int:
    """The distance h = L·D of two samples, each in ascending order."""
    n, m = one.size, other.size
    g = math.gcd(n, m)
    i, j, h = 0, 0, 0
    while i < n and j < m:
        x = min(one[i], other[j])
        while i < n and one[i] <= x:
            i += 1
        while j < m and other[j] <= x:
            j += 1
        h = max(h, abs(i * (m // g) - j * (n // g)))
    return h


@lru_cache
def _alarm_distance(n: int, r: int, alpha: float) -> int:
    """The smallest distance that is an alarm, as an integer: D = 1 is L."""
    older = n - r
    level = p_value(r, r, critical_distance(r, r, alpha))
    return max(critical_distance(older, r, level), int(SMALLEST_DISTANCE * math.lcm(older, r)) + 1)


@kernel
def _watch(state: State, alarm_distance: int, values: Array) -> tuple[Flags, Array]:
    n, window, older, recent = state
    size = window.size
    said, rise = np.zeros(values.size, np.uint8), np.zeros(values.size)
    for t in range(values.size):
        position = n[0] % size
        oldest, middle = window[position], window[(position + older.size) % size]
        window[position] = values[t]
        n[0] += 1
        if n[0] < size:
            continue
        if n[0] == size:
            older[:] = np.sort(window[: older.size])
            recent[:] = np.sort(window[older.size :])
        else:
            _replace(older, oldest, middle)
            _replace(recent, middle, values[t])
        if distance(older, recent) >= alarm_distance:
            said[t], rise[t] = ALARM, _mean(recent) - _mean(older)
            n[0] = 0
            for part in (window, older, recent):
                part[:] = 0.0
    return said, rise


@kernel
def _replace(ordered: Array, out: float, value: float) -> None:
    """Replace one value of a sorted array."""
    k = min(int(np.searchsorted(ordered, out)), ordered.size - 1)
    while k + 1 < ordered.size and ordered[k + 1] < value:
        ordered[k] = ordered[k + 1]
        k += 1
    while k > 0 and ordered[k - 1] > value:
        ordered[k] = ordered[k - 1]
        k -= 1
    ordered[k] = value


@kernel
def _mean(values: Array) -> float:
    total = 0.0
    for k in range(values.size):
        total += values[k]
    return total / values.size
