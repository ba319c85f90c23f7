"""McKenna, section 3.2.1: add, shrink, drop, with ‖f‖ from all pairs each time."""

import numpy as np


class Oracle:
    def __init__(self, K, budget):
        self.K, self.B = K, budget
        self.rows, self.y, self.sigma = [], np.empty(0), np.empty(0)  # oldest first
        self.gram = np.empty((0, 0))
        self.U = np.sqrt((budget + 1) / np.log(budget + 1)) / 4

    def score(self, x):
        return sum(self.sigma * self.y * [self.K(z, x) for z in self.rows])

    def learn(self, x, y, c):  # noqa: ARG002
        if y * self.score(x) > 0 or self.K(x, x) <= 0:
            return False
        k = np.array([[self.K(z, x) for z in self.rows]])
        self.gram = np.block([[self.gram, k.T], [k, self.K(x, x)]])
        self.rows, self.y, self.sigma = (
            [*self.rows, x],
            np.append(self.y, y),
            np.append(self.sigma, 1.0),
        )
        a = self.sigma * self.y
        self.sigma *= min(
            (self.B + 1) ** (-1 / (2 * (self.B + 1))), self.U / np.sqrt(a @ self.gram @ a)
        )
        self.rows, self.y, self.sigma = (
            self.rows[-self.B :],
            self.y[-self.B :],
            self.sigma[-self.B :],
        )
        self.gram = self.gram[-self.B :, -self.B :]
        return True
