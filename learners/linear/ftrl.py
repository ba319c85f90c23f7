"""Follow the regularised leader (FTRL-Proximal). McMahan et al., Ad Click Prediction, KDD 2013,
algorithm 1.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat

from learners.batch import Array, Batch, Flags, Ints, Slots
from learners.jit import LARGEST_WEIGHT, kernel, row
from learners.learner import DROPPED, MOVED, Capabilities
from learners.linear.learner import WeighingLearner
from learners.linear.weights import (
    NONE,
    Shape,
    Weights,
    catch_up_row,
    count_hypothesis,
    dot,
    fresh_weights,
    is_plain,
    logistic,
    outputs,
    reported_score,
)


class State(NamedTuple):
    w: Weights
    """The weights made from z and n, recomputed when they change."""
    updates: Ints
    dropped: Ints
    z: Array
    """Sum of the gradients, minus the proximal terms of the past weights."""
    n: Array
    """Sum of the squared gradients."""


class Ftrl(WeighingLearner):
    """Choose it for log-odds over very many sparse features of which few matter.

    It is logistic regression with a learning rate per feature, which falls with the feature's
    gradients, so rare features are learned quickly and frequent ones steadily. It is the standard
    for clicks. With lam1 above 0 a weight is exactly 0 until the evidence for it exceeds lam1, so
    few weights are in use. Tune alpha first, then lam1.
    """

    kind: Literal["ftrl"] = "ftrl"
    rule = "w_j = −(z_j − sgn(z_j)·λ1)/((β + √n_j)/α + λ2), 0 where |z_j| ≤ λ1"
    alpha: PositiveFloat = 0.1
    """Learning rate."""
    beta: NonNegativeFloat = 1.0
    """Damps the first steps of a feature: its rate is alpha / (beta + √n)."""
    lam1: NonNegativeFloat = 0.0
    """Weight of the sum of |w| in the objective: a weight whose |z| is not above it is exactly
    0."""
    lam2: NonNegativeFloat = 0.0
    """Weight of half the squared norm in the objective."""

    def fresh(self, dim: int, shape: Shape) -> State:
        zero = np.zeros(1, np.int64)
        return State(fresh_weights(dim, shape), zero, zero.copy(), np.zeros(dim), np.zeros(dim))

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(always_updates=True)

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return _learn(state.w, state.z, state.n, self.alpha, self.beta, self.lam1, self.lam2, X, y)


@kernel
def _learn(
    w: Weights,
    z: Array,
    n: Array,
    alpha: float,
    beta: float,
    lam1: float,
    lam2: float,
    X: Batch,
    y: Array,
) -> tuple[Array, Flags]:
    scores, moved = outputs(y.size)
    averaged, plain = w.mode[0] != NONE, is_plain(w)
    v = w.v
    for t in range(y.size):
        j, x = row(X, t)
        s = w.scale[0] * dot(v, j, x)
        scores[t] = s if plain else reported_score(w, j, x, s)
        c = X.weights[t]
        if c == 0.0:
            continue
        # c·(p − t), without cancellation; importance multiplies g
        slope = -c * y[t] * logistic(-y[t] * s)
        moved[t] = _effect(v, z, n, j, x, slope, alpha, beta, lam1, lam2)
        if moved[t] == MOVED:
            if averaged:
                catch_up_row(w, j)
            for k in range(j.size):
                slot, g = j[k], slope * x[k]
                if g * g > 0.0:
                    z[slot], n[slot] = _sums(z[slot], n[slot], v[slot], g, alpha)
                    v[slot] = _weight(z[slot], n[slot], alpha, beta, lam1, lam2)
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved


@kernel
def _effect(
    v: Array,
    z: Array,
    n: Array,
    j: Slots,
    x: Array,
    slope: float,
    alpha: float,
    beta: float,
    lam1: float,
    lam2: float,
) -> int:
    """MOVED, DROPPED or 0: what the event will do. MOVED if z and n change, even if w stays 0."""
    effect = 0
    for k in range(j.size):
        slot, g = j[k], slope * x[k]
        if g * g > 0.0:  # so that n > 0 wherever a weight is computed
            effect = MOVED
            z_, n_ = _sums(z[slot], n[slot], v[slot], g, alpha)
            if not (abs(z_) <= LARGEST_WEIGHT and n_ <= LARGEST_WEIGHT):
                return DROPPED
            if not abs(_weight(z_, n_, alpha, beta, lam1, lam2)) <= LARGEST_WEIGHT:
                return DROPPED
    return effect


@kernel
def _sums(z: float, n: float, w: float, g: float, alpha: float) -> tuple[float, float]:
    """The sums z and n with one more gradient."""
    q = (math.sqrt(n + g * g) - math.sqrt(n)) / alpha
    return z + g - q * w, n + g * g


@kernel
def _weight(z: float, n: float, alpha: float, beta: float, lam1: float, lam2: float) -> float:
    """The minimiser of `z·w + ½((β + √n)/α + λ2)·w² + λ1·|w|`, n > 0."""
    if abs(z) <= lam1:
        return 0.0
    return -alpha * (z - math.copysign(lam1, z)) / (beta + math.sqrt(n) + alpha * lam2)
