"""Raab et al. 2020, with the whole older part; p-values come from counting the merged orders of
both samples in integers.

The level is the largest p-value not above α that a test of r values with r values can have.
"""

import numpy as np


def orders(n, m, most):
    """Return in how many orders n and m values can come with |i·m − j·n| never above `most`."""
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
        """Return the probability that n and m values have a distance of at least D =
        apart/(n·m).
        """
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
