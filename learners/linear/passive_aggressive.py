"""Passive-Aggressive learning: PA, PA-I, PA-II. McKenna's thesis, section 3.1.3; Carvalho & Cohen,
KDD 2006, eq. 1.

The bias is a feature like any other, so it is in ‖x‖² and an uncapped step ends exactly on the
margin.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from pydantic import PositiveFloat

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import kernel, row, sq_norm
from learners.learner import DROPPED, MOVED
from learners.linear.learner import LinearLearner, WeighingLearner
from learners.linear.weights import (
    NONE,
    Shape,
    Weights,
    catch_up_row,
    count_hypothesis,
    dot,
    fits,
    fresh_weights,
    is_plain,
    move,
    outputs,
    reported_score,
)

UpdateOn = Literal["margin", "mistake"]

FADING = 2.0 ** (-1.0 / 1000.0)
"""Factor per event: `C: auto` looks back with a half-life of 1,000 events."""

AUTO = 0.0
"""The cap that stands for `C: auto` in the kernel."""


class State(NamedTuple):
    w: Weights
    updates: Ints
    dropped: Ints
    fading: Array
    """Fading mean of the learner's own errors, for `C: auto`."""


class Margin(LinearLearner):
    """Parameters that the three share."""

    epsilon: PositiveFloat = 1.0
    """The margin that every event should reach."""
    update_on: UpdateOn = "margin"
    """`margin`: whenever the margin is not reached; `mistake`: only when the sign is wrong."""

    def fresh(self, dim: int, shape: Shape) -> State:
        return State(
            fresh_weights(dim, shape), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1)
        )

    def _run(
        self, state: State, cap: float, slack: float, X: Batch, y: Array
    ) -> tuple[Array, Flags]:
        uses_weights = isinstance(self, WeighingLearner)
        return _learn(
            state.w,
            state.fading,
            self.epsilon,
            self.update_on == "mistake",
            cap,
            slack,
            uses_weights,
            X,
            y,
        )


class PassiveAggressive(Margin):
    """Choose it on clean labels: each event's constraint is met at once, whatever the cost."""

    kind: Literal["pa"] = "pa"
    rule = "on y·s < ε: w += τ·y·x, τ = (ε − y·s)/‖x‖²"

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return self._run(state, np.inf, 0.0, X, y)


class PassiveAggressive1(Margin, WeighingLearner):
    """Choose it first: a step is at most C, so a wrong label does bounded harm."""

    kind: Literal["pa1"] = "pa1"
    rule = "as pa, τ = min(C, (ε − y·s)/‖x‖²)"
    C: PositiveFloat | Literal["auto"] = 1.0
    """The largest step; `auto`: 10^(−6·min(e, ½)) with the learner's recent error rate e, so the
    more often it errs, the smaller the step."""

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return self._run(state, AUTO if self.C == "auto" else self.C, 0.0, X, y)


class PassiveAggressive2(Margin, WeighingLearner):
    """Choose it where noise is everywhere: every step is softened, none is cut."""

    kind: Literal["pa2"] = "pa2"
    rule = "as pa, τ = (ε − y·s)/(‖x‖² + 1/(2C))"
    C: PositiveFloat = 1.0
    """Inverse softness; Carvalho & Cohen's relaxed PA is C = 5."""

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return self._run(state, np.inf, 0.5 / self.C, X, y)


@kernel
def _learn(
    w: Weights,
    fading: Array,
    epsilon: float,
    mistakes_only: bool,
    cap: float,
    slack: float,
    uses_weights: bool,
    X: Batch,
    y: Array,
) -> tuple[Array, Flags]:
    """One formula for the three: only PA-I has a cap, only PA-II a slack of 1/(2C)."""
    scores, moved = outputs(y.size)
    averaged, plain = w.mode[0] != NONE, is_plain(w)
    v, scale = w.v, w.scale[0]
    for t in range(y.size):
        j, x = row(X, t)
        s = scale * dot(v, j, x)
        scores[t] = s if plain else reported_score(w, j, x, s)
        if X.weights[t] == 0.0:
            continue
        c = X.weights[t] if uses_weights else 1.0
        loss = max(0.0, epsilon - y[t] * s)
        norm = sq_norm(x)
        if loss > 0.0 and norm > 0.0 and not (mistakes_only and y[t] * s > 0.0):
            largest = cap if cap > AUTO else math.exp(-6.0 * math.log(10.0) * min(fading[0], 0.5))
            tau = min(c * largest, loss / (norm + slack / c))  # importance multiplies C
            moved[t] = DROPPED
            if fits(v, scale, j, x, tau * y[t]):
                if averaged:
                    catch_up_row(w, j)
                move(v, scale, j, x, tau * y[t])
                moved[t] = MOVED
        if cap == AUTO:
            fading[0] = FADING * fading[0] + (1.0 - FADING) * ((s >= 0.0) != (y[t] > 0.0))
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved
