"""The contract of every learner: a frozen configuration whose methods work on an explicit state.

Five laws hold bit for bit for every learner and every composition:

1. `learn` returns the scores that `scores` would have returned just before each update.
2. How the stream is cut into batches makes no difference.
3. Saving and restoring the state at any point makes no difference to what follows.
4. `scores` writes nothing.
5. An update writes only to the slots of its row and to slot 0, unless it reports `REWROTE`.
"""

from typing import Any, ClassVar, NamedTuple, Protocol, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from learners.batch import Array, Batch, Flags, Slots
from learners.jit import ACCEPTED, row_refusals
from learners.state import State, flatten

MOVED = 1
DROPPED = 2
REWROTE = 4
"""What an event did to the weights, as bits of `Learned.moved`. DROPPED: a guard prevented the
update. REWROTE: slots that are not in the event's row may have changed too."""

EVERY = slice(None)
"""All slots."""


class Capabilities(NamedTuple):
    """What a learner can do. A composition has the capabilities of its base."""

    uses_weights: bool = False
    """An event of importance 2 counts more than one of importance 1."""
    takes_negative: bool = True
    """Rows may have negative values. Otherwise `row_refusals` refuses rows that do."""
    takes_trees: bool = False
    """The learner reads the trees of a batch."""
    stores_rows: bool = False
    """The learner stores rows instead of weights: it has `support_terms` and `support_usage`, but
    neither `terms` nor `weights`."""
    always_updates: bool = False
    """Every event is an update, so no hypothesis ever survives an event unchanged."""
    selectors: tuple[str, ...] = ()
    """Feature selectors of `selected` that make sense for the learner's weights."""
    why_not_scalable: str = ""
    """Why `scaled` makes no sense around this learner. Empty where it does make sense."""


class Layout(Protocol):
    """What a learner may ask about the features that it will see."""

    @property
    def dense(self) -> bool:
        """Whether all features are columns, few enough to fill rows up with zeros."""

    @property
    def bias(self) -> bool:
        """Whether slot 0 is the constant 1 in every row."""

    @property
    def dim(self) -> int:
        """Number of slots."""


class Learned(NamedTuple):
    """Scores made before each update, and what each event did."""

    scores: Array
    moved: Flags


class Memory(NamedTuple):
    """What a replay in several passes keeps beside the state."""

    duals: Array | None = None
    """The dual variable of each row, written in place. With several classes, one line per class."""
    again: bool = False
    """The rows have been learned before, so statistics have already counted them."""


ONCE = Memory()
"""The memory of a stream: each row comes once, and its dual variable starts at 0."""


class Terms(NamedTuple):
    """The score of one row for one class as a sum: Σ values·weights + constant."""

    slots: Slots
    """Slots of the row, and slots of absent features that contribute to the score."""
    values: Array
    """Values as the rule sees them: scaled, normalised or squashed."""
    weights: Array
    """Weights used for scoring: the averaged ones if there are any, 0 for a deselected feature."""
    constant: float


class SupportTerms(NamedTuple):
    """The score of one row for one class: Σ coefficients·similarities + others + constant.

    The stored rows with the largest terms are listed, largest first.
    """

    rows: list[Batch]
    """The stored rows, one per batch, as the rule saw them: scaled, without the bias."""
    coefficients: Array
    similarities: Array
    """K(stored row, x). Without an x: √K(stored row, stored row)."""
    others: float
    """Sum of the terms of the stored rows that are not listed."""
    constant: float
    stored: int
    """Rows in the whole support set."""
    exact: bool
    """Whether the score equals the sum. A score made of votes is only similar to the sum."""


class SupportUsage(NamedTuple):
    """How much one class has stored."""

    rows: int
    room: int
    """Rows that fit at most."""
    norm: float
    """‖f‖."""


