"""The support vector machine by steps in its dual. Zhang, large margin Winnow methods, section 2.1.

In a stream the dual variable of every event starts at 0. A replay in several passes keeps it from
pass to pass and approaches the batch solution.
"""

from typing import Literal, NamedTuple

import numpy as np
from pydantic import PositiveFloat

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import LARGEST_WEIGHT, kernel, row, sq_norm
from learners.learner import DROPPED, MOVED
from learners.linear.learner import DualLearner
from learners.linear.weights import (
    NONE,
    Shape,
    Weights,
    add,
    count_hypothesis,
    dot,
    fresh_weights,
    is_plain,
    outputs,
    reported_score,
)

AUTO = 0.0
"""The value of eta that stands for `eta: auto` in the kernel."""


class State(NamedTuple):
    w: Weights
    updates: Ints
    dropped: Ints


class DualSvm(DualLearner):
    """Choose it to replay a file in several passes, towards the linear SVM of all its rows."""

    kind: Literal["svm-dual"] = "svm-dual"
    rule = "a′ = clip(a + η·(1 − y·s), 0, C), w += (a′ − a)·y·x"
    eta: PositiveFloat | Literal["auto"] = 0.01
    """Step of the dual variable; `auto`: 1/‖x‖², the best one for this row, which in a single
    pass is PA-I."""
    C: PositiveFloat = 1.0
    """The largest dual variable."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return State(fresh_weights(dim, shape), np.zeros(1, np.int64), np.zeros(1, np.int64))

    def run_duals(self, state: State, X: Batch, y: Array, duals: Array) -> tuple[Array, Flags]:
        return _learn(state.w, AUTO if self.eta == "auto" else self.eta, self.C, X, y, duals)


@kernel
def _learn(
    w: Weights, eta: float, C: float, X: Batch, y: Array, duals: Array
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
        norm = sq_norm(x)
        if norm > 0.0:
            slope = 1.0 - y[t] * s
            a = duals[t] + (eta * slope if eta > AUTO else slope / norm)
            a = max(min(c * C, a), 0.0)  # importance multiplies C
            if a > LARGEST_WEIGHT:
                moved[t] = DROPPED
            elif a != duals[t]:
                moved[t] = add(w, j, x, (a - duals[t]) * y[t])
                if moved[t] == MOVED:
                    duals[t] = a
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved
