"""Raab et al. 2020, with the whole older part; chances by counting the merged orders of both
samples in whole numbers.

The level is the largest chance not above α that a test of r values with r values can have.
"""

import numpy as np


def orders(n, m, most):
    """In how many orders n and m values come, with |i·m − j·n| at most so much all along."""
    ways = {}
    for i in range(n + 1):
        for j in range(m + 1):
            before = ways.get((i - 1, j), 0) + ways.get((i, j - 1), 0) if i + j else 1
            ways[i, j] = before if abs(i * m - j * n) <= most else 0
    return ways[n, m]


class Oracle:
    def __init__(self, alpha, n, r):
        self.n, self.r = n, r
        self.known = {}
        self.level = max(
            (p for p in (self.chance(r, r, r * h) for h in range(1, r + 1)) if p <= alpha),
            default=0.0,
        )
        self.values = []

    def chance(self, n, m, apart):
        """That the distance of n and m values is D = apart/(n·m) or more."""
        if (n, m, apart) not in self.known:
            every = orders(n, m, n * m)
            self.known[n, m, apart] = (every - orders(n, m, apart - 1)) / every
        return self.known[n, m, apart]

    def take(self, value):
        self.values.append(value)
        self.values = self.values[-self.n :]
        if len(self.values) < self.n:
            return 0, 0.0
        older, recent = np.array(self.values[: -self.r]), np.array(self.values[-self.r :])
        n, m = older.size, recent.size
        apart = max(abs(np.sum(older <= x) * m - np.sum(recent <= x) * n) for x in set(self.values))
        if self.chance(n, m, int(apart)) > self.level or apart <= 0.1 * n * m:
            return 0, 0.0
        self.values = []
        return 2, recent.mean() - older.mean()
