"""GN scaling: each feature by its running mean and deviation. Bollegala, dynamic feature scaling, eq. 1–3.

A row is counted first and then scaled, so `scores` takes the statistics as they would be with the row counted and does
not keep them; `learn` and `scores` then agree. An absent feature is 0 and is counted lazily: it costs nothing until the
feature comes again. The bias slot passes through.
"""

import math
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import SerializeAsAny, field_validator

from learners.batch import BIAS, Array, Batch, Flags, Ints
from learners.compose.averaged import Averaged
from learners.compose.one_vs_rest import OneVsRest
from learners.kernels import kernel
from learners.learner import Layout, Learned, Learner
from learners.learner import State as BaseState
from learners.linear.weights import LinearLearner
from learners.registry import make


class State(NamedTuple):
    events: Ints
    """k, the rows counted."""
    mean: Array
    spread: Array
    """S, the sum of squared differences from the mean."""
    upto: Ints
    """The event up to which a feature's mean and spread are counted."""
    base: BaseState


class Scaled(Learner):
    """Choose it whenever features have different units; margin learners without it see only the largest."""

    kind: Literal["scaled"] = "scaled"
    scaler: Literal["gn"] = "gn"
    """`gn`: running mean and deviation over all events so far."""
    center: bool | None = None
    """Subtract the mean: for dense columns only. Left out: true when every feature is a column."""
    base: SerializeAsAny[OneVsRest | Averaged | LinearLearner]
    """One-vs-rest, averaged or linear; one scaler serves every class."""

    @field_validator("base", mode="before")
    @classmethod
    def _make(cls, value: Any) -> Learner:
        return make(value)

    def init(self, dim: int) -> State:
        if self.center is None:
            raise ValueError("scaled: center is open until the features are known; settle it or set it")
        return State(np.zeros(1, np.int64), np.zeros(dim), np.zeros(dim), np.zeros(dim, np.int64), self.base.init(dim))

    def refusals(self, X: Batch) -> Flags:
        return self.base.refusals(X)

    def settled(self, layout: Layout) -> Self:
        center = layout.dense if self.center is None else self.center
        if center and not layout.dense:
            raise ValueError(
                "scaled: center: true would make every hashed feature non-zero; declare columns only (bits: 0, at most "
                "4096 of them) or leave center out"
            )
        return self.model_copy(update={"center": center, "base": self.base.settled(layout)})

    def score_rows(self, state: State, X: Batch) -> Array:
        return self.base.score_rows(state.base, self._scaled(state, X, keep=False))

    def learn_rows(self, state: State, X: Batch, y: Array) -> Learned:
        return self.base.learn_rows(state.base, self._scaled(state, X, keep=True), y)

    def _scaled(self, state: State, X: Batch, *, keep: bool) -> Batch:
        if self.center:
            X = _filled(state.mean.size, X)
        values = _scale(state.events, state.mean, state.spread, state.upto, bool(self.center), keep, X)
        return X._replace(values=values)

    def updates(self, state: State) -> int:
        return self.base.updates(state.base)

    def dropped(self, state: State) -> int:
        return self.base.dropped(state.base)

    def norm(self, state: State) -> float:
        return self.base.norm(state.base)


@kernel
def _filled(dim: int, X: Batch) -> Batch:
    """The same rows with every slot present: a centred zero is not zero. An absent bias stays out."""
    rows = X.weights.size
    indptr = np.empty(rows + 1, np.int64)
    indices = np.empty(rows * dim, np.int32)
    values = np.zeros(rows * dim)
    indptr[0] = 0
    for t in range(rows):
        first = indptr[t]
        lowest = BIAS + 1
        if X.indptr[t] < X.indptr[t + 1] and X.indices[X.indptr[t]] == BIAS:
            lowest = BIAS
        for slot in range(lowest, dim):
            indices[first + slot - lowest] = slot
        for k in range(X.indptr[t], X.indptr[t + 1]):
            values[first + X.indices[k] - lowest] = X.values[k]
        indptr[t + 1] = first + dim - lowest
    return Batch(indptr, indices[: indptr[rows]], values[: indptr[rows]], X.weights)


@kernel
def _scale(events: Ints, mean: Array, spread: Array, upto: Ints, center: bool, keep: bool, X: Batch) -> Array:
    scaled = np.empty(X.values.size)
    for t in range(X.weights.size):
        counts = keep and X.weights[t] > 0.0
        k = events[0] + 1
        for i in range(X.indptr[t], X.indptr[t + 1]):
            j, x = X.indices[i], X.values[i]
            if j == BIAS:
                scaled[i] = x
                continue
            m, S, k0 = mean[j], spread[j], upto[j]
            if 0 < k0 < k - 1:  # zeros since it was last counted
                S += m * m * k0 * (k - 1 - k0) / (k - 1)
                m *= k0 / (k - 1)
            m_new = m + (x - m) / k  # eq. 2
            S_new = S + (x - m) * (x - m_new)  # eq. 3
            if counts:
                mean[j], spread[j], upto[j] = m_new, S_new, k
            deviation = math.sqrt(S_new / (k - 1)) if k > 1 else 0.0
            if deviation > 0.0:
                scaled[i] = (x - m_new if center else x) / deviation  # eq. 1
            else:
                scaled[i] = 0.0
        if counts:
            events[0] = k
    return scaled
