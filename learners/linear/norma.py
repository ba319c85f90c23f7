"""NORMA: stochastic gradient descent on the regularised hinge loss. The peer of regularised PA
(L1/L2), section 4.

The bias is a feature like any other and shrinks with the rest. If an event is so important that its
rate times λ exceeds 1, it shrinks the old weights to 0 and no further.
"""

import math
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, model_validator

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import kernel, row
from learners.learner import DROPPED, MOVED, Capabilities
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
    outputs,
    put,
    reported_score,
    scale_all,
)


class State(NamedTuple):
    w: Weights
    updates: Ints
    dropped: Ints
    events: Ints
    """Number of events learned."""


class Norma(WeighingLearner):
    """Choose it for an online SVM whose norm stays below ‖x‖/λ, whatever the labels."""

    kind: Literal["norma"] = "norma"
    rule = "w = (1 − η_t·λ)·w, and + η_t·y·x where y·s ≤ ρ; η_t = η/√t"
    eta: PositiveFloat = 1.0
    """First learning rate; that of event t is η/√t."""
    lam: PositiveFloat = 1e-4
    """Weight of the squared norm in the objective: every event shrinks all weights."""
    rho: NonNegativeFloat = 1.0
    """The margin that every event should exceed."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.eta * self.lam < 1.0:
            raise ValueError(
                f"eta·lam is {self.eta * self.lam:g}, so the first event would reverse the "
                "weights: it must be below 1"
            )
        return self

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

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return _learn(state.w, state.events, self.eta, self.lam, self.rho, X, y)


@kernel
def _learn(
    w: Weights, events: Ints, eta: float, lam: float, rho: float, X: Batch, y: Array
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
        rate = c * eta / math.sqrt(events[0] + 1.0)
        step = rate * y[t] if y[t] * s <= rho else 0.0
        if fits(w.v, w.scale[0], j, x, step):
            moved[t] = MOVED | scale_all(w, max(0.0, 1.0 - rate * lam))
            if step != 0.0:
                put(w, j, x, step)
        else:
            moved[t] = DROPPED
        events[0] += 1
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved
