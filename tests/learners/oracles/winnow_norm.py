"""Zhang, section 2.2: normalised Winnow over [x, −x]: as unnormalised, but the weights always sum
to W.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, mu, W, eta):
        self.h = np.zeros(2 * dim)
        self.W, self.eta = 2 * dim * mu if W is None else W, eta

    def score(self, x):
        return self.weights() @ x

    def learn(self, x, y, c):
        if y * self.score(x) > 0:
            return False
        self.h = np.clip(self.h + c * self.eta * y * np.array([*x, *-x]), -200, 200)
        return True

    def weights(self):
        w = np.exp(self.h)
        w = self.W * w / w.sum()
        return w[: w.size // 2] - w[w.size // 2 :]
