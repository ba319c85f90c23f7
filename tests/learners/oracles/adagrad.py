"""Duchi, Hazan & Singer, JMLR 2011, section 1.1, diagonal: every gradient is kept; c
multiplies g.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, loss, eta, epsilon):
        self.w = np.zeros(dim)
        self.gradients = []
        self.hinge, self.eta, self.epsilon = loss == "hinge", eta, epsilon

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):
        s = self.score(x)
        if self.hinge and y * s >= 1:
            return False
        p, t = 1 / (1 + np.exp(-s)), 1 if y > 0 else 0
        g = c * (-y if self.hinge else p - t) * x
        self.gradients.append(g)
        G = np.sum(np.square(self.gradients), axis=0)
        self.w = self.w - self.eta * g / (self.epsilon + np.sqrt(G))
        return True

    def weights(self):
        return self.w
