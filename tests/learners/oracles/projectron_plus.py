"""Orabona et al. (2009), and the budget form of McKenna's thesis, section 7.2: a solver computes
K⁻¹k each time.
"""

import numpy as np


class Oracle:
    def __init__(self, K, eta, max_support, budget):
        self.K, self.eta, self.most = K, eta, max_support
        self.U = None
        if budget is not None:
            self.most, self.U = budget, 0.25 * np.sqrt((budget + 1) / np.log(budget + 1))
            self.eta = 1 / self.U
        self.stored, self.a, self.gram = [], np.zeros(0), np.zeros((0, 0))

    def score(self, x):
        return sum(a * self.K(z, x) for a, z in zip(self.a, self.stored, strict=True))

    def learn(self, x, y, c):  # noqa: ARG002
        own, margin = self.K(x, x), y * self.score(x)
        if own <= 0 or margin >= 1:
            return False
        k = np.array([self.K(z, x) for z in self.stored])
        d = np.linalg.solve(self.gram, k)
        norm, loss = k @ d, 1 - margin
        delta = np.sqrt(max(0, own - norm))
        if margin > 0:
            if loss <= delta / self.eta:
                return False
            self.a = self.a + min(1, loss / norm, 2 * (loss - delta / self.eta) / norm) * y * d
            return True
        eta = self.eta if self.U is None else max(0, (2 * loss - norm - 0.5) / (2 * self.U))
        if self.stored and (
            delta <= eta or delta**2 <= 1e-10 * own or len(self.stored) == self.most
        ):
            self.a = self.a + y * d
            return bool(norm > 0)
        self.stored.append(x)
        self.a = np.append(self.a, y)
        self.gram = np.block([[self.gram, k[:, None]], [k, own]])
        return True
