"""Projectron and Projectron++. Orabona, Keshet & Caputo (2008, 2009); McKenna's thesis, sections
3.2.2 and 7.2.

The forgetful Projectron (section 7.3) stores the new row and projects the oldest one away.
"""

import math
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import LARGEST_WEIGHT, kernel
from learners.kernel.gram_inverse import (
    LONGEST,
    Inverse,
    absorb,
    can_grow,
    check_next_row,
    closest,
    distance,
    fresh_inverse,
    grow,
    is_valid_inverse,
    project,
    rebuild,
    shrink,
)
from learners.kernel.learner import KernelLearner
from learners.kernel.similarity import Kernel, SelfSimilarity, similarities, weighted_sum
from learners.kernel.support import Support, Work, add, drop, has_room, has_room_without
from learners.learner import DROPPED, MOVED

MOST_ROWS = 1 << 15
"""Rows. n rows need n²/2 numbers for the inverse Gram matrix: 4 GiB for this many."""


class State(NamedTuple):
    support: Support
    inverse: Inverse
    square: Array
    """‖f‖²."""
    updates: Ints
    dropped: Ints


class ProjectingLearner(KernelLearner):
    """A learner that keeps the inverse Gram matrix of its stored rows, so it needs a positive
    definite kernel.
    """

    def takes_sigmoid(self) -> bool:
        return False

    def fresh(self, support: Support) -> State:
        zero = np.zeros(1, np.int64)
        return State(support, fresh_inverse(self.inverse_rows()), np.zeros(1), zero, zero.copy())

    def inverse_rows(self) -> int:
        """Maximum number of rows in the inverse."""
        return self.rows()

    def is_valid(self, state: State) -> bool:
        return super().is_valid(state) and is_valid_inverse(
            state.inverse, int(state.support.size[0])
        )


class Projectron(ProjectingLearner):
    """Choose it for few stored rows: if they can nearly express a mistaken row, it is not stored,
    and their coefficients move instead.
    """

    kind: Literal["projectron"] = "projectron"
    rule = (
        "on y·f(x) ≤ 0: a += y·K⁻¹k if the projection is no farther than η from x, "
        "else add x with a = y"
    )
    eta: float = Field(default=0.1, ge=0.0)
    """η, how far a row may be from its projection, in units of √K(x,x) where the kernel is
    normalised."""
    max_support: int = Field(default=1000, ge=1, le=MOST_ROWS)
    """Maximum number of stored rows; when it is reached, every mistake is projected, however
    far. n rows cost n²/2 numbers."""
    budget: int | None = Field(default=None, ge=1, le=MOST_ROWS)
    """B in place of `max_support`: η then follows from B and the loss at each mistake, and `eta`
    is not used. Use it for several hundred rows or more: η grows as B falls, and if B is 25 or
    less, only the first row of a normalised kernel is far enough to be stored."""

    @model_validator(mode="after")
    def _one_cap(self) -> Self:
        if (
            self.budget is not None
            and self.max_support != type(self).model_fields["max_support"].default
        ):
            raise ValueError("budget takes the place of max_support: leave one of them out")
        return self

    def rows(self) -> int:
        return self.budget or self.max_support

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        U = largest_norm(self.budget) if self.budget else 0.0
        margin = 1.0 if isinstance(self, ProjectronPlus) else 0.0
        return _learn(
            state.support, state.inverse, state.square, self.eta, U, margin, K, X, y, work
        )


class ProjectronPlus(Projectron):
    """Choose it first among the projectrons: it learns from narrow margins too, and stores nothing
    for them.
    """

    kind: Literal["projectron++"] = "projectron++"  # type: ignore[assignment]
    rule = (
        "projectron; and on 0 < y·f(x) < 1: a += τ·y·K⁻¹k "
        "where the loss is more than the projection costs"
    )
    eta: PositiveFloat = 0.1
    """η, how far a row may be from its projection, in units of √K(x,x) where the kernel is
    normalised."""


class ForgetfulProjectron(ProjectingLearner):
    """Choose it where the concept drifts: old rows are dropped, and the others take over what they
    can express of them.
    """

    kind: Literal["forgetful-projectron"] = "forgetful-projectron"
    rule = (
        "on y·f(x) ≤ 0: add x with a = y; "
        "if over the budget, a += a_r·K⁻¹k_r of the oldest r, which is dropped"
    )
    family = "forgetful"
    paper = "McKenna's thesis, section 7.3"
    eta: float = Field(default=0.0, ge=0.0)
    """η: while the budget is not full, the oldest row is forgotten if f loses at most this norm by
    it; 0: never."""
    budget: int = Field(default=1000, ge=1, le=MOST_ROWS)
    """B, the maximum number of stored rows; n rows cost n²/2 numbers."""

    def rows(self) -> int:
        return self.budget

    def inverse_rows(self) -> int:
        return self.budget + 1  # the new row is added before the oldest is removed

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return _learn_forgetful(state.support, state.inverse, state.square, self.eta, K, X, y, work)


