"""Regularised PA, lemma 3.1. Its constraint is hard: c counts as 1."""

import numpy as np


class Oracle:
    def __init__(self, dim, update_on, alpha):
        self.w = np.zeros(dim)
        self.limit = 0.0 if update_on == "mistake" else 1.0
        self.alpha = alpha

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):  # noqa: ARG002
        loss = max(0.0, 1 - y * self.score(x))
        if loss == 0.0 or y * self.score(x) > self.limit:
            return False
        tau = (loss + self.alpha) / (x @ x)
        self.w = (self.w + tau * y * x) / (1 + self.alpha)
        return True

    def weights(self):
        return self.w
