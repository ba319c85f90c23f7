"""EDDM: the distance between errors against its longest so far. Baena-García et al., Early drift
detection, 2006.

p′ is the mean of the distances between errors and s′ their deviation. p′ + 2s′ is compared with its
largest value. It tests at errors only; between errors it repeats its verdict.
"""

import math
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from learners.batch import Array, Flags, Ints
from learners.drift.detector import ALARM, MOST, WARNING, Detector, Watched, is_finite
from learners.jit import kernel


class State(NamedTuple):
    n: Ints
    last: Ints
    """The n of the last error."""
    errors: Ints
    mean: Array
    """p′, the mean distance."""
    spread: Array
    """Sum of the squared differences from the mean."""
    most: Array
    """The largest p′ + 2s′, and n and errors at that point. 0 initially."""
    level: Array
    """p′ + 2s′ divided by its largest value. 1 means no evidence of a change."""


class Eddm(Detector):
    """Choose it for comparison: it alarms early, on gradual rises too, but often falsely."""

    kind: Literal["eddm"] = "eddm"
    rule = (
        "(p′ + 2s′)/(p′ + 2s′)_max < β of the distances between errors (Baena-García et al., 2006)"
    )
    alpha: float = Field(default=0.95, gt=0.0, lt=1.0)
    """Share of the largest p′ + 2s′ below which it warns."""
    beta: float = Field(default=0.9, gt=0.0, lt=1.0)
    """Share of the largest p′ + 2s′ below which it alarms."""
    warmup: int = Field(default=30, ge=1, le=2**31)
    """Values before the largest p′ + 2s′ is tracked, and errors before the first test."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.alpha < self.beta:
            raise ValueError("a warning comes before an alarm: alpha must not be below beta")
        return self

    def init(self) -> State:
        n, last, errors = (np.zeros(1, np.int64) for _ in range(3))
        return State(n, last, errors, np.zeros(1), np.zeros(1), np.zeros(3), np.ones(1))

    def watch(self, state: State, values: Array) -> Watched:
        return Watched(*_watch(state, self.alpha, self.beta, self.warmup, values))

    def is_valid(self, state: State) -> bool:
        n, last, errors, level = (
            array[0] for array in (state.n, state.last, state.errors, state.level)
        )
        reach, before, so_far = state.most
        counted = 0 <= errors <= last <= n and 0.0 <= so_far <= errors and so_far <= before <= n
        sized = (
            0.0 <= state.mean[0] <= MOST and 0.0 <= state.spread[0] <= 1e40 and 0.0 <= reach <= 1e40
        )
        return bool(
            is_finite(state)
            and counted
            and sized
            and (level == 1.0 or (level > 0.0 and 1.0 <= before < n))
        )

    def score(self, state: State) -> float:
        """Position of the level between 1 (no evidence) and β (an alarm)."""
        return min(max((1.0 - float(state.level[0])) / (1.0 - self.beta), 0.0), 1.0)


@kernel
def _watch(
    state: State, alpha: float, beta: float, warmup: int, values: Array
) -> tuple[Flags, Array]:
    n, last, errors, mean, spread, most, level = state
    said, rise = np.zeros(values.size, np.uint8), np.zeros(values.size)
    for t in range(values.size):
        n[0] += 1
        if values[t] > 0.5:  # an error
            distance = float(n[0] - last[0])
            last[0] = n[0]
            errors[0] += 1
            before = mean[0]
            mean[0] += (distance - before) / errors[0]
            spread[0] += (distance - before) * (distance - mean[0])
            if n[0] > warmup:
                s = math.sqrt(spread[0] / (errors[0] - 1)) if errors[0] > 1 else 0.0
                reach = mean[0] + 2.0 * s
                if reach > most[0]:
                    most[0], most[1], most[2] = reach, n[0], errors[0]
                if errors[0] > warmup:
                    level[0] = reach / most[0]
        if level[0] < beta:
            said[t], rise[t] = ALARM, (errors[0] - most[2]) / (n[0] - most[1]) - most[2] / most[1]
            _begin(state)
        elif level[0] < alpha:
            said[t] = WARNING
    return said, rise


@kernel
def _begin(state: State) -> None:
    state.n[0], state.last[0], state.errors[0] = 0, 0, 0
    state.mean[0], state.spread[0], state.level[0] = 0.0, 0.0, 1.0
    state.most[:] = 0.0
