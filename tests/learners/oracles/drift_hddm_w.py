"""Frías-Blanco et al. 2015, the W-test, from all values since the last alarm and the weights
written out.
"""

import numpy as np


class Oracle:
    def __init__(self, alpha_d, alpha_w, lam, two_sided):
        self.alpha_d, self.alpha_w, self.lam, self.two_sided = alpha_d, alpha_w, lam, two_sided
        self.values, self.means = [], []

    def take(self, value):
        self.values.append(value)
        self.means.append(self.mean(np.array(self.values)))
        said = 0
        for sign in (1, -1) if self.two_sided else (1,):
            verdict, rise = self.side(sign * np.array(self.values), sign * np.array(self.means))
            if verdict == 2:
                self.values, self.means = [], []
                return 2, sign * rise
            said = max(said, verdict)
        return said, 0.0

    def side(self, x, means):
        upper = means + self.bound(self.squares(np.arange(1.0, x.size + 1)), self.alpha_d)
        cut = int(np.argmin(upper)) + 1  # values before it; of equals the first
        if cut == x.size:
            return 0, 0.0
        rise = self.mean(x[cut:]) - means[cut - 1]
        squares = self.squares(cut) + self.squares(x.size - cut)
        for said, alpha in ((2, self.alpha_d), (1, self.alpha_w)):
            if rise > self.bound(squares, alpha):
                return said, rise
        return 0, 0.0

    def mean(self, x):
        weights = self.lam * (1 - self.lam) ** np.arange(x.size - 1, -1, -1.0)
        weights[0] /= self.lam
        return weights @ x

    def squares(self, n):
        keep = (1 - self.lam) ** 2
        return keep**n + self.lam**2 * (1 - keep**n) / (1 - keep)  # the sum of keep^k, k < n

    @staticmethod
    def bound(squares, alpha):
        return np.sqrt(squares * np.log(1 / alpha) / 2)
