"""The contract: a learner is a frozen configuration with three methods over an explicit state.

Five laws hold bit for bit for every learner and every composition: (1) `learn` returns what `scores` said just before;
(2) cutting the stream into batches differently changes nothing; (3) save and restore anywhere changes nothing later;
(4) `scores` writes nothing; (5) learning writes only to the slots of its rows and slot 0, unless it says `REWROTE`.
"""

from typing import Any, ClassVar, NamedTuple, Protocol, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from learners.batch import Array, Batch, Flags, Slots
from learners.influences import Influences, Stock
from learners.kernels import ACCEPTED, refusals
from learners.state import State, flatten

MOVED = 1
DROPPED = 2
REWROTE = 4
"""What an event did to the weights, as bits of `Learned.moved`; dropped: a guard kept an update from happening;
rewrote: slots that are not in its row may have changed too."""


class Learned(NamedTuple):
    """Scores made before each update, and what each event did."""

    scores: Array
    moved: Flags


class Terms(NamedTuple):
    """A score as a sum, Σ values·weights + constant: of one row, for one class."""

    slots: Slots
    """Those of the row, and those of absent features that take part."""
    values: Array
    """As the rule sees them: scaled, normalised or squeezed."""
    weights: Array
    """Those that answer: the means where there are any, 0 where a feature is left out."""
    constant: float


EVERY = slice(None)
"""All slots."""


class Memory(NamedTuple):
    """What a replay in several passes keeps beside the state."""

    duals: Array | None = None
    """The dual variable of each row, written in place; for several classes one line of rows per class."""
    again: bool = False
    """The rows have been learned before, so statistics have counted them already."""


ONCE = Memory()
"""A stream: each row comes once, and its dual variable starts at 0."""


class Layout(Protocol):
    """What a learner may ask about the features it will see."""

    @property
    def dense(self) -> bool:
        """Every feature is a column, and they are few: a row may be filled up with zeros."""

    @property
    def bias(self) -> bool:
        """Slot 0 is the constant 1 in every row."""

    @property
    def dim(self) -> int:
        """Number of slots."""


class Learner(BaseModel):
    """Subclasses give `init`, `score_rows`, `learn_rows`, `terms`, `weights`, `updates`, `dropped` and `norm`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    kind: str
    rule: ClassVar[str]
    """What it computes, in a line."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """`budget: true` is a slip, not a budget of 1."""
        kind = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and bool not in (kind, *get_args(kind)):
            raise ValueError("wants another value than true or false")
        return value

    def init(self, dim: int) -> State:
        """A fresh state for rows with slots 0 … dim−1."""
        raise NotImplementedError

    def scores(self, state: State, X: Batch) -> Array:
        """Score rows without changing anything; NaN for a row that `refusals` refuses."""
        refused = self.refusals(X) != ACCEPTED
        if not refused.any():
            return self.score_rows(state, X)
        return spread(self.score_rows(state, X.where(~refused)), refused)

    def learn(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Array:
        """Row by row: score, then update. Returns the scores from before each update; a refused row changes nothing."""
        refused = self.refusals(X) != ACCEPTED
        if not refused.any():
            return self.learn_rows(state, X, y, memory).scores
        kept = memory if memory.duals is None else memory._replace(duals=memory.duals[..., ~refused].copy())
        scores = self.learn_rows(state, X.where(~refused), y[~refused], kept).scores
        if memory.duals is not None and kept.duals is not None:
            memory.duals[..., ~refused] = kept.duals
        return spread(scores, refused)

    def refusals(self, X: Batch) -> Flags:
        """Why each row cannot be taken, as an index into `kernels.REFUSALS`; depends on the row alone."""
        return refusals(X)

    def takes_negative(self) -> bool:
        """Whether rows may have negative values; if not, `refusals` refuses those that do."""
        return True

    def takes_trees(self) -> bool:
        """Whether it looks at the trees of a batch."""
        return False

    def weighs(self) -> bool:
        """Whether an event of importance 2 counts more than one of importance 1."""
        return False

    def possible(self, state: State) -> bool:
        """Whether events could have led to such a state: a kernel indexes without looking."""
        del state
        return True

    def settled(self, layout: Layout) -> Self:
        """This configuration with every choice that depends on the features made; impossible ones are refused."""
        del layout
        return self

    def scalable(self) -> str:
        """Why scaling in front of this learner makes no sense; empty where it does."""
        return ""

    def score_rows(self, state: State, X: Batch) -> Array:
        """`scores` of rows that were not refused."""
        raise NotImplementedError

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        """`learn` of rows that were not refused."""
        raise NotImplementedError

    def terms(self, state: State, X: Batch, column: int) -> Terms:
        """What the score of one row that was not refused is the sum of, in time of the row's length; writes nothing.

        The column is that of a class which has been seen; 0 where there are only two.
        """
        raise NotImplementedError

    def weights(self, state: State, column: int, slots: slice = EVERY) -> Array:
        """The weights that answer, one per slot of a stretch, as a copy."""
        raise NotImplementedError

    def stores_rows(self) -> bool:
        """Whether it has stored rows in place of weights: then `influences` instead of `terms` and `weights`."""
        return False

    def influences(self, state: State, X: Batch | None, column: int, most: int) -> Influences:
        """What the score of one row that was not refused is the sum of; without a row, the set itself."""
        raise NotImplementedError

    def stock(self, state: State, column: int) -> Stock:
        """How many rows a class has stored, in time that does not depend on it."""
        raise NotImplementedError

    def forget_scale(self, state: State) -> None:
        """Statistics of features begin anew, whatever was learned stays; only a scaler has any."""
        del state

    def updates(self, state: State) -> int:
        """Events that moved a weight."""
        raise NotImplementedError

    def dropped(self, state: State) -> int:
        """Events whose update was dropped: out of the safe range, or without room for the row."""
        raise NotImplementedError

    def norm(self, state: State) -> float:
        """Euclidean norm of the weights."""
        raise NotImplementedError


def tally(state: State, moved: Flags) -> None:
    """Add what a batch did to the state's counts; a learner in a composition is counted by the outer one too."""
    state.updates[0] += np.count_nonzero(moved & MOVED)
    state.dropped[0] += np.count_nonzero(moved & DROPPED)


def spread(scores: Array, refused: NDArray[np.bool_]) -> Array:
    """Put scores of the accepted rows back in place, NaN elsewhere."""
    whole = np.full((refused.size, *scores.shape[1:]), np.nan)
    whole[~refused] = scores
    return whole


def slot_arrays(learner: Learner) -> frozenset[str]:
    """Names of the arrays whose last axis is the slots: those that grow with them."""
    two, three = flatten(learner.init(2)), flatten(learner.init(3))
    return frozenset(name for name in two if two[name].shape != three[name].shape)
