"""Bollegala, dynamic feature scaling, eq. 18–23: z = αx + β, and w, b, α, β learned together."""

import numpy as np


class Oracle:
    def __init__(self, dim, eta0, lam, mu, nu, horizon, absent):
        M = dim - 1
        self.b, self.w, self.alpha, self.beta = 0.0, np.zeros(M), np.ones(M), np.zeros(M)
        self.eta0, self.lam, self.mu, self.nu, self.N = (
            eta0,
            lam / horizon,
            mu / horizon,
            nu / horizon,
            horizon,
        )
        self.zeros_too = absent == "zero"
        self.k = 0

    def score(self, x):
        return self.answer(self.weights(), x)

    def answer(self, weights, x):
        w, alpha, beta = np.split(weights[1:], 3)
        part = self.zeros_too | (x[1:] != 0)
        return np.sum((w * (alpha * x[1:] + beta))[part]) + weights[0] * x[0]

    def learn(self, x, y, c):
        eta = c * self.eta0 / (1 + self.k / self.N)
        e = (y > 0) - np.exp(-np.logaddexp(0, -self.score(x)))
        b, x = x[0], x[1:]
        part = self.zeros_too | (x != 0)
        w, alpha, beta = self.w, self.alpha, self.beta
        self.b = self.b + eta * e * b
        self.w = w * max(0, 1 - 2 * self.lam * eta) + eta * e * part * (alpha * x + beta)
        self.alpha = alpha * max(0, 1 - 2 * self.mu * eta) + eta * e * part * w * x
        self.beta = beta * max(0, 1 - 2 * self.nu * eta) + eta * e * part * w
        self.k += 1
        return True

    def weights(self):
        return np.array([self.b, *self.w, *self.alpha, *self.beta])
