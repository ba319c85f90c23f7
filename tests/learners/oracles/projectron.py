"""Orabona et al. (2008), and the budget form of McKenna's thesis, section 7.2: a solver computes
K⁻¹k each time.
"""

import numpy as np


class Oracle:
    def __init__(self, K, eta, max_support, budget):
        self.K, self.eta, self.budget = K, eta, budget
        self.most = budget or max_support
        self.stored, self.a, self.gram = [], np.zeros(0), np.zeros((0, 0))

    def score(self, x):
        return sum(a * self.K(z, x) for a, z in zip(self.a, self.stored, strict=True))

    def learn(self, x, y, c):  # noqa: ARG002
        own, f = self.K(x, x), self.score(x)
        if own <= 0 or y * f > 0:
            return False
        k = np.array([self.K(z, x) for z in self.stored])
        d = np.linalg.solve(self.gram, k)
        p = k @ d
        delta = np.sqrt(max(0, own - p))
        is_near = delta <= self.nearness(1 - y * f, p) or delta**2 <= 1e-10 * own
        if self.stored and (is_near or len(self.stored) == self.most):
            self.a = self.a + y * d
            return bool(p > 0)
        self.stored.append(x)
        self.a = np.append(self.a, y)
        self.gram = np.block([[self.gram, k[:, None]], [k, own]])
        return True

    def nearness(self, loss, p):
        if self.budget is None:
            return self.eta
        U = np.sqrt((self.budget + 1) / np.log(self.budget + 1)) / 4
        return max(0, (2 * loss - p - 0.5) / (2 * U))
