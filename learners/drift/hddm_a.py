"""HDDM-A: the mean against its lowest bound so far. Frías-Blanco et al., Hoeffding's bounds, IEEE TKDE 2015, A-test.

The values are cut where the mean plus its Hoeffding bound was lowest (for a fall: where it minus the bound was
highest). The mean of all differs from that before the cut by ε or more only with a chance of α.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from learners.batch import Array, Flags
from learners.drift.detector import ALARM, MOST, WARNING, Watched, finite
from learners.drift.hddm import Hddm
from learners.kernels import kernel


class State(NamedTuple):
    """Each is a number of values and their sum."""

    whole: Array
    low: Array
    """Before the cut that a rise is measured from."""
    high: Array
    """Before the cut that a fall is measured from."""


class HddmA(Hddm):
    """Choose it for abrupt changes with few false alarms, with no assumption but that values are from 0 to 1."""

    kind: Literal["hddm-a"] = "hddm-a"
    rule = "the mean rose by √(m/2·ln(2/α)) since it was lowest, Hoeffding (Frías-Blanco et al., 2015)"

    def init(self) -> State:
        return State(np.zeros(2), np.zeros(2), np.zeros(2))

    def watch(self, state: State, values: Array) -> Watched:
        return Watched(*_watch(state, self.alpha_d, self.alpha_w, self.two_sided, values))

    def possible(self, state: State) -> bool:
        seen = state.whole[0]
        return (
            finite(state)
            and seen <= MOST
            and all(0.0 <= total <= n <= seen and n >= min(seen, 1.0) for n, total in state)
        )

    def score(self, state: State) -> float:
        """The difference of the means over its bound."""
        differences = [_change(state.low, state.whole, self.alpha_d)]
        if self.two_sided:
            differences.append(_change(state.high, state.whole, self.alpha_d))
        shares = (sign * d / bound for sign, (d, bound) in zip((1.0, -1.0), differences, strict=False))
        return min(max(*shares, 0.0), 1.0)


@kernel
def _bound(n: float, alpha: float) -> float:
    """Hoeffding: the mean of n values is farther from what it estimates with a chance of at most α."""
    return math.sqrt(math.log(1.0 / alpha) / (2.0 * n))


@kernel
def _change(old: Array, whole: Array, alpha: float) -> tuple[float, float]:
    """Mean of all minus that before the cut, and ε that it reaches with a chance of α."""
    if old[0] == whole[0]:
        return 0.0, 1.0
    m = (whole[0] - old[0]) / old[0] / whole[0]
    return whole[1] / whole[0] - old[1] / old[0], math.sqrt(m / 2.0 * math.log(2.0 / alpha))


@kernel
def _since(old: Array, whole: Array) -> float:
    """Mean after the cut minus that before it."""
    newer: float = (whole[1] - old[1]) / (whole[0] - old[0])
    older: float = old[1] / old[0]
    return newer - older


@kernel
def _watch(state: State, alpha_d: float, alpha_w: float, two_sided: bool, values: Array) -> tuple[Flags, Array]:
    whole, low, high = state
    said, rise = np.zeros(values.size, np.uint8), np.zeros(values.size)
    for t in range(values.size):
        whole[0] += 1.0
        whole[1] += values[t]
        mean, eps = whole[1] / whole[0], _bound(whole[0], alpha_d)
        if low[0] == 0.0 or low[1] / low[0] + _bound(low[0], alpha_d) >= mean + eps:
            low[:] = whole
        if high[0] == 0.0 or high[1] / high[0] - _bound(high[0], alpha_d) <= mean - eps:
            high[:] = whole
        for side in range(2 if two_sided else 1):
            old, sign = (low, 1.0) if side == 0 else (high, -1.0)
            d, drift = _change(old, whole, alpha_d)
            if sign * d >= drift:
                said[t], rise[t] = ALARM, _since(old, whole)
                break
            if sign * d >= _change(old, whole, alpha_w)[1]:
                said[t] = WARNING
        if said[t] == ALARM:
            for part in (whole, low, high):
                part[:] = 0.0
    return said, rise
