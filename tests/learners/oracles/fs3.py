"""Bollegala, dynamic feature scaling, eq. 24–27: the sum of αx + β, with b, α, β learned
together.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, eta0, mu, nu, horizon, absent):
        self.b, self.alpha, self.beta = 0.0, np.zeros(dim - 1), np.zeros(dim - 1)
        self.eta0, self.mu, self.nu, self.N = eta0, mu / horizon, nu / horizon, horizon
        self.zeros_too = absent == "zero"
        self.k = 0

    def score(self, x):
        return self.answer(self.weights(), x)

    def answer(self, weights, x):
        alpha, beta = np.split(weights[1:], 2)
        part = self.zeros_too | (x[1:] != 0)
        return np.sum((alpha * x[1:] + beta)[part]) + weights[0] * x[0]

    def learn(self, x, y, c):
        eta = c * self.eta0 / (1 + self.k / self.N)
        e = (y > 0) - np.exp(-np.logaddexp(0, -self.score(x)))
        b, x = x[0], x[1:]
        self.b = self.b + eta * e * b
        self.alpha = self.alpha * max(0, 1 - 2 * self.mu * eta) + eta * e * x
        self.beta = self.beta * max(0, 1 - 2 * self.nu * eta) + eta * e * (
            self.zeros_too | (x != 0)
        )
        self.k += 1
        return True

    def weights(self):
        return np.array([self.b, *self.alpha, *self.beta])
