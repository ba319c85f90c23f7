"""Carvalho & Cohen, KDD 2006, section 2.1; McKenna's thesis, algorithm 2, for its own bias."""

import numpy as np


class Oracle:
    def __init__(self, dim, eta, bias):
        self.w = np.zeros(dim)
        self.eta = eta
        self.own_bias = bias == "r2"
        self.R = 0.0

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):
        s = self.score(x)
        if self.own_bias:
            self.R = max(self.R, np.linalg.norm(x[1:]))
        if y * s > 0:
            return False
        x = np.array([self.R**2, *x[1:]]) if self.own_bias else x
        self.w = self.w + c * self.eta * y * x
        return True

    def weights(self):
        return self.w
