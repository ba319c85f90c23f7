"""Which stored rows decided: a score taken apart. Nothing in it is learned, so nothing here is compiled."""

import numpy as np

from learners.batch import Array, Batch
from learners.dual.similarity import Kernel, fresh_work, itself, similarities
from learners.dual.support import Support
from learners.influences import Influences


def influences(
    support: Support, K: Kernel, X: Batch | None, a: Array, constant: float, most: int, *, exact: bool = True
) -> Influences:
    """The `most` rows of the largest |a·K(x_i, x)|; without x, of the largest |a|·√K(x_i, x_i)."""
    everything = stored_rows(support)
    if X is None:
        k = np.sqrt([max(0.0, itself(K, everything, i).k) for i in range(a.size)])
    else:
        work = fresh_work(support)
        similarities(support, K, X, 0, work)
        k = work.k[: a.size]
    parts = a * k
    order = np.argsort(-np.abs(parts), kind="stable")
    shown, left_out = order[:most], order[most:]
    rows = [everything.rows(int(i), int(i) + 1) for i in shown]
    return Influences(rows, a[shown], k[shown], float(parts[left_out].sum()), constant, int(a.size), exact)


def stored_rows(support: Support) -> Batch:
    """The set as a batch, oldest first."""
    n = int(support.size[0])
    end = support.ends[n]
    slots, values = support.slots[:end].astype(np.int32), support.values[:end].copy()
    trees = support.trees
    nodes = trees.ends[n]
    children = trees.child_ends[nodes]
    kept = (trees.ends[: n + 1], trees.productions[:nodes], trees.order[:nodes])
    flat = type(trees)(*kept, trees.child_ends[: nodes + 1], trees.children[:children])
    return Batch(support.ends[: n + 1].copy(), slots, values, np.ones(n), type(trees)(*(part.copy() for part in flat)))
