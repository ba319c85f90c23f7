"""Winnow, Balanced Winnow and Modified Balanced Winnow (MBW). Carvalho & Cohen, KDD 2006, section
2.2 and table 2.

Values must not be negative. The bias in slot 0 is the paper's always-on feature. The sum over a row
is divided by the row's L1 norm (not each value first), so a fresh model scores exactly 0. As in the
paper's test mode, scoring ignores features that no learned event has had, both in the sum and in
the norm. With `selected` it also ignores features that are not selected. The update rule uses the
score of all features. Weights are clipped to [1e-100, 1e100], and 1 − x is never below 1e-3.
"""

import math
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat

from learners.batch import BIAS, Array, Batch, Flags, Ints, Slots
from learners.jit import ACCEPTED, LARGEST_WEIGHT, NEGATIVE, kernel, row
from learners.learner import EVERY, MOVED, Capabilities, Layout, Terms
from learners.linear.learner import WeighingLearner, at
from learners.linear.weights import (
    NO_MASK,
    NONE,
    Shape,
    Weights,
    catch_up_row,
    count_hypothesis,
    current,
    fresh_weights,
    is_plain,
    outputs,
    scoring_weights,
)

SMALLEST_WEIGHT = 1e-100
SMALLEST_REST = 1e-3
"""Smallest value of 1 − x_j in MBW: a row with only the bias has x = 1."""

LARGEST_EXPONENT = 461.0
"""Largest exponent. A factor of e to this moves a weight from one end of its range to the other."""

Start = Annotated[float, Field(ge=SMALLEST_WEIGHT, le=LARGEST_WEIGHT)]


class State(NamedTuple):
    w: Weights
    """w, or u of the balanced rules."""
    v: Weights
    """v of the balanced rules, else empty."""
    updates: Ints
    dropped: Ints
    seen: Flags
    """1 for each feature that a learned event has had."""


class Multiplicative(WeighingLearner):
    """Parameters that the three share."""

    alpha: float = Field(default=1.5, gt=1.0, le=1e100)
    """Promotion: factor for a weight that should have been larger."""
    beta: float = Field(default=0.5, ge=1e-100, lt=1.0)
    """Demotion: factor for a weight that should have been smaller."""
    theta: float = Field(default=1.0, gt=0.0, le=1e100)
    """Threshold with which the weighted mean of a row is compared."""

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(takes_negative=False, selectors=())

    def row_refusals(self, X: Batch) -> Flags:
        return _refuse_negative(X, super().row_refusals(X))

    def bind(self, layout: Layout) -> "Multiplicative":
        if not layout.bias:
            raise ValueError(
                f"{self.kind} needs the always-on feature in slot 0: set features.bias to true"
            )
        return self

    def score_rows(self, state: State, X: Batch) -> Array:
        return _scores(state.w, state.v, state.seen, self.theta, X)

    def terms(self, state: State, X: Batch, column: int) -> Terms:
        del column
        j = X.indices
        scored, effective = _effective_weights(at(state.w, j), at(state.v, j), state.seen[j])
        n = X.values[scored].sum()
        values = np.where(scored, X.values / n, 0.0) if n > 0.0 else np.zeros(j.size)
        return Terms(j, values, effective, -self.theta)

    def weights(self, state: State, column: int, slots: slice = EVERY) -> Array:
        del column
        return _effective_weights(at(state.w, slots), at(state.v, slots), state.seen[slots])[1]

    def _fresh(self, dim: int, shape: Shape, u: float, v: float | None) -> State:
        against = (
            fresh_weights(0, Shape())
            if v is None
            else fresh_weights(dim, shape._replace(selected=False), v)
        )
        seen = np.zeros(dim, np.uint8)
        seen[BIAS] = 1
        return State(
            fresh_weights(dim, shape, u),
            against,
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
            seen,
        )

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        margin, by_x = (self.M, True) if isinstance(self, ModifiedBalancedWinnow) else (0.0, False)
        return _learn(
            state.w, state.v, state.seen, self.alpha, self.beta, self.theta, margin, by_x, X, y
        )


class Winnow(Multiplicative):
    """Choose it for many features of which few speak for the class and none against it."""

    kind: Literal["winnow"] = "winnow"
    rule = "score w·x/‖x‖₁ − θ; on a mistake w_j *= α (y > 0) or β (y < 0)"
    w0: Start = 1.0
    """Weight of a feature at the start."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return self._fresh(dim, shape, self.w0, None)


class Balanced(Multiplicative):
    """Parameters of the two rules with a weight for and a weight against."""

    u0: Start = 2.0
    """Weight for, at the start."""
    v0: Start = 1.0
    """Weight against, at the start."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return self._fresh(dim, shape, self.u0, self.v0)

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(selectors=("efs",))

    def sizes(self, state: State) -> tuple[Array, NDArray[np.bool_]]:
        sizes = np.abs(scoring_weights(state.w._replace(mask=NO_MASK)) - scoring_weights(state.v))
        return sizes, state.seen > 0

    def norm(self, state: State) -> float:
        return float(np.sqrt(np.square(current(state.w) - current(state.v)).sum()))


class BalancedWinnow(Balanced):
    """Choose it for many features of which few matter, for or against the class."""

    kind: Literal["winnow-balanced"] = "winnow-balanced"
    rule = "score (u − v)·x/‖x‖₁ − θ; on a mistake u_j *= α, v_j *= β, or the reverse"


class ModifiedBalancedWinnow(Balanced):
    """Choose it for text in a single pass: it learns within a margin, and more from what stands
    out in a row.
    """

    kind: Literal["mbw"] = "mbw"
    rule = "as winnow-balanced, where y·score ≤ M, factors α(1 + x_j) and β(1 − x_j)"
    M: NonNegativeFloat = 1.0
    """The margin within which a right answer still counts as a mistake."""


