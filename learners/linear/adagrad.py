"""Gradient descent with a rate per feature (AdaGrad). Duchi, Hazan & Singer, JMLR 12 (2011),
section 1.1, diagonal.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from pydantic import PositiveFloat

from learners.batch import Array, Batch, Flags, Ints, Slots
from learners.jit import LARGEST_WEIGHT, kernel, row
from learners.learner import DROPPED, MOVED, Capabilities
from learners.linear.learner import WeighingLearner
from learners.linear.weights import (
    NONE,
    Shape,
    Weights,
    catch_up_row,
    count_hypothesis,
    dot,
    fresh_weights,
    is_plain,
    logistic,
    outputs,
    reported_score,
)


class State(NamedTuple):
    w: Weights
    updates: Ints
    dropped: Ints
    G: Array
    """Sum of the squared gradients."""


class Adagrad(WeighingLearner):
    """Choose it for rare features beside frequent ones, with one rate to tune: each feature finds
    its own step.

    The first step of every weight is eta. Later steps fall with the root of the feature's summed
    squared gradients, so a rare feature still moves when the frequent ones have settled. `logistic`
    gives log-odds; `hinge` ignores events beyond the margin and is the choice when only the label
    counts. It is simpler than ftrl, which adds exact zeros. Columns with different units should be
    scaled first.
    """

    kind: Literal["adagrad"] = "adagrad"
    rule = "w_j −= η·g_j/(ε + √Σ g_j²)"
    loss: Literal["logistic", "hinge"] = "logistic"
    """`logistic`: scores are log-odds; `hinge`: an event is learned only while its margin is
    below 1."""
    eta: PositiveFloat = 0.1
    """First step of every weight."""
    epsilon: PositiveFloat = 1e-8
    """Added to the root of the squared gradients, so that nothing is divided by almost 0."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return State(
            fresh_weights(dim, shape), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(dim)
        )

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(always_updates=self.loss == "logistic")

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return _learn(state.w, state.G, self.loss == "hinge", self.eta, self.epsilon, X, y)


@kernel
def _learn(
    w: Weights, G: Array, hinge: bool, eta: float, epsilon: float, X: Batch, y: Array
) -> tuple[Array, Flags]:
    scores, moved = outputs(y.size)
    averaged, plain = w.mode[0] != NONE, is_plain(w)
    v = w.v
    for t in range(y.size):
        j, x = row(X, t)
        s = w.scale[0] * dot(v, j, x)
        scores[t] = s if plain else reported_score(w, j, x, s)
        c = X.weights[t]
        if c == 0.0:
            continue
        slope = -c * y[t] * _fall(y[t] * s, hinge)  # g = slope·x; importance multiplies it
        moved[t] = _effect(v, G, j, x, slope, eta, epsilon)
        if moved[t] == MOVED:
            if averaged:
                catch_up_row(w, j)
            for k in range(j.size):
                slot, g = j[k], slope * x[k]
                if g != 0.0:
                    G[slot] += g * g
                    v[slot] -= eta * g / (epsilon + math.sqrt(G[slot]))
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved


@kernel
def _fall(m: float, hinge: bool) -> float:
    """Negative slope of the loss at margin m: 1 or 0, or |p − t| without cancellation."""
    if hinge:
        return 1.0 if m < 1.0 else 0.0
    return logistic(-m)


@kernel
def _effect(
    v: Array, G: Array, j: Slots, x: Array, slope: float, eta: float, epsilon: float
) -> int:
    """MOVED, DROPPED or 0: what the event will do."""
    effect = 0
    for k in range(j.size):
        g = slope * x[k]
        if g != 0.0:
            effect = MOVED
            G_ = G[j[k]] + g * g
            if not (
                G_ <= LARGEST_WEIGHT
                and abs(v[j[k]] - eta * g / (epsilon + math.sqrt(G_))) <= LARGEST_WEIGHT
            ):
                return DROPPED
    return effect
