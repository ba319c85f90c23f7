"""NORMA, linear: a step down the gradient of the hinge loss and of λ/2·‖w‖²; c multiplies
the rate.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, eta, lam, rho):
        self.w = np.zeros(dim)
        self.eta, self.lam, self.rho = eta, lam, rho
        self.t = 0

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):
        self.t += 1
        eta = self.eta / np.sqrt(self.t) * c
        step = eta * y * x if y * self.score(x) <= self.rho else 0.0
        self.w = max(0, 1 - eta * self.lam) * self.w + step
        return True

    def weights(self):
        return self.w
