"""McMahan et al., KDD 2013, algorithm 1, with all weights recomputed for every event; c multiplies
g.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, alpha, beta, lam1, lam2):
        self.z, self.n = np.zeros(dim), np.zeros(dim)
        self.alpha, self.beta, self.lam1, self.lam2 = alpha, beta, lam1, lam2

    def score(self, x):
        return self.weights() @ x

    def learn(self, x, y, c):
        w, t = self.weights(), 1 if y > 0 else 0
        p = 1 / (1 + np.exp(-w @ x))
        g = c * (p - t) * x
        q = (np.sqrt(self.n + g**2) - np.sqrt(self.n)) / self.alpha
        self.z = self.z + g - q * w
        self.n = self.n + g**2
        return True

    def weights(self):
        rate = (self.beta + np.sqrt(self.n)) / self.alpha + self.lam2
        soft = -(self.z - np.sign(self.z) * self.lam1)
        small = np.abs(self.z) <= self.lam1
        return np.where(small, 0.0, soft / np.where(small, 1.0, rate))
