"""The forgetron. McKenna's thesis, section 3.2.1 (Dekel, Shalev-Shwartz & Singer, 2008).

Of a stored row a = σ·y, so σ = |a|. Rows are dropped before the newcomer is stored, which is the same as after: so the
set is never larger than B. No guard is needed: σ ≤ 1 and |K| ≤ 1e100, and sums over a set of such stay finite.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from learners.batch import Array, Batch, Flags, Ints
from learners.dual.learner import BudgetLearner
from learners.dual.similarity import Kernel, similarities, weighted
from learners.dual.stored import stored_similarities
from learners.dual.support import Support, add, drop, room, room_without
from learners.dual.work import Work
from learners.kernels import kernel
from learners.learner import DROPPED, MOVED


class State(NamedTuple):
    support: Support
    square: Array
    """‖f‖²; its errors are shrunk with it, so it needs no renewal."""
    updates: Ints
    dropped: Ints


class Forgetron(BudgetLearner):
    """Choose it for memory with a cap where old rows should fade steadily; the tuned one forgets no more than it must.

    With every positive definite kernel ‖f‖ ≤ U before a drop, U = ¼√((B+1)/ln(B+1)). Where also K(x,x) ≤ 1 and B ≥ 83,
    it makes at most 2‖g‖² + 4·Σ(hinge losses of g) mistakes, for every g with ‖g‖ ≤ U: take a normalised kernel.
    """

    kind: Literal["forgetron"] = "forgetron"
    rule = "on y·f(x) ≤ 0: add x with σ = 1; all σ *= min((B+1)^(−1/(2(B+1))), U/‖f‖); beyond B drop the oldest"

    def fresh(self, support: Support) -> State:
        return State(support, np.zeros(1), np.zeros(1, np.int64), np.zeros(1, np.int64))

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return _learn(state.support, state.square, K, X, y, work)


@kernel
def _learn(support: Support, square: Array, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    theirs = Work(np.empty(support.a.size), work.spread)
    B = support.a.size
    U = 0.25 * math.sqrt((B + 1.0) / math.log(B + 1.0))
    steady = (B + 1.0) ** (-0.5 / (B + 1.0))
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        scores[t] = f = weighted(support, work.k)
        if X.weights[t] == 0.0 or y[t] * f > 0.0 or me.k <= 0.0:
            continue
        if not room_without(support, X, t, 0, support.size[0]):
            moved[t] = DROPPED
            continue
        grown = max(0.0, square[0] + 2.0 * y[t] * f + me.k)  # ‖f′‖², f′ = f + y·K(x, ·)
        norm = math.sqrt(grown)
        phi = U / norm if steady * norm > U else steady
        square[0] = phi * phi * grown
        for i in range(support.size[0]):
            support.a[i] *= phi
        while not room(support, X, t):
            _drop_oldest(support, square, K, phi * y[t], work, theirs)
        add(support, X, t, phi * y[t], me.square, me.tree)
        moved[t] = MOVED
    return scores, moved


@kernel
def _drop_oldest(support: Support, square: Array, K: Kernel, a: float, work: Work, theirs: Work) -> None:
    """With a newcomer of coefficient a, whose similarities are in `work`."""
    own = stored_similarities(support, K, 0, theirs)
    old, f = support.a[0], weighted(support, theirs.k) + a * work.k[0]
    square[0] = max(0.0, square[0] - 2.0 * old * f + old * old * own)
    drop(support, 0)
    for i in range(support.size[0]):
        work.k[i] = work.k[i + 1]
