"""Logistic regression that learns a scale for every feature. Bollegala, dynamic feature scaling,
section 4: eq. 4–27.

A feature enters as z = σ(αx − β) (FS, FS-1) or z = αx + β (FS-2, FS-3), and w, b, α, β move down
the gradient together. The paper does not say where they start. Here w = b = β = 0, α = 1, and α = 0
for FS-3. Each array is a separate weight vector, so that all can be shrunk and averaged; b is slot
0 of w. A parameter that the variant fixes at 1 is not stored: FS-1 has no α, and FS-3 has only b in
w.

The four variants run through the same kernels: a slot beyond the end of an array has the parameter
1. Within a row, `r_w`, `r_alpha` and `r_beta` are the parameters of its slots, in its order. The
kernels take the arrays out of `Weights`, because passing three such tuples per event would take
longer than the rest.
"""

from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from learners.batch import BIAS, Array, Batch, Flags, Ints, Slots
from learners.densify import densify
from learners.jit import kernel, row
from learners.learner import DROPPED, EVERY, MOVED, REWROTE, Capabilities, Layout, Terms
from learners.linear.learner import WeighingLearner, at
from learners.linear.weights import (
    NONE,
    Shape,
    Weights,
    catch_up_row,
    count_hypothesis,
    current,
    fits,
    fresh_weights,
    logistic,
    move,
    outputs,
    scale_all,
    scoring_weights,
    shrink_all_but_bias,
)


class State(NamedTuple):
    w: Weights
    alpha: Weights
    beta: Weights
    updates: Ints
    dropped: Ints
    events: Ints
    """k, the number of events learned."""


class Rates(NamedTuple):
    eta0: float
    lam: float
    mu: float
    nu: float
    horizon: float


class FeatureScaling(WeighingLearner):
    """Parameters that the four share."""

    eta0: PositiveFloat = 0.1
    """First learning rate."""
    nu: NonNegativeFloat = 0.0
    """Weight of the squared norm of β, the shifts, in the objective."""
    horizon: PositiveInt = 10_000
    """N: the rate is halved after N events; the paper's runs take the number of training rows."""
    absent: Literal["zero", "skip"] | None = None
    """What a feature with the value 0 does: `zero` lets it contribute, as in the paper; `skip`
    ignores it. Left out: `zero` when every feature is a column, else `skip`."""

    def bind(self, layout: Layout) -> Self:
        if not layout.bias:
            raise ValueError(f"{self.kind} keeps its bias in slot 0: set features.bias to true")
        absent = self.absent or ("zero" if layout.dense else "skip")
        if absent == "zero" and not layout.dense:
            raise ValueError(
                f"{self.kind}: absent: zero would let every hashed feature contribute to every "
                "event; declare columns only (bits: 0, at most 4096 of them) or leave absent out"
            )
        return self.model_copy(update={"absent": absent})

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(
            always_updates=True,
            selectors=(),
            why_not_scalable=f"{self.kind} learns the scale of every feature itself: "
            "use it without scaled",
        )

    def fresh(self, dim: int, shape: Shape) -> State:
        if self.absent is None:
            raise ValueError(
                f"{self.kind}: absent is not set; set it, or call bind(layout) to derive it from "
                "the features"
            )
        zero = np.zeros(1, np.int64)
        return State(*self._start(dim, shape), zero, zero.copy(), zero.copy())

    def _start(self, dim: int, shape: Shape) -> tuple[Weights, Weights, Weights]:
        """Starting values of w, α, β."""
        return fresh_weights(dim, shape), fresh_weights(dim, shape, 1.0), fresh_weights(dim, shape)

    def score_rows(self, state: State, X: Batch) -> Array:
        skip_zeros, X = self._rows_to_score(state, X)
        return _scores(state.w, state.alpha, state.beta, self._sigmoid(), skip_zeros, X)

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        skip_zeros, X = self._rows_to_score(state, X)
        lam, mu = (float(getattr(self, name, 0.0)) for name in ("lam", "mu"))
        rates = Rates(self.eta0, lam, mu, self.nu, float(self.horizon))
        parts = (state.w, state.alpha, state.beta, state.events)
        scores, moved = _learn(*parts, rates, self._sigmoid(), skip_zeros, X, y)
        if not skip_zeros:
            moved |= REWROTE  # a dense row has every slot
        return scores, moved

    def _rows_to_score(self, state: State, X: Batch) -> tuple[bool, Batch]:
        """Return whether zeros are skipped, and the rows: dense ones if not."""
        return (True, X) if self.absent == "skip" else (False, densify(state.beta.v.size, X))

    def _sigmoid(self) -> bool:
        return True

    def terms(self, state: State, X: Batch, column: int) -> Terms:
        del column
        skip_zeros, X = self._rows_to_score(state, X)
        w, alpha, beta = (
            _scoring_parameters(part, X.indices) for part in (state.w, state.alpha, state.beta)
        )
        z = _logistic(alpha * X.values - beta) if self._sigmoid() else alpha * X.values + beta
        z = np.where(skip_zeros & (X.values == 0.0), 0.0, z)
        return Terms(X.indices, np.where(X.indices == BIAS, X.values, z), w, 0.0)

    def norm(self, state: State) -> float:
        """Norm of all parameters together."""
        learned = [current(state.w), current(state.alpha)[BIAS + 1 :], current(state.beta)]
        return float(np.sqrt(np.square(np.concatenate(learned)).sum()))


