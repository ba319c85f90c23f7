"""A score as a sum over stored rows: what a kernel learner has in place of weights."""

from typing import NamedTuple

from learners.batch import Array, Batch


class Influences(NamedTuple):
    """Σ coefficients·similarities + others + constant: of one row, for one class; the most influential first."""

    rows: list[Batch]
    """The stored rows, one each, as the rule saw them: scaled, without the bias."""
    coefficients: Array
    similarities: Array
    """K(stored row, x); without an x, the stored row's own norm √K."""
    others: float
    """What the stored rows that are left out add up to."""
    constant: float
    stored: int
    """Rows in the whole set."""
    exact: bool
    """Whether the score is that sum; of votes it is not, there the sum is only nearly as telling."""


class Stock(NamedTuple):
    """What a class has stored."""

    rows: int
    room: int
    """Most rows that are ever stored."""
    norm: float
    """‖f‖."""
