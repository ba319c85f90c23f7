"""One-vs-rest: one binary learner per class, the highest score wins. Bollegala 5.3, McKenna 6.1, Zhang.

A class's learner starts at the event that first carries its label. State and scores have `max_classes` columns; a class
not yet seen scores −inf, so the event that brings it is an error.
"""

from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializeAsAny, field_validator

from learners.batch import Array, Batch, Flags, Ints
from learners.compose.averaged import Averaged
from learners.compose.selected import Selected
from learners.dual.learner import KernelLearner
from learners.influences import Influences, Stock
from learners.learner import EVERY, ONCE, Layout, Learned, Learner, Memory, Terms, tally
from learners.linear.learner import LinearLearner
from learners.registry import make
from learners.state import State as BaseState
from learners.state import in_use_within


class State(NamedTuple):
    seen: Ints
    """1 for each class that has had an event."""
    updates: Ints
    dropped: Ints
    classes: BaseState
    """The base's state with a first axis of `max_classes`."""

    def in_use(self) -> dict[str, tuple[int, ...]]:
        """Where a class has spare room, classes that are not there yet are spare room too."""
        seen = int(np.flatnonzero(self.seen).max(initial=-1)) + 1
        return {f"classes/{path}": (seen, *lengths) for path, lengths in in_use_within(self.classes).items()}


class OneVsRest(Learner):
    """Choose it for more than two classes; new ones may appear at any time."""

    kind: Literal["one_vs_rest"] = "one_vs_rest"
    rule = "one learner per class, +1 for its events and −1 for the others; the highest score wins"
    max_classes: int = Field(default=64, ge=2, le=65536)
    """Room for classes; the state has one column each."""
    base: SerializeAsAny[Selected | Averaged | LinearLearner | KernelLearner]
    """A linear learner, averaged, selected or neither; or a kernel learner."""

    @field_validator("base", mode="before")
    @classmethod
    def _make(cls, value: Any) -> Learner:
        return make(value)

    def init(self, dim: int) -> State:
        one = self.base.init(dim)
        zero = np.zeros(1, np.int64)
        return State(np.zeros(self.max_classes, np.int64), zero, zero.copy(), _stacked(one, self.max_classes))

    def refusals(self, X: Batch) -> Flags:
        return self.base.refusals(X)

    def takes_negative(self) -> bool:
        return self.base.takes_negative()

    def takes_trees(self) -> bool:
        return self.base.takes_trees()

    def weighs(self) -> bool:
        return self.base.weighs()

    def possible(self, state: State) -> bool:
        return all(self.base.possible(_class(state.classes, c)) for c in range(self.max_classes))

    def settled(self, layout: Layout) -> Self:
        return self.model_copy(update={"base": self.base.settled(layout)})

    def scalable(self) -> str:
        return self.base.scalable()

    def score_rows(self, state: State, X: Batch) -> Array:
        scores = np.full((X.size, self.max_classes), -np.inf)
        for c in np.flatnonzero(state.seen):
            scores[:, c] = self.base.score_rows(_class(state.classes, c), X)
        return scores

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        scores = np.full((X.size, self.max_classes), -np.inf)
        moved = np.zeros(X.size, np.uint8)
        first = self._first_rows(state, X, y)
        for c in np.flatnonzero(first < X.size):
            start = int(first[c])
            rest = X.rows(start, X.size)
            own = memory if memory.duals is None else memory._replace(duals=memory.duals[c, start:])
            learned = self.base.learn_rows(_class(state.classes, c), rest, np.where(y[start:] == c, 1.0, -1.0), own)
            scores[start:, c] = learned.scores
            moved[start:] |= learned.moved
            if not state.seen[c]:
                scores[start, c] = -np.inf  # before this event the class was not there to be scored
                state.seen[c] = 1
        tally(state, moved)
        return Learned(scores, moved)

    def _first_rows(self, state: State, X: Batch, y: Array) -> Ints:
        """The row at which each class's learner begins: 0 if seen before, X.size if not in this batch either."""
        first = np.where(state.seen == 1, 0, X.size)
        counts = np.flatnonzero(X.weights > 0.0)  # an event of weight 0 changes nothing, so it starts no class
        classes, where = np.unique(y[counts].astype(np.int64), return_index=True)
        first[classes] = np.minimum(first[classes], counts[where])
        return first

    def terms(self, state: State, X: Batch, column: int) -> Terms:
        return self.base.terms(_class(state.classes, column), X, 0)

    def weights(self, state: State, column: int, slots: slice = EVERY) -> Array:
        return self.base.weights(_class(state.classes, column), 0, slots)

    def stores_rows(self) -> bool:
        return self.base.stores_rows()

    def influences(self, state: State, X: Batch | None, column: int, most: int) -> Influences:
        return self.base.influences(_class(state.classes, column), X, 0, most)

    def stock(self, state: State, column: int) -> Stock:
        return self.base.stock(_class(state.classes, column), 0)

    def updates(self, state: State) -> int:
        return int(state.updates[0])

    def dropped(self, state: State) -> int:
        return int(state.dropped[0])

    def norm(self, state: State) -> float:
        norms = [self.base.norm(_class(state.classes, c)) for c in np.flatnonzero(state.seen)]
        return float(np.sqrt(np.square(norms).sum()))


def _stacked(state: BaseState, classes: int) -> BaseState:
    """One copy of a fresh state per class; all-zero arrays stay untouched memory until a class uses them."""

    def stack(part: Any) -> Any:
        if not isinstance(part, np.ndarray):
            return _stacked(part, classes)
        return (
            np.repeat(part[np.newaxis], classes, axis=0) if part.any() else np.zeros((classes, *part.shape), part.dtype)
        )

    return type(state)(*(stack(part) for part in state))


def _class(stacked: BaseState, c: int | np.integer[Any]) -> BaseState:
    """The state of one class, as views."""

    def view(part: Any) -> NDArray[Any] | BaseState:
        return part[c] if isinstance(part, np.ndarray) else _class(part, c)

    return type(stacked)(*(view(part) for part in stacked))
