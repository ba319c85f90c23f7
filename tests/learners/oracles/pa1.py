"""McKenna, section 3.1.3, PA-I: as PA, but no step is longer than C; c multiplies C."""

import numpy as np


class Oracle:
    def __init__(self, dim, epsilon, update_on, C):
        self.w = np.zeros(dim)
        self.epsilon = epsilon
        self.C = C
        self.mistakes_only = update_on == "mistake"
        self.error = 0.0

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):
        s = self.score(x)
        C = self.C if self.C != "auto" else 10 ** (-6 * min(self.error, 0.5))
        g = 2 ** (-1 / 1000)
        self.error = g * self.error + (1 - g) * ((1 if s >= 0 else -1) != y)
        loss = max(0.0, self.epsilon - y * s)
        if loss == 0.0 or (self.mistakes_only and y * s > 0):
            return False
        tau = min(c * C, loss / (x @ x))
        self.w = self.w + tau * y * x
        return True

    def weights(self):
        return self.w
