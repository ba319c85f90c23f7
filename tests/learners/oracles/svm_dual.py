"""Zhang, section 2.1, in one pass: every event's dual variable starts at 0; c multiplies C."""

import numpy as np


class Oracle:
    def __init__(self, dim, eta, C):
        self.w = np.zeros(dim)
        self.eta, self.C = eta, C

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):
        eta = 1 / (x @ x) if self.eta == "auto" else self.eta
        a = np.clip(eta * (1 - y * self.score(x)), 0, c * self.C)
        self.w = self.w + a * y * x
        return a > 0

    def weights(self):
        return self.w
