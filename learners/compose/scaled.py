"""GN scaling: each feature by its running mean and deviation. Bollegala, dynamic feature scaling, eq. 1–3.

A row is counted first and then scaled, so `scores` takes the statistics as they would be with the row counted and does
not keep them; `learn` and `scores` then agree. An absent feature is 0 and is counted lazily: it costs nothing until the
feature comes again. The bias slot passes through.
"""

import math
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, SerializeAsAny, field_validator, model_validator

from learners.batch import BIAS, Array, Batch, Flags, Ints, Slots
from learners.compose.averaged import Averaged
from learners.compose.one_vs_rest import OneVsRest
from learners.compose.selected import Selected
from learners.dual.learner import KernelLearner
from learners.filling import filled
from learners.influences import Influences, Stock
from learners.kernels import kernel
from learners.learner import EVERY, ONCE, REWROTE, Layout, Learned, Learner, Memory, Terms
from learners.linear.learner import LinearLearner
from learners.registry import make
from learners.state import State as BaseState

SCORE, LEARN, AGAIN = 0, 1, 2
"""Why a row is scaled: counted for the moment, counted and kept, or counted long ago (another pass)."""

NOISE = 1e-14
"""A deviation below this share of the mean is rounding, or the rest of a spread long faded: the feature is constant."""


class State(NamedTuple):
    events: Ints
    """k, the rows counted."""
    K: Array
    K2: Array
    """Sums of the rows' weights in the statistics and of their squares; both k without a half-life."""
    mean: Array
    spread: Array
    """S, the sum of squared differences from the mean."""
    upto: Ints
    """The event up to which a feature's mean and spread are counted."""
    base: BaseState


class Scaled(Learner):
    """Choose it whenever features have different units; margin learners without it see only the largest."""

    kind: Literal["scaled"] = "scaled"
    rule = "(x − m)/s by running mean and deviation, this row counted; or x/s"
    scaler: Literal["gn"] = "gn"
    """`gn`: running mean and deviation over all events so far."""
    halflife: float | None = Field(default=None, ge=1.0)
    """Events after which a row counts half in mean and deviation, to follow a drift; left out: all count the same."""
    center: bool | None = None
    """Subtract the mean: for dense columns only. Left out: true when every feature is a column."""
    base: SerializeAsAny[OneVsRest | Selected | Averaged | LinearLearner | KernelLearner]
    """Any of the others; one scaler serves every class."""

    @field_validator("base", mode="before")
    @classmethod
    def _make(cls, value: Any) -> Learner:
        return make(value)

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if reason := self.base.scalable():
            raise ValueError(reason)
        if self.center and not self.base.takes_negative():
            raise ValueError("center: true makes values negative, which the base does not take: set center to false")
        return self

    def init(self, dim: int) -> State:
        if self.center is None:
            raise ValueError("scaled: center is open until the features are known; settle it or set it")
        return State(
            events=np.zeros(1, np.int64),
            K=np.zeros(1),
            K2=np.zeros(1),
            mean=np.zeros(dim),
            spread=np.zeros(dim),
            upto=np.zeros(dim, np.int64),
            base=self.base.init(dim),
        )

    def refusals(self, X: Batch) -> Flags:
        return self.base.refusals(X)

    def takes_negative(self) -> bool:
        return self.base.takes_negative()

    def takes_trees(self) -> bool:
        return self.base.takes_trees()

    def weighs(self) -> bool:
        return self.base.weighs()

    def possible(self, state: State) -> bool:
        numbers = (state.K, state.K2, state.mean, state.spread)
        return bool(
            all(np.isfinite(array).all() for array in numbers)
            and min(state.events[0], state.K[0], state.K2[0], state.spread.min()) >= 0
            and ((state.upto >= 0) & (state.upto <= state.events[0])).all()
            and self.base.possible(state.base)
        )

    def settled(self, layout: Layout) -> Self:
        center = layout.dense and self.base.takes_negative() if self.center is None else self.center
        if center and not layout.dense:
            raise ValueError(
                "scaled: center: true would make every hashed feature non-zero; declare columns only (bits: 0, at most "
                "4096 of them) or leave center out"
            )
        return self.model_copy(update={"center": center, "base": self.base.settled(layout)})

    def score_rows(self, state: State, X: Batch) -> Array:
        return self.base.score_rows(state.base, self._scaled(state, X, SCORE))

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        X = self._scaled(state, X, AGAIN if memory.again else LEARN)
        learned = self.base.learn_rows(state.base, X, y, memory)
        if self.center:
            learned.moved[:] |= REWROTE  # a filled row has every slot
        return learned

    def _scaled(self, state: State, X: Batch, purpose: int) -> Batch:
        if self.center:
            X = filled(state.mean.size, X)  # a centred zero is not zero
        log_g = -math.log(2.0) / self.halflife if self.halflife else 0.0
        counts = (state.events, state.K, state.K2, state.mean, state.spread, state.upto)
        values = _scale(*counts, log_g, bool(self.center), purpose, X.indptr, X.indices, X.values, X.weights)
        return Batch(X.indptr, X.indices, values, X.weights, X.trees)

    def terms(self, state: State, X: Batch, column: int) -> Terms:
        return self.base.terms(state.base, self._scaled(state, X, SCORE), column)

    def weights(self, state: State, column: int, slots: slice = EVERY) -> Array:
        return self.base.weights(state.base, column, slots)

    def stores_rows(self) -> bool:
        return self.base.stores_rows()

    def influences(self, state: State, X: Batch | None, column: int, most: int) -> Influences:
        return self.base.influences(state.base, X if X is None else self._scaled(state, X, SCORE), column, most)

    def stock(self, state: State, column: int) -> Stock:
        return self.base.stock(state.base, column)

    def forget_scale(self, state: State) -> None:
        for array in (state.events, state.K, state.K2, state.mean, state.spread, state.upto):
            array[:] = 0

    def updates(self, state: State) -> int:
        return self.base.updates(state.base)

    def dropped(self, state: State) -> int:
        return self.base.dropped(state.base)

    def norm(self, state: State) -> float:
        return self.base.norm(state.base)


