"""Compute the kernel K of one row with every stored row. McKenna's thesis, sections 2.3, 2.5 and 5.

The row is spread once over an array of all slots, so that each stored row costs only its own
entries. Most of the time goes into these inner products. A rule that drops or projects a stored row
compares that row with the whole set (`stored_similarities`).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import ACCEPTED, LARGEST_SQUARE, NUMERIC, kernel
from learners.kernel.support import Support, Work, entries
from learners.kernel.tree_kernel import common, nodes, normalise, own

CANCELLED = 1e-6
"""Share of a·a + b·b below which a·a − 2a·b + b·b has fewer than ten digits of ‖a − b‖²."""

NO_VECTOR, LINEAR, POLYNOMIAL, RBF, SIGMOID = 0, 1, 2, 3, 4


class Kernel(NamedTuple):
    """A kernel as numbers: vector_weight·K(rows) + tree_weight·K(trees)."""

    vector: int
    vector_weight: float
    gamma: float
    s: float
    c: float
    d: int
    vectors_normalised: bool
    tree_weight: float
    """0: trees are ignored."""
    lam: float
    trees_normalised: bool


class SelfSimilarity(NamedTuple):
    """A row compared with itself."""

    k: float
    """K(x, x)."""
    square: float
    """x·x."""
    tree: float
    """K of its tree with itself, not normalised."""


@kernel
def similarities(support: Support, K: Kernel, X: Batch, t: int, work: Work) -> SelfSimilarity:
    """Put K(x_i, x) of every stored row into `work.k`.

    Return the comparison of the row with itself.
    """
    me = compare_to_itself(K, X, t)
    k = work.k
    for i in range(support.size[0]):
        k[i] = 0.0
    if K.vector != NO_VECTOR:
        _compare_rows(support, K, X, t, me.square, work)
    if K.tree_weight > 0.0:
        _compare_trees(support, K, X, t, me.tree, k)
    return me


@kernel
def stored_similarities(support: Support, K: Kernel, r: int, work: Work) -> float:
    """Put K(x_i, x_r) of every stored row into `work.k`. Return K(x_r, x_r)."""
    # The support set works as a batch: the wider type of its slots makes no difference to a kernel.
    slots: Any = support.slots
    rows = Batch(support.ends, slots, support.values, support.a, support.trees)
    own = similarities(support, K, rows, r, work).k
    work.k[r] = own  # the comparison gives the same up to the last digit
    return own


@kernel
def compare_to_itself(K: Kernel, X: Batch, t: int) -> SelfSimilarity:
    first, last = entries(X, t)
    square = 0.0
    for i in range(first, last):
        square += X.values[i] * X.values[i]
    tree = own(X.trees, t, K.lam) if K.tree_weight > 0.0 else 0.0
    return SelfSimilarity(self_kernel(K, square, tree), square, tree)


@kernel
def self_kernel(K: Kernel, square: float, tree: float) -> float:
    """K(x, x), from x·x and the unnormalised K of its tree with itself."""
    k = 0.0
    if K.vector != NO_VECTOR:
        k += _weighted_vector_kernel(K, square, 0.0, square, square)
    if K.tree_weight > 0.0:
        k += K.tree_weight * (normalise(tree, tree, tree) if K.trees_normalised else tree)
    return k


@kernel
def weighted_sum(support: Support, k: Array) -> float:
    """f(x) = Σ a_i K(x_i, x)."""
    total = 0.0
    for i in range(support.size[0]):
        total += support.a[i] * k[i]
    return total


@kernel
def squared_norm(support: Support, K: Kernel, work: Work) -> float:
    """‖f‖² = aᵀKa from the kernel's values."""
    total = 0.0
    for j in range(support.size[0]):
        stored_similarities(support, K, j, work)
        total += support.a[j] * weighted_sum(support, work.k)
    return max(0.0, total)


@kernel
def kernel_scores(support: Support, K: Kernel, X: Batch, work: Work) -> Array:
    scores = np.empty(X.weights.size)
    for t in range(scores.size):
        similarities(support, K, X, t, work)
        scores[t] = weighted_sum(support, work.k)
    return scores


@kernel
def refuse_rows(K: Kernel, X: Batch, codes: Flags) -> Flags:
    """Refuse rows whose K(x, x) is out of the safe range as NUMERIC. K(x, x) bounds all K(x, ·)."""
    for t in range(codes.size):
        # the bound itself is refused too, because larger values are clipped to it
        if codes[t] == ACCEPTED and not abs(compare_to_itself(K, X, t).k) < LARGEST_SQUARE:
            codes[t] = NUMERIC
    return codes


@kernel
def _compare_rows(support: Support, K: Kernel, X: Batch, t: int, square: float, work: Work) -> None:
    first, last = entries(X, t)
    for i in range(first, last):
        work.spread[X.indices[i]] = X.values[i]
    _inner_products(
        support.ends, support.slots, support.values, support.size[0], work.spread, work.k
    )
    for i in range(first, last):
        work.spread[X.indices[i]] = 0.0
    for i in range(support.size[0]):
        both = support.squares[i] + square
        distance = both - 2.0 * work.k[i]
        if K.vector == RBF and distance <= CANCELLED * both:
            distance = _distance(support, i, X, t)
        work.k[i] = _weighted_vector_kernel(K, work.k[i], distance, support.squares[i], square)


