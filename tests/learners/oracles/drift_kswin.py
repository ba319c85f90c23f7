"""Raab et al. 2020, with the whole older part, by SciPy's exact test.

The level is the largest p-value not above α that a test of r values with r values can have.
"""

import warnings

import numpy as np
from scipy.stats import ks_2samp


def exact(one, other):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a chance of nearly 1 is rounded above it, and it says so
        return ks_2samp(one, other, method="exact")


class Oracle:
    def __init__(self, alpha, n, r):
        self.n, self.r = n, r
        steps = np.arange(r, dtype=float)
        chances = [exact(steps, steps + shift - 0.5).pvalue for shift in range(1, r + 1)]
        self.level = max((p for p in chances if p <= alpha), default=0.0)
        self.values = []

    def take(self, value):
        self.values.append(value)
        self.values = self.values[-self.n :]
        if len(self.values) < self.n:
            return 0, 0.0
        older, recent = self.values[: -self.r], self.values[-self.r :]
        test = exact(older, recent)
        if test.pvalue > self.level * (1 + 1e-9) or test.statistic <= 0.1:
            return 0, 0.0
        self.values = []
        return 2, np.mean(recent) - np.mean(older)
