"""Regularised PA, eq. 3.10: the nearest weights with margin 1 and L1 norm ≤ β. Its constraints are
hard: c counts as 1.

They are soft(w + τ·y·x, λ), with the least λ ≥ 0 that leads into the ball and the least τ ≥ 0 that
reaches the margin.
"""

import numpy as np


class Oracle:
    def __init__(self, dim, beta, update_on):
        self.w = np.zeros(dim)
        self.beta = beta
        self.threshold = 1.0 if update_on == "margin" else np.nextafter(0.0, 1.0)

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):  # noqa: ARG002
        s = self.score(x)
        if y * s >= self.threshold:
            return False
        step = self.w + (1 - y * s) / (x @ x) * y * x
        if abs(step).sum() <= self.beta:
            self.w = step
        elif self.beta * abs(x).max() <= 1:
            self.w = np.where(
                np.arange(x.size) == np.argmax(abs(x)), self.beta * y * np.sign(x), 0.0
            )
        else:
            low, high = 0.0, 1.0
            while y * x @ self.projected(self.w + high * y * x) < 1:
                high *= 2
            for _ in range(200):
                middle = (low + high) / 2
                inside = y * x @ self.projected(self.w + middle * y * x) < 1
                low, high = (middle, high) if inside else (low, middle)
            self.w = self.projected(self.w + high * y * x)
        return True

    def projected(self, u):
        """Each of the k largest sizes loses the same, with the largest k that leaves all of them
        some.
        """
        size = np.sort(abs(u))[::-1]
        loss = (np.cumsum(size) - self.beta) / np.arange(1, u.size + 1)
        lam = max(0.0, loss[size > loss][-1])
        return np.sign(u) * np.maximum(0.0, abs(u) - lam)

    def weights(self):
        return self.w
