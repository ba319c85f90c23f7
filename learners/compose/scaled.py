"""GN scaling of each feature by its running mean and deviation. Bollegala, dynamic feature scaling,
eq. 1–3.

A row is counted first and then scaled. `scores` computes the statistics as if the row were counted
and throws them away, so `learn` and `scores` agree. An absent feature has the value 0 and is
counted lazily: it costs nothing until the feature occurs again. The bias slot is not scaled.
"""

import math
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, SerializeAsAny, model_validator

from learners.batch import BIAS, Array, Batch, Ints, Slots
from learners.compose.averaged import Averaged
from learners.compose.one_vs_rest import OneVsRest
from learners.compose.selected import Selected
from learners.compose.wrapper import Wrapper
from learners.densify import densify
from learners.jit import kernel
from learners.kernel.learner import KernelLearner
from learners.learner import ONCE, REWROTE, Layout, Learned, Memory, SupportTerms, Terms
from learners.linear.learner import LinearLearner
from learners.state import State as BaseState

SCORE, LEARN, AGAIN = 0, 1, 2
"""Purpose of scaling a row. SCORE: count it temporarily. LEARN: count it. AGAIN: it was counted in
an earlier pass."""

NOISE = 1e-14
"""Share of the mean. A smaller deviation is rounding or a spread that has faded: the feature is
treated as constant."""


class State(NamedTuple):
    events: Ints
    """k, the rows counted."""
    K: Array
    K2: Array
    """Sums of the rows' weights in the statistics and of their squares; both are k without a
    half-life."""
    mean: Array
    spread: Array
    """S, the sum of squared differences from the mean."""
    upto: Ints
    """The event up to which a feature's mean and spread are counted."""
    base: BaseState


class Scaled(Wrapper):
    """Choose it whenever features have different units; without it, margin learners see only the
    largest values.
    """

    kind: Literal["scaled"] = "scaled"
    rule = "(x − m)/s by running mean and deviation, this row counted; or x/s"
    scaler: Literal["gn"] = "gn"
    """`gn`: running mean and deviation over all events so far."""
    halflife: float | None = Field(default=None, ge=1.0)
    """Events after which a row counts half in mean and deviation, to follow a drift. Left out: all
    rows count the same."""
    center: bool | None = None
    """Subtract the mean: for dense columns only. Left out: true when every feature is a column."""
    base: SerializeAsAny[OneVsRest | Selected | Averaged | LinearLearner | KernelLearner]
    """Any other learner or composition; one scaler serves all classes."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        can = self.base.capabilities
        if can.why_not_scalable:
            raise ValueError(can.why_not_scalable)
        if self.center and not can.takes_negative:
            raise ValueError(
                "center: true makes values negative, which the base does not take: "
                "set center to false"
            )
        return self

    def init(self, dim: int) -> State:
        if self.center is None:
            raise ValueError(
                "scaled: center is not set; set it, or call bind(layout) to derive it from the "
                "features"
            )
        return State(
            events=np.zeros(1, np.int64),
            K=np.zeros(1),
            K2=np.zeros(1),
            mean=np.zeros(dim),
            spread=np.zeros(dim),
            upto=np.zeros(dim, np.int64),
            base=self.base.init(dim),
        )

    def is_valid(self, state: State) -> bool:
        numbers = (state.K, state.K2, state.mean, state.spread)
        return bool(
            all(np.isfinite(array).all() for array in numbers)
            and min(state.events[0], state.K[0], state.K2[0], state.spread.min()) >= 0
            and ((state.upto >= 0) & (state.upto <= state.events[0])).all()
            and self.base.is_valid(state.base)
        )

    def bind(self, layout: Layout) -> Self:
        center = self.center
        if center is None:
            center = layout.dense and self.base.capabilities.takes_negative
        if center and not layout.dense:
            raise ValueError(
                "scaled: center: true would make every hashed feature non-zero; declare columns "
                "only (bits: 0, at most 4096 of them) or leave center out"
            )
        return self.model_copy(update={"center": center, "base": self.base.bind(layout)})

    def score_rows(self, state: State, X: Batch) -> Array:
        return super().score_rows(state, self._scale_rows(state, X, SCORE))

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        X = self._scale_rows(state, X, AGAIN if memory.again else LEARN)
        learned = super().learn_rows(state, X, y, memory)
        if self.center:
            learned.moved[:] |= REWROTE  # a dense row has every slot
        return learned

    def terms(self, state: State, X: Batch, column: int) -> Terms:
        return super().terms(state, self._scale_rows(state, X, SCORE), column)

    def support_terms(self, state: State, X: Batch | None, column: int, most: int) -> SupportTerms:
        scaled = X if X is None else self._scale_rows(state, X, SCORE)
        return super().support_terms(state, scaled, column, most)

    def forget_scale(self, state: State) -> None:
        for array in (state.events, state.K, state.K2, state.mean, state.spread, state.upto):
            array[:] = 0

    def _scale_rows(self, state: State, X: Batch, purpose: int) -> Batch:
        if self.center:
            X = densify(state.mean.size, X)  # a centred zero is not zero
        log_g = -math.log(2.0) / self.halflife if self.halflife else 0.0
        counts = (state.events, state.K, state.K2, state.mean, state.spread, state.upto)
        center = bool(self.center)
        values = _scale(*counts, log_g, center, purpose, X.indptr, X.indices, X.values, X.weights)
        return Batch(X.indptr, X.indices, values, X.weights, X.trees)


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
    """A row weighs g^age in the statistics, g = 2^(−1/halflife). g = 1 is the paper's form."""
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
            if 0 < upto[j] < k_before:  # the feature was 0 since it was last counted
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
