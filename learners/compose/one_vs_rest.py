"""One-vs-rest: one binary learner per class, the highest score wins. Bollegala 5.3, McKenna 6.1,
Zhang.

The learner of a class starts at the first event with its label. State and scores have `max_classes`
columns. A class that has not been seen scores −inf, so the event that introduces it is an error.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializeAsAny

from learners.batch import Array, Batch, Ints
from learners.compose.averaged import Averaged
from learners.compose.selected import Selected
from learners.compose.wrapper import Wrapper
from learners.kernel.learner import KernelLearner
from learners.learner import ONCE, Learned, Memory, count_updates
from learners.linear.learner import LinearLearner
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
        """Where the base has spare room, classes that have not been seen are spare room too."""
        seen = int(np.flatnonzero(self.seen).max(initial=-1)) + 1
        return {
            f"classes/{path}": (seen, *lengths)
            for path, lengths in in_use_within(self.classes).items()
        }


class OneVsRest(Wrapper):
    """Choose it for more than two classes; new classes may appear at any time."""

    kind: Literal["one_vs_rest"] = "one_vs_rest"
    rule = "one learner per class, +1 for its events and −1 for the others; the highest score wins"
    max_classes: int = Field(default=64, ge=2, le=65536)
    """Maximum number of classes; the state has one column for each."""
    base: SerializeAsAny[Selected | Averaged | LinearLearner | KernelLearner]
    """A linear learner, averaged, selected or neither; or a kernel learner."""

    def init(self, dim: int) -> State:
        one = self.base.init(dim)
        zero = np.zeros(1, np.int64)
        return State(
            np.zeros(self.max_classes, np.int64),
            zero,
            zero.copy(),
            _stack(one, self.max_classes),
        )

    def base_of(self, state: State, column: int) -> tuple[BaseState, int]:
        """Each class has a binary learner, whose only column is 0."""
        return _class(state.classes, column), 0

    def is_valid(self, state: State) -> bool:
        return all(self.base.is_valid(_class(state.classes, c)) for c in range(self.max_classes))

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
            learned = self.base.learn_rows(
                _class(state.classes, c), rest, np.where(y[start:] == c, 1.0, -1.0), own
            )
            scores[start:, c] = learned.scores
            moved[start:] |= learned.moved
            if not state.seen[c]:
                scores[start, c] = -np.inf  # the class did not exist before this event
                state.seen[c] = 1
        count_updates(state, moved)
        return Learned(scores, moved)

    def _first_rows(self, state: State, X: Batch, y: Array) -> Ints:
        """The row at which the learner of each class begins.

        0 for a class that was seen before, X.size for one that is not in this batch either.
        """
        first = np.where(state.seen == 1, 0, X.size)
        counts = np.flatnonzero(X.weights > 0.0)  # an event of weight 0 introduces no class
        classes, where = np.unique(y[counts].astype(np.int64), return_index=True)
        first[classes] = np.minimum(first[classes], counts[where])
        return first

    def updates(self, state: State) -> int:
        return int(state.updates[0])

    def dropped_updates(self, state: State) -> int:
        return int(state.dropped[0])

    def norm(self, state: State) -> float:
        norms = [self.base.norm(_class(state.classes, c)) for c in np.flatnonzero(state.seen)]
        return float(np.sqrt(np.square(norms).sum()))


def _stack(state: BaseState, classes: int) -> BaseState:
    """Make one copy of a fresh state per class.

    Arrays of zeros stay untouched memory until a class uses them.
    """

    def stack(part: Any) -> Any:
        if not isinstance(part, np.ndarray):
            return _stack(part, classes)
        if part.any():
            return np.repeat(part[np.newaxis], classes, axis=0)
        return np.zeros((classes, *part.shape), part.dtype)

    return type(state)(*(stack(part) for part in state))


def _class(stacked: BaseState, c: int | np.integer[Any]) -> BaseState:
    """The state of one class, as views."""

    def view(part: Any) -> NDArray[Any] | BaseState:
        return part[c] if isinstance(part, np.ndarray) else _class(part, c)

    return type(stacked)(*(view(part) for part in stacked))
