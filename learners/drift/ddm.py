"""DDM: the error rate against its lowest so far. Gama et al., Learning with drift detection, SBIA
2004.

The rate p of n values has the deviation s = √(p(1 − p)/n). p_min and s_min are the values where p +
s was lowest. The rate covers all values since the last alarm, so the longer the quiet time, the
slower the detector.
"""

import math
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from learners.batch import Array, Flags, Ints
from learners.drift.detector import ALARM, WARNING, Detector, Watched, is_finite
from learners.jit import kernel


class State(NamedTuple):
    n: Ints
    errors: Array
    least: Array
    """p_min and s_min. Initially 1 and 1, which no p + s reaches."""
    lowest: Array
    """n and errors where p + s was lowest."""


class Ddm(Detector):
    """Choose it for abrupt rises of a low error rate; it does not detect a fall."""

    kind: Literal["ddm"] = "ddm"
    rule = "p + s > p_min + 3 s_min of the error rate p (Gama et al., 2004)"
    warning: float = Field(default=2.0, gt=1.0, le=1e6)
    """Number of s_min above p_min for a warning."""
    alarm: float = Field(default=3.0, gt=1.0, le=1e6)
    """Number of s_min above p_min for an alarm."""
    warmup: int = Field(default=30, ge=1, le=2**31)
    """Values before the first test."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.warning > self.alarm:
            raise ValueError("a warning comes before an alarm: warning must not be above alarm")
        return self

    def init(self) -> State:
        state = State(np.zeros(1, np.int64), np.zeros(1), np.zeros(2), np.zeros(2))
        _begin(state)
        return state

    def watch(self, state: State, values: Array) -> Watched:
        return Watched(*_watch(state, self.warning, self.alarm, self.warmup, values))

    def is_valid(self, state: State) -> bool:
        before, errors = state.lowest
        counted = (
            is_finite(state)
            and 0.0 <= errors <= state.errors[0] <= state.n[0]
            and errors <= before <= state.n[0]
        )
        return counted and bool(((state.least >= 0.0) & (state.least <= 1.0)).all())

    def score(self, state: State) -> float:
        """Position of p + s between its lowest value (0) and an alarm (1)."""
        if state.n[0] <= self.warmup:
            return 0.0
        p, s = _rate(int(state.n[0]), float(state.errors[0]))
        p_min, s_min = (float(part) for part in state.least)
        above, whole = p + s - (p_min + s_min), (self.alarm - 1.0) * s_min
        # s_min = 0: any rise is an alarm
        return 0.0 if above <= 0.0 else min(above / whole, 1.0) if whole > 0.0 else 1.0


@kernel
def _watch(
    state: State, warning: float, alarm: float, warmup: int, values: Array
) -> tuple[Flags, Array]:
    n, errors, least, lowest = state
    said, rise = np.zeros(values.size, np.uint8), np.zeros(values.size)
    for t in range(values.size):
        n[0] += 1
        errors[0] += values[t]
        if n[0] <= warmup:
            continue
        p, s = _rate(n[0], errors[0])
        if p + s <= least[0] + least[1]:
            least[0], least[1] = p, s
            lowest[0], lowest[1] = n[0], errors[0]
        if p + s > least[0] + alarm * least[1]:
            since = n[0] - lowest[0]
            said[t], rise[t] = (
                ALARM,
                ((errors[0] - lowest[1]) / since if since > 0.0 else 1.0) - least[0],
            )
            _begin(state)
        elif p + s > least[0] + warning * least[1]:
            said[t] = WARNING
    return said, rise


@kernel
def _rate(n: int, errors: float) -> tuple[float, float]:
    """The rate p and its deviation s."""
    p = errors / n
    return p, math.sqrt(max(p * (1.0 - p), 0.0) / n)


@kernel
def _begin(state: State) -> None:
    state.n[0], state.errors[0] = 0, 0.0
    state.least[:] = 1.0
    state.lowest[:] = 0.0
