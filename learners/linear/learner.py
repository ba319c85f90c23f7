"""What linear learners share: weights in the state, counts of updates, and the importance of an
event.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from learners.batch import Array, Batch, Flags, Slots
from learners.learner import (
    EVERY,
    ONCE,
    Capabilities,
    Learned,
    Learner,
    Memory,
    Terms,
    count_updates,
)
from learners.linear.weights import NO_MASK, Shape, Weights, current, linear_scores, scoring_weights
from learners.state import State


class LinearLearner(Learner):
    """A learner whose state has `w: Weights`, `updates` and `dropped`.

    Kernels take the arrays of `w` out one by one where every event needs them, because passing the
    tuple costs as much as the update.
    """

    def fresh(self, dim: int, shape: Shape) -> State:
        raise NotImplementedError

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        """Call the numba kernel. Return the scores before each update, and what each event did."""
        raise NotImplementedError

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(selectors=("prune",))

    def sizes(self, state: State) -> tuple[Array, NDArray[np.bool_]]:
        """The sizes by which features are selected, and which features may be selected."""
        return np.abs(scoring_weights(state.w._replace(mask=NO_MASK))), np.ones(
            state.w.v.size, np.bool_
        )

    def init(self, dim: int) -> State:
        return self.fresh(dim, Shape())

    def score_rows(self, state: State, X: Batch) -> Array:
        return linear_scores(state.w, X.indptr, X.indices, X.values)

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        del memory
        learned = Learned(*self.run(state, X, y))
        count_updates(state, learned.moved)
        return learned

    def terms(self, state: State, X: Batch, column: int) -> Terms:
        del column
        return Terms(X.indices, X.values, scoring_weights(at(state.w, X.indices)), 0.0)

    def weights(self, state: State, column: int, slots: slice = EVERY) -> Array:
        del column
        return scoring_weights(at(state.w, slots))

    def updates(self, state: State) -> int:
        return int(state.updates[0])

    def dropped_updates(self, state: State) -> int:
        return int(state.dropped[0])

    def norm(self, state: State) -> float:
        return float(np.sqrt(np.square(current(state.w)).sum()))


class WeighingLearner(LinearLearner):
    """A learner whose rule weighs events: by importance, times the cost of the class."""

    J: float = Field(default=1.0, gt=0.0, le=1e6)
    """Cost factor of the positive class: its events count J times."""

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(uses_weights=True)

    def weight_rows(self, X: Batch, y: Array) -> Batch:
        """The rows with the cost of their class multiplied into their importance."""
        return (
            X
            if self.J == 1.0
            else X._replace(weights=np.where(y > 0.0, self.J * X.weights, X.weights))
        )

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        return super().learn_rows(state, self.weight_rows(X, y), y, memory)


class DualLearner(WeighingLearner):
    """A learner with a dual variable per row.

    In a stream it starts at 0; a replay keeps it from pass to pass.
    """

    def run_duals(self, state: State, X: Batch, y: Array, duals: Array) -> tuple[Array, Flags]:
        """Call the numba kernel, which writes the dual variables of the rows in place."""
        raise NotImplementedError

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        duals = np.zeros(X.size) if memory.duals is None else memory.duals
        learned = Learned(*self.run_duals(state, self.weight_rows(X, y), y, duals))
        count_updates(state, learned.moved)
        return learned


def at(w: Weights, slots: Slots | slice) -> Weights:
    """The weight vector restricted to these slots."""
    parts = {name: getattr(w, name) for name in ("v", "total", "upto", "mask")}
    return w._replace(**{name: part[slots] for name, part in parts.items() if part.size})
