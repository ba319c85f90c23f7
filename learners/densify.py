"""Make rows with every slot present, for rules in which a zero contributes to the score. Only used
if all features are columns.
"""

import numpy as np

from learners.batch import BIAS, Batch
from learners.jit import kernel


def densify(dim: int, X: Batch) -> Batch:
    """Return the same rows with every slot present. Rows that are already full are not copied."""
    return X if X.indices.size == X.size * dim else _densify(dim, X)


@kernel
def _densify(dim: int, X: Batch) -> Batch:
    """An absent bias stays absent."""
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
