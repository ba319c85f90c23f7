"""Zhang, section 2.2: unnormalised Winnow over [x, −x], w_j *= exp(η·x_j·y) on a mistake; |log
w_j/μ| ≤ 200.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, mu, eta):
        self.h = np.zeros(2 * dim)
        self.mu, self.eta = mu, eta

    def score(self, x):
        return self.weights() @ x

    def learn(self, x, y, c):
        if y * self.score(x) > 0:
            return False
        self.h = np.clip(self.h + c * self.eta * y * np.array([*x, *-x]), -200, 200)
        return True

    def weights(self):
        w = self.mu * np.exp(self.h)
        return w[: w.size // 2] - w[w.size // 2 :]
