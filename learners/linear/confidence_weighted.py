"""Soft confidence-weighted learning: SCW-I, SCW-II. Wang, Zhao & Hoi, ICML 2012, propositions 1 and
2, diagonal.

Weights are normally distributed. An event should be right with probability η, i.e. have the margin
φ·√v, φ = Φ⁻¹(η). Only the diagonal is kept of what an event adds to the inverse of the covariance.
So an uncapped step ends on the margin `φ·√u` with the variance u that the full covariance would
have. The diagonal has a larger variance, unless the row has a single feature.
"""

import math
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field, PositiveFloat

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import kernel, row
from learners.linear.learner import WeighingLearner
from learners.linear.variances import add_with_variance, variance
from learners.linear.weights import (
    NONE,
    Shape,
    Weights,
    count_hypothesis,
    dot,
    fresh_weights,
    is_plain,
    outputs,
    reported_score,
)


class State(NamedTuple):
    w: Weights
    updates: Ints
    dropped: Ints
    gained: Array
    """1/σ_j − 1: the precision that each weight has gained."""


class SoftConfidence(WeighingLearner):
    """Parameters that the two share."""

    eta: float = Field(default=0.9, gt=0.5, lt=1.0)
    """The probability with which each event should be right: the nearer to 1, the wider the
    margin."""
    C: PositiveFloat = 1.0
    """Price of an event that is not right with this probability: the smaller it is, the less harm a
    wrong label does."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return State(
            fresh_weights(dim, shape), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(dim)
        )

    def _run(
        self, state: State, cap: float, slack: float, X: Batch, y: Array
    ) -> tuple[Array, Flags]:
        return _learn(state.w, state.gained, NormalDist().inv_cdf(self.eta), cap, slack, X, y)


class SoftConfidence1(SoftConfidence):
    """Choose it for sparse text or ids with labels that are mostly right: it learns fastest from
    few events.

    Each weight has a variance, as in AROW, and the required margin follows it: wide for new
    features, narrow for known ones, so a well known row soon causes no updates. The step of one
    event is at most C. Try eta from 0.6 to 0.95 and C from 0.01 to 10. Where labels are often
    wrong, take a smaller C, or AROW.
    """

    kind: Literal["scw1"] = "scw1"
    rule = "on φ√v > y·s: w_j += k·y·σ_j·x_j with k ≤ C from the probability constraint"

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return self._run(state, self.C, 0.0, X, y)


class SoftConfidence2(SoftConfidence):
    """Choose it instead of scw1 where noise is everywhere: every step is softened, none is cut.

    The price of a missed margin grows with its square, so C acts gradually and needs less tuning
    than the cap of scw1. A label that is far off pulls harder than in scw1.
    """

    kind: Literal["scw2"] = "scw2"
    rule = "as scw1, with the squared slack 1/(2C) instead of the cap"

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return self._run(state, np.inf, 0.5 / self.C, X, y)


@kernel
def _learn(
    w: Weights, gained: Array, phi: float, cap: float, slack: float, X: Batch, y: Array
) -> tuple[Array, Flags]:
    """One formula for the two: SCW-I has a cap and no slack, so n = v.

    SCW-II has a slack of 1/(2C) and no cap.
    """
    scores, moved = outputs(y.size)
    averaged, plain = w.mode[0] != NONE, is_plain(w)
    for t in range(y.size):
        j, x = row(X, t)
        s = w.scale[0] * dot(w.v, j, x)
        scores[t] = s if plain else reported_score(w, j, x, s)
        c = X.weights[t]
        if c == 0.0:
            continue
        m = y[t] * s
        v = variance(gained, j, x)
        if phi * math.sqrt(v) > m and v > 0.0:
            k = min(c * cap, _step(m, v, v + slack / c, phi))  # importance multiplies C
            if k > 0.0:
                kvphi = k * v * phi
                # 1/√u, without cancellation
                inverse = (math.sqrt(kvphi * kvphi + 4.0 * v) + kvphi) / (2.0 * v)
                moved[t] = add_with_variance(w, gained, j, x, k * y[t], k * phi * inverse)
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved


@kernel
def _step(m: float, v: float, n: float, phi: float) -> float:
    """The root k of `m + k·n = φ·√u(k)`: proposition 2 with both sides divided by n, proposition
    1 where n = v.
    """
    part = phi * phi * v / n
    root = phi * math.sqrt(part * m * m * v / n + 4.0 * v * (1.0 + part))
    return (root - m * (2.0 + part)) / (2.0 * (n + phi * phi * v))
