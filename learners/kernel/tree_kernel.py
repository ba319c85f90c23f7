"""The syntactic tree kernel, and trees as flat arrays. McKenna's thesis, section 2.5 (Collins &
Duffy, 2002).

Only inner nodes are kept; a word is part of its parent's production. The nodes of a tree are sorted
by production, so that nodes with the same production are adjacent. `order` lists children before
parents, so that every Δ is computed before it is needed.
"""

import math

import numpy as np

from learners.batch import Array, Ints, Trees
from learners.jit import kernel


@kernel
def nodes(trees: Trees, t: int) -> tuple[int, int]:
    """First node of tree t and the one after its last.

    In a batch without trees every row has an empty one.
    """
    if trees.ends.size == 0:
        return 0, 0
    return trees.ends[t], trees.ends[t + 1]


@kernel
def common(one: Trees, i: int, others: Trees, start: int, stop: int, lam: float, k: Array) -> None:
    """Put K of tree i with each of the trees start … stop−1 of `others` into k: Σ Δ over nodes with
    equal productions.

    One function computes all pairs, with local names for the arrays: one call per pair would cost
    as much as the pair itself.
    """
    first, last = nodes(one, i)
    productions, child_ends, children = (
        one.productions[first:last],
        one.child_ends[first : last + 1],
        one.children,
    )
    ends, order, their_productions = others.ends, others.order, others.productions
    their_child_ends, their_children = others.child_ends, others.children
    table, size = _first_positions(productions), last - first
    widest = 0
    for j in range(start, stop):
        widest = max(widest, ends[j + 1] - ends[j])
    deltas = np.empty(size * widest)  # never read for pairs with different productions
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
                # equal, because the productions are
                both = min(child_ends[here + 1] - a, their_child_ends[begin + there + 1] - b)
                for child in range(both):
                    mine, theirs = children[a + child], their_children[b + child]
                    if productions[mine] == their_productions[begin + theirs]:
                        delta *= 1.0 + deltas[theirs * size + mine]  # Δ = λ·Π(1 + Δ(children))
                deltas[there * size + here] = delta
                total += delta
                here += 1
        k[j - start] = total


@kernel
def own(trees: Trees, t: int, lam: float) -> float:
    """K(T, T). 0 in a batch without trees."""
    k = np.zeros(1)
    if trees.ends.size > 0:
        common(trees, t, trees, t, t + 1, lam, k)
    return float(k[0])


@kernel
def normalise(k: float, k11: float, k22: float) -> float:
    """K/√(K11·K22), 0 if either is 0."""
    return k / (math.sqrt(k11) * math.sqrt(k22)) if k11 > 0.0 and k22 > 0.0 else 0.0


@kernel
def _first_positions(productions: Ints) -> Ints:
    """Hash table with open addressing: the first position of each production, −1 where empty."""
    size = 4
    while size < 4 * productions.size:
        size *= 2
    table = np.full(size, -1)
    for position in range(productions.size):
        if position > 0 and productions[position - 1] == productions[position]:
            continue
        # a production is a hash, so its low bits are random
        slot = productions[position] & (size - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = position
    return table
