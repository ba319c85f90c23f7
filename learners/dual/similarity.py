"""Kernels as functions, and those of one row with the whole support set. McKenna's thesis, sections 2.3, 2.5 and 5.

The row is spread over an array of all slots once; then each stored row costs its own entries and nothing else.
"""

import math
from typing import NamedTuple

import numpy as np

from learners.batch import Array, Batch, Flags, Ints
from learners.dual.support import Support, entries
from learners.dual.trees import common, nodes, normalised, own
from learners.kernels import ACCEPTED, LARGEST_SQUARE, NUMERIC, kernel

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


class Work(NamedTuple):
    """Room for one row's similarities, made once per batch."""

    k: Array
    """K(x_i, x) of the stored rows."""
    spread: Array
    """The row by slot; zeros outside it."""


@kernel
def fresh_work(support: Support) -> Work:
    return Work(np.empty(support.a.size), np.zeros(support.dim[0]))


@kernel
def of_products(K: Kernel, dot: float, aa: float, bb: float) -> float:
    """The vector kernel of two rows from their inner products."""
    if K.vector == LINEAR:
        k = dot
    elif K.vector == POLYNOMIAL:
        base = K.s * dot + K.c
        k = base
        for _ in range(K.d - 1):
            k *= base
    elif K.vector == RBF:
        k = math.exp(-K.gamma * max(0.0, aa - 2.0 * dot + bb))
    else:
        k = math.tanh(K.s * dot + K.c)
    return k


@kernel
def _weighed(K: Kernel, dot: float, aa: float, bb: float) -> float:
    k = of_products(K, dot, aa, bb)
    if K.vectors_normalised:
        k = normalised(k, of_products(K, aa, aa, aa), of_products(K, bb, bb, bb))
    return K.vector_weight * k


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
        k += _weighed(K, square, square, square)
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
    spread, ends, slots, values = work.spread, support.ends, support.slots, support.values
    for i in range(first, last):
        spread[X.indices[i]] = X.values[i]
    for i in range(support.size[0]):
        dot = product(slots, values, ends[i], ends[i + 1], spread)
        work.k[i] = _weighed(K, dot, support.squares[i], square)
    for i in range(first, last):
        spread[X.indices[i]] = 0.0


@kernel
def product(slots: Ints, values: Array, first: int, last: int, spread: Array) -> float:
    """Inner product of a stored row with the one that is spread out, in eight sums so that none waits for the last.

    A row without gaps, the usual one of columns, is read without its slots.
    """
    p0 = p1 = p2 = p3 = p4 = p5 = p6 = p7 = 0.0
    stop = first + (last - first) // 8 * 8
    if first < last and slots[last - 1] - slots[first] == last - 1 - first:
        x = spread[slots[first] : slots[first] + last - first]
        v = values[first:last]
        for i in range(0, stop - first, 8):
            p0 += v[i] * x[i]
            p1 += v[i + 1] * x[i + 1]
            p2 += v[i + 2] * x[i + 2]
            p3 += v[i + 3] * x[i + 3]
            p4 += v[i + 4] * x[i + 4]
            p5 += v[i + 5] * x[i + 5]
            p6 += v[i + 6] * x[i + 6]
            p7 += v[i + 7] * x[i + 7]
    else:
        for i in range(first, stop, 8):
            p0 += values[i] * spread[slots[i]]
            p1 += values[i + 1] * spread[slots[i + 1]]
            p2 += values[i + 2] * spread[slots[i + 2]]
            p3 += values[i + 3] * spread[slots[i + 3]]
            p4 += values[i + 4] * spread[slots[i + 4]]
            p5 += values[i + 5] * spread[slots[i + 5]]
            p6 += values[i + 6] * spread[slots[i + 6]]
            p7 += values[i + 7] * spread[slots[i + 7]]
    for i in range(stop, last):
        p0 += values[i] * spread[slots[i]]
    return ((p0 + p1) + (p2 + p3)) + ((p4 + p5) + (p6 + p7))


@kernel
def _compare_trees(support: Support, K: Kernel, X: Batch, t: int, tree: float, k: Array) -> None:
    first, last = nodes(X.trees, t)
    if first == last:
        return
    largest = 0
    for i in range(support.size[0]):
        largest = max(largest, support.trees.ends[i + 1] - support.trees.ends[i])
    scratch = np.empty((last - first) * largest)
    for i in range(support.size[0]):
        alike = common(X.trees, t, support.trees, i, K.lam, scratch)
        k[i] += K.tree_weight * (normalised(alike, tree, support.tree_squares[i]) if K.trees_normalised else alike)


@kernel
def weighted(support: Support, k: Array) -> float:
    """f(x) = Σ a_i K(x_i, x)."""
    total = 0.0
    for i in range(support.size[0]):
        total += support.a[i] * k[i]
    return total


@kernel
def kernel_scores(support: Support, K: Kernel, X: Batch) -> Array:
    scores = np.empty(X.weights.size)
    work = fresh_work(support)
    for t in range(scores.size):
        similarities(support, K, X, t, work)
        scores[t] = weighted(support, work.k)
    return scores


@kernel
def kernel_refusals(K: Kernel, X: Batch, codes: Flags) -> Flags:
    """Also NUMERIC where K(x, x), which bounds every K(x, ·), is beyond what sums can take."""
    for t in range(codes.size):
        if codes[t] == ACCEPTED and not abs(itself(K, X, t).k) <= LARGEST_SQUARE:
            codes[t] = NUMERIC
    return codes
