"""Gaussian rows with a bias: rows that known weights separate, and rows that no weights
separate.
"""

import numpy as np

from learners.batch import Batch


def bare(*rows):
    """Return rows without the bias, with all slots filled."""
    return Batch.from_rows([(range(len(values)), values) for values in rows])


def separable(seed, margin=0.1):
    """Return rows with y·u·x ≥ 1 for a known u, and (R·‖u‖)², the perceptron's bound."""
    rng = np.random.default_rng(seed)
    x = np.hstack([np.ones((4000, 1)), rng.normal(size=(4000, 4))])
    u = rng.normal(size=5)
    u /= np.linalg.norm(u) * margin
    x = x[np.abs(x @ u) >= 1]
    return x, np.sign(x @ u), np.linalg.norm(u), np.sqrt(np.square(x).sum(axis=1).max())


def noisy(seed, rows=3000, dim=6, wrong=0.2):
    """Return rows that no weights separate."""
    rng = np.random.default_rng(seed)
    x = np.hstack([np.ones((rows, 1)), rng.normal(size=(rows, dim - 1))])
    y = np.sign(x @ rng.normal(size=dim))
    return x, np.where(rng.random(rows) < wrong, -y, y)