def largest_norm(budget: int) -> float:
    """U, the largest norm of the hypotheses in the bound for this budget.

    McKenna's thesis, section 3.2.1.
    """
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
        f = scores[t] = weighted_sum(support, work.k)
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
            if n == 0 or (
                delta > near and left > inverse.limit[0] * me.k and has_room(support, X, t)
            ):
                close = closest(inverse, n, d, left, me.k)
                moved[t] = _store(support, inverse, square, X, t, y[t], f, me, d, delta)
            else:
                moved[t] = _step(support, square, y[t], f, p, d)
            if support.size[0] > 0:
                check_next_row(support, inverse, square, K, close, work, d)
        else:
            cost = delta / eta if U == 0.0 else delta * U
            if loss > cost and p > 0.0:
                tau = min(1.0, loss / p, 2.0 * (loss - cost) / p)
                moved[t] = _step(support, square, tau * y[t], f, p, d)
    return scores, moved


@kernel
def _store(
    support: Support,
    inverse: Inverse,
    square: Array,
    X: Batch,
    t: int,
    a: float,
    f: float,
    me: SelfSimilarity,
    d: Array,
    delta: float,
) -> int:
    """Store row t with coefficient a. Return MOVED or DROPPED."""
    grown = square[0] + 2.0 * a * f + me.k
    if not (
        has_room(support, X, t) and can_grow(d, support.size[0], delta) and grown <= LARGEST_WEIGHT
    ):
        return DROPPED
    grow(inverse, support.size[0], d, delta, me.k)
    add(support, X, t, a, me.square, me.tree)
    square[0] = max(0.0, grown)
    return MOVED


@kernel
def _learn_forgetful(
    support: Support,
    inverse: Inverse,
    square: Array,
    eta: float,
    K: Kernel,
    X: Batch,
    y: Array,
    work: Work,
) -> tuple[Array, Flags]:
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    d = np.empty(support.a.size + 1)
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        f = scores[t] = weighted_sum(support, work.k)
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
        if (n > 0 and left <= inverse.limit[0] * me.k) or not has_room_without(support, X, t, 0, n):
            moved[t] = _step(support, square, y[t], f, p, d)
            if moved[t] == MOVED and n > 1 and _can_forget(support, inverse, n, eta):
                _project_oldest_away(support, inverse, square, n, 0.0, d)
        elif can_grow(d, n, math.sqrt(left)) and grown <= LARGEST_WEIGHT:
            square[0] = max(0.0, grown)
            close = closest(inverse, n, d, left, me.k)
            grow(inverse, n, d, math.sqrt(left), me.k)
            n, a = n + 1, y[t]
            forget = n > 1 and _can_forget(support, inverse, n, eta)
            while forget or not has_room(support, X, t):  # more than B rows do not fit either
                a = _project_oldest_away(support, inverse, square, n, a, d)
                n, close, forget = n - 1, close - 1, False
            add(support, X, t, a, me.square, me.tree)
            moved[t] = MOVED
        else:
            moved[t] = DROPPED
        if support.size[0] > 0:
            check_next_row(support, inverse, square, K, close, work, d)
    return scores, moved


@kernel
def _can_forget(support: Support, inverse: Inverse, n: int, eta: float) -> bool:
    """Whether dropping the oldest row costs f no more than η: |a_r|·δ_r ≤ η."""
    return bool(eta > 0.0 and abs(support.a[0]) * distance(inverse, n, 0) <= eta)


@kernel
def _project_oldest_away(
    support: Support, inverse: Inverse, square: Array, n: int, a: float, d: Array
) -> float:
    """Project the oldest of n rows away.

    The last of them may be a new row with coefficient a; return its new coefficient.
    """
    lost = support.a[0] * shrink(inverse, n, 0, d)
    a_r, stored = support.a[0], support.size[0]
    drop(support, 0)
    absorb(support.a, stored - 1, a_r, d)
    square[0] = max(0.0, square[0] - lost * lost)  # the lost part is orthogonal to the rest
    moved_a = a + a_r * d[n - 2]
    return moved_a if n > stored and abs(moved_a) <= LARGEST_WEIGHT else a


@kernel
def _step(support: Support, square: Array, a: float, f: float, p: float, d: Array) -> int:
    """Move f by a·P k, where P k has the coefficients d and the squared norm p.

    Return MOVED or DROPPED.
    """
    grown = square[0] + 2.0 * a * f + a * a * p
    if not (p > 0.0 and grown <= LARGEST_WEIGHT and absorb(support.a, support.size[0], a, d)):
        return DROPPED
    square[0] = max(0.0, grown)
    return MOVED
