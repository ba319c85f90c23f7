"""The perceptron. Carvalho & Cohen, KDD 2006, section 2.1; McKenna's thesis, algorithm 2 (own
bias).
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from pydantic import PositiveFloat

from learners.batch import BIAS, Array, Batch, Flags, Ints
from learners.jit import LARGEST_WEIGHT, kernel, row, sq_norm
from learners.learner import DROPPED, MOVED, Layout
from learners.linear.learner import WeighingLearner
from learners.linear.weights import (
    NONE,
    Shape,
    Weights,
    add,
    catch_up,
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
    radius: Array
    """R, the largest norm of a row so far, without the bias slot (`bias: r2`)."""


class Perceptron(WeighingLearner):
    """Choose it as the baseline that every other rule should beat."""

    kind: Literal["perceptron"] = "perceptron"
    rule = "on y·s ≤ 0: w += η·y·x"
    eta: PositiveFloat = 1.0
    """Step on a mistake."""
    bias: Literal["feature", "r2"] = "feature"
    """`r2`: the thesis's own bias, which moves by η·y·R² and is outside the norm."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return State(
            fresh_weights(dim, shape), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1)
        )

    def bind(self, layout: Layout) -> "Perceptron":
        if self.bias == "r2" and not layout.bias:
            raise ValueError(
                "perceptron with bias: r2 keeps its bias in slot 0: set features.bias to true"
            )
        return self

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return _learn(state.w, state.radius, self.eta, self.bias == "r2", X, y)


@kernel
def _learn(
    w: Weights, radius: Array, eta: float, own_bias: bool, X: Batch, y: Array
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
        if own_bias:
            j, x = j[1:], x[1:]
            radius[0] = max(radius[0], math.sqrt(sq_norm(x)))
        if y[t] * s <= 0.0:
            step = c * eta * y[t]
            if not own_bias:
                moved[t] = add(w, j, x, step)  # w += η·y·x
            elif abs(w.v[BIAS] + step * radius[0] * radius[0]) <= LARGEST_WEIGHT:
                moved[t] = add(w, j, x, step)
                if moved[t] == MOVED:
                    catch_up(w, BIAS)
                    w.v[BIAS] += step * radius[0] * radius[0]  # alg. 2: b += η·y·R²
            else:
                moved[t] = DROPPED
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved
