"""The averaged kernel perceptron. McKenna's thesis, section 3.1.2 and algorithm 4 (Freund &
Schapire, 1999).

The thesis defines the score as a sum over all hypotheses. Here it is divided by T, the number of
events counted. The labels are the same. But the score does not grow without bound, so calibration
can follow it, and one-vs-rest does not favour the class with the longest past.

Σ_i c_i·v_i(x) = Σ_j a_j(T − T_j)K(x_j, x). The state holds T − T_j: Σ c over the hypotheses that
contain row j.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import LARGEST_WEIGHT, kernel
from learners.kernel.learner import WeighingLearner
from learners.kernel.similarity import Kernel, similarities, weighted_sum
from learners.kernel.support import Support, Work, add, has_room
from learners.learner import DROPPED, MOVED


class State(NamedTuple):
    support: Support
    square: Array
    """‖v‖² of the current hypothesis."""
    updates: Ints
    dropped: Ints
    shares: Array
    """Σ c_i, or Σ c_i/‖v_i‖, over the past hypotheses that contain each stored row."""
    survived: Ints
    """c of the current hypothesis."""
    total: Ints
    """T, Σ c of all hypotheses."""

    def in_use(self) -> dict[str, tuple[int, ...]]:
        return {"shares": (int(self.support.size.max()),)}


class KernelAveraged(WeighingLearner):
    """Choose it where nothing drifts: it is steadier than the perceptron.

    In a drift the past outvotes the present.
    """

    kind: Literal["k-averaged"] = "k-averaged"
    rule = (
        "k-perceptron's hypotheses v_i; score Σ c_i·v_i(x)/Σ c_i, "
        "c_i = 1 + the events that v_i got right"
    )
    weighting: Literal["count", "norm"] = "count"
    """`norm`: every hypothesis is first divided by its norm ‖v_i‖."""

    def fresh(self, support: Support) -> State:
        zero = np.zeros(1, np.int64)
        return State(
            support, np.zeros(1), zero, zero.copy(), np.zeros(self.rows()), zero.copy(), zero.copy()
        )

    def run_scores(self, state: State, K: Kernel, X: Batch, work: Work) -> Array:
        return _scores(state, self.weighting == "norm", K, X, work)

    def scoring_coefficients(self, state: State) -> tuple[Array, float]:
        a, constant = super().scoring_coefficients(state)
        counted = state.shares[: a.size] + _current_share(state, self.weighting == "norm")
        return a * counted / max(1, state.total[0]), constant

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return _learn(state, self.weighting == "norm", K, X, y, work)


@kernel
def _scores(state: State, by_norm: bool, K: Kernel, X: Batch, work: Work) -> Array:
    scores = np.empty(X.weights.size)
    for t in range(scores.size):
        similarities(state.support, K, X, t, work)
        scores[t] = _average(state, by_norm, work.k)
    return scores


@kernel
def _learn(
    state: State, by_norm: bool, K: Kernel, X: Batch, y: Array, work: Work
) -> tuple[Array, Flags]:
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    support, square = state.support, state.square
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        scores[t] = _average(state, by_norm, work.k)
        f = weighted_sum(support, work.k)  # alg. 4: the current hypothesis decides on the update
        # importance weighs the new row; every event counts 1 for its hypothesis
        a = X.weights[t] * y[t]
        if a == 0.0:
            continue
        if y[t] * f > 0.0:
            state.survived[0] += 1
            state.total[0] += 1
        elif me.k > 0.0:
            moved[t] = DROPPED
            grown = square[0] + 2.0 * a * f + a * a * me.k
            if abs(a) <= LARGEST_WEIGHT and grown < np.inf and has_room(support, X, t):
                _close_hypothesis(state, by_norm)
                add(support, X, t, a, me.square, me.tree)
                square[0] = max(0.0, grown)
                state.survived[0] = 1
                state.total[0] += 1
                moved[t] = MOVED
    return scores, moved


@kernel
def _average(state: State, by_norm: bool, k: Array) -> float:
    """Σ_j a_j(T − T_j)K(x_j, x)/T."""
    T = float(state.total[0])
    if T == 0.0:
        return 0.0
    a, shares, now = state.support.a, state.shares, _current_share(state, by_norm)
    total = 0.0
    for j in range(state.support.size[0]):
        total += a[j] * (shares[j] + now) * k[j]
    return total / T


@kernel
def _current_share(state: State, by_norm: bool) -> float:
    """c, or c/‖v‖, of the current hypothesis. A hypothesis of norm 0 counts for nothing."""
    if not by_norm:
        return float(state.survived[0])
    norm = math.sqrt(state.square[0])
    return state.survived[0] / norm if norm >= 1.0 / LARGEST_WEIGHT else 0.0


@kernel
def _close_hypothesis(state: State, by_norm: bool) -> None:
    """Make the current hypothesis a past one: add its count to all rows in it."""
    now = _current_share(state, by_norm)
    for j in range(state.support.size[0]):
        state.shares[j] += now