class FeatureScaling0(FeatureScaling):
    """Choose it when features have unknown units and outliers: each is squashed into 0 … 1, on a
    learned scale.
    """

    kind: Literal["fs"] = "fs"
    rule = "score Σ w_j·σ(α_j·x_j − β_j) + b, logistic gradient on w, α, β, b"
    lam: NonNegativeFloat = 0.0
    """Weight of the squared norm of w in the objective."""
    mu: NonNegativeFloat = 0.0
    """Weight of the squared norm of α, the scales, in the objective."""


class FeatureScaling1(FeatureScaling):
    """Choose it when features have the same unit but different centres: only the shifts are
    learned.
    """

    kind: Literal["fs1"] = "fs1"
    rule = "as fs with α = 1"
    lam: NonNegativeFloat = 0.0
    """Weight of the squared norm of w in the objective."""

    def _start(self, dim: int, shape: Shape) -> tuple[Weights, Weights, Weights]:
        return fresh_weights(dim, shape), fresh_weights(0, shape), fresh_weights(dim, shape)


class FeatureScaling2(FeatureScaling):
    """Choose it first among the four: it is the best in the paper. It learns scales and shifts and
    does not squash the features.
    """

    kind: Literal["fs2"] = "fs2"
    rule = "score Σ w_j·(α_j·x_j + β_j) + b, logistic gradient on w, α, β, b"
    lam: NonNegativeFloat = 0.0
    """Weight of the squared norm of w in the objective."""
    mu: NonNegativeFloat = 0.0
    """Weight of the squared norm of α, the scales, in the objective."""

    def _sigmoid(self) -> bool:
        return False


class FeatureScaling3(FeatureScaling):
    """Choose it for a convex objective: only this one of the four has it. It learns a weight and a
    shift per feature.
    """

    kind: Literal["fs3"] = "fs3"
    rule = "score Σ (α_j·x_j + β_j) + b, logistic gradient on α, β, b"
    mu: NonNegativeFloat = 0.0
    """Weight of the squared norm of α, the scales, in the objective."""

    def _start(self, dim: int, shape: Shape) -> tuple[Weights, Weights, Weights]:
        return fresh_weights(1, shape), fresh_weights(dim, shape), fresh_weights(dim, shape)

    def _sigmoid(self) -> bool:
        return False

    def weights(self, state: State, column: int, slots: slice = EVERY) -> Array:
        """Return α, which serves as the weights in this variant, and b."""
        del column
        weights = scoring_weights(at(state.alpha, slots))
        if not slots.start:
            weights[:1] = scoring_weights(state.w)
        return weights


def _scoring_parameters(part: Weights, slots: Slots) -> Array:
    """Return the scoring parameters of a row's slots, 1 for those that the variant fixes."""
    present = slots < part.v.size
    values = np.ones(slots.size)
    values[present] = scoring_weights(at(part, slots[present]))
    return values


def _logistic(s: Array) -> Array:
    """σ(s), in the form that does not overflow."""
    e = np.exp(-np.abs(s))
    return np.where(s >= 0.0, 1.0, e) / (1.0 + e)


@kernel
def _scores(
    w: Weights, alpha: Weights, beta: Weights, sigmoid: bool, skip_zeros: bool, X: Batch
) -> Array:
    scores = np.empty(X.weights.size)
    r_w, r_alpha, r_beta, z, slope = _scratch(X)
    for t in range(scores.size):
        j, x = row(X, t)
        _scoring_values(w, j, r_w)
        _scoring_values(alpha, j, r_alpha)
        _scoring_values(beta, j, r_beta)
        scores[t] = _score(r_w, r_alpha, r_beta, sigmoid, skip_zeros, j, x, z, slope)
    return scores


