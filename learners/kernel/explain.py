"""Explain a kernel score: find the stored rows that contribute most. This takes little longer than
scoring.
"""

import math

import numpy as np

from learners.batch import Array, Batch, Trees
from learners.jit import kernel
from learners.kernel.similarity import Kernel, self_kernel, similarities
from learners.kernel.support import Support, borrow_work
from learners.learner import SupportTerms


def support_terms(
    support: Support,
    K: Kernel,
    X: Batch | None,
    a: Array,
    constant: float,
    most: int,
    *,
    exact: bool = True,
) -> SupportTerms:
    """List the `most` rows with the largest |a·K(x_i, x)|. Without x: |a|·√K(x_i, x_i)."""
    k = (_norms(support, K) if X is None else _compare(support, K, X))[: a.size]
    parts = a * k
    order = np.argsort(-np.abs(parts), kind="stable")
    shown, left_out = order[:most], order[most:]
    rows = [stored_row(support, int(i)) for i in shown]
    return SupportTerms(
        rows, a[shown], k[shown], float(parts[left_out].sum()), constant, int(a.size), exact
    )


def stored_row(support: Support, i: int) -> Batch:
    """Copy one stored row into a batch."""
    first, last = support.ends[i], support.ends[i + 1]
    return Batch(
        np.array([0, last - first]),
        support.slots[first:last].astype(np.int32),
        support.values[first:last].copy(),
        np.ones(1),
        Trees(*(part.copy() for part in support.trees.rows(i, i + 1))),
    )


def _compare(support: Support, K: Kernel, X: Batch) -> Array:
    """K(x_i, x) for the first row of a batch."""
    with borrow_work(support) as work:
        similarities(support, K, X, 0, work)
        return work.k


@kernel
def _norms(support: Support, K: Kernel) -> Array:
    """√K(x_i, x_i)."""
    norms = np.zeros(support.a.size)
    for i in range(support.size[0]):
        norms[i] = math.sqrt(max(0.0, self_kernel(K, support.squares[i], support.tree_squares[i])))
    return norms
