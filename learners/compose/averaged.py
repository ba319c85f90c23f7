"""Averaging of a linear learner's weights. Bollegala's "+avg"; Carvalho & Cohen, section 3
(voting).

The weight vector keeps the averages itself (`linear/weights.py`). Otherwise an event would cost
O(dim).
"""

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import SerializeAsAny, field_validator, model_validator

from learners.batch import Array
from learners.compose.wrapper import Wrapper
from learners.kernel.learner import KernelLearner
from learners.learner import Learner
from learners.linear.learner import LinearLearner
from learners.linear.weights import Shape
from learners.registry import make
from learners.state import State


class Averaged(Wrapper):
    """Choose it when single events disturb the weights: the averaged weights score, the current
    ones learn.
    """

    kind: Literal["averaged"] = "averaged"
    rule = (
        "scores with the mean of w over all events (avg), or over events without an update (vote)"
    )
    mode: Literal["avg", "vote"] = "avg"
    """`avg`: mean over all events; `vote`: mean over the events that did not change the weights."""
    base: SerializeAsAny[LinearLearner]
    """A linear learner."""

    @field_validator("base", mode="before")
    @classmethod
    def _make(cls, value: Any) -> Learner:
        base = make(value)
        if isinstance(base, KernelLearner):
            raise ValueError(
                f"{base.kind} stores rows and has no weights to average: "
                "take k-averaged or k-voted, without averaged"
            )
        return base

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.mode == "vote" and self.base.capabilities.always_updates:
            raise ValueError(
                f"vote counts events without an update, and {self.base.kind} updates at every "
                "event: use avg"
            )
        return self

    def base_of(self, state: State, column: int) -> tuple[State, int]:
        return state, column

    def init(self, dim: int) -> State:
        return self.fresh(dim, Shape())

    def fresh(self, dim: int, shape: Shape) -> State:
        return self.base.fresh(dim, shape._replace(average=self.mode))

    def sizes(self, state: State) -> tuple[Array, NDArray[np.bool_]]:
        return self.base.sizes(state)
