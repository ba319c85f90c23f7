"""`Wrapper`: a learner around another one. It passes every call on to its base."""

from typing import TYPE_CHECKING, Any, Self

from pydantic import field_validator

from learners.batch import Array, Batch, Flags
from learners.learner import (
    EVERY,
    ONCE,
    Capabilities,
    Layout,
    Learned,
    Learner,
    Memory,
    SupportTerms,
    SupportUsage,
    Terms,
)
from learners.registry import make
from learners.state import State


class Wrapper(Learner):
    """Forwards the whole contract to `base`. A composition overrides only what it changes."""

    if TYPE_CHECKING:
        base: Learner
    # Each composition declares the field `base` itself, with the kinds that it takes. The field
    # comes last, so that a configuration in a checkpoint keeps the order of its fields.

    @field_validator("base", mode="before", check_fields=False)
    @classmethod
    def _make(cls, value: Any) -> Learner:
        return make(value)

    def base_of(self, state: State, column: int) -> tuple[State, int]:
        """State and column of the base that make up this column."""
        return state.base, column

    @property
    def capabilities(self) -> Capabilities:
        return self.base.capabilities

    def row_refusals(self, X: Batch) -> Flags:
        return self.base.row_refusals(X)

    def bind(self, layout: Layout) -> Self:
        return self.model_copy(update={"base": self.base.bind(layout)})

    def is_valid(self, state: State) -> bool:
        return self.base.is_valid(self.base_of(state, 0)[0])

    def score_rows(self, state: State, X: Batch) -> Array:
        return self.base.score_rows(self.base_of(state, 0)[0], X)

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        return self.base.learn_rows(self.base_of(state, 0)[0], X, y, memory)

    def terms(self, state: State, X: Batch, column: int) -> Terms:
        inner, column = self.base_of(state, column)
        return self.base.terms(inner, X, column)

    def weights(self, state: State, column: int, slots: slice = EVERY) -> Array:
        inner, column = self.base_of(state, column)
        return self.base.weights(inner, column, slots)

    def support_terms(self, state: State, X: Batch | None, column: int, most: int) -> SupportTerms:
        inner, column = self.base_of(state, column)
        return self.base.support_terms(inner, X, column, most)

    def support_usage(self, state: State, column: int) -> SupportUsage:
        inner, column = self.base_of(state, column)
        return self.base.support_usage(inner, column)

    def updates(self, state: State) -> int:
        return self.base.updates(self.base_of(state, 0)[0])

    def dropped_updates(self, state: State) -> int:
        return self.base.dropped_updates(self.base_of(state, 0)[0])

    def norm(self, state: State) -> float:
        return self.base.norm(self.base_of(state, 0)[0])
