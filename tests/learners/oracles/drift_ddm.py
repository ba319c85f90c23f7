"""Gama et al. 2004, from all values since the last alarm."""

import numpy as np


class Oracle:
    def __init__(self, warning, alarm, warmup):
        self.warning, self.alarm, self.warmup = warning, alarm, warmup
        self.values = []

    def take(self, value):
        self.values.append(value)
        n = np.arange(1, len(self.values) + 1)
        p = np.cumsum(self.values) / n
        s = np.sqrt(p * (1 - p) / n)
        if n[-1] <= self.warmup:
            return 0, 0.0
        p, s = p[self.warmup :], s[self.warmup :]
        least = len(p) - 1 - np.argmin((p + s)[::-1])  # of equals the last
        if p[-1] + s[-1] > p[least] + self.alarm * s[least]:
            newer = np.mean(self.values[self.warmup + least + 1 :])
            self.values = []
            return 2, newer - p[least]
        return int(p[-1] + s[-1] > p[least] + self.warning * s[least]), 0.0
