"""Which stored rows decided: a score taken apart, in little more time than it takes to make it."""

import math

import numpy as np

from learners.batch import Array, Batch, Trees
from learners.dual.similarity import Kernel, of_itself, similarities
from learners.dual.support import Support
from learners.dual.work import lent
from learners.influences import Influences
from learners.kernels import kernel


def influences(
    support: Support, K: Kernel, X: Batch | None, a: Array, constant: float, most: int, *, exact: bool = True
) -> Influences:
    """The `most` rows of the largest |a·K(x_i, x)|; without x, of the largest |a|·√K(x_i, x_i)."""
    k = (_norms(support, K) if X is None else _compared(support, K, X))[: a.size]
    parts = a * k
    order = np.argsort(-np.abs(parts), kind="stable")
    shown, left_out = order[:most], order[most:]
    rows = [stored_row(support, int(i)) for i in shown]
    return Influences(rows, a[shown], k[shown], float(parts[left_out].sum()), constant, int(a.size), exact)


def _compared(support: Support, K: Kernel, X: Batch) -> Array:
    """K(x_i, x) with the first row of a batch."""
    with lent(support) as work:
        similarities(support, K, X, 0, work)
        return work.k


@kernel
def _norms(support: Support, K: Kernel) -> Array:
    """√K(x_i, x_i)."""
    norms = np.zeros(support.a.size)
    for i in range(support.size[0]):
        norms[i] = math.sqrt(max(0.0, of_itself(K, support.squares[i], support.tree_squares[i])))
    return norms


def stored_row(support: Support, i: int) -> Batch:
    """A copy of one, the only one of its batch."""
    first, last = support.ends[i], support.ends[i + 1]
    return Batch(
        np.array([0, last - first]),
        support.slots[first:last].astype(np.int32),
        support.values[first:last].copy(),
        np.ones(1),
        Trees(*(part.copy() for part in support.trees.rows(i, i + 1))),
    )
