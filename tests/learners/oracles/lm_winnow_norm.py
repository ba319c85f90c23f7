"""Zhang, section 2.2: large margin normalised Winnow over [x, −x], by dual variables; c multiplies
C.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, mu, W, eta, C):
        self.h = np.zeros(2 * dim)
        self.W, self.eta, self.C = 2 * dim * mu if W is None else W, eta, C

    def score(self, x):
        return self.weights() @ x

    def learn(self, x, y, c):
        # In one pass an event's a starts at 0.
        a = np.clip(self.eta * (1 - y * self.score(x)), 0, self.C * c)
        if a == 0:
            return False
        self.h = np.clip(self.h + a * y * np.array([*x, *-x]), -200, 200)
        return True

    def weights(self):
        w = np.exp(self.h)
        w = self.W * w / w.sum()
        return w[: w.size // 2] - w[w.size // 2 :]
