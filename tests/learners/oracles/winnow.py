"""Carvalho & Cohen, KDD 2006, section 2.2.1: positive weights against a threshold; c is the
exponent of a factor.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, alpha, beta, theta, w0):
        self.w = np.full(dim, w0)
        self.alpha, self.beta, self.theta = alpha, beta, theta
        self.seen = np.arange(dim) == 0

    def score(self, x):
        return self.answer(self.weights(), x)

    def answer(self, weights, x):
        x = np.where(self.seen, x, 0.0)
        return np.sum(weights * x) / np.sum(x) - self.theta

    def learn(self, x, y, c):
        self.seen = self.seen | (x > 0)
        if y * (np.sum(self.weights() * x) / np.sum(x) - self.theta) > 0:
            return False
        self.w = np.where(x > 0, self.w * (self.alpha if y > 0 else self.beta) ** c, self.w)
        return True

    def weights(self):
        return self.w