class Learner(BaseModel):
    """A frozen configuration; everything that changes is in the state.

    A user of a learner calls three methods: `init`, `learn` and `scores`.

    An author of a learner writes a subclass with `kind`, `rule` and these methods: `init`,
    `score_rows`, `learn_rows`, `updates`, `dropped_updates`, `norm`, and for explanations `terms`
    and `weights` (or `support_terms` and `support_usage`, if it stores rows). Four more have
    defaults to override where they do not fit: `capabilities`, `row_refusals`, `bind` and
    `is_valid`.

    Most authors write less. A linear rule extends `LinearLearner` and writes `fresh` and `run`; a
    kernel rule extends `KernelLearner` and writes `rows`, `fresh` and `run`; a composition extends
    `Wrapper` and writes only what it changes.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )

    kind: str
    rule: ClassVar[str]
    """The update rule in one line."""
    family: ClassVar[str] = ""
    """Name of the group of learners from one paper. Default: the name of the module."""
    paper: ClassVar[str] = ""
    """Source of the rule. Default: what follows the first sentence of the module's docstring."""

    @field_validator("*", mode="before")
    @classmethod
    def _reject_bool_for_number(cls, value: Any, info: ValidationInfo) -> Any:
        """`budget: true` is a slip, not a budget of 1."""
        kind = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and bool not in (kind, *get_args(kind)):
            raise ValueError("must not be true or false")
        return value

    def init(self, dim: int) -> State:
        """Make a fresh state for rows with slots 0 … dim−1."""
        raise NotImplementedError

    def scores(self, state: State, X: Batch) -> Array:
        """Score rows without changing the state. A refused row scores NaN."""
        refused = self.row_refusals(X) != ACCEPTED
        if not refused.any():
            return self.score_rows(state, X)
        return scatter(self.score_rows(state, X.where(~refused)), refused)

    def learn(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Array:
        """Row by row: score, then update. Return the scores from before each update.

        A refused row changes nothing and scores NaN.
        """
        refused = self.row_refusals(X) != ACCEPTED
        if not refused.any():
            return self.learn_rows(state, X, y, memory).scores
        accepted = (
            memory
            if memory.duals is None
            else memory._replace(duals=memory.duals[..., ~refused].copy())
        )
        scores = self.learn_rows(state, X.where(~refused), y[~refused], accepted).scores
        if memory.duals is not None and accepted.duals is not None:
            memory.duals[..., ~refused] = accepted.duals
        return scatter(scores, refused)

    @property
    def capabilities(self) -> Capabilities:
        """What this learner can do with its current parameters."""
        return Capabilities()

    def row_refusals(self, X: Batch) -> Flags:
        """Why each row is refused, as an index into `jit.ROW_REFUSALS`. Depends on the row only."""
        return row_refusals(X)

    def bind(self, layout: Layout) -> Self:
        """Return a copy in which every parameter that depends on the features is set.

        Raise ValueError if a parameter does not fit the features.
        """
        del layout
        return self

    def is_valid(self, state: State) -> bool:
        """Whether events could have led to this state. Kernels index without bounds checks, so they
        must not run on any other state.
        """
        del state
        return True

    def score_rows(self, state: State, X: Batch) -> Array:
        """Do `scores` for rows that are all accepted."""
        raise NotImplementedError

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        """Do `learn` for rows that are all accepted."""
        raise NotImplementedError

    def terms(self, state: State, X: Batch, column: int) -> Terms:
        """Split the score of one accepted row into its terms. Takes O(row length), writes nothing.

        `column` is the column of a class that has been seen, or 0 for a binary learner.
        """
        raise NotImplementedError

    def weights(self, state: State, column: int, slots: slice = EVERY) -> Array:
        """Copy the weights used for scoring, one per slot."""
        raise NotImplementedError

    def support_terms(self, state: State, X: Batch | None, column: int, most: int) -> SupportTerms:
        """Split the score of one accepted row into the terms of the stored rows.

        Without a row, list the stored rows with the largest norm.
        """
        raise NotImplementedError

    def support_usage(self, state: State, column: int) -> SupportUsage:
        """Report how much one class has stored. Takes O(1)."""
        raise NotImplementedError

    def forget_scale(self, state: State) -> None:
        """Clear the statistics of the features and keep what was learned. Only `scaled` has any."""
        del state

    def updates(self, state: State) -> int:
        """Count of events that moved a weight."""
        raise NotImplementedError

    def dropped_updates(self, state: State) -> int:
        """Count of events whose update was dropped: out of the safe range, or no room for a row."""
        raise NotImplementedError

    def norm(self, state: State) -> float:
        """Euclidean norm of the weights."""
        raise NotImplementedError


def count_updates(state: State, moved: Flags) -> None:
    """Add what a batch did to the state's counts. A base and its composition both do this."""
    state.updates[0] += np.count_nonzero(moved & MOVED)
    state.dropped[0] += np.count_nonzero(moved & DROPPED)


def scatter(scores: Array, refused: NDArray[np.bool_]) -> Array:
    """Scores of all rows from those of the accepted rows, with NaN for refused rows."""
    scores_of_all = np.full((refused.size, *scores.shape[1:]), np.nan)
    scores_of_all[~refused] = scores
    return scores_of_all


def slot_arrays(learner: Learner) -> frozenset[str]:
    """Names of the arrays whose last axis is the slots, so that they grow with `dim`."""
    two, three = flatten(learner.init(2)), flatten(learner.init(3))
    return frozenset(name for name in two if two[name].shape != three[name].shape)
