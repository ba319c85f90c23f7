"""Feature selection: score with part of the weights. Carvalho & Cohen, section 5.2 (EFS);
regularised PA, 3.3.

The selection is renewed after every `every` learned events. Events are counted, so the batch size
makes no difference. All weights go on learning. The mask is part of the weight vector
(`linear/weights.py`). Otherwise a score would cost O(dim). The bias is always selected.
"""

from itertools import pairwise
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import (
    Field,
    NonNegativeFloat,
    PositiveInt,
    SerializeAsAny,
    field_validator,
    model_validator,
)

from learners.batch import BIAS, Array, Batch, Ints
from learners.compose.averaged import Averaged
from learners.compose.wrapper import Wrapper
from learners.kernel.learner import KernelLearner
from learners.learner import ONCE, REWROTE, Learned, Learner, Memory
from learners.linear.learner import LinearLearner
from learners.linear.weights import Shape
from learners.registry import make
from learners.state import State as BaseState


class State(NamedTuple):
    events: Ints
    """Events learned. They determine when the selection is renewed."""
    base: BaseState


class Selected(Wrapper):
    """Choose it when few features should count: the extremes of a Winnow, or all but a margin
    rule's small weights.
    """

    kind: Literal["selected"] = "selected"
    rule = "scores with part of the weights, selected again every `every` events"
    selector: Literal["efs", "prune"] = "prune"
    """`efs`: the K features of largest and smallest weight; `prune`: all but the smallest
    weights."""
    every: PositiveInt = 10_000
    """Events between two renewals."""
    sigma: NonNegativeFloat = 0.01
    """`prune` ignores the smallest weights whose squares sum to at most this."""
    K: PositiveInt = 1000
    """`efs`: number of selected features."""
    P: float = Field(default=0.9, ge=0.0, le=1.0)
    """`efs`: share of the K features that have the largest weights; the others have the
    smallest."""
    base: SerializeAsAny[Averaged | LinearLearner]
    """A linear learner, averaged or not."""

    @field_validator("base", mode="before")
    @classmethod
    def _make(cls, value: Any) -> Learner:
        base = make(value)
        if isinstance(base, KernelLearner):
            raise ValueError(
                f"{base.kind} stores rows and has no weights to select from: leave selected out; "
                "a learner with a budget limits its rows"
            )
        return base

    @model_validator(mode="after")
    def _check(self) -> Self:
        selectors = self.base.capabilities.selectors
        if self.selector not in selectors:
            known = ", ".join(selectors) or "none"
            raise ValueError(
                f"{self.selector} makes no sense over {self.base.kind}; its selectors: {known}"
            )
        return self

    def init(self, dim: int) -> State:
        return State(np.zeros(1, np.int64), self.base.fresh(dim, Shape(selected=True)))

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        learns = X.weights > 0.0
        counted = state.events[0] + np.cumsum(learns)
        renewals = np.flatnonzero(learns & (counted % self.every == 0)) + 1
        cuts = sorted({0, X.size, *renewals.tolist()})
        parts = []
        for start, stop in pairwise(cuts):
            own = (
                memory if memory.duals is None else memory._replace(duals=memory.duals[start:stop])
            )
            parts.append(self.base.learn_rows(state.base, X.rows(start, stop), y[start:stop], own))
            state.events[0] += np.count_nonzero(learns[start:stop])
            if stop in renewals:
                self._renew(state)
                parts[-1].moved[-1] |= REWROTE
        if not parts:
            return self.base.learn_rows(state.base, X, y, memory)
        return Learned(
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.moved for part in parts]),
        )

    def _renew(self, state: State) -> None:
        sizes, known = self.base.sizes(state.base)
        mantissa, exponent = np.frexp(sizes)
        # weights that differ only by rounding are ties
        sizes = np.ldexp(np.round(mantissa, 9), exponent)
        slots = np.flatnonzero(known)
        slots = slots[slots != BIAS]
        mask = state.base.w.mask
        if self.selector == "prune":
            ascending = slots[np.argsort(sizes[slots], kind="stable")]
            mask[:] = 1
            mask[ascending[np.cumsum(np.square(sizes[ascending])) <= self.sigma]] = 0
            return
        descending = slots[np.argsort(-sizes[slots], kind="stable")]
        top = round(self.P * self.K)
        bottom = min(self.K - top, max(0, descending.size - top))
        mask[:] = 0
        mask[BIAS] = 1
        mask[descending[:top]] = 1
        mask[descending[descending.size - bottom :]] = 1
