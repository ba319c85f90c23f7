"""Passive-Aggressive learning with small weights. Regularised PA (L1/L2), lemmas 3.1 (`pa-l2obj`)
and 3.2 (`pa-l2`).

Both are `w = (w + τ·y·x)/Z` with `τ = (Z − y·s)/‖x‖²`, which ends on the margin. They differ in the
divisor Z. Where no weights of the ball reach the margin, `pa-l2` takes those with the least loss.
This costs O(dim) and happens only for rows with ‖x‖ ≤ 1/β.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from pydantic import PositiveFloat

from learners.batch import Array, Batch, Flags, Ints, Slots
from learners.jit import LARGEST_WEIGHT, kernel, row, sq_norm
from learners.learner import DROPPED, MOVED
from learners.linear.learner import LinearLearner
from learners.linear.passive_aggressive import UpdateOn
from learners.linear.weights import (
    NONE,
    RENEWAL,
    Shape,
    Weights,
    count_hypothesis,
    dot,
    fresh_weights,
    is_plain,
    outputs,
    put,
    reported_score,
    scale_all,
    sq_norm_of,
)


class State(NamedTuple):
    w: Weights
    updates: Ints
    dropped: Ints
    length: Array
    """‖w‖²."""


class Regularised(LinearLearner):
    """Parameters that the two share."""

    update_on: UpdateOn = "mistake"
    """`mistake`: only when the sign is wrong, as the paper's bounds require; `margin`: whenever
    the margin 1 is missed."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return State(
            fresh_weights(dim, shape), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1)
        )

    def _run(
        self, state: State, divisor: float, radius: float, X: Batch, y: Array
    ) -> tuple[Array, Flags]:
        mistakes_only = self.update_on == "mistake"
        return _learn(state.w, state.length, state.updates[0], mistakes_only, divisor, radius, X, y)


class ObjectivePassiveAggressive(Regularised):
    """Choose it where the concept drifts: every update makes what was learned before it count a
    little less.
    """

    kind: Literal["pa-l2obj"] = "pa-l2obj"
    rule = "least ½‖w − w_t‖² + α/2·‖w‖² with y·w·x ≥ 1"
    alpha: PositiveFloat = 0.001
    """Weight of the squared norm in the objective: each update divides the old weights by 1 + α."""

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return self._run(state, 1.0 + self.alpha, np.inf, X, y)


class BallPassiveAggressive(Regularised):
    """Choose it where the concept drifts and no feature should weigh too much: it forgets once
    the ball is full.
    """

    kind: Literal["pa-l2"] = "pa-l2"
    rule = "nearest w with y·w·x ≥ 1 and ‖w‖ ≤ β"
    beta: PositiveFloat = 10.0
    """Radius of the ball that the weights stay in; above 1 the margin is within reach of every
    row with the bias."""

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return self._run(state, 1.0, self.beta, X, y)


@kernel
def _learn(
    w: Weights,
    length: Array,
    updates: int,
    mistakes_only: bool,
    divisor: float,
    radius: float,
    X: Batch,
    y: Array,
) -> tuple[Array, Flags]:
    scores, moved = outputs(y.size)
    averaged, plain = w.mode[0] != NONE, is_plain(w)
    for t in range(y.size):
        j, x = row(X, t)
        s = w.scale[0] * dot(w.v, j, x)
        scores[t] = s if plain else reported_score(w, j, x, s)
        if X.weights[t] == 0.0:
            continue
        norm = sq_norm(x)
        if norm > 0.0 and y[t] * s < 1.0 and not (mistakes_only and y[t] * s > 0.0):
            moved[t] = _step(w, length, divisor, radius, j, x, norm, s, y[t])
            updates += moved[t] & MOVED
            if moved[t] & MOVED and updates % RENEWAL == 0:
                length[0] = sq_norm_of(w.v, w.scale[0])
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved


@kernel
def _step(
    w: Weights,
    length: Array,
    divisor: float,
    radius: float,
    j: Slots,
    x: Array,
    norm: float,
    s: float,
    label: float,
) -> int:
    """`divisor` is the smallest Z. An infinite radius means no limit to the norm."""
    room = radius * radius * norm - 1.0
    if room <= 0.0:  # the margin is out of reach
        if not radius * radius <= LARGEST_WEIGHT:
            return DROPPED
        folded = scale_all(w, 0.0)
        put(w, j, x, radius * label / math.sqrt(norm))
        length[0] = radius * radius
        return MOVED | folded
    # ‖x‖² times the squared part of w orthogonal to x
    beside = max(0.0, length[0] * norm - s * s)
    Z = max(divisor, math.sqrt(beside / room))  # lemma 3.2; lemma 3.1: 1 + α
    # ‖w‖²: the orthogonal part shrinks, and the part along x ends on the margin
    new = (beside / Z / Z + 1.0) / norm
    if not new <= LARGEST_WEIGHT:
        return DROPPED
    tau = (Z - label * s) / norm
    folded = scale_all(w, 1.0 / Z)
    put(w, j, x, tau / Z * label)
    length[0] = new
    return MOVED | folded
