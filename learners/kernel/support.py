"""The support set: stored rows and trees in preallocated arrays of fixed size, oldest first.

Adding costs O(row). Dropping moves all younger rows. Both cost less than one comparison with the
set.

To compare a row with the stored ones, it is spread over an array of all slots, which is 0 before
and after each comparison. Each thread keeps one such array: allocating a large one would cost more
than the rest of a short call.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from learners.batch import BIAS, Array, Batch, Ints, Trees
from learners.jit import LARGEST_WEIGHT, kernel
from learners.kernel.tree_kernel import nodes

ROUNDING = 1e-9
"""Relative error of a square that is summed in another order."""


class Support(NamedTuple):
    dim: Ints
    """Number of slots."""
    size: Ints
    """Number of stored rows."""
    a: Array
    """Coefficients of the stored rows, with the sign of the label."""
    ends: Ints
    """Row i is entries ends[i] … ends[i+1]−1."""
    slots: Ints
    values: Array
    squares: Array
    """x·x of each stored row."""
    tree_squares: Array
    """K of each tree with itself, not normalised."""
    trees: Trees

    def in_use(self) -> dict[str, tuple[int, ...]]:
        """Return the lengths in use. Of stacked sets, one per class, those of the largest set."""
        n, entries, trees = int(self.size.max()), int(self.ends.max()), self.trees
        nodes, children = int(trees.ends.max()), int(trees.child_ends.max())
        lengths = dict.fromkeys(("a", "squares", "tree_squares"), n) | {
            "ends": n + 1,
            "slots": entries,
        }
        lengths |= {
            "values": entries,
            "trees/ends": n + 1,
            "trees/productions": nodes,
            "trees/order": nodes,
        }
        lengths |= {"trees/child_ends": nodes + 1, "trees/children": children}
        return {path: (length,) for path, length in lengths.items()}

    def fixed(self) -> tuple[str, ...]:
        return ("dim",)


class Work(NamedTuple):
    """Working memory for the similarities of one row."""

    k: Array
    """K(x_i, x) of the stored rows."""
    spread: Array
    """The row by slot, 0 elsewhere."""


_per_thread = threading.local()


def fresh_support(dim: int, rows: int, entries: int, tree_nodes: int) -> Support:
    trees = Trees(
        *(
            np.zeros(n, np.int64)
            for n in (rows + 1, tree_nodes, tree_nodes, tree_nodes + 1, tree_nodes)
        )
    )
    return Support(
        dim=np.array([dim]),
        size=np.zeros(1, np.int64),
        a=np.zeros(rows),
        ends=np.zeros(rows + 1, np.int64),
        slots=np.zeros(entries, np.int64),
        values=np.zeros(entries),
        squares=np.zeros(rows),
        tree_squares=np.zeros(rows),
        trees=trees,
    )


@contextmanager
def borrow_work(support: Support) -> Iterator[Work]:
    """Lend working memory that fits this set.

    It is reused only after a clean exit: after an exception a row may be left in it.
    """
    dim = int(support.dim[0])
    spread: Array | None = _per_thread.__dict__.pop("spread", None)
    if spread is None or spread.size != dim:
        spread = np.zeros(dim)
    yield Work(np.empty(support.a.size), spread)
    _per_thread.spread = spread


def is_valid_support(support: Support) -> bool:
    """Whether rows could have led to this set. Kernels index without bounds checks."""
    n, trees = int(support.size[0]), support.trees
    if (
        not (0 <= n <= support.a.size and _is_rising(support.ends, n, support.slots.size))
        or support.a[n:].any()
    ):
        return False
    last = int(trees.ends[n]) if _is_rising(trees.ends, n, trees.productions.size) else -1
    if last < 0 or not _is_rising(trees.child_ends, last, trees.children.size):
        return False
    return _rows_are_valid(support, n) and _trees_are_valid(trees, n, last)


@kernel
def entries(X: Batch, t: int) -> tuple[int, int]:
    """First entry of row t and the one after its last. Kernel learners do not see the bias."""
    first, last = X.indptr[t], X.indptr[t + 1]
    if first < last and X.indices[first] == BIAS:
        first += 1
    return first, last


@kernel
def has_room(support: Support, X: Batch, t: int) -> bool:
    """Whether row t fits."""
    return has_room_without(support, X, t, 0, 0)


@kernel
def has_room_without(support: Support, X: Batch, t: int, start: int, stop: int) -> bool:
    """Whether row t would fit without rows start … stop−1."""
    n, ends, trees = support.size[0], support.ends, support.trees
    first_entry, last_entry, first, last = _stored_ranges(support, X, t)
    rows = n - (stop - start)
    taken = ends[n] - (ends[stop] - ends[start])
    grown = trees.ends[n] - (trees.ends[stop] - trees.ends[start])
    inner = trees.child_ends
    children = inner[trees.ends[n]] - (inner[trees.ends[stop]] - inner[trees.ends[start]])
    if last > first:
        children += X.trees.child_ends[last] - X.trees.child_ends[first]
    fits = rows < support.a.size and taken + last_entry - first_entry <= support.slots.size
    return bool(
        fits and grown + last - first <= trees.productions.size and children <= trees.children.size
    )


@kernel
def add(support: Support, X: Batch, t: int, a: float, square: float, tree_square: float) -> None:
    """Store row t as the youngest. It must fit."""
    n = support.size[0]
    first_entry, last_entry, first, last = _stored_ranges(support, X, t)
    end = support.ends[n] - first_entry
    for i in range(first_entry, last_entry):
        support.slots[end + i], support.values[end + i] = X.indices[i], X.values[i]
    support.ends[n + 1] = end + last_entry
    support.a[n], support.squares[n], support.tree_squares[n] = a, square, tree_square
    _add_tree(support.trees, n, X.trees, first, last)
    support.size[0] = n + 1


@kernel
def drop(support: Support, r: int) -> None:
    """Drop row r. The younger rows move up, and the room that becomes free is set to 0."""
    n, ends = support.size[0], support.ends
    gone, end = ends[r + 1] - ends[r], ends[n]
    for i in range(ends[r + 1], end):
        support.slots[i - gone], support.values[i - gone] = support.slots[i], support.values[i]
    support.slots[end - gone : end] = 0
    support.values[end - gone : end] = 0.0
    _drop_tree(support.trees, r, n)
    for i in range(r, n - 1):
        support.a[i], support.squares[i] = support.a[i + 1], support.squares[i + 1]
        support.tree_squares[i] = support.tree_squares[i + 1]
        ends[i + 1] = ends[i + 2] - gone
    support.a[n - 1] = support.squares[n - 1] = support.tree_squares[n - 1] = 0.0
    ends[n] = 0
    support.size[0] = n - 1


def _rows_are_valid(support: Support, n: int) -> bool:
    """Whether slots ascend and exist, numbers are finite, and squares match the values."""
    end = support.ends[n]
    slots, values = support.slots[:end], support.values[:end]
    per_row = (support.a[:n], support.squares[:n], support.tree_squares[:n])
    if not all(np.isfinite(part).all() for part in (values, *per_row)):
        return False
    rows = np.repeat(np.arange(n), np.diff(support.ends[: n + 1]))
    ascend = (slots[1:] > slots[:-1]) | (rows[1:] > rows[:-1])
    squares = np.bincount(rows, values * values, n) if support.slots.size else support.squares[:n]
    return bool(
        ((slots > BIAS) & (slots < support.dim[0])).all()
        and ascend.all()
        and np.allclose(squares, support.squares[:n], rtol=ROUNDING, atol=0.0)
        and (support.tree_squares[:n] >= 0.0).all()
        and (np.abs(support.a[:n]) <= LARGEST_WEIGHT).all()
    )


def _trees_are_valid(trees: Trees, n: int, last: int) -> bool:
    """Whether productions ascend, positions are in their tree, and children come before parents."""
    sizes = np.repeat(np.diff(trees.ends[: n + 1]), np.diff(trees.ends[: n + 1]))
    starts = np.repeat(trees.ends[:n], np.diff(trees.ends[: n + 1]))
    parents = np.repeat(np.arange(last), np.diff(trees.child_ends[: last + 1]))
    order, children = trees.order[:last], trees.children[: trees.child_ends[last]]
    inside = (order >= 0) & (order < sizes)
    if not (inside.all() and ((children >= 0) & (children < sizes[parents])).all()):
        return False
    turn = np.full(last, -1)
    turn[starts + order] = np.arange(last)
    productions = trees.productions[:last]
    ascend = (productions[1:] >= productions[:-1]) | (starts[1:] > starts[:-1])
    return bool(
        (turn >= 0).all()
        and ascend.all()
        and (turn[starts[parents] + children] < turn[parents]).all()
    )


def _is_rising(ends: Ints, n: int, most: int) -> bool:
    rises = ends[1 : n + 1] >= ends[:n]  # a difference could overflow
    return bool(ends[0] == 0 and rises.all() and ends[n] <= most)


@kernel
def _stored_ranges(support: Support, X: Batch, t: int) -> tuple[int, int, int, int]:
    """Ranges of the entries and nodes of row t to store.

    Empty if the kernel ignores them: then there is no room for them.
    """
    first_entry, last_entry = entries(X, t)
    first, last = nodes(X.trees, t)
    if support.slots.size == 0:
        last_entry = first_entry
    if support.trees.productions.size == 0:
        last = first
    return first_entry, last_entry, first, last


@kernel
def _add_tree(trees: Trees, n: int, given: Trees, first: int, last: int) -> None:
    start = trees.ends[n]
    for node in range(last - first):
        trees.productions[start + node] = given.productions[first + node]
        trees.order[start + node] = given.order[first + node]
        end = trees.child_ends[start + node]
        for child in range(given.child_ends[first + node], given.child_ends[first + node + 1]):
            trees.children[end] = given.children[child]
            end += 1
        trees.child_ends[start + node + 1] = end
    trees.ends[n + 1] = start + last - first


@kernel
def _drop_tree(trees: Trees, r: int, n: int) -> None:
    first, last, end = trees.ends[r], trees.ends[r + 1], trees.ends[n]
    gone = last - first
    children, children_end = trees.child_ends[last] - trees.child_ends[first], trees.child_ends[end]
    for child in range(trees.child_ends[last], children_end):
        trees.children[child - children] = trees.children[child]
    for node in range(last, end):
        trees.productions[node - gone], trees.order[node - gone] = (
            trees.productions[node],
            trees.order[node],
        )
        trees.child_ends[node - gone + 1] = trees.child_ends[node + 1] - children
    trees.children[trees.child_ends[end - gone] : children_end] = 0
    trees.productions[end - gone : end] = 0
    trees.order[end - gone : end] = 0
    trees.child_ends[end - gone + 1 : end + 1] = 0
    for i in range(r, n - 1):
        trees.ends[i + 1] = trees.ends[i + 2] - gone
    trees.ends[n] = 0
