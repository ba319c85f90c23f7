"""McKenna, section 3.2.1, greedy: all damages from all pairs each time; the shrinking step as in
the self-tuned one.
"""

import numpy as np


class Oracle:
    def __init__(self, K, budget):
        self.K, self.B = K, budget
        self.rows, self.y, self.sigma = [], np.empty(0), np.empty(0)  # oldest first
        self.gram = np.empty((0, 0))
        self.Q, self.M = 0.0, 0

    def score(self, x):
        return sum(self.sigma * self.y * [self.K(z, x) for z in self.rows])

    def learn(self, x, y, c):  # noqa: ARG002
        if y * self.score(x) > 0 or self.K(x, x) <= 0:
            return False
        self.M += 1
        k = np.array([[self.K(z, x) for z in self.rows]])
        self.gram = np.block([[self.gram, k.T], [k, self.K(x, x)]])
        self.rows, self.y, self.sigma = (
            [*self.rows, x],
            np.append(self.y, y),
            np.append(self.sigma, 1.0),
        )
        if len(self.rows) > self.B:
            self.drop()
        return True

    def drop(self):
        mu = self.y * (self.gram @ (self.sigma * self.y))
        damages = psi(self.sigma, mu)[:-1]
        r = np.argmin(damages) if damages.min() <= 15 / 32 else 0
        phi = 1.0 if damages[r] <= 15 / 32 else self.gentlest(self.sigma[r], mu[r])
        self.Q += psi(self.sigma[r] * phi, phi * mu[r])
        del self.rows[r]
        self.y, self.sigma = np.delete(self.y, r), np.delete(phi * self.sigma, r)
        self.gram = np.delete(np.delete(self.gram, r, 0), r, 1)

    def gentlest(self, sigma, mu):
        """The largest φ that leaves Ψ + Q ≤ 15/32·M, digit by digit."""
        phi, step = 0.0, 1.0
        while step > 1e-17:
            longer = phi + step
            if longer <= 1.0 and psi(sigma * longer, longer * mu) + self.Q <= 15 / 32 * self.M:
                phi = longer
            step /= 2
        return phi


def psi(lam, mu):
    return lam**2 + 2 * lam - 2 * lam * mu