@kernel
def _learn(
    w: Weights,
    alpha: Weights,
    beta: Weights,
    events: Ints,
    rates: Rates,
    sigmoid: bool,
    skip_zeros: bool,
    X: Batch,
    y: Array,
) -> tuple[Array, Flags]:
    scores, moved = outputs(y.size)
    r_w, r_alpha, r_beta, z, slope = _scratch(X)
    v_w, v_alpha, v_beta = w.v, alpha.v, beta.v
    scale_w, scale_alpha, scale_beta = w.scale, alpha.scale, beta.scale
    averaged = w.mode[0] != NONE
    sign = -1.0 if sigmoid else 1.0
    for t in range(y.size):
        j, x = row(X, t)
        if averaged:
            _scoring_values(w, j, r_w)
            _scoring_values(alpha, j, r_alpha)
            _scoring_values(beta, j, r_beta)
            scores[t] = _score(r_w, r_alpha, r_beta, sigmoid, skip_zeros, j, x, z, slope)
        _learning_values(v_w, scale_w[0], j, r_w)
        _learning_values(v_alpha, scale_alpha[0], j, r_alpha)
        _learning_values(v_beta, scale_beta[0], j, r_beta)
        s = _score(r_w, r_alpha, r_beta, sigmoid, skip_zeros, j, x, z, slope)
        if not averaged:
            scores[t] = s
        c = X.weights[t]
        if c == 0.0:
            continue
        eta = c * rates.eta0 / (1.0 + events[0] / rates.horizon)  # eq. 12
        step = eta * ((1.0 if y[t] > 0.0 else 0.0) - logistic(s))
        for k in range(j.size):
            r_alpha[k] = r_w[k] * slope[k] * x[k]  # from here on the direction of α: eq. 10, 22, 26
            r_beta[k] = sign * r_w[k] * slope[k]  # direction of β: eq. 11, 17, 23, 27
        j_w, j_alpha = _present_slots(v_w, j), _present_slots(v_alpha, j)
        if (
            fits(v_w, scale_w[0], j_w, z, step)
            and fits(v_alpha, scale_alpha[0], j_alpha, r_alpha, step)
            and fits(v_beta, scale_beta[0], j, r_beta, step)
        ):
            moved[t] = MOVED
            if rates.lam > 0.0:
                moved[t] |= shrink_all_but_bias(
                    w, max(0.0, 1.0 - 2.0 * rates.lam * eta / rates.horizon)
                )
            if rates.mu > 0.0:
                moved[t] |= scale_all(alpha, max(0.0, 1.0 - 2.0 * rates.mu * eta / rates.horizon))
            if rates.nu > 0.0:
                moved[t] |= scale_all(beta, max(0.0, 1.0 - 2.0 * rates.nu * eta / rates.horizon))
            if averaged:
                catch_up_row(w, j_w)
                catch_up_row(alpha, j_alpha)
                catch_up_row(beta, j)
            move(v_w, scale_w[0], j_w, z, step)  # eq. 8 and 9, 15 and 16, 20 and 21, 25
            move(v_alpha, scale_alpha[0], j_alpha, r_alpha, step)
            move(v_beta, scale_beta[0], j, r_beta, step)
        else:
            moved[t] = DROPPED
        events[0] += 1
        if averaged:
            count_hypothesis(w, moved[t])
            count_hypothesis(alpha, moved[t])
            count_hypothesis(beta, moved[t])
    return scores, moved


@kernel
def _scratch(X: Batch) -> tuple[Array, Array, Array, Array, Array]:
    """Five arrays as long as the longest row."""
    longest = 0
    for t in range(X.weights.size):
        longest = max(longest, X.indptr[t + 1] - X.indptr[t])
    return (
        np.empty(longest),
        np.empty(longest),
        np.empty(longest),
        np.empty(longest),
        np.empty(longest),
    )


@kernel
def _scoring_values(p: Weights, j: Slots, out: Array) -> None:
    """Write the scoring parameters of a row's slots: the averages, once they have an event."""
    if p.counted[0] == 0:
        _learning_values(p.v, p.scale[0], j, out)
        return
    v, total, upto, clock, counted = p.v, p.total, p.upto, p.clock[0], p.counted[0]
    for k in range(j.size):
        slot = j[k]
        out[k] = (total[slot] + v[slot] * (clock - upto[slot])) / counted if slot < v.size else 1.0


@kernel
def _learning_values(v: Array, scale: float, j: Slots, out: Array) -> None:
    """Write the learning parameters of a row's slots, 1 for those that the variant fixes."""
    for k in range(j.size):
        out[k] = scale * v[j[k]] if j[k] < v.size else 1.0


@kernel
def _score(
    w: Array,
    alpha: Array,
    beta: Array,
    sigmoid: bool,
    skip_zeros: bool,
    j: Slots,
    x: Array,
    z: Array,
    slope: Array,
) -> float:
    """Return Σ w·z. Write z, which is σ(αx − β) (eq. 4, 14) or αx + β (eq. 18, 24), and its slope.

    For b, z is the constant feature 1.
    """
    s = 0.0
    for k in range(j.size):
        if j[k] == BIAS:
            z[k], slope[k] = x[k], 0.0
        elif skip_zeros and x[k] == 0.0:
            z[k], slope[k] = 0.0, 0.0
        elif sigmoid:
            z[k] = logistic(alpha[k] * x[k] - beta[k])
            slope[k] = z[k] * (1.0 - z[k])
        else:
            z[k], slope[k] = alpha[k] * x[k] + beta[k], 1.0
        s += w[k] * z[k]
    return s


@kernel
def _present_slots(v: Array, j: Slots) -> Slots:
    """The slots of a row that the array has."""
    size = j.size
    while size > 0 and j[size - 1] >= v.size:
        size -= 1
    return j[:size]
