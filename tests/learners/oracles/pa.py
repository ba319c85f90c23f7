"""McKenna, section 3.1.3: the nearest weights that reach the margin. Its constraint is hard: c
counts as 1.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, epsilon, update_on):
        self.w = np.zeros(dim)
        self.epsilon = epsilon
        self.mistakes_only = update_on == "mistake"

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):  # noqa: ARG002
        loss = max(0.0, self.epsilon - y * self.score(x))
        if loss == 0.0 or (self.mistakes_only and y * self.score(x) > 0):
            return False
        tau = loss / (x @ x)
        self.w = self.w + tau * y * x
        return True

    def weights(self):
        return self.w
