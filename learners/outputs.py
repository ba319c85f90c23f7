"""From scores to predicted classes: binary `+1` iff the score is ≥ 0, one-vs-rest the highest, the first on a tie."""

import numpy as np

from learners.batch import Array, Ints

SIGNS = np.array([-1, 1])
"""Of a score below 0 and of the others."""


def predicted(scores: Array) -> Ints:
    """−1/+1 for a vector of scores; for a matrix the class index, −1 where no class has been seen yet."""
    if scores.ndim == 1:
        return SIGNS.take(scores >= 0.0)
    return np.where(np.isneginf(scores).all(axis=1), -1, np.argmax(scores, axis=1))
