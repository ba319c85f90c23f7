"""`Batch`: the one shape in which rows reach a learner, a CSR matrix with an importance weight per row."""

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]
Flags = NDArray[np.uint8]

BIAS = 0
"""The slot of the constant feature 1."""


class Batch(NamedTuple):
    """Rows of sparse features: row t is `indices[indptr[t]:indptr[t+1]]`, ascending, each slot at most once."""

    indptr: Ints
    indices: Slots
    values: Array
    weights: Array

    @classmethod
    def from_rows(
        cls, rows: Sequence[tuple[Sequence[int], Sequence[float]]], weights: Sequence[float] | None = None
    ) -> Self:
        """Put rows of (ascending slots, values) together; weights default to 1."""
        ends = [0, *accumulate([len(slots) for slots, _ in rows])]
        return cls(
            np.array(ends, np.int64),
            np.fromiter(chain.from_iterable([slots for slots, _ in rows]), np.int32, ends[-1]),
            np.fromiter(chain.from_iterable([values for _, values in rows]), np.float64, ends[-1]),
            np.ones(len(rows)) if weights is None else np.array(weights, np.float64),
        )

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.weights.size

    def rows(self, start: int, stop: int) -> Self:
        """Rows start … stop−1, as views."""
        first, last = self.indptr[start], self.indptr[stop]
        return type(self)(
            self.indptr[start : stop + 1] - first,
            self.indices[first:last],
            self.values[first:last],
            self.weights[start:stop],
        )

    def where(self, keep: NDArray[np.bool_]) -> Self:
        """The rows for which `keep` is true, copied."""
        lengths = np.diff(self.indptr)
        entries = np.repeat(keep, lengths)
        indptr = np.zeros(int(keep.sum()) + 1, np.int64)
        np.cumsum(lengths[keep], out=indptr[1:])
        return type(self)(indptr, self.indices[entries], self.values[entries], self.weights[keep])

    def validate(self, dim: int) -> Self:
        """Refuse, in words, what no kernel could survive: it indexes without bounds checks."""
        if self.indptr.ndim != 1 or self.indptr.size != self.size + 1 or self.indptr[0] != 0:
            raise ValueError(f"indptr must have {self.size + 1} entries and start at 0")
        if (np.diff(self.indptr) < 0).any() or self.indptr[-1] != self.indices.size:
            raise ValueError("indptr must not fall and must end at the number of entries")
        if self.indices.size != self.values.size:
            raise ValueError(f"{self.indices.size} indices for {self.values.size} values")
        types = [str(array.dtype) for array in self]
        if types != ["int64", "int32", "float64", "float64"]:
            raise ValueError(f"expected int64 indptr, int32 indices, float64 values and weights, got {types}")
        if self.indices.size and not (int(self.indices.min()) >= 0 and int(self.indices.max()) < dim):
            raise ValueError(f"indices must be from 0 to {dim - 1}")
        falls = np.flatnonzero(np.diff(self.indices) <= 0) + 1
        if np.setdiff1d(falls, self.indptr).size:
            raise ValueError("indices of a row must ascend, each slot at most once")
        if not (np.isfinite(self.values).all() and np.isfinite(self.weights).all() and (self.weights >= 0).all()):
            raise ValueError("values must be finite, weights finite and not negative")
        return self
