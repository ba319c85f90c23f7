"""Winnow in the exponent, balanced: UWin, NWin and their large-margin forms LM-UWin, LM-NWin.
Zhang, section 2.2.

Over [x, −x] a feature has the weights μ·e^h and μ·e^(−h). Its effective weight is 2μ·sinh h, so
only the exponent h is kept. The normalised forms divide by Z = Σ cosh h over all slots, so that all
weights sum to W. |h| is clipped at 200. Z is summed by ranges of |h|: in a single sum the rounding
error of a huge weight would remain after the weight has shrunk.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field, PositiveFloat

from learners.batch import Array, Batch, Flags, Ints, Slots
from learners.jit import LARGEST_WEIGHT, kernel, row
from learners.learner import DROPPED, MOVED, REWROTE
from learners.linear.learner import DualLearner, WeighingLearner
from learners.linear.weights import (
    NONE,
    SMALLEST_TICK,
    Shape,
    Weights,
    catch_up,
    catch_up_row,
    count_hypothesis,
    dot,
    fresh_weights,
    is_plain,
    outputs,
    reported_score,
)

LARGEST_H = 200.0
"""Largest exponent: sinh of it is 4e86."""

RANGE = 5.0
"""Width of the ranges of |h| in which Z is summed."""

RENEW = 65_536
"""Updates after which the sums are recomputed."""

MISTAKES = 0.0
"""The value of C that stands for learning on mistakes, without dual variables."""


class State(NamedTuple):
    w: Weights
    """v = sinh h, with the scale 2μ or W/Z."""
    updates: Ints
    dropped: Ints
    h: Array
    moves: Ints
    """Count of updates. It determines when Z is recomputed."""
    Z: Array
    """Sums of cosh h, one for each range of |h|; empty unless normalised."""
    held: Ints
    """Number of slots in each range."""


class Exponentiated(WeighingLearner):
    """Parameters that the four share."""

    mu: float = Field(default=0.01, ge=1e-100, le=1e10)
    """Weight of each half of a feature at the start."""

    def fresh(self, dim: int, shape: Shape) -> State:
        ranges = int(LARGEST_H / RANGE) + 1 if isinstance(self, Normalised) else 0
        Z, held = np.zeros(ranges), np.zeros(ranges, np.int64)
        Z[:1], held[:1] = dim, dim
        w = fresh_weights(dim, shape)
        w.scale[0] = self.weight_sum(dim) / dim
        return State(
            w,
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
            np.zeros(dim),
            np.zeros(1, np.int64),
            Z,
            held,
        )

    def weight_sum(self, dim: int) -> float:
        """Sum of the weights of all halves at the start, and always if normalised."""
        return 2.0 * dim * self.mu

    def _run(
        self, state: State, eta: float, C: float, X: Batch, y: Array, duals: Array
    ) -> tuple[Array, Flags]:
        parts = (state.w, state.h, state.moves, state.Z, state.held)
        return _learn(*parts, self.weight_sum(state.h.size), eta, C, X, y, duals)


class OnMistakes(Exponentiated):
    """Parameters that UWin and NWin share."""

    eta: PositiveFloat = 0.01
    """Step of the exponents on a mistake."""

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return self._run(state, self.eta, MISTAKES, X, y, np.zeros(0))


class LargeMargin(DualLearner, Exponentiated):
    """Parameters that LM-UWin and LM-NWin share."""

    eta: PositiveFloat = 0.1
    """Step of a dual variable; for many passes over the same rows take 0.01."""
    C: PositiveFloat = 1.0
    """Largest dual variable."""

    def run_duals(self, state: State, X: Batch, y: Array, duals: Array) -> tuple[Array, Flags]:
        return self._run(state, self.eta, self.C, X, y, duals)


class Normalised(Exponentiated):
    """Parameters that NWin and LM-NWin share."""

    W: float | None = Field(default=None, ge=1e-100, le=1e100)
    """Sum of all weights, for and against. Left out: 2·d·μ, with which winnow-exp starts."""

    def weight_sum(self, dim: int) -> float:
        return super().weight_sum(dim) if self.W is None else self.W


class ExponentiatedWinnow(OnMistakes):
    """Choose it for many features of any sign of which few matter."""

    kind: Literal["winnow-exp"] = "winnow-exp"
    rule = "score Σ 2μ·sinh(h_j)·x_j; on y·s ≤ 0: h_j += η·y·x_j"


class NormalisedWinnow(OnMistakes, Normalised):
    """Choose it where scores should not grow with the number of mistakes; it predicts the same
    labels as winnow-exp.
    """

    kind: Literal["winnow-norm"] = "winnow-norm"
    rule = "as winnow-exp, score W·Σ sinh(h_j)·x_j / Σ cosh(h_k)"


class LargeMarginWinnow(LargeMargin):
    """Choose it for text where labels are noisy: it has the margin of an SVM, with weights of
    which few matter.
    """

    kind: Literal["lm-winnow"] = "lm-winnow"
    rule = "score as winnow-exp; a′ = clip(a + η·(1 − y·s), 0, C), h_j += (a′ − a)·y·x_j"


class LargeMarginNormalisedWinnow(LargeMargin, Normalised):
    """Choose it instead of lm-winnow where you can guess the sum of the weights."""

    kind: Literal["lm-winnow-norm"] = "lm-winnow-norm"
    rule = "as lm-winnow with winnow-norm's score"


@kernel
def _learn(
    w: Weights,
    h: Array,
    moves: Ints,
    Z: Array,
    held: Ints,
    W: float,
    eta: float,
    C: float,
    X: Batch,
    y: Array,
    duals: Array,
) -> tuple[Array, Flags]:
    scores, moved = outputs(y.size)
    averaged, plain, normalised = w.mode[0] != NONE, is_plain(w), Z.size > 0
    for t in range(y.size):
        j, x = row(X, t)
        s = w.scale[0] * dot(w.v, j, x)
        scores[t] = s if plain else reported_score(w, j, x, s)
        c = X.weights[t]
        if c == 0.0:
            continue
        step, a = 0.0, 0.0
        if C > MISTAKES:
            a = min(c * C, max(0.0, duals[t] + eta * (1.0 - y[t] * s)))
            step = (a - duals[t]) * y[t]
        elif y[t] * s <= 0.0:
            step = c * eta * y[t]
        if not abs(step) <= LARGEST_WEIGHT:
            moved[t] = DROPPED
        elif step != 0.0:
            moved[t] = MOVED
            moves[0] += 1
            if C > MISTAKES:
                duals[t] = a
            if averaged:
                catch_up_row(w, j)
            _shift(w.v, h, Z, held, j, x, step)
            if normalised:
                if moves[0] % RENEW == 0:
                    _renew(w.v, h, Z)
                moved[t] |= _rescale(w, W / _total(Z))
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved


@kernel
def _shift(v: Array, h: Array, Z: Array, held: Ints, j: Slots, x: Array, step: float) -> None:
    """`h += step·x`: μ·e^h is multiplied by e^(step·x) and μ·e^(−h) divided by it.

    Z changes with both.
    """
    normalised = Z.size > 0
    for k in range(j.size):
        slot = j[k]
        if normalised:
            old = int(abs(h[slot]) / RANGE)
            held[old] -= 1
            Z[old] = Z[old] - _cosh(v[slot]) if held[old] > 0 else 0.0
        h[slot] = min(LARGEST_H, max(-LARGEST_H, h[slot] + step * x[k]))
        v[slot] = math.sinh(h[slot])
        if normalised:
            new = int(abs(h[slot]) / RANGE)
            held[new] += 1
            Z[new] += _cosh(v[slot])


@kernel
def _cosh(sinh: float) -> float:
    return math.sqrt(1.0 + sinh * sinh)


@kernel
def _renew(v: Array, h: Array, Z: Array) -> None:
    """Recompute the sums in O(dim): rounding errors of many updates add up."""
    Z[:] = 0.0
    for slot in range(v.size):
        Z[int(abs(h[slot]) / RANGE)] += _cosh(v[slot])


@kernel
def _total(Z: Array) -> float:
    total = 0.0
    for k in range(Z.size):
        total += Z[k]
    return total


@kernel
def _rescale(w: Weights, scale: float) -> int:
    """Set the scale.

    If averaging's clock would lose it to rounding, reset the clock first, in O(dim).
    """
    late = w.mode[0] != NONE and scale < SMALLEST_TICK * w.clock[0]
    if late:
        for slot in range(w.v.size):
            catch_up(w, slot)
            w.upto[slot] = 0.0
        w.clock[0] = 0.0
    w.scale[0] = scale
    return REWROTE if late else 0
