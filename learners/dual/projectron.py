"""Projectron and Projectron++. Orabona, Keshet & Caputo (2008, 2009); McKenna's thesis, sections 3.2.2 and 7.2."""

import math
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from learners.batch import Array, Batch, Flags, Ints
from learners.dual.inverse import Inverse, fresh_inverse, grow, growable, project
from learners.dual.inverse import possible as possible_inverse
from learners.dual.learner import KernelLearner
from learners.dual.similarity import Kernel, similarities, weighted
from learners.dual.similarity import Self as Own
from learners.dual.support import Support, add, room
from learners.dual.watch import LONGEST, absorb, closest, rebuild, watch
from learners.dual.work import Work
from learners.kernels import LARGEST_WEIGHT, kernel
from learners.learner import DROPPED, MOVED

MOST_ROWS = 1 << 15
"""Rows r take r²/2 numbers of the inverse Gram matrix: here 4 GiB."""


class State(NamedTuple):
    support: Support
    inverse: Inverse
    square: Array
    """‖f‖²."""
    updates: Ints
    dropped: Ints


class ProjectingLearner(KernelLearner):
    """One that keeps the inverse Gram matrix of its stored rows, so it needs a positive definite kernel."""

    def takes_sigmoid(self) -> bool:
        return False

    def fresh(self, support: Support) -> State:
        zero = np.zeros(1, np.int64)
        return State(support, fresh_inverse(self.joining()), np.zeros(1), zero, zero.copy())

    def joining(self) -> int:
        """Most rows that the inverse ever has."""
        return self.rows()

    def possible(self, state: State) -> bool:
        return super().possible(state) and possible_inverse(state.inverse, int(state.support.size[0]))


class Projectron(ProjectingLearner):
    """Choose it for few stored rows: a mistake that they can nearly express moves their coefficients instead."""

    kind: Literal["projectron"] = "projectron"
    rule = "on y·f(x) ≤ 0: a += y·K⁻¹k if the projection is no farther than η from x, else add x with a = y"
    eta: float = Field(default=0.1, ge=0.0)
    """η, how far the projection of a row may be from it, in units of √K(x,x) where the kernel is normalised."""
    max_support: int = Field(default=1000, ge=1, le=MOST_ROWS)
    """Most rows that are stored; with so many every mistake is projected, however far. n rows cost n²/2 numbers."""
    budget: int | None = Field(default=None, ge=1, le=MOST_ROWS)
    """B in place of `max_support`: η then follows from it and the loss at each mistake, and `eta` is not used. For some
    hundreds of rows and more: η grows as B falls, and up to 25 nothing but the first row of a normalised kernel is far
    enough to be stored."""

    @model_validator(mode="after")
    def _one_cap(self) -> Self:
        if self.budget is not None and self.max_support != type(self).model_fields["max_support"].default:
            raise ValueError("budget takes the place of max_support: leave one of them out")
        return self

    def rows(self) -> int:
        return self.budget or self.max_support

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        U = largest_norm(self.budget) if self.budget else 0.0
        margin = 1.0 if isinstance(self, ProjectronPlus) else 0.0
        return _learn(state.support, state.inverse, state.square, self.eta, U, margin, K, X, y, work)


class ProjectronPlus(Projectron):
    """Choose it first among those that project: it learns from narrow margins too, and stores nothing for them."""

    kind: Literal["projectron++"] = "projectron++"  # type: ignore[assignment]
    rule = "projectron; and on 0 < y·f(x) < 1: a += τ·y·K⁻¹k where the loss is more than the projection costs"
    eta: PositiveFloat = 0.1
    """η, how far the projection of a row may be from it, in units of √K(x,x) where the kernel is normalised."""


def largest_norm(budget: int) -> float:
    """U, the norm up to which a budget lets hypotheses compete. McKenna's thesis, section 3.2.1."""
    return 0.25 * math.sqrt((budget + 1) / math.log(budget + 1))


@kernel
def _learn(
    support: Support,
    inverse: Inverse,
    square: Array,
    eta: float,
    U: float,
    margin: float,
    K: Kernel,
    X: Batch,
    y: Array,
    work: Work,
) -> tuple[Array, Flags]:
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    d = np.empty(support.a.size)
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        f = scores[t] = weighted(support, work.k)
        mistaken = y[t] * f <= 0.0
        if X.weights[t] == 0.0 or me.k <= 0.0 or not (mistaken or y[t] * f < margin):
            continue
        n, loss = support.size[0], 1.0 - y[t] * f
        p = project(inverse, n, work.k, d)  # ‖P k‖², d = K⁻¹k
        if not p <= LONGEST * me.k:
            rebuild(support, inverse, square, K, work, d)
            moved[t] = DROPPED
            continue
        left = max(0.0, me.k - p)
        delta = math.sqrt(left)
        if mistaken:
            close = -1
            near = eta if U == 0.0 else max(0.0, (2.0 * loss - p - 0.5) / (2.0 * U))  # section 7.2
            if n == 0 or (delta > near and left > inverse.limit[0] * me.k and room(support, X, t)):
                close = closest(inverse, n, d, left, me.k)
                moved[t] = _join(support, inverse, square, X, t, y[t], f, me, d, delta)
            else:
                moved[t] = step(support, square, y[t], f, p, d)
            if support.size[0] > 0:
                watch(support, inverse, square, K, close, work, d)
        else:
            cost = delta / eta if U == 0.0 else delta * U
            if loss > cost and p > 0.0:
                tau = min(1.0, loss / p, 2.0 * (loss - cost) / p)
                moved[t] = step(support, square, tau * y[t], f, p, d)
    return scores, moved


@kernel
def _join(
    support: Support,
    inverse: Inverse,
    square: Array,
    X: Batch,
    t: int,
    a: float,
    f: float,
    me: Own,
    d: Array,
    delta: float,
) -> int:
    """Store row t with coefficient a; returns what that did."""
    grown = square[0] + 2.0 * a * f + me.k
    if not (room(support, X, t) and growable(d, support.size[0], delta) and grown <= LARGEST_WEIGHT):
        return DROPPED
    grow(inverse, support.size[0], d, delta, me.k)
    add(support, X, t, a, me.square, me.tree)
    square[0] = max(0.0, grown)
    return MOVED


@kernel
def step(support: Support, square: Array, a: float, f: float, p: float, d: Array) -> int:
    """Move f by a·P k, where P k has the coefficients d and the squared norm p; returns what that did."""
    grown = square[0] + 2.0 * a * f + a * a * p
    if not (p > 0.0 and grown <= LARGEST_WEIGHT and absorb(support.a, support.size[0], a, d)):
        return DROPPED
    square[0] = max(0.0, grown)
    return MOVED
