"""Kernels as functions, and those of one row with the whole support set. McKenna's thesis, sections 2.3, 2.5 and 5.

The row is spread over an array of all slots once; then each stored row costs its own entries and nothing else.
"""

import math
from typing import NamedTuple

import numpy as np

from learners.batch import Array, Batch, Flags
from learners.dual.products import products
from learners.dual.support import Support, entries
from learners.dual.trees import common, nodes, normalised, own
from learners.dual.work import Work
from learners.kernels import ACCEPTED, LARGEST_SQUARE, NUMERIC, kernel

CANCELLED = 1e-6
"""Share of a·a + b·b below which a·a − 2a·b + b·b has less than ten digits of ‖a − b‖²."""

NO_VECTOR, LINEAR, POLYNOMIAL, RBF, SIGMOID = 0, 1, 2, 3, 4


class Kernel(NamedTuple):
    """Which kernel, in numbers: vector_weight·K(rows) + tree_weight·K(trees)."""

    vector: int
    vector_weight: float
    gamma: float
    s: float
    c: float
    d: int
    vectors_normalised: bool
    tree_weight: float
    """0: trees are not looked at."""
    lam: float
    trees_normalised: bool


@kernel
def of_products(K: Kernel, dot: float, distance: float) -> float:
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
    return _bounded(k)


@kernel
def _bounded(k: float) -> float:
    """Rows that are too large are refused before they are scaled; here sums stay finite whatever a scaler makes."""
    return max(-LARGEST_SQUARE, min(LARGEST_SQUARE, k))


@kernel
def _weighed(K: Kernel, dot: float, distance: float, aa: float, bb: float) -> float:
    k = of_products(K, dot, distance)
    if K.vectors_normalised:
        k = normalised(k, of_products(K, aa, 0.0), of_products(K, bb, 0.0))
    return _bounded(K.vector_weight * k)


class Self(NamedTuple):
    """What a row is to itself."""

    k: float
    """K(x, x)."""
    square: float
    """x·x."""
    tree: float
    """K of its tree with itself, not normalised."""


@kernel
def of_itself(K: Kernel, square: float, tree: float) -> float:
    """K(x, x), from x·x and K of its tree with itself."""
    k = 0.0
    if K.vector != NO_VECTOR:
        k += _weighed(K, square, 0.0, square, square)
    if K.tree_weight > 0.0:
        k += K.tree_weight * (normalised(tree, tree, tree) if K.trees_normalised else tree)
    return k


@kernel
def itself(K: Kernel, X: Batch, t: int) -> Self:
    first, last = entries(X, t)
    square = 0.0
    for i in range(first, last):
        square += X.values[i] * X.values[i]
    tree = own(X.trees, t, K.lam) if K.tree_weight > 0.0 else 0.0
    return Self(of_itself(K, square, tree), square, tree)


@kernel
def similarities(support: Support, K: Kernel, X: Batch, t: int, work: Work) -> Self:
    """Put K(x_i, x) of every stored row into `work.k`; returns what the row is to itself."""
    me = itself(K, X, t)
    k = work.k
    for i in range(support.size[0]):
        k[i] = 0.0
    if K.vector != NO_VECTOR:
        _compare_rows(support, K, X, t, me.square, work)
    if K.tree_weight > 0.0:
        _compare_trees(support, K, X, t, me.tree, k)
    return me


@kernel
def _compare_rows(support: Support, K: Kernel, X: Batch, t: int, square: float, work: Work) -> None:
    first, last = entries(X, t)
    for i in range(first, last):
        work.spread[X.indices[i]] = X.values[i]
    products(support.ends, support.slots, support.values, support.size[0], work.spread, work.k)
    for i in range(first, last):
        work.spread[X.indices[i]] = 0.0
    for i in range(support.size[0]):
        both = support.squares[i] + square
        distance = both - 2.0 * work.k[i]
        if K.vector == RBF and distance <= CANCELLED * both:
            distance = _distance(support, i, X, t)
        work.k[i] = _weighed(K, work.k[i], distance, support.squares[i], square)


@kernel
def _distance(support: Support, i: int, X: Batch, t: int) -> float:
    """‖x_i − x‖², entry by entry: for rows so near each other that a difference of squares has lost it."""
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
def _compare_trees(support: Support, K: Kernel, X: Batch, t: int, tree: float, k: Array) -> None:
    first, last = nodes(X.trees, t)
    if first == last:
        return
    alike = np.empty(support.size[0])
    common(X.trees, t, support.trees, 0, alike.size, K.lam, alike)
    for i in range(alike.size):
        likeness = normalised(alike[i], tree, support.tree_squares[i]) if K.trees_normalised else alike[i]
        k[i] += K.tree_weight * likeness


@kernel
def weighted(support: Support, k: Array) -> float:
    """f(x) = Σ a_i K(x_i, x)."""
    total = 0.0
    for i in range(support.size[0]):
        total += support.a[i] * k[i]
    return total


@kernel
def kernel_scores(support: Support, K: Kernel, X: Batch, work: Work) -> Array:
    scores = np.empty(X.weights.size)
    for t in range(scores.size):
        similarities(support, K, X, t, work)
        scores[t] = weighted(support, work.k)
    return scores


@kernel
def kernel_refusals(K: Kernel, X: Batch, codes: Flags) -> Flags:
    """Also NUMERIC where K(x, x), which bounds every K(x, ·), is beyond what sums can take."""
    for t in range(codes.size):
        if codes[t] == ACCEPTED and not abs(itself(K, X, t).k) < LARGEST_SQUARE:  # at the bound it was cut
            codes[t] = NUMERIC
    return codes
