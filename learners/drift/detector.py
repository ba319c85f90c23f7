"""The contract of a detector: a frozen configuration whose methods work on an explicit state, like
a learner's.

Four laws hold bit for bit: (1) what `watch` returns for a value depends only on that value and
those before it; (2) how the stream is cut into batches makes no difference; (3) saving and
restoring the state at any point makes no difference; (4) `score` writes nothing. After an alarm a
detector restarts by itself, so that one change is one alarm.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from learners.batch import Array, Flags
from learners.state import State, restore

NOTHING, WARNING, ALARM = 0, 1, 2
"""Verdict of a detector after a value."""

LARGEST, MOST = 1e300, 2**53
"""Limits: no sum of values exceeds LARGEST, no count exceeds MOST."""


class Watched(NamedTuple):
    """The verdict after each value."""

    said: Flags
    rise: Array
    """At an alarm: by how much the mean rose, negative if it fell. Elsewhere 0."""


class Detector(BaseModel):
    """A frozen configuration; everything that changes is in the state.

    A user calls `init`, `watch` and `score`, and `restore` for a checkpoint. An author writes
    `init`, `watch`, `is_valid` and `score`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )

    kind: str
    rule: ClassVar[str]
    """The rule in one line, with its paper."""
    paper: ClassVar[str] = ""
    """Source of the rule. Default: what follows the first sentence of the module's docstring."""

    def init(self) -> State:
        """Make a fresh state: a NamedTuple of float64, int64 and uint8 arrays."""
        raise NotImplementedError

    def watch(self, state: State, values: Array) -> Watched:
        """For each value (an error is 1, a hit 0): add it to the state, then decide whether the
        stream has changed.
        """
        raise NotImplementedError

    def is_valid(self, state: State) -> bool:
        """Whether values could have led to this state. Kernels index and divide without checks."""
        raise NotImplementedError

    def restore(self, arrays: dict[str, NDArray[Any]]) -> State:
        """Restore a flattened state. Raise ValueError if no values could have led to it."""
        state = restore(self.init(), arrays)
        if not self.is_valid(state):
            raise ValueError(
                f"corrupt checkpoint: the state of detector {self.kind} is inconsistent"
            )
        return state

    def score(self, state: State) -> float:
        """How near an alarm is: from 0 (no evidence) to 1 (any more evidence is an alarm)."""
        raise NotImplementedError


def is_finite(state: State) -> bool:
    """Whether every number of the state is in the safe range for sums."""
    return all(
        bool((np.abs(array) <= (MOST if array.dtype == np.int64 else LARGEST)).all())
        for array in state
    )
