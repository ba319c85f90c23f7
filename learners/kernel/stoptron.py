"""The Stoptron. McKenna's thesis, section 3.2 (Orabona, Keshet & Caputo, 2008)."""

from typing import Literal, NamedTuple

import numpy as np

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import kernel
from learners.kernel.learner import BudgetLearner
from learners.kernel.similarity import Kernel, similarities, weighted_sum
from learners.kernel.support import Support, Work, add, has_room
from learners.learner import DROPPED, MOVED


class State(NamedTuple):
    support: Support
    square: Array
    """‖f‖²."""
    updates: Ints
    dropped: Ints


class Stoptron(BudgetLearner):
    """Choose it as the baseline of learners with a budget: it keeps the first mistakes only."""

    kind: Literal["stoptron"] = "stoptron"
    rule = "k-perceptron; with a full budget it learns no more"

    def fresh(self, support: Support) -> State:
        return State(support, np.zeros(1), np.zeros(1, np.int64), np.zeros(1, np.int64))

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return _learn(state.support, state.square, K, X, y, work)


@kernel
def _learn(
    support: Support, square: Array, K: Kernel, X: Batch, y: Array, work: Work
) -> tuple[Array, Flags]:
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        f = weighted_sum(support, work.k)
        scores[t] = f
        if X.weights[t] == 0.0 or y[t] * f > 0.0 or me.k <= 0.0:
            continue
        if has_room(support, X, t):
            square[0] = max(0.0, square[0] + 2.0 * y[t] * f + me.k)
            add(support, X, t, y[t], me.square, me.tree)
            moved[t] = MOVED
        else:
            moved[t] = DROPPED
    return scores, moved
