"""Bifet & Gavaldà 2007, by brute force: all values are kept, buckets are only sizes, and every cut
is recomputed.
"""

import numpy as np


class Oracle:
    def __init__(self, delta, clock, M, min_window, grace, last_of_row=True):
        self.delta, self.clock, self.M, self.min_window, self.grace = (
            delta,
            clock,
            M,
            min_window,
            grace,
        )
        # False: the cut after the newest bucket of each size is left out.
        self.last_of_row = last_of_row
        self.begin()

    def begin(self):
        self.values, self.sizes = [], []  # both the oldest first

    def take(self, value):
        self.values.append(value)
        self.sizes.append(1)
        size = 1
        while self.sizes.count(size) > self.M:
            first = self.sizes.index(size)
            self.sizes[first : first + 2] = [2 * size]
            size *= 2
        if len(self.values) % self.clock or len(self.values) <= self.grace:
            return 0, 0.0
        ratio, rise = max(self.cuts(), key=lambda cut: cut[0], default=(0.0, 0.0))
        if ratio <= 1.0:
            return 0, 0.0
        self.begin()
        return 2, rise

    def cuts(self):
        n, variance = len(self.values), np.var(self.values)
        for k in range(1, len(self.sizes)):
            if not self.last_of_row and self.sizes[k] != self.sizes[k - 1]:
                continue
            n0 = sum(self.sizes[:k])
            n1 = n - n0
            if min(n0, n1) >= self.min_window:
                m = 1 / (1 / (n0 - self.min_window + 1) + 1 / (n1 - self.min_window + 1))
                log = np.log(2 / (self.delta / np.log(n)))
                epsilon = np.sqrt(2 / m * variance * log) + 2 / (3 * m) * log
                rise = np.mean(self.values[n0:]) - np.mean(self.values[:n0])
                yield abs(rise) / epsilon, rise
