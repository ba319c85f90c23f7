"""The syntactic tree kernel, and trees as flat arrays. McKenna's thesis, section 2.5 (Collins & Duffy, 2002).

Only inner nodes are kept; a word is part of its parent's production. Nodes of a tree are ordered by production, so that
those of one production lie together; `order` names them children first, so that every Δ is there when it is asked for.
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
def common(one: Trees, i: int, others: Trees, start: int, stop: int, lam: float, k: Array) -> None:
    """Put K of tree i of the one with trees start … stop−1 of the others into k: Σ Δ over nodes with equal productions.

    All pairs in one function and arrays by names of their own: a call for each would cost as much as the pair itself.
    """
    first, last = nodes(one, i)
    productions, child_ends, children = one.productions[first:last], one.child_ends[first : last + 1], one.children
    ends, order, their_productions = others.ends, others.order, others.productions
    their_child_ends, their_children = others.child_ends, others.children
    table, size = _places(productions), last - first
    widest = 0
    for j in range(start, stop):
        widest = max(widest, ends[j + 1] - ends[j])
    deltas = np.empty(size * widest)  # of pairs with different productions it is never read
    for j in range(start, stop):
        begin, end = ends[j], ends[j + 1]
        total = 0.0
        for turn in range(begin, end):
            there = order[turn]
            production = their_productions[begin + there]
            slot = production & (table.size - 1)
            while table[slot] >= 0 and productions[table[slot]] != production:
                slot = (slot + 1) & (table.size - 1)
            here = table[slot]
            while 0 <= here < size and productions[here] == production:
                delta = lam
                a, b = child_ends[here], their_child_ends[begin + there]
                both = min(child_ends[here + 1] - a, their_child_ends[begin + there + 1] - b)  # equal, by production
                for child in range(both):
                    mine, theirs = children[a + child], their_children[b + child]
                    if productions[mine] == their_productions[begin + theirs]:
                        delta *= 1.0 + deltas[theirs * size + mine]  # Δ = λ·Π(1 + Δ(children))
                deltas[there * size + here] = delta
                total += delta
                here += 1
        k[j - start] = total


@kernel
def _places(productions: Ints) -> Ints:
    """Where each production is first, as a table with open addressing; −1 where nothing is."""
    size = 4
    while size < 4 * productions.size:
        size *= 2
    table = np.full(size, -1)
    for place in range(productions.size):
        if place > 0 and productions[place - 1] == productions[place]:
            continue
        slot = productions[place] & (size - 1)  # a production is a hash, so its lowest bits are as good as any
        while table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = place
    return table


@kernel
def own(trees: Trees, t: int, lam: float) -> float:
    """K(T, T); 0 in a batch without trees, which has no ends to be read."""
    k = np.zeros(1)
    if trees.ends.size > 0:
        common(trees, t, trees, t, t + 1, lam, k)
    return float(k[0])


@kernel
def normalised(k: float, k11: float, k22: float) -> float:
    """K/√(K11·K22), 0 if either is 0."""
    return k / (math.sqrt(k11) * math.sqrt(k22)) if k11 > 0.0 and k22 > 0.0 else 0.0
