"""HDDM-W: as HDDM-A with means that forget. Frías-Blanco et al., Hoeffding's bounds, IEEE TKDE 2015, W-test.

The values are cut where the weighted mean of all plus its McDiarmid bound was lowest (for a fall: minus, highest); the
mean since the cut is compared with the one that was then.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from learners.batch import Array, Flags
from learners.drift.detector import ALARM, WARNING, Watched, finite
from learners.drift.hddm import Hddm
from learners.kernels import kernel


class State(NamedTuple):
    """Each is a weighted mean, the sum of the squared weights, and how many values it is of."""

    whole: Array
    low: Array
    """At the cut that a rise is measured from."""
    low_since: Array
    high: Array
    """At the cut that a fall is measured from."""
    high_since: Array


class HddmW(Hddm):
    """Choose it to compare: its means forget, which on errors is no earlier than HDDM-A, with more false alarms."""

    kind: Literal["hddm-w"] = "hddm-w"
    rule = "the fading mean rose by √(Σv²·ln(1/α)/2) since it was lowest, McDiarmid (Frías-Blanco et al., 2015)"
    lam: float = Field(default=0.05, gt=0.0, le=1.0)
    """λ: what the newest value weighs in a mean."""

    def init(self) -> State:
        state = State(*(np.zeros(3) for _ in range(5)))
        for part in state:
            _clear(part)
        return state

    def watch(self, state: State, values: Array) -> Watched:
        return Watched(*_watch(state, self.alpha_d, self.alpha_w, self.lam, self.two_sided, values))

    def possible(self, state: State) -> bool:
        return finite(state) and all(
            0.0 <= mean <= 1.0 and 0.0 < squares <= 1.0 and n >= 0.0 for mean, squares, n in state
        )

    def score(self, state: State) -> float:
        """The difference of the means over its bound."""
        rises = [_over(state.low, state.low_since, self.alpha_d)]
        if self.two_sided:
            rises.append(-_over(state.high, state.high_since, self.alpha_d))
        return min(max(*rises, 0.0), 1.0)


@kernel
def _clear(part: Array) -> None:
    part[0], part[1], part[2] = 0.0, 1.0, 0.0


@kernel
def _add(part: Array, value: float, lam: float) -> None:
    part[0] = value if part[2] == 0.0 else lam * value + (1.0 - lam) * part[0]
    part[1] = lam * lam + (1.0 - lam) * (1.0 - lam) * part[1]
    part[2] += 1.0


@kernel
def _bound(squares: float, alpha: float) -> float:
    """McDiarmid: a mean with these squared weights is farther from what it estimates with a chance of at most α."""
    return math.sqrt(squares * math.log(1.0 / alpha) / 2.0)


@kernel
def _over(before: Array, since: Array, alpha: float) -> float:
    """The rise since the cut in units of its bound: an alarm above 1, for a fall below −1."""
    if since[2] == 0.0:
        return 0.0
    rise: float = since[0] - before[0]
    return rise / _bound(before[1] + since[1], alpha)


@kernel
def _watch(
    state: State, alpha_d: float, alpha_w: float, lam: float, two_sided: bool, values: Array
) -> tuple[Flags, Array]:
    whole, low, low_since, high, high_since = state
    said, rise = np.zeros(values.size, np.uint8), np.zeros(values.size)
    for t in range(values.size):
        _add(whole, values[t], lam)
        eps = _bound(whole[1], alpha_d)
        if low[2] == 0.0 or whole[0] + eps < low[0] + _bound(low[1], alpha_d):
            low[:] = whole
            _clear(low_since)
        else:
            _add(low_since, values[t], lam)
        if high[2] == 0.0 or whole[0] - eps > high[0] - _bound(high[1], alpha_d):
            high[:] = whole
            _clear(high_since)
        else:
            _add(high_since, values[t], lam)
        if _over(low, low_since, alpha_d) > 1.0:
            said[t], rise[t] = ALARM, low_since[0] - low[0]
        elif two_sided and _over(high, high_since, alpha_d) < -1.0:
            said[t], rise[t] = ALARM, high_since[0] - high[0]
        elif _over(low, low_since, alpha_w) > 1.0 or (two_sided and _over(high, high_since, alpha_w) < -1.0):
            said[t] = WARNING
        if said[t] == ALARM:
            for part in (whole, low, low_since, high, high_since):
                _clear(part)
    return said, rise
