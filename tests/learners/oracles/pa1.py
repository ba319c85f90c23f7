"""McKenna, section 3.1.3, PA-I: as PA, but no step is longer than C; c multiplies C."""

import numpy as np


class Oracle:
    def __init__(self, dim, epsilon, C):
        self.w = np.zeros(dim)
        self.epsilon = epsilon
        self.C = C

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):
        loss = max(0.0, self.epsilon - y * self.score(x))
        if loss == 0.0:
            return False
        tau = min(c * self.C, loss / (x @ x))
        self.w = self.w + tau * y * x
        return True

    def weights(self):
        return self.w
