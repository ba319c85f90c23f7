"""McKenna's thesis, section 7.3: the new row joins, and the oldest is projected onto the others by
a solver.
"""

import numpy as np


class Oracle:
    def __init__(self, K, eta, budget):
        self.K, self.eta, self.budget = K, eta, budget
        self.stored, self.a, self.gram = [], np.zeros(0), np.zeros((0, 0))

    def score(self, x):
        return sum(a * self.K(z, x) for a, z in zip(self.a, self.stored, strict=True))

    def learn(self, x, y, c):  # noqa: ARG002
        own = self.K(x, x)
        if own <= 0 or y * self.score(x) > 0:
            return False
        k = np.array([self.K(z, x) for z in self.stored])
        d = np.linalg.solve(self.gram, k)
        if self.stored and own - k @ d <= 1e-10 * own:
            self.a = self.a + y * d
        else:
            self.stored.append(x)
            self.a = np.append(self.a, y)
            self.gram = np.block([[self.gram, k[:, None]], [k, own]])
        if len(self.stored) > 1:
            self.forget()
        return True

    def forget(self):
        k, others = self.gram[1:, 0], self.gram[1:, 1:]
        d = np.linalg.solve(others, k)
        lost = abs(self.a[0]) * np.sqrt(max(0, self.gram[0, 0] - k @ d))
        if len(self.stored) > self.budget or (self.eta > 0 and lost <= self.eta):
            self.stored, self.gram = self.stored[1:], others
            self.a = self.a[1:] + self.a[0] * d
