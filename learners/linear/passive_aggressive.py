"""Passive-Aggressive learning: PA, PA-I, PA-II. McKenna's thesis, section 3.1.3; Carvalho & Cohen, KDD 2006, eq. 1.

The bias is a feature like any other, so it is in ‖x‖² and an uncapped step ends exactly on the margin.
"""

from typing import Literal, NamedTuple

import numpy as np
from pydantic import PositiveFloat

from learners.batch import Array, Batch, Flags, Ints
from learners.kernels import kernel, row, sq_norm
from learners.linear.weights import (
    NONE,
    Average,
    LinearLearner,
    Weights,
    add,
    count_hypothesis,
    dot,
    fresh_weights,
    mean_score,
    outputs,
)


class State(NamedTuple):
    w: Weights
    updates: Ints
    dropped: Ints


class Margin(LinearLearner):
    """What the three share."""

    epsilon: PositiveFloat = 1.0
    """The margin that every event should reach."""

    def fresh(self, dim: int, average: Average) -> State:
        return State(fresh_weights(dim, average), np.zeros(1, np.int64), np.zeros(1, np.int64))


class PassiveAggressive(Margin):
    """Choose it on clean labels: each event's constraint is met at once, whatever the cost."""

    kind: Literal["pa"] = "pa"

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return _learn(state.w, self.epsilon, np.inf, 0.0, False, X, y)


class PassiveAggressive1(Margin):
    """Choose it first: one step can do no more than C, so a wrong label does bounded harm."""

    kind: Literal["pa1"] = "pa1"
    C: PositiveFloat = 1.0
    """The largest step."""

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return _learn(state.w, self.epsilon, self.C, 0.0, True, X, y)


class PassiveAggressive2(Margin):
    """Choose it where noise is everywhere: every step is softened, none is cut."""

    kind: Literal["pa2"] = "pa2"
    C: PositiveFloat = 1.0
    """Inverse softness; Carvalho & Cohen's relaxed PA is C = 5."""

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return _learn(state.w, self.epsilon, np.inf, 0.5 / self.C, True, X, y)


@kernel
def _learn(
    w: Weights, epsilon: float, cap: float, slack: float, weighs: bool, X: Batch, y: Array
) -> tuple[Array, Flags]:
    """One formula for the three: PA has no cap and no slack, PA-I a cap, PA-II a slack of 1/(2C)."""
    scores, moved = outputs(y.size)
    averaged = w.mode[0] != NONE
    for t in range(y.size):
        j, x = row(X, t)
        s = w.scale[0] * dot(w.v, j, x)
        scores[t] = mean_score(w, j, x, s) if averaged else s
        if X.weights[t] == 0.0:
            continue
        c = X.weights[t] if weighs else 1.0
        loss = max(0.0, epsilon - y[t] * s)
        norm = sq_norm(x)
        if loss > 0.0 and norm > 0.0:
            tau = min(c * cap, loss / (norm + slack / c))  # importance multiplies C
            moved[t] = add(w, j, x, tau * y[t])
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved
