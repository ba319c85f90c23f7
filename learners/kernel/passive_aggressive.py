"""Passive-Aggressive learning with kernels: PA, PA-I, PA-II. McKenna's thesis, section 3.1.3.

K(x, x) takes the place of ‖x‖², so an uncapped step ends exactly on the margin.
"""

from typing import Literal, NamedTuple

import numpy as np
from pydantic import PositiveFloat

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import LARGEST_WEIGHT, kernel
from learners.kernel.learner import KernelLearner, UnboundedLearner, WeighingLearner
from learners.kernel.similarity import Kernel, similarities, weighted_sum
from learners.kernel.support import Support, Work, add, has_room
from learners.learner import DROPPED, MOVED


class State(NamedTuple):
    support: Support
    square: Array
    """‖f‖²."""
    updates: Ints
    dropped: Ints


class Margin(KernelLearner):
    """Parameters that the three share."""

    epsilon: PositiveFloat = 1.0
    """The margin that every event should reach."""
    update_on: Literal["margin", "mistake"] = "margin"
    """`margin`: whenever the margin is not reached; `mistake`: only when the sign is wrong."""

    def fresh(self, support: Support) -> State:
        return State(support, np.zeros(1), np.zeros(1, np.int64), np.zeros(1, np.int64))

    def _run(
        self, state: State, cap: float, slack: float, K: Kernel, X: Batch, y: Array, work: Work
    ) -> tuple[Array, Flags]:
        mistakes_only = self.update_on == "mistake"
        return _learn(
            state.support,
            state.square,
            self.epsilon,
            mistakes_only,
            cap,
            slack,
            self.capabilities.uses_weights,
            K,
            X,
            y,
            work,
        )


class KernelPassiveAggressive(Margin, UnboundedLearner):
    """Choose it on clean labels: each event's constraint is met at once, whatever the cost."""

    kind: Literal["k-pa"] = "k-pa"
    rule = "on y·f(x) < ε: add x with a = τ·y, τ = (ε − y·f(x))/K(x,x)"

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return self._run(state, np.inf, 0.0, K, X, y, work)


class KernelPassiveAggressive1(Margin, WeighingLearner):
    """Choose it where the concept drifts and there is room: it follows closely, and stores all
    rows inside the margin.
    """

    kind: Literal["k-pa1"] = "k-pa1"
    rule = "as k-pa, τ = min(C, (ε − y·f(x))/K(x,x))"
    C: PositiveFloat = 1.0
    """The largest coefficient."""

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return self._run(state, self.C, 0.0, K, X, y, work)


class KernelPassiveAggressive2(Margin, WeighingLearner):
    """Choose it where noise is everywhere: every coefficient is softened, none is cut."""

    kind: Literal["k-pa2"] = "k-pa2"
    rule = "as k-pa, τ = (ε − y·f(x))/(K(x,x) + 1/(2C))"
    C: PositiveFloat = 1.0
    """Inverse softness."""

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return self._run(state, np.inf, 0.5 / self.C, K, X, y, work)


@kernel
def _learn(
    support: Support,
    square: Array,
    epsilon: float,
    mistakes_only: bool,
    cap: float,
    slack: float,
    uses_weights: bool,
    K: Kernel,
    X: Batch,
    y: Array,
    work: Work,
) -> tuple[Array, Flags]:
    """One formula for the three: only PA-I has a cap, only PA-II a slack of 1/(2C)."""
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        f = weighted_sum(support, work.k)
        scores[t] = f
        if X.weights[t] == 0.0:
            continue
        c = X.weights[t] if uses_weights else 1.0
        loss = max(0.0, epsilon - y[t] * f)
        if loss == 0.0 or me.k <= 0.0 or (mistakes_only and y[t] * f > 0.0):
            continue
        a = y[t] * min(c * cap, loss / (me.k + slack / c))  # importance multiplies C
        grown = square[0] + 2.0 * a * f + a * a * me.k
        moved[t] = DROPPED
        if abs(a) <= LARGEST_WEIGHT and grown < np.inf and has_room(support, X, t):
            add(support, X, t, a, me.square, me.tree)
            square[0] = max(0.0, grown)
            moved[t] = MOVED
    return scores, moved
