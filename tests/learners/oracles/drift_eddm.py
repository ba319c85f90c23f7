"""Baena-García et al. 2006, from all values since the last alarm."""

import numpy as np


class Oracle:
    def __init__(self, alpha, beta, warmup):
        self.alpha, self.beta, self.warmup = alpha, beta, warmup
        self.values = []

    def take(self, value):
        self.values.append(value)
        at = np.flatnonzero(self.values) + 1
        distances = np.diff(at, prepend=0)
        if at.size <= self.warmup:
            return 0, 0.0
        counted = [k for k in range(1, at.size + 1) if at[k - 1] > self.warmup]
        means = [distances[:k].mean() for k in counted]
        failpoint = [
            m + 2 * (distances[:k].std(ddof=1) if k > 1 else 0)
            for k, m in zip(counted, means, strict=True)
        ]
        level = failpoint[-1] / max(failpoint)
        if level < self.beta:
            most = counted[int(np.argmax(failpoint))]
            older, newer = self.values[: at[most - 1]], self.values[at[most - 1] :]
            self.values = []
            return 2, np.mean(newer) - np.mean(older)
        return int(level < self.alpha), 0.0
