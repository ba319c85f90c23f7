"""Two tests by concentration bounds. Frías-Blanco et al., Hoeffding's bounds, IEEE TKDE 2015.

HDDM-A (A-test): the values are cut where the mean plus its Hoeffding bound was lowest (for a fall:
where the mean minus the bound was highest). The mean of all values differs from the mean before the
cut by ε or more only with probability α.

HDDM-W (W-test): the values are cut where the weighted mean of all values plus its McDiarmid bound
was lowest (for a fall: where the mean minus the bound was highest). The mean since the cut is
compared with the mean at the cut.
"""

import math
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from learners.batch import Array, Flags
from learners.drift.detector import ALARM, MOST, WARNING, Detector, Watched, is_finite
from learners.jit import kernel


class MeansState(NamedTuple):
    """Each array is a number of values and their sum."""

    whole: Array
    low: Array
    """Values before the cut from which a rise is measured."""
    high: Array
    """Values before the cut from which a fall is measured."""


class FadingState(NamedTuple):
    """Each array is a weighted mean, the sum of the squared weights, and the number of values."""

    whole: Array
    low: Array
    """The mean at the cut from which a rise is measured."""
    low_since: Array
    high: Array
    """The mean at the cut from which a fall is measured."""
    high_since: Array


class Hddm(Detector):
    """Compares a mean with its lowest bound so far.

    HDDM-A weighs all values equally, HDDM-W lets them fade.
    """

    alpha_d: float = Field(default=0.001, gt=0.0, lt=1.0)
    """α_D: probability of a false alarm at a value."""
    alpha_w: float = Field(default=0.005, gt=0.0, lt=1.0)
    """α_W: probability of a false warning at a value."""
    two_sided: bool = False
    """Detect a fall of the mean too."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.alpha_w < self.alpha_d:
            raise ValueError("a warning comes before an alarm: alpha_w must not be below alpha_d")
        return self


class HddmA(Hddm):
    """Choose it for abrupt changes with few false alarms; it assumes values from 0 to 1."""

    kind: Literal["hddm-a"] = "hddm-a"
    rule = (
        "the mean rose by √(m/2·ln(2/α)) since it was lowest, Hoeffding (Frías-Blanco et al., 2015)"
    )
    paper = "Frías-Blanco et al., Hoeffding's bounds, IEEE TKDE 2015, A-test"

    def init(self) -> MeansState:
        return MeansState(np.zeros(2), np.zeros(2), np.zeros(2))

    def watch(self, state: MeansState, values: Array) -> Watched:
        return Watched(*_watch_means(state, self.alpha_d, self.alpha_w, self.two_sided, values))

    def is_valid(self, state: MeansState) -> bool:
        seen = state.whole[0]
        return (
            is_finite(state)
            and seen <= MOST
            and all(0.0 <= total <= n <= seen and n >= min(seen, 1.0) for n, total in state)
        )

    def score(self, state: MeansState) -> float:
        """The difference of the means divided by its bound."""
        differences = [_change(state.low, state.whole, self.alpha_d)]
        if self.two_sided:
            differences.append(_change(state.high, state.whole, self.alpha_d))
        shares = (
            sign * d / bound for sign, (d, bound) in zip((1.0, -1.0), differences, strict=False)
        )
        return min(max(*shares, 0.0), 1.0)


class HddmW(Hddm):
    """Choose it for comparison: its means fade. On errors it is no earlier than HDDM-A and has more
    false alarms.
    """

    kind: Literal["hddm-w"] = "hddm-w"
    rule = (
        "the fading mean rose by √(Σv²·ln(1/α)/2) since it was lowest, "
        "McDiarmid (Frías-Blanco et al., 2015)"
    )
    paper = "Frías-Blanco et al., Hoeffding's bounds, IEEE TKDE 2015, W-test"
    lam: float = Field(default=0.05, gt=0.0, le=1.0)
    """λ: weight of the newest value in a mean."""

    def init(self) -> FadingState:
        state = FadingState(*(np.zeros(3) for _ in range(5)))
        for part in state:
            _clear(part)
        return state

    def watch(self, state: FadingState, values: Array) -> Watched:
        return Watched(
            *_watch_fading(state, self.alpha_d, self.alpha_w, self.lam, self.two_sided, values)
        )

    def is_valid(self, state: FadingState) -> bool:
        return is_finite(state) and all(
            0.0 <= mean <= 1.0 and 0.0 < squares <= 1.0 and n >= 0.0 for mean, squares, n in state
        )

    def score(self, state: FadingState) -> float:
        """The difference of the means divided by its bound."""
        rises = [_rise_over_bound(state.low, state.low_since, self.alpha_d)]
        if self.two_sided:
            rises.append(-_rise_over_bound(state.high, state.high_since, self.alpha_d))
        return min(max(*rises, 0.0), 1.0)


@kernel
def _watch_means(
    state: MeansState, alpha_d: float, alpha_w: float, two_sided: bool, values: Array
) -> tuple[Flags, Array]:
    whole, low, high = state
    said, rise = np.zeros(values.size, np.uint8), np.zeros(values.size)
    for t in range(values.size):
        whole[0] += 1.0
        whole[1] += values[t]
        mean, eps = whole[1] / whole[0], _hoeffding_bound(whole[0], alpha_d)
        if low[0] == 0.0 or low[1] / low[0] + _hoeffding_bound(low[0], alpha_d) >= mean + eps:
            low[:] = whole
        if high[0] == 0.0 or high[1] / high[0] - _hoeffding_bound(high[0], alpha_d) <= mean - eps:
            high[:] = whole
        for side in range(2 if two_sided else 1):
            old, sign = (low, 1.0) if side == 0 else (high, -1.0)
            d, drift = _change(old, whole, alpha_d)
            if sign * d >= drift:
                said[t], rise[t] = ALARM, _rise_since(old, whole)
                break
            if sign * d >= _change(old, whole, alpha_w)[1]:
                said[t] = WARNING
        if said[t] == ALARM:
            for part in (whole, low, high):
                part[:] = 0.0
    return said, rise


@kernel
def _change(old: Array, whole: Array, alpha: float) -> tuple[float, float]:
    """Mean of all values minus the mean before the cut, and the ε that it reaches with
    probability α.
    """
    if old[0] == whole[0]:
        return 0.0, 1.0
    m = (whole[0] - old[0]) / old[0] / whole[0]
    return whole[1] / whole[0] - old[1] / old[0], math.sqrt(m / 2.0 * math.log(2.0 / alpha))


@kernel
def _rise_since(old: Array, whole: Array) -> float:
    """Mean after the cut minus the mean before it."""
    newer: float = (whole[1] - old[1]) / (whole[0] - old[0])
    older: float = old[1] / old[0]
    return newer - older


@kernel
def _hoeffding_bound(n: float, alpha: float) -> float:
    """Hoeffding: with probability α at most, the mean of n values is farther off."""
    return math.sqrt(math.log(1.0 / alpha) / (2.0 * n))


@kernel
def _watch_fading(
    state: FadingState, alpha_d: float, alpha_w: float, lam: float, two_sided: bool, values: Array
) -> tuple[Flags, Array]:
    whole, low, low_since, high, high_since = state
    said, rise = np.zeros(values.size, np.uint8), np.zeros(values.size)
    for t in range(values.size):
        _add(whole, values[t], lam)
        eps = _mcdiarmid_bound(whole[1], alpha_d)
        if low[2] == 0.0 or whole[0] + eps < low[0] + _mcdiarmid_bound(low[1], alpha_d):
            low[:] = whole
            _clear(low_since)
        else:
            _add(low_since, values[t], lam)
        if high[2] == 0.0 or whole[0] - eps > high[0] - _mcdiarmid_bound(high[1], alpha_d):
            high[:] = whole
            _clear(high_since)
        else:
            _add(high_since, values[t], lam)
        if _rise_over_bound(low, low_since, alpha_d) > 1.0:
            said[t], rise[t] = ALARM, low_since[0] - low[0]
        elif two_sided and _rise_over_bound(high, high_since, alpha_d) < -1.0:
            said[t], rise[t] = ALARM, high_since[0] - high[0]
        elif _rise_over_bound(low, low_since, alpha_w) > 1.0 or (
            two_sided and _rise_over_bound(high, high_since, alpha_w) < -1.0
        ):
            said[t] = WARNING
        if said[t] == ALARM:
            for part in (whole, low, low_since, high, high_since):
                _clear(part)
    return said, rise


@kernel
def _clear(part: Array) -> None:
    part[0], part[1], part[2] = 0.0, 1.0, 0.0


@kernel
def _add(part: Array, value: float, lam: float) -> None:
    part[0] = value if part[2] == 0.0 else lam * value + (1.0 - lam) * part[0]
    part[1] = lam * lam + (1.0 - lam) * (1.0 - lam) * part[1]
    part[2] += 1.0


@kernel
def _rise_over_bound(before: Array, since: Array, alpha: float) -> float:
    """The rise since the cut in units of its bound. An alarm is above 1, or for a fall below −1."""
    if since[2] == 0.0:
        return 0.0
    rise: float = since[0] - before[0]
    return rise / _mcdiarmid_bound(before[1] + since[1], alpha)


@kernel
def _mcdiarmid_bound(squares: float, alpha: float) -> float:
    """McDiarmid: with probability α at most, a mean with these squared weights is farther off."""
    return math.sqrt(squares * math.log(1.0 / alpha) / 2.0)
