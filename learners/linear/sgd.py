"""Logistic regression by stochastic gradient descent. Bollegala, dynamic feature scaling, eq. 8–12.

The rule has a bias b, which is never shrunk. It is in slot 0.
"""

from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import kernel, row
from learners.learner import DROPPED, MOVED, Capabilities, Layout
from learners.linear.learner import WeighingLearner
from learners.linear.weights import (
    NONE,
    Shape,
    Weights,
    count_hypothesis,
    dot,
    fits,
    fresh_weights,
    is_plain,
    logistic,
    outputs,
    put,
    reported_score,
    shrink_all_but_bias,
)


class State(NamedTuple):
    w: Weights
    updates: Ints
    dropped: Ints
    events: Ints
    """k, the number of events learned."""


class SgdLog(WeighingLearner):
    """Choose it for scores that are log-odds, on scaled features."""

    kind: Literal["sgd-log"] = "sgd-log"
    rule = "w = (1 − 2λη_k/N)·w + η_k·(t − p)·x, p = σ(s), η_k = η0/(1 + k/N)"
    eta0: PositiveFloat = 0.1
    """First learning rate."""
    lam: NonNegativeFloat = 0.0
    """Weight of the squared norm in the objective."""
    horizon: int = Field(default=10_000, ge=1, le=10**15)
    """N: the rate is halved after N events; the paper's runs take the number of training rows."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return State(
            fresh_weights(dim, shape),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
        )

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(always_updates=True)

    def bind(self, layout: Layout) -> "SgdLog":
        if not layout.bias:
            raise ValueError("sgd-log keeps its bias in slot 0: set features.bias to true")
        return self

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return _learn(state.w, state.events, self.eta0, self.lam, float(self.horizon), X, y)


@kernel
def _learn(
    w: Weights, events: Ints, eta0: float, lam: float, horizon: float, X: Batch, y: Array
) -> tuple[Array, Flags]:
    scores, moved = outputs(y.size)
    averaged, plain = w.mode[0] != NONE, is_plain(w)
    for t in range(y.size):
        j, x = row(X, t)
        s = w.scale[0] * dot(w.v, j, x)
        scores[t] = s if plain else reported_score(w, j, x, s)
        c = X.weights[t]
        if c == 0.0:
            continue
        eta = c * eta0 / (1.0 + events[0] / horizon)  # eq. 12
        target = 1.0 if y[t] > 0.0 else 0.0
        step = eta * (target - logistic(s))
        if fits(w.v, w.scale[0], j, x, step):
            moved[t] = MOVED | shrink_all_but_bias(
                w, max(0.0, 1.0 - 2.0 * lam * eta / horizon)
            )  # eq. 9
            put(w, j, x, step)  # eq. 9 and 10: slot 0 is b
        else:
            moved[t] = DROPPED
        events[0] += 1
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved
