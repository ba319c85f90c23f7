"""The forgetful Projectron: the newcomer is stored, the oldest row is projected away. McKenna's thesis, section 7.3."""

import math
from typing import Literal

import numpy as np
from pydantic import Field

from learners.batch import Array, Batch, Flags
from learners.dual.inverse import Inverse, distance, grow, growable, project, shrink
from learners.dual.projectron import MOST_ROWS, ProjectingLearner, State, step
from learners.dual.similarity import Kernel, similarities, weighted
from learners.dual.support import Support, add, drop, room, room_without
from learners.dual.watch import LONGEST, absorb, closest, rebuild, watch
from learners.dual.work import Work
from learners.kernels import LARGEST_WEIGHT, kernel
from learners.learner import DROPPED, MOVED


class ForgetfulProjectron(ProjectingLearner):
    """Choose it where the concept drifts: what is old goes, and the rest keeps what it can express of it."""

    kind: Literal["forgetful-projectron"] = "forgetful-projectron"
    rule = "on y·f(x) ≤ 0: add x with a = y; if over the budget, a += a_r·K⁻¹k_r of the oldest r, which leaves"
    eta: float = Field(default=0.0, ge=0.0)
    """η, how much of f, in norm, may be lost to forget the oldest row before the budget is full; 0: none before."""
    budget: int = Field(default=1000, ge=1, le=MOST_ROWS)
    """B, the most rows that are stored; n rows cost n²/2 numbers."""

    def rows(self) -> int:
        return self.budget

    def joining(self) -> int:
        return self.budget + 1  # the newcomer joins before the oldest leaves

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return _learn(state.support, state.inverse, state.square, self.eta, K, X, y, work)


@kernel
def _learn(
    support: Support, inverse: Inverse, square: Array, eta: float, K: Kernel, X: Batch, y: Array, work: Work
) -> tuple[Array, Flags]:
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    d = np.empty(support.a.size + 1)
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        f = scores[t] = weighted(support, work.k)
        if X.weights[t] == 0.0 or me.k <= 0.0 or y[t] * f > 0.0:
            continue
        n = support.size[0]
        p = project(inverse, n, work.k, d)
        if not p <= LONGEST * me.k:
            rebuild(support, inverse, square, K, work, d)
            moved[t] = DROPPED
            continue
        left = max(0.0, me.k - p)
        close = -1
        grown = square[0] + 2.0 * y[t] * f + me.k
        if (n > 0 and left <= inverse.limit[0] * me.k) or not room_without(support, X, t, 0, n):
            moved[t] = step(support, square, y[t], f, p, d)
            if moved[t] == MOVED and n > 1 and _small(support, inverse, n, eta):
                _forget(support, inverse, square, n, 0.0, d)
        elif growable(d, n, math.sqrt(left)) and grown <= LARGEST_WEIGHT:
            square[0] = max(0.0, grown)
            close = closest(inverse, n, d, left, me.k)
            grow(inverse, n, d, math.sqrt(left), me.k)
            n, a = n + 1, y[t]
            forget = n > 1 and _small(support, inverse, n, eta)
            while forget or not room(support, X, t):  # over B is without room too
                a = _forget(support, inverse, square, n, a, d)
                n, close, forget = n - 1, close - 1, False
            add(support, X, t, a, me.square, me.tree)
            moved[t] = MOVED
        else:
            moved[t] = DROPPED
        if support.size[0] > 0:
            watch(support, inverse, square, K, close, work, d)
    return scores, moved


@kernel
def _small(support: Support, inverse: Inverse, n: int, eta: float) -> bool:
    """Whether f loses no more than η with the oldest row, |a_r|·δ_r."""
    return bool(eta > 0.0 and abs(support.a[0]) * distance(inverse, n, 0) <= eta)


@kernel
def _forget(support: Support, inverse: Inverse, square: Array, n: int, a: float, d: Array) -> float:
    """Project the oldest of n rows away; the last of them may be a newcomer of coefficient a, which is returned."""
    lost = support.a[0] * shrink(inverse, n, 0, d)
    a_r, stored = support.a[0], support.size[0]
    drop(support, 0)
    absorb(support.a, stored - 1, a_r, d)
    square[0] = max(0.0, square[0] - lost * lost)  # what is lost is orthogonal to the rest
    joined = a + a_r * d[n - 2]
    return joined if n > stored and abs(joined) <= LARGEST_WEIGHT else a
