"""Comparing a row or a tree with the whole set at once gives the same bits as comparing it row by
row.
"""

import numpy as np

from learners.batch import Batch, Trees
from learners.kernel.similarity import LINEAR, Kernel, similarities
from learners.kernel.support import add, fresh_support
from learners.kernel.tree_kernel import common, own
from learners.kernel.tree_parser import flatten_tree
from tests.learners.stored_sets import room_for
from tests.learners.streams import bracketed
from tests.looped import looped

DIM = 12
LINES = Kernel(LINEAR, 1.0, 1.0, 1.0, 0.0, 1, False, 0.0, 0.4, True)

SHAPES = {
    "columns": lambda _, __: range(1, DIM),
    "a stretch of columns": lambda _, __: range(3, 9),
    "gaps": lambda rng, _: np.flatnonzero(rng.random(DIM - 1) < 0.5) + 1,
    "columns but for the second": lambda _, i: range(1, DIM) if i != 1 else range(1, DIM, 2),
    "stretches that begin elsewhere": lambda _, i: range(1 + i % 3, 6 + i % 3),
    "stretches of many lengths": lambda _, i: range(1, 2 + i % 5),
    "as many slots, but other ones": lambda _, i: range(1, 6) if i % 2 else (1, 2, 3, 5, 6),
    "as many slots up to the same one": lambda _, i: (1, 3, 4, 5, 6) if i % 2 else range(2, 7),
    "nothing": lambda _, __: (),
}


@looped("shape", SHAPES)
@looped("size", [*range(10), 33])
def test_products_are_summed_from_left_to_right(shape, size):
    rng = np.random.default_rng(size)
    rows = [list(SHAPES[shape](rng, i)) for i in range(size)]
    stored = Batch.from_rows([(slots, rng.normal(size=len(slots)).tolist()) for slots in rows])
    support = fresh_support(DIM, size, size * DIM, 0)
    for i in range(size):
        add(support, stored, i, 1.0, 0.0, 0.0)
    slots = sorted(rng.choice(np.arange(1, DIM), 9, replace=False).tolist())
    X = Batch.from_rows([([0, *slots], [1.0, *rng.normal(size=9).tolist()])])
    x = dict(zip(X.indices[1:].tolist(), X.values[1:].tolist(), strict=True))
    work = room_for(support)
    similarities(support, LINES, X, 0, work)
    assert not work.spread.any()
    for i, there in enumerate(rows):
        total = 0.0
        for slot, value in zip(
            there, stored.values[stored.indptr[i] : stored.indptr[i + 1]].tolist(), strict=True
        ):
            total += value * x.get(slot, 0.0)
        assert work.k[i] == total


def test_comparing_trees_together_equals_one_by_one():
    rng = np.random.default_rng(0)
    trees = Trees.concatenate(
        [flatten_tree(bracketed(rng, depth), 1000) for depth in (1, 2, 3, 4) for _ in range(5)]
    )
    n = trees.ends.size - 1
    assert any(
        np.unique(trees.rows(i, i + 1).productions).size < np.diff(trees.ends)[i] for i in range(n)
    ), "no tree repeats a production"
    together, alone = np.empty(n), np.empty(1)
    for i in range(n):
        common(trees, i, trees, 0, n, 0.4, together)
        assert together[i] == own(trees, i, 0.4)
        for j in range(n):
            common(trees, i, trees, j, j + 1, 0.4, alone)
            assert together[j] == alone[0]