@kernel
def _inner_products(
    ends: Ints, slots: Ints, values: Array, n: int, spread: Array, k: Array
) -> None:
    """x_i·x of every stored row, summed from left to right however rows are grouped.

    Takes four rows at a time, one from each quarter of the set: no sum waits for another, and
    memory is read in four streams.
    """
    quarter = n // 4
    for i in range(quarter):
        if _have_same_slots(ends, slots, i, quarter):
            _four_products(ends, slots, values, i, quarter, spread, k)
        else:
            for row in range(i, 4 * quarter, quarter):
                k[row] = _product(slots, values, ends[row], ends[row + 1], spread)
    for row in range(4 * quarter, n):
        k[row] = _product(slots, values, ends[row], ends[row + 1], spread)


@kernel
def _have_same_slots(ends: Ints, slots: Ints, i: int, quarter: int) -> bool:
    """Whether row i of each quarter has the same slots without gaps, as rows of columns have."""
    width = ends[i + 1] - ends[i]
    if width == 0:
        return False
    start = slots[ends[i]]
    for row in range(i, 4 * quarter, quarter):
        first, last = ends[row], ends[row + 1] - 1
        if last - first != width - 1 or slots[first] != start or slots[last] != start + width - 1:
            return False
    return True


@kernel
def _four_products(
    ends: Ints, slots: Ints, values: Array, i: int, quarter: int, spread: Array, k: Array
) -> None:
    """The inner products of row i of each quarter. The four rows have the same slots."""
    j0, j1, j2, j3 = i, i + quarter, i + 2 * quarter, i + 3 * quarter
    start, width = slots[ends[i]], ends[i + 1] - ends[i]
    x = spread[start : start + width]
    r0, r1 = values[ends[j0] : ends[j0] + width], values[ends[j1] : ends[j1] + width]
    r2, r3 = values[ends[j2] : ends[j2] + width], values[ends[j3] : ends[j3] + width]
    p0 = p1 = p2 = p3 = 0.0
    for j in range(width):
        p0 += r0[j] * x[j]
        p1 += r1[j] * x[j]
        p2 += r2[j] * x[j]
        p3 += r3[j] * x[j]
    k[j0], k[j1], k[j2], k[j3] = p0, p1, p2, p3


@kernel
def _product(slots: Ints, values: Array, first: int, last: int, spread: Array) -> float:
    total = 0.0
    for entry in range(first, last):
        total += values[entry] * spread[slots[entry]]
    return total


@kernel
def _distance(support: Support, i: int, X: Batch, t: int) -> float:
    """‖x_i − x‖², entry by entry: for rows so close that a difference of squares has no digits."""
    here, end = support.ends[i], support.ends[i + 1]
    there, last = entries(X, t)
    total = 0.0
    while here < end or there < last:
        if there == last or (here < end and support.slots[here] < X.indices[there]):
            difference, here = support.values[here], here + 1
        elif here == end or X.indices[there] < support.slots[here]:
            difference, there = X.values[there], there + 1
        else:
            difference, here, there = support.values[here] - X.values[there], here + 1, there + 1
        total += difference * difference
    return total


@kernel
def _weighted_vector_kernel(K: Kernel, dot: float, distance: float, aa: float, bb: float) -> float:
    k = _vector_kernel(K, dot, distance)
    if K.vectors_normalised:
        k = normalise(k, _vector_kernel(K, aa, 0.0), _vector_kernel(K, bb, 0.0))
    return _bound(K.vector_weight * k)


@kernel
def _vector_kernel(K: Kernel, dot: float, distance: float) -> float:
    """The vector kernel of two rows from their inner product and their squared distance."""
    if K.vector == RBF:
        return math.exp(-K.gamma * distance)
    if K.vector == SIGMOID:
        return math.tanh(K.s * dot + K.c)
    if K.vector == LINEAR:
        return dot
    base = K.s * dot + K.c
    k = base
    for _ in range(K.d - 1):
        k *= base
    return _bound(k)


@kernel
def _bound(k: float) -> float:
    """Clip to the safe range.

    Rows that are too large are refused before scaling; a scaler may make other rows too large.
    """
    return max(-LARGEST_SQUARE, min(LARGEST_SQUARE, k))


@kernel
def _compare_trees(support: Support, K: Kernel, X: Batch, t: int, tree: float, k: Array) -> None:
    first, last = nodes(X.trees, t)
    if first == last:
        return
    tree_k = np.empty(support.size[0])
    common(X.trees, t, support.trees, 0, tree_k.size, K.lam, tree_k)
    for i in range(tree_k.size):
        likeness = (
            normalise(tree_k[i], tree, support.tree_squares[i]) if K.trees_normalised else tree_k[i]
        )
        k[i] += K.tree_weight * likeness
