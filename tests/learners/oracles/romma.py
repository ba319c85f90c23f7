"""Carvalho & Cohen, KDD 2006, eq. 2–3. Its constraints are hard: c counts as 1."""

import numpy as np


class Oracle:
    def __init__(self, dim, aggressive):
        self.w = np.zeros(dim)
        self.aggressive = aggressive

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):  # noqa: ARG002
        s, xx, ww = self.score(x), x @ x, self.w @ self.w
        if y * s >= 1 or (y * s > 0 and not self.aggressive):
            return False
        D = xx * ww - s**2
        if 1e-12 * xx * ww >= D or (self.aggressive and y * s >= xx * ww):
            self.w = y * x / xx
        else:
            self.w = (xx * ww - y * s) / D * self.w + ww * (y - s) / D * x
        return True

    def weights(self):
        return self.w
