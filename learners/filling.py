"""Rows with every slot present, for rules in which a zero takes part: only where every feature is a column."""

import numpy as np

from learners.batch import BIAS, Batch
from learners.kernels import kernel


def filled(dim: int, X: Batch) -> Batch:
    """The same rows with every slot present; full rows, the usual case of columns, stay as they are."""
    return X if X.indices.size == X.size * dim else _filled(dim, X)


@kernel
def _filled(dim: int, X: Batch) -> Batch:
    """An absent bias stays out."""
    rows = X.weights.size
    indptr = np.empty(rows + 1, np.int64)
    indices = np.empty(rows * dim, np.int32)
    values = np.zeros(rows * dim)
    indptr[0] = 0
    for t in range(rows):
        first = indptr[t]
        lowest = BIAS + 1
        if X.indptr[t] < X.indptr[t + 1] and X.indices[X.indptr[t]] == BIAS:
            lowest = BIAS
        for slot in range(lowest, dim):
            indices[first + slot - lowest] = slot
        for k in range(X.indptr[t], X.indptr[t + 1]):
            values[first + X.indices[k] - lowest] = X.values[k]
        indptr[t + 1] = first + dim - lowest
    return Batch(indptr, indices[: indptr[rows]], values[: indptr[rows]], X.weights, X.trees)
