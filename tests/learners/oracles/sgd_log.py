"""Bollegala, dynamic feature scaling, eq. 8–12, with b in slot 0, where x is 1."""

import numpy as np


class Oracle:
    def __init__(self, dim, eta0, lam, horizon):
        self.w, self.b = np.zeros(dim - 1), 0.0
        self.eta0, self.lam, self.N = eta0, lam, horizon
        self.k = 0

    def score(self, x):
        return self.w @ x[1:] + self.b * x[0]

    def learn(self, x, y, c):
        eta = c * self.eta0 / (1 + self.k / self.N)
        t = 1 if y > 0 else 0
        p = np.exp(-np.logaddexp(0, -self.score(x)))
        self.w = self.w * max(0, 1 - 2 * self.lam * eta / self.N) + eta * (t - p) * x[1:]
        self.b = self.b + eta * (t - p) * x[0]
        self.k += 1
        return True

    def weights(self):
        return np.array([self.b, *self.w])
