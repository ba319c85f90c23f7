"""The kernel perceptron. McKenna's thesis, algorithm 3 (dual form), algorithm 2 (own bias)."""

from typing import Literal, NamedTuple

import numpy as np
from pydantic import PositiveFloat

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import LARGEST_WEIGHT, kernel
from learners.kernel.learner import WeighingLearner
from learners.kernel.similarity import Kernel, kernel_scores, similarities, weighted_sum
from learners.kernel.support import Support, Work, add, has_room
from learners.learner import DROPPED, MOVED


class State(NamedTuple):
    support: Support
    square: Array
    """‖f‖², without the bias."""
    updates: Ints
    dropped: Ints
    bias: Array
    radius: Array
    """R², the largest K(x, x) so far (`bias: r2`)."""


class KernelPerceptron(WeighingLearner):
    """Choose it as the baseline of kernel learners, or where the averaged one scores too slowly."""

    kind: Literal["k-perceptron"] = "k-perceptron"
    rule = "on y·f(x) ≤ 0: add x with a = y"
    bias: Literal["none", "r2"] = "none"
    """`r2`: the thesis's own bias, which moves by η·y·R²."""
    eta: PositiveFloat = 1.0
    """Step of the bias with `bias: r2`."""

    def fresh(self, support: Support) -> State:
        zero = np.zeros(1, np.int64)
        return State(support, np.zeros(1), zero, zero.copy(), np.zeros(1), np.zeros(1))

    def run_scores(self, state: State, K: Kernel, X: Batch, work: Work) -> Array:
        return np.asarray(kernel_scores(state.support, K, X, work) + state.bias[0])

    def scoring_coefficients(self, state: State) -> tuple[Array, float]:
        return super().scoring_coefficients(state)[0], float(state.bias[0])

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        eta = self.eta if self.bias == "r2" else 0.0
        return _learn(state.support, state.square, state.bias, state.radius, eta, K, X, y, work)


@kernel
def _learn(
    support: Support,
    square: Array,
    bias: Array,
    radius: Array,
    eta: float,
    K: Kernel,
    X: Batch,
    y: Array,
    work: Work,
) -> tuple[Array, Flags]:
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        f = weighted_sum(support, work.k)
        scores[t] = f + bias[0]
        c = X.weights[t]
        if c == 0.0:
            continue
        radius[0] = max(radius[0], me.k)
        if y[t] * scores[t] > 0.0 or me.k <= 0.0:
            continue
        a, b = c * y[t], bias[0] + c * eta * y[t] * radius[0]  # alg. 2: b += η·y·R²
        if abs(a) <= LARGEST_WEIGHT and abs(b) <= LARGEST_WEIGHT and has_room(support, X, t):
            square[0] = max(0.0, square[0] + 2.0 * a * f + a * a * me.k)
            add(support, X, t, a, me.square, me.tree)  # alg. 3
            bias[0] = b
            moved[t] = MOVED
        else:
            moved[t] = DROPPED
    return scores, moved
