"""McKenna, section 3.1.3, PA-II; Carvalho & Cohen, eq. 1: every step is softened; c
multiplies C.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, epsilon, update_on, C):
        self.w = np.zeros(dim)
        self.epsilon = epsilon
        self.mistakes_only = update_on == "mistake"
        self.C = C

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):
        loss = max(0.0, self.epsilon - y * self.score(x))
        if loss == 0.0 or (self.mistakes_only and y * self.score(x) > 0):
            return False
        tau = loss / (x @ x + 1 / (2 * c * self.C))
        self.w = self.w + tau * y * x
        return True

    def weights(self):
        return self.w
