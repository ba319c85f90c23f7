"""ADWIN: a window as long as its mean stays. Bifet & Gavaldà, Learning from time-changing data, SDM 2007 (ADWIN2).

The window is an exponential histogram: row i has at most M buckets, each the sum of 2^i values; when there is one more
the two oldest become one of row i + 1. Every so many values each cut between two neighbouring buckets is tested. The
paper drops the older part at a cut; here, as by the contract, the window begins anew.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from learners.batch import Array, Flags, Ints
from learners.drift.detector import ALARM, MOST, Detector, Watched, finite
from learners.kernels import kernel

ROWS = 40
"""Of buckets: room for 2^40 values and more; a window that outgrows it begins anew."""


class State(NamedTuple):
    n: Ints
    """Values in the window."""
    total: Array
    """Their sum."""
    spread: Array
    """The sum of their squared differences from the mean."""
    used: Ints
    """Buckets of each row, the newest row first."""
    sums: Array
    """Of each bucket, by row, the oldest first."""


class Adwin(Detector):
    """Choose it first, as the default does: abrupt and gradual changes, up and down, and hardly ever a false alarm."""

    kind: Literal["adwin"] = "adwin"
    rule = "means of two parts of an adaptive window differ by more than ε_cut (Bifet & Gavaldà, 2007)"
    delta: float = Field(default=0.002, gt=0.0, lt=1.0)
    """δ: chance of a false alarm at a test."""
    clock: int = Field(default=32, ge=1, le=2**31)
    """Values between two tests."""
    M: int = Field(default=5, ge=1, le=64)
    """Buckets of a size: more cuts are tested, and finer."""
    min_window: int = Field(default=5, ge=1, le=2**31)
    """Values that each part of the window must have."""
    grace: int = Field(default=10, ge=1, le=2**31)
    """Values that are only taken in."""

    def init(self) -> State:
        n, used = np.zeros(1, np.int64), np.zeros(ROWS, np.int64)
        return State(n, np.zeros(1), np.zeros(1), used, np.zeros((ROWS, self.M + 1)))

    def watch(self, state: State, values: Array) -> Watched:
        return Watched(*_watch(state, self.delta, self.clock, self.min_window, self.grace, values))

    def possible(self, state: State) -> bool:
        there = np.arange(self.M + 1) < state.used[:, None]
        return bool(
            ((state.used >= 0) & (state.used <= self.M)).all()
            and state.n[0] == sum(int(used) << row for row, used in enumerate(state.used))
            and finite(state)
            and 0.0 <= state.total[0] <= state.n[0] <= MOST
            and ((state.sums >= 0.0) & (state.sums <= 2.0 ** np.arange(ROWS)[:, None])).all()
            and not state.sums[~there].any()
            and state.spread[0] >= 0.0
        )

    def score(self, state: State) -> float:
        """The difference of the means over ε_cut, where that is largest."""
        if state.n[0] <= self.grace:
            return 0.0
        return min(_largest(state, self.delta, self.min_window)[0], 1.0)


@kernel
def _begin(state: State) -> None:
    state.n[0], state.total[0], state.spread[0] = 0, 0.0, 0.0
    state.used[:] = 0
    state.sums[:] = 0.0


@kernel
def _take(state: State, value: float) -> None:
    """A bucket of one value, and those that are too many made one."""
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
    """Over all cuts the largest |μ₁ − μ₀|/ε_cut, and μ₁ − μ₀ there; 0 is the older part, 1 the newer."""
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
            m = 1.0 / (1.0 / (n0 - min_window + 1) + 1.0 / (n1 - min_window + 1))  # as the authors' program counts
            cut = math.sqrt(2.0 / m * variance * log) + 2.0 / (3.0 * m) * log  # ε_cut, eq. 3.1
            d = (total[0] - total0) / n1 - total0 / n0
            if abs(d) > largest * cut:
                largest, rise = abs(d) / cut, d
    return largest, rise


@kernel
def _watch(state: State, delta: float, clock: int, min_window: int, grace: int, values: Array) -> tuple[Flags, Array]:
    said, rise = np.zeros(values.size, np.uint8), np.zeros(values.size)
    for t in range(values.size):
        _take(state, values[t])
        if state.n[0] > grace and state.n[0] % clock == 0:
            largest, d = _largest(state, delta, min_window)
            if largest > 1.0:
                said[t], rise[t] = ALARM, d
                _begin(state)
    return said, rise