def _effective_weights(w: Weights, v: Weights, seen: Flags) -> tuple[NDArray[np.bool_], Array]:
    """Return which features score, and u − v of those features (w if v is empty)."""
    scored: NDArray[np.bool_] = (seen > 0) & (w.mask > 0) if w.mask.size else seen > 0
    weights = scoring_weights(w._replace(mask=NO_MASK))
    return scored, np.where(scored, weights - scoring_weights(v) if v.v.size else weights, 0.0)


@kernel
def _refuse_negative(X: Batch, codes: Flags) -> Flags:
    """Refuse rows with a negative value as NEGATIVE, unless they are refused already."""
    for t in range(codes.size):
        for k in range(X.indptr[t], X.indptr[t + 1]):
            if X.values[k] < 0.0 and codes[t] == ACCEPTED:
                codes[t] = NEGATIVE
    return codes


@kernel
def _scores(w: Weights, v: Weights, seen: Flags, theta: float, X: Batch) -> Array:
    scores = np.empty(X.weights.size)
    plain = is_plain(w)
    for t in range(scores.size):
        j, x = row(X, t)
        scores[t] = (
            _score_seen_and_all(w.v, v.v, seen, theta, j, x)[0]
            if plain
            else _score_unmasked(w, v, seen, theta, j, x)
        )
    return scores


@kernel
def _learn(
    w: Weights,
    v: Weights,
    seen: Flags,
    alpha: float,
    beta: float,
    theta: float,
    M: float,
    by_x: bool,
    X: Batch,
    y: Array,
) -> tuple[Array, Flags]:
    """One formula for the three: Winnow has no v, and only MBW has a margin and factors with x."""
    scores, moved = outputs(y.size)
    averaged, plain, balanced = w.mode[0] != NONE, is_plain(w), v.v.size > 0
    for t in range(y.size):
        j, x = row(X, t)
        scores[t], s, n = _score_seen_and_all(w.v, v.v, seen, theta, j, x)
        if not plain:
            scores[t] = _score_unmasked(w, v, seen, theta, j, x)
        c = X.weights[t]
        if c == 0.0:
            continue
        mistake = y[t] * s <= M
        if mistake and averaged:
            catch_up_row(w, j)
            if balanced:
                catch_up_row(v, j)
        up, down = _power(alpha, c), _power(beta, c)
        for k in range(j.size):
            if x[k] == 0.0:
                continue
            slot = j[k]
            seen[slot] = 1
            if not mistake:
                continue
            if by_x:  # table 2
                up = _power(alpha * (1.0 + x[k] / n), c)
                down = _power(beta * max(SMALLEST_REST, 1.0 - x[k] / n), c)
            w.v[slot] = _clip(w.v[slot] * (up if y[t] > 0.0 else down))
            if balanced:
                v.v[slot] = _clip(v.v[slot] * (down if y[t] > 0.0 else up))
            moved[t] = MOVED
        if averaged:
            count_hypothesis(w, moved[t])
        if averaged and balanced:
            count_hypothesis(v, moved[t])
    return scores, moved


@kernel
def _score_seen_and_all(
    u: Array, v: Array, seen: Flags, theta: float, j: Slots, x: Array
) -> tuple[float, float, float]:
    """Return the score of the seen features, the score of all features, and the norm of all."""
    balanced = v.size > 0
    known, other, n_known, n_other = 0.0, 0.0, 0.0, 0.0
    for k in range(j.size):
        weight = u[j[k]] - v[j[k]] if balanced else u[j[k]]
        if seen[j[k]]:
            known += weight * x[k]
            n_known += x[k]
        else:
            other += weight * x[k]
            n_other += x[k]
    n = n_known + n_other
    return _apply_threshold(known, n_known, theta), _apply_threshold(known + other, n, theta), n


@kernel
def _score_unmasked(w: Weights, v: Weights, seen: Flags, theta: float, j: Slots, x: Array) -> float:
    """The score of the seen and unmasked features, by the averaged weights if there are any."""
    total, n = 0.0, 0.0
    mask = w.mask
    for k in range(j.size):
        if seen[j[k]] and (mask.size == 0 or mask[j[k]]):
            n += x[k]
    total = _weighted_sum(w, seen, mask, j, x)
    if v.v.size > 0:
        total -= _weighted_sum(v, seen, mask, j, x)
    return _apply_threshold(total, n, theta)


@kernel
def _weighted_sum(w: Weights, seen: Flags, mask: Flags, j: Slots, x: Array) -> float:
    total = 0.0
    averaged = w.counted[0] > 0
    v, sums, upto, clock = w.v, w.total, w.upto, w.clock[0]
    for k in range(j.size):
        slot = j[k]
        if seen[slot] and (mask.size == 0 or mask[slot]):
            total += (sums[slot] + v[slot] * (clock - upto[slot]) if averaged else v[slot]) * x[k]
    return total / w.counted[0] if averaged else total


@kernel
def _apply_threshold(total: float, n: float, theta: float) -> float:
    return total / n - theta if n > 0.0 else -theta


@kernel
def _power(factor: float, c: float) -> float:
    """`factor^c`, clipped where more makes no difference."""
    if c == 1.0:
        return factor
    return math.exp(min(LARGEST_EXPONENT, max(-LARGEST_EXPONENT, c * math.log(factor))))


@kernel
def _clip(weight: float) -> float:
    return min(LARGEST_WEIGHT, max(SMALLEST_WEIGHT, weight))
