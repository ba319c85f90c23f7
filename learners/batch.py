"""`Batch`, the rows that a learner takes: a CSR matrix with an importance weight per row and
optionally a tree per row.
"""

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

_NONE = np.zeros(0, np.int64)


class Trees(NamedTuple):
    """Trees as flat arrays.

    Tree t has the nodes ends[t] … ends[t+1]−1. Only inner nodes are stored, ascending by
    production.
    """

    ends: Ints
    productions: Ints
    """Hash of a node's label followed by the labels of its children in order, words included."""
    order: Ints
    """Positions of a tree's nodes within the tree, children before their parents."""
    child_ends: Ints
    """The inner children of node n (counted over all trees) are child_ends[n] …
    child_ends[n+1]−1."""
    children: Ints
    """Positions of the inner children within the tree."""

    @classmethod
    def concatenate(cls, parts: Sequence["Trees"]) -> "Trees":
        """Put the trees of all parts into one, in order."""
        return cls(
            _join_offsets([part.ends for part in parts]),
            np.concatenate([_NONE, *(part.productions for part in parts)]),
            np.concatenate([_NONE, *(part.order for part in parts)]),
            _join_offsets([part.child_ends for part in parts]),
            np.concatenate([_NONE, *(part.children for part in parts)]),
        )

    def rows(self, start: int, stop: int) -> "Trees":
        """Trees start … stop−1, as views where possible."""
        if not self.ends.size:
            return self
        first, last = self.ends[start], self.ends[stop]
        child_ends = self.child_ends[first : last + 1]
        return Trees(
            self.ends[start : stop + 1] - first,
            self.productions[first:last],
            self.order[first:last],
            child_ends - child_ends[0],
            self.children[child_ends[0] : child_ends[-1]],
        )

    def where(self, keep: NDArray[np.bool_]) -> "Trees":
        """Copies of the trees for which `keep` is true."""
        if not self.ends.size:
            return self
        counts = np.diff(self.child_ends)
        nodes = np.repeat(keep, np.diff(self.ends))
        return Trees(
            _offsets(np.diff(self.ends)[keep]),
            self.productions[nodes],
            self.order[nodes],
            _offsets(counts[nodes]),
            self.children[np.repeat(nodes, counts)],
        )

    def validate(self, rows: int) -> None:
        """Raise ValueError for trees on which a kernel would read out of bounds."""
        if any(array.dtype != np.int64 or array.ndim != 1 for array in self):
            raise ValueError("tree arrays must be one-dimensional int64")
        if self.ends.size == 0:
            return
        if self.ends.size != rows + 1:
            raise ValueError(f"{self.ends.size - 1} trees for {rows} rows")
        for ends, count in (
            (self.ends, self.productions.size),
            (self.child_ends, self.children.size),
        ):
            if not ends.size or ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] != count:
                raise ValueError(
                    "tree offsets must start at 0, be non-decreasing and end at the number of nodes"
                )
        if not self.child_ends.size == self.productions.size + 1 == self.order.size + 1:
            raise ValueError(
                "every tree node needs a production, a position in `order` and a child offset"
            )
        sizes = np.repeat(np.diff(self.ends), np.diff(self.ends))
        for places, most in (
            (self.order, sizes),
            (self.children, np.repeat(sizes, np.diff(self.child_ends))),
        ):
            if ((places < 0) | (places >= most)).any():
                raise ValueError("a position in a tree is out of range")


NO_TREES = Trees(*(np.zeros(0, np.int64) for _ in Trees._fields))
"""The trees of a batch in which no event has a tree."""

NO_TREE = Trees(np.zeros(2, np.int64), _NONE, _NONE, np.zeros(1, np.int64), _NONE)
"""One empty tree, for an event without a tree in a batch where other events have one."""


class Batch(NamedTuple):
    """Rows of sparse features.

    Row t has the slots `indices[indptr[t]:indptr[t+1]]`: ascending, no duplicates.
    """

    indptr: Ints
    indices: Slots
    values: Array
    weights: Array
    trees: Trees = NO_TREES
    """One tree per row, which is empty if the event has none. Or no trees at all."""

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[tuple[Sequence[int], Sequence[float]]],
        weights: Sequence[float] | None = None,
        trees: Trees = NO_TREES,
    ) -> Self:
        """Build a batch from rows of (ascending slots, values). Weights default to 1."""
        ends = [0, *accumulate([len(slots) for slots, _ in rows])]
        return cls(
            np.array(ends, np.int64),
            np.fromiter(chain.from_iterable([slots for slots, _ in rows]), np.int32, ends[-1]),
            np.fromiter(chain.from_iterable([values for _, values in rows]), np.float64, ends[-1]),
            np.ones(len(rows)) if weights is None else np.array(weights, np.float64),
            trees,
        )

    @classmethod
    def from_columns(cls, slots: Slots, table: Array) -> Self:
        """Build a batch from a table whose columns have ascending slots. Zeros are left out."""
        present = table != 0.0
        return cls(
            _offsets(present.sum(axis=1)),
            np.broadcast_to(slots, table.shape)[present],
            table[present],
            np.ones(len(table)),
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
            self.trees.rows(start, stop),
        )

    def where(self, keep: NDArray[np.bool_]) -> Self:
        """Copies of the rows for which `keep` is true."""
        lengths = np.diff(self.indptr)
        entries = np.repeat(keep, lengths)
        indptr = np.zeros(int(keep.sum()) + 1, np.int64)
        np.cumsum(lengths[keep], out=indptr[1:])
        values = self.values[entries]
        return type(self)(
            indptr, self.indices[entries], values, self.weights[keep], self.trees.where(keep)
        )

    def validate(self, dim: int) -> Self:
        """Raise ValueError for a batch on which a kernel would read out of bounds."""
        if self.indptr.ndim != 1 or self.indptr.size != self.size + 1 or self.indptr[0] != 0:
            raise ValueError(f"indptr must have {self.size + 1} entries and start at 0")
        if (np.diff(self.indptr) < 0).any() or self.indptr[-1] != self.indices.size:
            raise ValueError("indptr must be non-decreasing and end at the number of entries")
        if self.indices.size != self.values.size:
            raise ValueError(f"{self.indices.size} indices for {self.values.size} values")
        types = [
            str(array.dtype) for array in (self.indptr, self.indices, self.values, self.weights)
        ]
        if types != ["int64", "int32", "float64", "float64"]:
            raise ValueError(
                f"expected int64 indptr, int32 indices, float64 values and weights, got {types}"
            )
        if self.indices.size and not (
            int(self.indices.min()) >= 0 and int(self.indices.max()) < dim
        ):
            raise ValueError(f"indices must be from 0 to {dim - 1}")
        falls = np.flatnonzero(np.diff(self.indices) <= 0) + 1
        if np.setdiff1d(falls, self.indptr).size:
            raise ValueError("indices of a row must ascend without duplicates")
        if not (
            np.isfinite(self.values).all()
            and np.isfinite(self.weights).all()
            and (self.weights >= 0).all()
        ):
            raise ValueError("values must be finite, weights finite and not negative")
        self.trees.validate(self.size)
        return self


def _offsets(counts: Ints) -> Ints:
    """Offsets from lengths: 0, then the running sum."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _join_offsets(parts: Sequence[Ints]) -> Ints:
    """Concatenate offsets: each part continues where the previous one ended."""
    steps = np.diff(np.concatenate([_NONE, *parts]))
    between = np.cumsum([part.size for part in parts], dtype=np.int64)[:-1] - 1
    return _offsets(np.delete(steps, between))
