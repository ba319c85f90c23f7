"""Crammer, Kulesza & Dredze, NIPS 2009, figure 1: the inverse covariance gains diag(x²)/r; c
multiplies 1/r.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, r):
        self.w = np.zeros(dim)
        self.sigma = np.ones(dim)
        self.r = r

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):
        m, v, r = y * self.score(x), self.sigma @ x**2, self.r / c
        if m >= 1:
            return False
        self.w = self.w + (1 - m) / (v + r) * y * self.sigma * x
        self.sigma = self.sigma * r / (r + self.sigma * x**2)
        return True

    def weights(self):
        return self.w
