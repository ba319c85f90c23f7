"""Logistic regression that learns a scale for every feature. Bollegala, dynamic feature scaling, section 4: eq. 4–27.

A feature enters as z = σ(αx − β) (FS, FS-1) or z = αx + β (FS-2, FS-3), and w, b, α, β move down the gradient together.
The paper does not say where they start: w = b = β = 0, α = 1, and α = 0 for FS-3. Each array is a weight vector of its
own, so that all can be shrunk and averaged; b is slot 0 of w. A parameter that the variant fixes at 1 is not kept: FS-1
has no α, and the w of FS-3 is b alone.
"""

from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from learners.batch import BIAS, Array, Batch, Flags, Ints, Slots
from learners.filling import filled
from learners.learner import EVERY, REWROTE, Layout, Terms
from learners.linear.learner import WeighingLearner, at
from learners.linear.scaled_features import Rates, learn_scaled, scaled_scores
from learners.linear.weights import Shape, Weights, answering, current, fresh_weights


class State(NamedTuple):
    w: Weights
    alpha: Weights
    beta: Weights
    updates: Ints
    dropped: Ints
    events: Ints
    """k, the number of events learned."""


class FeatureScaling(WeighingLearner):
    """What the four share."""

    eta0: PositiveFloat = 0.1
    """First learning rate."""
    nu: NonNegativeFloat = 0.0
    """Weight of the squared norm of β, the shifts, in the objective."""
    horizon: PositiveInt = 10_000
    """N: the rate is halved after N events; the paper's runs take the number of training rows."""
    absent: Literal["zero", "skip"] | None = None
    """Features that are 0: `zero` lets them take part, as in the paper; `skip` leaves them out. Left out: `zero` when
    every feature is a column."""

    def settled(self, layout: Layout) -> Self:
        if not layout.bias:
            raise ValueError(f"{self.kind} keeps its bias in slot 0: set features.bias to true")
        absent = self.absent or ("zero" if layout.dense else "skip")
        if absent == "zero" and not layout.dense:
            raise ValueError(
                f"{self.kind}: absent: zero would let every hashed feature take part in every event; declare columns "
                "only (bits: 0, at most 4096 of them) or leave absent out"
            )
        return self.model_copy(update={"absent": absent})

    def scalable(self) -> str:
        return f"{self.kind} learns the scale of every feature itself: use it without scaled"

    def moves_always(self) -> bool:
        return True

    def selectors(self) -> tuple[str, ...]:
        return ()

    def fresh(self, dim: int, shape: Shape) -> State:
        if self.absent is None:
            raise ValueError(f"{self.kind}: absent is open until the features are known; settle it or set it")
        zero = np.zeros(1, np.int64)
        return State(*self._start(dim, shape), zero, zero.copy(), zero.copy())

    def _start(self, dim: int, shape: Shape) -> tuple[Weights, Weights, Weights]:
        """w, α, β."""
        return fresh_weights(dim, shape), fresh_weights(dim, shape, 1.0), fresh_weights(dim, shape)

    def score_rows(self, state: State, X: Batch) -> Array:
        skips, X = self._taking_part(state, X)
        return scaled_scores(state.w, state.alpha, state.beta, self._sigmoid(), skips, X)

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        skips, X = self._taking_part(state, X)
        lam, mu = (float(getattr(self, name, 0.0)) for name in ("lam", "mu"))
        rates = Rates(self.eta0, lam, mu, self.nu, float(self.horizon))
        parts = (state.w, state.alpha, state.beta, state.events)
        scores, moved = learn_scaled(*parts, rates, self._sigmoid(), skips, X, y)
        if not skips:
            moved |= REWROTE  # a filled row has every slot
        return scores, moved

    def _taking_part(self, state: State, X: Batch) -> tuple[bool, Batch]:
        """Whether zeros are left out; if not, rows that have them all."""
        return (True, X) if self.absent == "skip" else (False, filled(state.beta.v.size, X))

    def _sigmoid(self) -> bool:
        return True

    def terms(self, state: State, X: Batch, column: int) -> Terms:
        del column
        skips, X = self._taking_part(state, X)
        w, alpha, beta = (_answering(part, X.indices) for part in (state.w, state.alpha, state.beta))
        z = _logistic(alpha * X.values - beta) if self._sigmoid() else alpha * X.values + beta
        z = np.where(skips & (X.values == 0.0), 0.0, z)
        return Terms(X.indices, np.where(X.indices == BIAS, X.values, z), w, 0.0)

    def norm(self, state: State) -> float:
        """Of all parameters together."""
        learned = [current(state.w), current(state.alpha)[BIAS + 1 :], current(state.beta)]
        return float(np.sqrt(np.square(np.concatenate(learned)).sum()))


class FeatureScaling0(FeatureScaling):
    """Choose it when features have unknown units and outliers: each is squeezed into 0 … 1, on a scale it learns."""

    kind: Literal["fs"] = "fs"
    rule = "score Σ w_j·σ(α_j·x_j − β_j) + b, logistic gradient on w, α, β, b"
    lam: NonNegativeFloat = 0.0
    """Weight of the squared norm of w in the objective."""
    mu: NonNegativeFloat = 0.0
    """Weight of the squared norm of α, the scales, in the objective."""


class FeatureScaling1(FeatureScaling):
    """Choose it when features have the same unit but different middles: only the shifts are learned."""

    kind: Literal["fs1"] = "fs1"
    rule = "as fs with α = 1"
    lam: NonNegativeFloat = 0.0
    """Weight of the squared norm of w in the objective."""

    def _start(self, dim: int, shape: Shape) -> tuple[Weights, Weights, Weights]:
        return fresh_weights(dim, shape), fresh_weights(0, shape), fresh_weights(dim, shape)


class FeatureScaling2(FeatureScaling):
    """Choose it as the best of the four in the paper: scales and shifts without the squeezing."""

    kind: Literal["fs2"] = "fs2"
    rule = "score Σ w_j·(α_j·x_j + β_j) + b, logistic gradient on w, α, β, b"
    lam: NonNegativeFloat = 0.0
    """Weight of the squared norm of w in the objective."""
    mu: NonNegativeFloat = 0.0
    """Weight of the squared norm of α, the scales, in the objective."""

    def _sigmoid(self) -> bool:
        return False


class FeatureScaling3(FeatureScaling):
    """Choose it for the convex one of the four: a weight and a shift per feature."""

    kind: Literal["fs3"] = "fs3"
    rule = "score Σ (α_j·x_j + β_j) + b, logistic gradient on α, β, b"
    mu: NonNegativeFloat = 0.0
    """Weight of the squared norm of α, the scales, in the objective."""

    def _start(self, dim: int, shape: Shape) -> tuple[Weights, Weights, Weights]:
        return fresh_weights(1, shape), fresh_weights(dim, shape), fresh_weights(dim, shape)

    def _sigmoid(self) -> bool:
        return False

    def weights(self, state: State, column: int, slots: slice = EVERY) -> Array:
        """α, which stands where the others have a weight, and b."""
        del column
        weights = answering(at(state.alpha, slots))
        if not slots.start:
            weights[:1] = answering(state.w)
        return weights


def _answering(part: Weights, slots: Slots) -> Array:
    """The parameters of a row's slots that answer; 1 where the variant fixes them."""
    kept = slots < part.v.size
    values = np.ones(slots.size)
    values[kept] = answering(at(part, slots[kept]))
    return values


def _logistic(s: Array) -> Array:
    """σ(s), in the form that does not overflow."""
    e = np.exp(-np.abs(s))
    return np.where(s >= 0.0, 1.0, e) / (1.0 + e)
