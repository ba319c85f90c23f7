"""Winnow, Balanced Winnow and Modified Balanced Winnow (MBW). Carvalho & Cohen, KDD 2006, section 2.2 and table 2.

Values must not be negative. The bias in slot 0 is the paper's always-on feature. A row is divided by its L1 norm, which
is done last, on the sum: so a fresh model scores exactly 0. As in the paper's test mode, the answer leaves out features
that no learned event has had, from the sum and from the norm alike (with `selected` also those that are not selected);
the rule itself goes by the score of all of them. Weights are cut to [1e-100, 1e100], and 1 − x is never below 1e-3.
"""

import math
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat

from learners.batch import BIAS, Array, Batch, Flags, Ints
from learners.kernels import LARGEST_WEIGHT, kernel, row
from learners.learner import EVERY, MOVED, Layout, Terms
from learners.linear.learner import WeighingLearner, at
from learners.linear.threshold import answer_of, refuse_negative, seen_and_all, threshold_scores
from learners.linear.weights import (
    NO_MASK,
    NONE,
    Shape,
    Weights,
    answering,
    count_hypothesis,
    current,
    fresh_weights,
    is_plain,
    outputs,
    settle_row,
)

SMALLEST_WEIGHT = 1e-100
SMALLEST_REST = 1e-3
"""The least that 1 − x_j may be in MBW: a row of the bias alone has x = 1."""

LARGEST_EXPONENT = 461.0
"""e to this takes any weight from one end of its range to the other."""

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
    """What the three share."""

    alpha: float = Field(default=1.5, gt=1.0, le=1e100)
    """Promotion: by what a weight is multiplied that should have been larger."""
    beta: float = Field(default=0.5, ge=1e-100, lt=1.0)
    """Demotion: by what a weight is multiplied that should have been smaller."""
    theta: float = Field(default=1.0, gt=0.0, le=1e100)
    """Threshold that the weighted mean of a row is held against."""

    def takes_negative(self) -> bool:
        return False

    def refusals(self, X: Batch) -> Flags:
        return refuse_negative(X, super().refusals(X))

    def settled(self, layout: Layout) -> "Multiplicative":
        if not layout.bias:
            raise ValueError(f"{self.kind} needs the always-on feature in slot 0: set features.bias to true")
        return self

    def selectors(self) -> tuple[str, ...]:
        return ()

    def score_rows(self, state: State, X: Batch) -> Array:
        return threshold_scores(state.w, state.v, state.seen, self.theta, X)

    def terms(self, state: State, X: Batch, column: int) -> Terms:
        del column
        j = X.indices
        answers, effective = _effective(at(state.w, j), at(state.v, j), state.seen[j])
        n = X.values[answers].sum()
        values = np.where(answers, X.values / n, 0.0) if n > 0.0 else np.zeros(j.size)
        return Terms(j, values, effective, -self.theta)

    def weights(self, state: State, column: int, slots: slice = EVERY) -> Array:
        del column
        return _effective(at(state.w, slots), at(state.v, slots), state.seen[slots])[1]

    def _fresh(self, dim: int, shape: Shape, u: float, v: float | None) -> State:
        against = fresh_weights(0, Shape()) if v is None else fresh_weights(dim, shape._replace(selected=False), v)
        seen = np.zeros(dim, np.uint8)
        seen[BIAS] = 1
        return State(fresh_weights(dim, shape, u), against, np.zeros(1, np.int64), np.zeros(1, np.int64), seen)

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        margin, by_x = (self.M, True) if isinstance(self, ModifiedBalancedWinnow) else (0.0, False)
        return _learn(state.w, state.v, state.seen, self.alpha, self.beta, self.theta, margin, by_x, X, y)


