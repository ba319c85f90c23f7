"""The syntactic tree kernel, and trees as flat arrays. McKenna's thesis, section 2.5 (Collins & Duffy, 2002).

Only inner nodes are kept; a word is part of its parent's production. Nodes of a tree are ordered by production, so that
partners are found by bisection; `order` names them children first, so that every Δ is there when it is asked for.
"""

import math

import numpy as np

from learners.batch import Array, Ints, Trees
from learners.kernels import kernel


@kernel
def nodes(trees: Trees, t: int) -> tuple[int, int]:
    """First node of tree t and the one behind its last; a batch without trees has an empty one in every row."""
    if trees.ends.size == 0:
        return 0, 0
    return trees.ends[t], trees.ends[t + 1]


@kernel
def common(one: Trees, i: int, other: Trees, j: int, lam: float, scratch: Array) -> float:
    """K of tree i of the one and tree j of the other: Σ Δ over all pairs of nodes with equal productions.

    The scratch has room for every pair of nodes; of pairs with different productions it is never read.
    """
    first, last = nodes(one, i)
    start, stop = nodes(other, j)
    width = stop - start
    total = 0.0
    for place in range(first, last):
        here = one.order[place]
        production = one.productions[first + here]
        partner = _lowest(other.productions, start, stop, production)
        while partner < stop and other.productions[partner] == production:
            delta = lam
            a, b = one.child_ends[first + here], other.child_ends[partner]
            both = min(one.child_ends[first + here + 1] - a, other.child_ends[partner + 1] - b)  # equal, by production
            for child in range(both):
                mine, theirs = one.children[a + child], other.children[b + child]
                if one.productions[first + mine] == other.productions[start + theirs]:
                    delta *= 1.0 + scratch[mine * width + theirs]  # Δ = λ·Π(1 + Δ(children))
            scratch[here * width + partner - start] = delta
            total += delta
            partner += 1
    return total


@kernel
def _lowest(productions: Ints, start: int, stop: int, production: int) -> int:
    """The first node of [start, stop) whose production is not below this one."""
    while start < stop:
        middle = (start + stop) // 2
        if productions[middle] < production:
            start = middle + 1
        else:
            stop = middle
    return start


@kernel
def own(trees: Trees, t: int, lam: float) -> float:
    """K(T, T)."""
    first, last = nodes(trees, t)
    return common(trees, t, trees, t, lam, np.empty((last - first) * (last - first)))


@kernel
def normalised(k: float, k11: float, k22: float) -> float:
    """K/√(K11·K22), 0 if either is 0."""
    return k / (math.sqrt(k11) * math.sqrt(k22)) if k11 > 0.0 and k22 > 0.0 else 0.0
