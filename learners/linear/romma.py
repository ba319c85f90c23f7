"""ROMMA, the relaxed online maximum margin algorithm. Carvalho & Cohen, KDD 2006, section 2.1, eq. 2–3.

Where both constraints cannot hold (x parallel to w) the weights start anew from this event, as at the first mistake.
On data that no weights separate ‖w‖ grows for ever. Beside it the 1 of the margin soon vanishes and the rule depends on
the direction of w alone, so weights that get too long are shortened; all labels, also those of a mean, stay the same.
"""

from typing import Literal, NamedTuple

import numpy as np

from learners.batch import Array, Batch, Flags, Ints, Slots
from learners.kernels import LARGEST_WEIGHT, kernel, row, sq_norm
from learners.learner import DROPPED, MOVED, REWROTE
from learners.linear.learner import LinearLearner
from learners.linear.weights import (
    NONE,
    RENEWAL,
    Shape,
    Weights,
    answer,
    count_hypothesis,
    dot,
    fresh_weights,
    is_plain,
    outputs,
    put,
    scale_all,
    settle,
    sq_norm_of,
)

PARALLEL = 1e-12
"""Share of ‖x‖²‖w‖² below which what x has beside w is rounding."""

GROWTH = 100.0
"""‖w‖² is computed afresh when it has grown so much: the relative error of its recursion grows as fast as it does."""

LONG, SHORTER = 1e80, 1e-10
"""Where ‖w‖² passes the first, the weights are multiplied by the second."""


class State(NamedTuple):
    w: Weights
    updates: Ints
    dropped: Ints
    length: Array
    """‖w‖²."""
    computed: Array
    """‖w‖² when it was last computed from the weights themselves."""


class Romma(LinearLearner):
    """Choose it on separable data: it keeps what it has learned and nears the widest margin, without a step size."""

    kind: Literal["romma"] = "romma"
    rule = "on y·s ≤ 0: the shortest w with w·x = y and w·w_old ≥ ‖w_old‖²"
    aggressive: bool = False
    """Update whenever the margin 1 is not reached, not only on a mistake."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return State(fresh_weights(dim, shape), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), np.zeros(1))

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return _learn(state.w, state.length, state.computed, state.updates[0], self.aggressive, X, y)


@kernel
def _learn(
    w: Weights, length: Array, computed: Array, updates: int, aggressive: bool, X: Batch, y: Array
) -> tuple[Array, Flags]:
    scores, moved = outputs(y.size)
    averaged, plain = w.mode[0] != NONE, is_plain(w)
    for t in range(y.size):
        j, x = row(X, t)
        s = w.scale[0] * dot(w.v, j, x)
        scores[t] = s if plain else answer(w, j, x, s)
        if X.weights[t] == 0.0:
            continue
        norm = sq_norm(x)
        if norm > 0.0 and (y[t] * s <= 0.0 or (aggressive and y[t] * s < 1.0)):
            moved[t] = _step(w, length, computed, j, x, norm, s, y[t])
            updates += moved[t] & MOVED
            if moved[t] & MOVED and (updates % RENEWAL == 0 or length[0] > min(GROWTH * computed[0], LONG)):
                if length[0] > LONG:
                    moved[t] |= _shorten(w)
                length[0] = computed[0] = sq_norm_of(w.v, w.scale[0])
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved


@kernel
def _step(w: Weights, length: Array, computed: Array, j: Slots, x: Array, norm: float, s: float, label: float) -> int:
    """To the shortest weights with w·x = y and w·w_old ≥ ‖w_old‖²."""
    both = norm * length[0]
    D = both - s * s
    if PARALLEL * both >= D or label * s >= both:  # no such weights; or the second constraint holds by itself
        if not 1.0 / norm <= LARGEST_WEIGHT:
            return DROPPED
        folded = scale_all(w, 0.0) if length[0] > 0.0 else 0
        put(w, j, x, label / norm)
        length[0] = computed[0] = 1.0 / norm
        return MOVED | folded
    longer = length[0] + (label - s) * (label - s) * length[0] / D  # the step is at a right angle to w_old
    if not longer <= LARGEST_WEIGHT:
        return DROPPED
    folded = scale_all(w, (both - label * s) / D)  # eq. 2
    put(w, j, x, length[0] * (label - s) / D)  # eq. 3
    length[0] = longer
    return MOVED | folded


@kernel
def _shorten(w: Weights) -> int:
    """The weights and, where there is one, their mean so far."""
    scale_all(w, SHORTER)
    for slot in range(w.total.size):
        settle(w, slot)
        w.total[slot] *= SHORTER
    return REWROTE
