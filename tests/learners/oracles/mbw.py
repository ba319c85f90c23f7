"""Carvalho & Cohen, KDD 2006, table 2; c is the exponent of a factor, and 1 − x is floored
at 1e-3.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, alpha, beta, theta, u0, v0, M):
        self.u, self.v = np.full(dim, u0), np.full(dim, v0)
        self.alpha, self.beta, self.theta, self.M = alpha, beta, theta, M
        self.seen = np.arange(dim) == 0

    def score(self, x):
        return self.answer(self.weights(), x)

    def answer(self, weights, x):
        x = np.where(self.seen, x, 0.0)
        return np.sum(weights * x) / np.sum(x) - self.theta

    def learn(self, x, y, c):
        self.seen = self.seen | (x > 0)
        if y * (np.sum(self.weights() * x) / np.sum(x) - self.theta) > self.M:
            return False
        x = x / np.sum(x)
        up, down = (self.alpha * (1 + x)) ** c, (self.beta * np.maximum(1e-3, 1 - x)) ** c
        self.u = np.where(x > 0, self.u * (up if y > 0 else down), self.u)
        self.v = np.where(x > 0, self.v * (down if y > 0 else up), self.v)
        return True

    def weights(self):
        return self.u - self.v

    def sizes(self, weights):
        return {j: float(f"{abs(weights[j]):.9g}") for j in np.flatnonzero(self.seen)}
