"""Bollegala, eq. 1–3: mean and deviation over all rows so far, including this one, recomputed for
each row.

With a half-life a row of age n counts 2^(−n/halflife).
"""

import numpy as np


class Oracle:
    def __init__(self, base, scaler, halflife, center):
        assert scaler == "gn"
        self.base, self.center = base(), center
        self.g = 2.0 ** (-1.0 / halflife) if halflife else 1.0
        self.rows = []

    def scaled(self, x):
        rows = np.array([*self.rows, x])
        ages = self.g ** np.arange(len(rows))[::-1]
        K, K2 = ages.sum(), (ages**2).sum()
        mean = ages @ rows / K
        spread = ages @ (rows - mean) ** 2
        constant = np.ptp(rows, axis=0) == 0
        deviation = (
            np.where(constant, 1.0, np.sqrt(spread / (K - K2 / K))) if len(rows) > 1 else 1.0
        )
        constant = constant | (deviation <= 1e-14 * np.abs(mean))  # rounding is no spread
        z = x.copy()  # which keeps what a row may carry
        z[1:] = np.where(constant, 0.0, (x - mean if self.center else x) / deviation)[1:]
        return z

    def score(self, x):
        return self.base.score(self.scaled(x))

    def learn(self, x, y, c):
        z = self.scaled(x)
        self.rows.append(x)
        return self.base.learn(z, y, c)

    def weights(self):
        return self.base.weights()
