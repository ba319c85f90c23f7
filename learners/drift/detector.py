"""The contract of a detector: a frozen configuration with three methods over an explicit state, like a learner's.

Four laws hold bit for bit: (1) what `watch` says of a value depends on that value and those before it alone;
(2) cutting the stream differently changes nothing; (3) save and restore anywhere changes nothing later; (4) `score`
writes nothing. After an alarm a detector begins anew by itself, so that one change is one alarm.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from learners.batch import Array, Flags
from learners.state import State, restore

NOTHING, WARNING, ALARM = 0, 1, 2
"""What a detector says after a value."""

LARGEST, MOST = 1e300, 2**53
"""No sum of values is beyond the one, no count beyond the other."""


class Watched(NamedTuple):
    """What was said after each value."""

    said: Flags
    rise: Array
    """At an alarm: by how much the mean rose, below 0 where it fell; elsewhere 0."""


class Detector(BaseModel):
    """Subclasses give `init`, `watch`, `possible` and `score`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    kind: str
    rule: ClassVar[str]
    """What it computes, in a line, with its paper."""

    def init(self) -> State:
        """A fresh state: a NamedTuple of float64, int64 and uint8 arrays."""
        raise NotImplementedError

    def watch(self, state: State, values: Array) -> Watched:
        """Value by value (an error is 1, a hit 0): take it in, then say whether the stream has changed."""
        raise NotImplementedError

    def possible(self, state: State) -> bool:
        """Whether values could have led to such a state: a kernel indexes and divides without looking."""
        raise NotImplementedError

    def restored(self, arrays: dict[str, NDArray[Any]]) -> State:
        """The inverse of `flatten`; what no values could have led to is refused."""
        state = restore(self.init(), arrays)
        if not self.possible(state):
            raise ValueError(f"it has a state of {self.kind} that cannot be")
        return state

    def score(self, state: State) -> float:
        """How near an alarm is, from 0 (nothing speaks for one) to 1 (the next doubt is one)."""
        raise NotImplementedError


def finite(state: State) -> bool:
    """Whether every number of a state is one that sums can be taken of."""
    return all(bool((np.abs(array) <= (MOST if array.dtype == np.int64 else LARGEST)).all()) for array in state)
