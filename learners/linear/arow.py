"""Adaptive regularisation of weights (AROW). Crammer, Kulesza & Dredze, NIPS 2009, figure 1,
diagonal.

An event adds `x·xᵀ/r` to the inverse of the covariance. Only the diagonal of it is kept.
"""

from typing import Literal, NamedTuple

import numpy as np
from pydantic import PositiveFloat

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import kernel, row
from learners.linear.learner import WeighingLearner
from learners.linear.variances import add_with_variance, variance
from learners.linear.weights import (
    NONE,
    Shape,
    Weights,
    count_hypothesis,
    dot,
    fresh_weights,
    is_plain,
    outputs,
    reported_score,
)


class State(NamedTuple):
    w: Weights
    updates: Ints
    dropped: Ints
    gained: Array
    """1/σ_j − 1: the precision that each weight has gained."""


class Arow(WeighingLearner):
    """Choose it for rare features beside frequent ones, and where some labels are wrong.

    A weight that many events have shaped moves little and a new one moves far, so rare words or ids
    are learned from a handful of events. No margin is enforced, so a wrong label cannot throw the
    weights about as it does with pa. Variances only shrink, so the weights settle: on a stream that
    keeps drifting, prefer a rule whose step does not shrink, such as pa1.
    """

    kind: Literal["arow"] = "arow"
    rule = "on y·s < 1: w_j += k·y·σ_j·x_j, k = (1 − y·s)/(v + r), σ_j shrinks"
    r: PositiveFloat = 1.0
    """Inertia: the larger, the less one event moves the weights and the slower their variances
    shrink."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return State(
            fresh_weights(dim, shape), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(dim)
        )

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return _learn(state.w, state.gained, self.r, X, y)


@kernel
def _learn(w: Weights, gained: Array, r: float, X: Batch, y: Array) -> tuple[Array, Flags]:
    scores, moved = outputs(y.size)
    averaged, plain = w.mode[0] != NONE, is_plain(w)
    for t in range(y.size):
        j, x = row(X, t)
        s = w.scale[0] * dot(w.v, j, x)
        scores[t] = s if plain else reported_score(w, j, x, s)
        c = X.weights[t]
        if c == 0.0:
            continue
        loss = 1.0 - y[t] * s
        v = variance(gained, j, x) if loss > 0.0 else 0.0
        if v > 0.0:
            k = loss / (v + r / c)  # the paper's α; importance multiplies 1/r
            moved[t] = add_with_variance(w, gained, j, x, k * y[t], c / r)
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved
