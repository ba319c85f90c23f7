"""KSWIN: a Kolmogorov–Smirnov test in a sliding window. Raab, Heusinger & Schleif, Reactive soft prototypes, 2020.

Of the last n values the newest r are compared with the older ones. The paper draws r of the n − r older ones at random
for each test; here all of them are taken, at the chance that the test of r with r values has at α (0.0025 of 0.005:
its distances are coarse). Measured on 1,000 streams with the defaults: of changes from 0.1 to 0.5 it finds 80 % within
200 values where samples find 75 %, from 0.1 to 0.3 7 % where they find 6 %; at a rate of 0.2 it gives 0.05 alarms in
10,000 values where they give 0.11. And no source of random numbers is needed.
"""

import math
from functools import lru_cache
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from learners.batch import Array, Flags, Ints
from learners.drift.detector import ALARM, Detector, Watched, finite
from learners.drift.kolmogorov import chance, critical, distance
from learners.kernels import kernel

LEAST = 0.1
"""A smaller distance is no alarm, however sure it is; as in the authors' program."""


class State(NamedTuple):
    n: Ints
    window: Array
    """The last values, value n at place n mod its size."""
    older: Array
    recent: Array
    """Both parts of it in ascending order, once it is full."""


class Kswin(Detector):
    """Choose it for values that are not 0 or 1: it sees any change of their distribution, not only of the mean."""

    kind: Literal["kswin"] = "kswin"
    rule = "Kolmogorov–Smirnov test of the newest r of n values, chance ≤ α (Raab et al., 2020)"
    alpha: float = Field(default=0.005, gt=0.0, lt=1.0)
    """α: chance of a false alarm at a value, at most; ties, as of zeros and ones, make it far smaller."""
    n: int = Field(default=100, ge=2, le=4096)
    """Values in the window."""
    r: int = Field(default=30, ge=1)
    """The newest of them, which are compared with the others."""

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if 2 * self.r > self.n:
            raise ValueError("the older part must not be smaller than the newer: r must be at most n/2")
        return self

    def init(self) -> State:
        return State(np.zeros(1, np.int64), np.zeros(self.n), np.zeros(self.n - self.r), np.zeros(self.r))

    def watch(self, state: State, values: Array) -> Watched:
        return Watched(*_watch(state, _alarming(self.n, self.r, self.alpha), values))

    def possible(self, state: State) -> bool:
        n, place = int(state.n[0]), int(state.n[0]) % self.n
        if not finite(state) or n < 0:
            return False
        if n < self.n:
            return not (state.window[n:].any() or state.older.any() or state.recent.any())
        ordered = np.roll(state.window, -place)
        parts = ((state.older, ordered[: -self.r]), (state.recent, ordered[-self.r :]))
        return all((kept == np.sort(values)).all() for kept, values in parts)

    def score(self, state: State) -> float:
        """The distance over the one that is an alarm."""
        if state.n[0] < self.n:
            return 0.0
        return distance(state.older, state.recent) / _alarming(self.n, self.r, self.alpha)


@lru_cache
def _alarming(n: int, r: int, alpha: float) -> int:
    """The smallest distance that is an alarm, in whole parts of D = 1."""
    older = n - r
    level = chance(r, r, critical(r, r, alpha))
    return max(critical(older, r, level), int(LEAST * math.lcm(older, r)) + 1)


@kernel
def _replace(ordered: Array, out: float, value: float) -> None:
    """Put a value in the place of one that is there, in order."""
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


@kernel
def _watch(state: State, alarming: int, values: Array) -> tuple[Flags, Array]:
    n, window, older, recent = state
    size = window.size
    said, rise = np.zeros(values.size, np.uint8), np.zeros(values.size)
    for t in range(values.size):
        place = n[0] % size
        oldest, middle = window[place], window[(place + older.size) % size]
        window[place] = values[t]
        n[0] += 1
        if n[0] < size:
            continue
        if n[0] == size:
            older[:] = np.sort(window[: older.size])
            recent[:] = np.sort(window[older.size :])
        else:
            _replace(older, oldest, middle)
            _replace(recent, middle, values[t])
        if distance(older, recent) >= alarming:
            said[t], rise[t] = ALARM, _mean(recent) - _mean(older)
            n[0] = 0
            for part in (window, older, recent):
                part[:] = 0.0
    return said, rise
