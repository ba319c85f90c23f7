"""ROMMA, the relaxed online maximum margin algorithm. Carvalho & Cohen, KDD 2006, section 2.1, eq.
2–3.

Where both constraints cannot hold (x parallel to w), the weights restart from this event, as at the
first mistake. On data that no weights separate, ‖w‖ grows without bound. The 1 of the margin soon
becomes negligible, and the rule depends on the direction of w only. So weights that get too long
are shortened. All labels stay the same, also those of averaged weights.
"""

from typing import Literal, NamedTuple

import numpy as np

from learners.batch import Array, Batch, Flags, Ints, Slots
from learners.jit import LARGEST_WEIGHT, kernel, row, sq_norm
from learners.learner import DROPPED, MOVED, REWROTE
from learners.linear.learner import LinearLearner
from learners.linear.weights import (
    NONE,
    RENEWAL,
    Shape,
    Weights,
    catch_up,
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

PARALLEL = 1e-12
"""Share of ‖x‖²‖w‖² below which the part of x orthogonal to w is only rounding error."""

GROWTH = 100.0
"""Factor by which ‖w‖² may grow before it is recomputed: the relative error of its recursion
grows as fast as it does."""

LONG, SHORTER = 1e80, 1e-10
"""Where ‖w‖² exceeds LONG, the weights are multiplied by SHORTER."""


class State(NamedTuple):
    w: Weights
    updates: Ints
    dropped: Ints
    length: Array
    """‖w‖²."""
    computed: Array
    """‖w‖² when it was last recomputed from the weights."""


class Romma(LinearLearner):
    """Choose it on separable data: it keeps what it has learned and approaches the widest margin,
    without a step size.
    """

    kind: Literal["romma"] = "romma"
    rule = "on y·s ≤ 0: the shortest w with w·x = y and w·w_old ≥ ‖w_old‖²"
    aggressive: bool = False
    """Update whenever the margin 1 is not reached, not only on a mistake."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return State(
            fresh_weights(dim, shape),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
            np.zeros(1),
            np.zeros(1),
        )

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return _learn(
            state.w, state.length, state.computed, state.updates[0], self.aggressive, X, y
        )


@kernel
def _learn(
    w: Weights, length: Array, computed: Array, updates: int, aggressive: bool, X: Batch, y: Array
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
        if norm > 0.0 and (y[t] * s <= 0.0 or (aggressive and y[t] * s < 1.0)):
            moved[t] = _step(w, length, computed, j, x, norm, s, y[t])
            updates += moved[t] & MOVED
            if moved[t] & MOVED and (
                updates % RENEWAL == 0 or length[0] > min(GROWTH * computed[0], LONG)
            ):
                if length[0] > LONG:
                    moved[t] |= _shorten(w)
                length[0] = computed[0] = sq_norm_of(w.v, w.scale[0])
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved


@kernel
def _step(
    w: Weights,
    length: Array,
    computed: Array,
    j: Slots,
    x: Array,
    norm: float,
    s: float,
    label: float,
) -> int:
    """Move to the shortest weights with w·x = y and w·w_old ≥ ‖w_old‖²."""
    both = norm * length[0]
    D = both - s * s
    # no such weights exist, or the second constraint already holds
    if PARALLEL * both >= D or label * s >= both:
        if not 1.0 / norm <= LARGEST_WEIGHT:
            return DROPPED
        folded = scale_all(w, 0.0) if length[0] > 0.0 else 0
        put(w, j, x, label / norm)
        length[0] = computed[0] = 1.0 / norm
        return MOVED | folded
    # the step is orthogonal to w_old
    longer = length[0] + (label - s) * (label - s) * length[0] / D
    if not longer <= LARGEST_WEIGHT:
        return DROPPED
    folded = scale_all(w, (both - label * s) / D)  # eq. 2
    put(w, j, x, length[0] * (label - s) / D)  # eq. 3
    length[0] = longer
    return MOVED | folded


@kernel
def _shorten(w: Weights) -> int:
    """Shorten the weights and, if there is one, their running sum."""
    scale_all(w, SHORTER)
    for slot in range(w.total.size):
        catch_up(w, slot)
        w.total[slot] *= SHORTER
    return REWROTE
