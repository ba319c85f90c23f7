"""Bollegala, dynamic feature scaling, eq. 4–12: z = σ(αx − β), and w, b, α, β learned together."""

import numpy as np


def sigma(s):
    return np.exp(-np.logaddexp(0, -s))


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
        return np.sum((w * sigma(alpha * x[1:] - beta))[part]) + weights[0] * x[0]

    def learn(self, x, y, c):
        eta = c * self.eta0 / (1 + self.k / self.N)
        e = (y > 0) - sigma(self.score(x))
        b, x = x[0], x[1:]
        part = self.zeros_too | (x != 0)
        z = sigma(self.alpha * x - self.beta)
        dz = part * self.w * z * (1 - z)
        self.b = self.b + eta * e * b
        self.w = self.w * max(0, 1 - 2 * self.lam * eta) + eta * e * part * z
        self.alpha = self.alpha * max(0, 1 - 2 * self.mu * eta) + eta * e * dz * x
        self.beta = self.beta * max(0, 1 - 2 * self.nu * eta) - eta * e * dz
        self.k += 1
        return True

    def weights(self):
        return np.array([self.b, *self.w, *self.alpha, *self.beta])