@kernel
def _scale(
    events: Ints,
    K: Array,
    K2: Array,
    mean: Array,
    spread: Array,
    upto: Ints,
    log_g: float,
    center: bool,
    purpose: int,
    indptr: Ints,
    indices: Slots,
    values: Array,
    weights: Array,
) -> Array:
    """Rows weigh g^age in the statistics, g = 2^(−1/halflife); g = 1 is the paper's form."""
    scaled = np.empty(values.size)
    g = math.exp(log_g)
    for t in range(weights.size):
        counts = purpose == LEARN and weights[t] > 0.0
        before, k_before = K[0], events[0]
        k, k2 = before, K2[0]
        if purpose != AGAIN:
            k, k2 = g * before + 1.0, g * g * K2[0] + 1.0
        free = k - k2 / k if k > 0.0 else 0.0  # the k − 1 of eq. 3
        for i in range(indptr[t], indptr[t + 1]):
            j, x = indices[i], values[i]
            if j == BIAS:
                scaled[i] = x
                continue
            m, S = mean[j], spread[j]
            if 0 < upto[j] < k_before:  # zeros since it was last counted
                decay = math.exp((k_before - upto[j]) * log_g)
                A = decay * _weight_of(upto[j], log_g)
                S = decay * S + m * m * A * (before - A) / before
                m *= A / before
            if purpose != AGAIN:
                m_old = m
                m += (x - m_old) / k  # eq. 2
                S = g * S + (x - m_old) * (x - m)  # eq. 3
            if counts:
                mean[j], spread[j], upto[j] = m, S, k_before + 1
            deviation = math.sqrt(S / free) if free > 0.0 else 0.0
            if deviation > NOISE * abs(m):
                scaled[i] = (x - m if center else x) / deviation  # eq. 1
            else:
                scaled[i] = 0.0
        if counts:
            events[0] += 1
            K[0], K2[0] = k, k2
    return scaled


@kernel
def _weight_of(rows: int, log_g: float) -> float:
    """1 + g + … + g^(rows−1)."""
    if log_g == 0.0:
        return float(rows)
    return math.expm1(rows * log_g) / math.expm1(log_g)
