"""Regularised PA, lemma 3.2, or the nearest point where its problem has no solution. Its constraint
is hard: c counts as 1.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, update_on, beta):
        self.w = np.zeros(dim)
        self.limit = 0.0 if update_on == "mistake" else 1.0
        self.beta = beta

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):  # noqa: ARG002
        s, xx, ww = self.score(x), x @ x, self.w @ self.w
        if y * s >= 1 or y * s > self.limit:
            return False
        if self.beta**2 * xx <= 1:
            self.w = self.beta * y * x / np.sqrt(xx)
        else:
            Z = max(1.0, np.sqrt(max(0.0, ww * xx - s**2) / (self.beta**2 * xx - 1)))
            tau = (Z - y * s) / xx
            self.w = (self.w + tau * y * x) / Z
        return True

    def weights(self):
        return self.w
