"""Averaging of a linear learner's weights. Bollegala's "+avg"; Carvalho & Cohen, section 3 (voting).

The means are kept by the weight vector itself (`linear/weights.py`), or an event would cost O(dim).
"""

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import SerializeAsAny, field_validator, model_validator

from learners.batch import Array, Batch, Flags
from learners.dual.learner import KernelLearner
from learners.learner import EVERY, ONCE, Layout, Learned, Learner, Memory, Terms
from learners.linear.learner import LinearLearner
from learners.linear.weights import Shape
from learners.registry import make
from learners.state import State


class Averaged(Learner):
    """Choose it when single events pull the weights about: the mean answers, the current weights learn."""

    kind: Literal["averaged"] = "averaged"
    rule = "answers with the mean of w over events (avg), or over those that left it alone (vote)"
    mode: Literal["avg", "vote"] = "avg"
    """`avg`: mean over all events; `vote`: over the events that left the weights alone."""
    base: SerializeAsAny[LinearLearner]
    """A linear learner."""

    @field_validator("base", mode="before")
    @classmethod
    def _make(cls, value: Any) -> Learner:
        base = make(value)
        if isinstance(base, KernelLearner):
            raise ValueError(
                f"{base.kind} stores rows and has no weights to average: take k-averaged or k-voted, without averaged"
            )
        return base

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.mode == "vote" and self.base.moves_always():
            raise ValueError(
                f"vote counts events without an update, and {self.base.kind} updates at every event: use avg"
            )
        return self

    def init(self, dim: int) -> State:
        return self.fresh(dim, Shape())

    def selectors(self) -> tuple[str, ...]:
        return self.base.selectors()

    def sizes(self, state: State) -> tuple[Array, NDArray[np.bool_]]:
        return self.base.sizes(state)

    def fresh(self, dim: int, shape: Shape) -> State:
        return self.base.fresh(dim, shape._replace(average=self.mode))

    def refusals(self, X: Batch) -> Flags:
        return self.base.refusals(X)

    def takes_negative(self) -> bool:
        return self.base.takes_negative()

    def weighs(self) -> bool:
        return self.base.weighs()

    def settled(self, layout: Layout) -> Self:
        return self.model_copy(update={"base": self.base.settled(layout)})

    def scalable(self) -> str:
        return self.base.scalable()

    def score_rows(self, state: State, X: Batch) -> Array:
        return self.base.score_rows(state, X)

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        return self.base.learn_rows(state, X, y, memory)

    def terms(self, state: State, X: Batch, column: int) -> Terms:
        return self.base.terms(state, X, column)

    def weights(self, state: State, column: int, slots: slice = EVERY) -> Array:
        return self.base.weights(state, column, slots)

    def updates(self, state: State) -> int:
        return self.base.updates(state)

    def dropped(self, state: State) -> int:
        return self.base.dropped(state)

    def norm(self, state: State) -> float:
        return self.base.norm(state)
