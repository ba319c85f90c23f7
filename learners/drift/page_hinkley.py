"""Page–Hinkley: the summed deviation from the mean against its lowest value. Page, Continuous
inspection schemes, 1954.

m sums x − x̄ − δ and fades by α. It falls while nothing changes and rises after a rise of the mean.
The mirror image finds a fall. The threshold λ is a sum of values above the mean, so a small change
takes long to reach it.
"""

from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from learners.batch import Array, Flags, Ints
from learners.drift.detector import ALARM, Detector, Watched, is_finite
from learners.jit import kernel

Mode = Literal["up", "down", "both"]


class State(NamedTuple):
    n: Ints
    total: Array
    up: Array
    """m, its minimum, and the number and sum of the values up to the minimum."""
    down: Array
    """The same for the mirrored values."""


class PageHinkley(Detector):
    """Choose it for rare and certain alarms; λ sets how much worse it must get for one."""

    kind: Literal["page-hinkley"] = "page-hinkley"
    rule = "m − min m > λ of m ← αm + x − x̄ − δ, and mirrored (Page, 1954)"
    delta: float = Field(default=0.005, ge=0.0, le=1e6)
    """δ: a change of the mean to ignore."""
    lam: float = Field(default=50.0, gt=0.0, le=1e6)
    """λ: threshold of the sum for an alarm."""
    alpha: float = Field(default=1 - 0.0001, gt=0.0, le=1.0)
    """α: share of m that is kept at each value."""
    mode: Mode = "both"
    """Which changes to detect: a rise, a fall or both."""
    warmup: int = Field(default=30, ge=1, le=2**31)
    """Number of the first value that may be an alarm."""

    def init(self) -> State:
        return State(np.zeros(1, np.int64), np.zeros(1), np.zeros(4), np.zeros(4))

    def watch(self, state: State, values: Array) -> Watched:
        sides = (self.mode != "down", self.mode != "up")
        return Watched(*_watch(state, self.delta, self.lam, self.alpha, sides, self.warmup, values))

    def is_valid(self, state: State) -> bool:
        n, sides, most = state.n[0], (state.up, state.down), (1.0 + self.delta) * (state.n[0] + 1.0)
        counted = all(min(n, 1) <= side[2] <= n and 0.0 <= side[3] <= side[2] for side in sides)
        return (
            is_finite(state)
            and bool(0.0 <= state.total[0] <= n and counted)
            and all(-most <= side[1] <= side[0] <= most for side in sides)
        )

    def score(self, state: State) -> float:
        """The larger of both sums divided by λ."""
        up, down = float(state.up[0] - state.up[1]), float(state.down[0] - state.down[1])
        return min({"up": up, "down": down, "both": max(up, down)}[self.mode] / self.lam, 1.0)


@kernel
def _watch(
    state: State,
    delta: float,
    lam: float,
    alpha: float,
    sides: tuple[bool, bool],
    warmup: int,
    values: Array,
) -> tuple[Flags, Array]:
    n, total, up, down = state
    said, rise = np.zeros(values.size, np.uint8), np.zeros(values.size)
    for t in range(values.size):
        n[0] += 1
        total[0] += values[t]
        deviation = values[t] - total[0] / n[0]
        rose = _sum(up, deviation - delta, alpha, n[0], total[0])
        fell = _sum(down, -deviation - delta, alpha, n[0], total[0])
        if n[0] < warmup:
            continue
        if sides[0] and rose > lam:
            said[t], rise[t] = ALARM, _rise_since(up, n[0], total[0])
        elif sides[1] and fell > lam:
            said[t], rise[t] = ALARM, _rise_since(down, n[0], total[0])
        if said[t] == ALARM:
            n[0] = 0
            for part in (total, up, down):
                part[:] = 0.0
    return said, rise


@kernel
def _sum(side: Array, step: float, alpha: float, n: int, total: float) -> float:
    """Add one value to m. Return m − min m."""
    side[0] = alpha * side[0] + step
    if n == 1 or side[0] < side[1]:
        side[1], side[2], side[3] = side[0], n, total
    above: float = side[0] - side[1]
    return above


@kernel
def _rise_since(side: Array, n: int, total: float) -> float:
    """Mean since the minimum minus the mean up to it."""
    newer: float = (total - side[3]) / (n - side[2])
    older: float = side[3] / side[2]
    return newer - older
