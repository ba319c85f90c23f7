"""A support set as a batch, and its scores, for tests that look into it."""

import numpy as np

from learners.batch import Batch, Trees
from learners.kernel.explain import stored_row
from learners.kernel.similarity import kernel_scores
from learners.kernel.support import Work


def stored_rows(support):
    """Return the stored rows, oldest first."""
    rows = [stored_row(support, i) for i in range(support.size[0])]
    trees = Trees.concatenate([row.trees for row in rows])
    return Batch.from_rows([(row.indices, row.values) for row in rows], trees=trees)


def room_for(support):
    return Work(np.empty(support.a.size), np.zeros(int(support.dim[0])))


def score_with(support, K, X):
    """Return f of each row."""
    return kernel_scores(support, K, X, room_for(support))