class Winnow(Multiplicative):
    """Choose it for many features of which few speak for the class and none against it."""

    kind: Literal["winnow"] = "winnow"
    rule = "score w·x/‖x‖₁ − θ; on a mistake w_j *= α (y > 0) or β (y < 0)"
    w0: Start = 1.0
    """Weight of a feature at the start."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return self._fresh(dim, shape, self.w0, None)


class Balanced(Multiplicative):
    """What the two with a weight for and a weight against share."""

    u0: Start = 2.0
    """Weight for, at the start."""
    v0: Start = 1.0
    """Weight against, at the start."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return self._fresh(dim, shape, self.u0, self.v0)

    def selectors(self) -> tuple[str, ...]:
        return ("efs",)

    def sizes(self, state: State) -> tuple[Array, NDArray[np.bool_]]:
        sizes = np.abs(answering(state.w._replace(mask=NO_MASK)) - answering(state.v))
        return sizes, state.seen > 0

    def norm(self, state: State) -> float:
        return float(np.sqrt(np.square(current(state.w) - current(state.v)).sum()))


class BalancedWinnow(Balanced):
    """Choose it for many features of which few matter, for or against the class."""

    kind: Literal["winnow-balanced"] = "winnow-balanced"
    rule = "score (u − v)·x/‖x‖₁ − θ; on a mistake u_j *= α, v_j *= β, or the reverse"


class ModifiedBalancedWinnow(Balanced):
    """Choose it for text in a single pass: it learns within a margin, and more from what stands out in a row."""

    kind: Literal["mbw"] = "mbw"
    rule = "as winnow-balanced, where y·score ≤ M, factors α(1 + x_j) and β(1 − x_j)"
    M: NonNegativeFloat = 1.0
    """The margin within which a right answer still counts as a mistake."""


def _effective(w: Weights, v: Weights, seen: Flags) -> tuple[NDArray[np.bool_], Array]:
    """Which features answer, and u − v of those; v is empty where there is only w."""
    answers: NDArray[np.bool_] = (seen > 0) & (w.mask > 0) if w.mask.size else seen > 0
    weights = answering(w._replace(mask=NO_MASK))
    return answers, np.where(answers, weights - answering(v) if v.v.size else weights, 0.0)


@kernel
def _raised(factor: float, c: float) -> float:
    """`factor^c`, as far as it can matter."""
    if c == 1.0:
        return factor
    return math.exp(min(LARGEST_EXPONENT, max(-LARGEST_EXPONENT, c * math.log(factor))))


@kernel
def _clipped(weight: float) -> float:
    return min(LARGEST_WEIGHT, max(SMALLEST_WEIGHT, weight))


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
    """One form for the three: Winnow has no v, and only MBW a margin and factors that depend on x."""
    scores, moved = outputs(y.size)
    averaged, plain, balanced = w.mode[0] != NONE, is_plain(w), v.v.size > 0
    for t in range(y.size):
        j, x = row(X, t)
        scores[t], s, n = seen_and_all(w.v, v.v, seen, theta, j, x)
        if not plain:
            scores[t] = answer_of(w, v, seen, theta, j, x)
        c = X.weights[t]
        if c == 0.0:
            continue
        mistake = y[t] * s <= M
        if mistake and averaged:
            settle_row(w, j)
            if balanced:
                settle_row(v, j)
        up, down = _raised(alpha, c), _raised(beta, c)
        for k in range(j.size):
            if x[k] == 0.0:
                continue
            slot = j[k]
            seen[slot] = 1
            if not mistake:
                continue
            if by_x:  # table 2
                up = _raised(alpha * (1.0 + x[k] / n), c)
                down = _raised(beta * max(SMALLEST_REST, 1.0 - x[k] / n), c)
            w.v[slot] = _clipped(w.v[slot] * (up if y[t] > 0.0 else down))
            if balanced:
                v.v[slot] = _clipped(v.v[slot] * (down if y[t] > 0.0 else up))
            moved[t] = MOVED
        if averaged:
            count_hypothesis(w, moved[t])
        if averaged and balanced:
            count_hypothesis(v, moved[t])
    return scores, moved
