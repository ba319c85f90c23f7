"""ADWIN: a window that shrinks when its mean changes. Bifet & Gavaldà, Learning from time-changing
data, SDM 2007 (ADWIN2).

The window is an exponential histogram. Row i has at most M buckets, each the sum of 2^i values.
When there is one more, the two oldest are merged into row i + 1. Every `clock` values, each cut
between two neighbouring buckets is tested. The paper drops the part before a cut. Here the window
restarts, as the contract of detectors requires.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from learners.batch import Array, Flags, Ints
from learners.drift.detector import ALARM, MOST, Detector, Watched, is_finite
from learners.jit import kernel

ROWS = 40
"""Rows of buckets: enough for 2^40 values and more. A window that outgrows them restarts."""


class State(NamedTuple):
    n: Ints
    """Values in the window."""
    total: Array
    """Sum of the values."""
    spread: Array
    """Sum of their squared differences from the mean."""
    used: Ints
    """Number of buckets in each row, the newest row first."""
    sums: Array
    """Sum of each bucket, by row, the oldest first."""


class Adwin(Detector):
    """Choose it first; it is the default. It finds abrupt and gradual changes, up and down, with
    hardly any false alarms.
    """

    kind: Literal["adwin"] = "adwin"
    rule = (
        "means of two parts of an adaptive window differ by more than ε_cut (Bifet & Gavaldà, 2007)"
    )
    delta: float = Field(default=0.002, gt=0.0, lt=1.0)
    """δ: probability of a false alarm at a test."""
    clock: int = Field(default=32, ge=1, le=2**31)
    """Values between two tests."""
    M: int = Field(default=5, ge=1, le=64)
    """Buckets per size: more buckets give more and finer cuts to test."""
    min_window: int = Field(default=5, ge=1, le=2**31)
    """Minimum number of values in each part of the window."""
    grace: int = Field(default=10, ge=1, le=2**31)
    """Values before the first test."""

    def init(self) -> State:
        n, used = np.zeros(1, np.int64), np.zeros(ROWS, np.int64)
        return State(n, np.zeros(1), np.zeros(1), used, np.zeros((ROWS, self.M + 1)))

    def watch(self, state: State, values: Array) -> Watched:
        return Watched(*_watch(state, self.delta, self.clock, self.min_window, self.grace, values))

    def is_valid(self, state: State) -> bool:
        there = np.arange(self.M + 1) < state.used[:, None]
        return bool(
            ((state.used >= 0) & (state.used <= self.M)).all()
            and state.n[0] == sum(int(used) << row for row, used in enumerate(state.used))
            and is_finite(state)
            and 0.0 <= state.total[0] <= state.n[0] <= MOST
            and ((state.sums >= 0.0) & (state.sums <= 2.0 ** np.arange(ROWS)[:, None])).all()
            and not state.sums[~there].any()
            and state.spread[0] >= 0.0
        )

    def score(self, state: State) -> float:
        """The largest difference of the means divided by ε_cut."""
        if state.n[0] <= self.grace:
            return 0.0
        return min(_largest(state, self.delta, self.min_window)[0], 1.0)


@kernel
def _watch(
    state: State, delta: float, clock: int, min_window: int, grace: int, values: Array
) -> tuple[Flags, Array]:
    said, rise = np.zeros(values.size, np.uint8), np.zeros(values.size)
    for t in range(values.size):
        _take(state, values[t])
        if state.n[0] > grace and state.n[0] % clock == 0:
            largest, d = _largest(state, delta, min_window)
            if largest > 1.0:
                said[t], rise[t] = ALARM, d
                _begin(state)
    return said, rise


@kernel
def _take(state: State, value: float) -> None:
    """Add a bucket of one value, and merge buckets where there are too many."""
    n, total, spread, used, sums = state
    if n[0] > 0:
        d = value - total[0] / n[0]
        spread[0] += d * d * n[0] / (n[0] + 1)
    n[0] += 1
    total[0] += value
    sums[0, used[0]] = value
    used[0] += 1
    most = sums.shape[1]
    for i in range(used.size):
        if used[i] < most:
            return
        if i + 1 == used.size:
            _begin(state)
            return
        sums[i + 1, used[i + 1]] = sums[i, 0] + sums[i, 1]
        used[i + 1] += 1
        for k in range(2, most):
            sums[i, k - 2] = sums[i, k]
        sums[i, most - 2], sums[i, most - 1] = 0.0, 0.0
        used[i] -= 2


@kernel
def _largest(state: State, delta: float, min_window: int) -> tuple[float, float]:
    """Return the largest |μ₁ − μ₀|/ε_cut of all cuts, and μ₁ − μ₀ at that cut.

    Part 0 is the older one, part 1 the newer one.
    """
    n, total, spread, used, sums = state
    log = math.log(2.0 * math.log(n[0]) / delta)  # ln(2/δ′), δ′ = δ/ln n
    variance = spread[0] / n[0]
    largest, rise = 0.0, 0.0
    n0, total0 = 0, 0.0
    for i in range(used.size - 1, -1, -1):
        for k in range(used[i]):
            n0 += 1 << i
            total0 += sums[i, k]
            n1 = n[0] - n0
            if n0 < min_window or n1 < min_window:
                continue
            # as the authors' program does
            m = 1.0 / (1.0 / (n0 - min_window + 1) + 1.0 / (n1 - min_window + 1))
            cut = math.sqrt(2.0 / m * variance * log) + 2.0 / (3.0 * m) * log  # ε_cut, eq. 3.1
            d = (total[0] - total0) / n1 - total0 / n0
            if abs(d) > largest * cut:
                largest, rise = abs(d) / cut, d
    return largest, rise


@kernel
def _begin(state: State) -> None:
    state.n[0], state.total[0], state.spread[0] = 0, 0.0, 0.0
    state.used[:] = 0
    state.sums[:] = 0.0
