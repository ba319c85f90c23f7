"""Frías-Blanco et al. 2015, the A-test, from all values since the last alarm."""

import numpy as np


class Oracle:
    def __init__(self, alpha_d, alpha_w, two_sided):
        self.alpha_d, self.alpha_w, self.two_sided = alpha_d, alpha_w, two_sided
        self.values = []

    def take(self, value):
        self.values.append(value)
        said = 0
        for sign in (1, -1) if self.two_sided else (1,):
            verdict, rise = self.side(sign * np.array(self.values))
            if verdict == 2:
                self.values = []
                return 2, sign * rise
            said = max(said, verdict)
        return said, 0.0

    def side(self, x):
        n = np.arange(1, x.size + 1)
        mean = np.cumsum(x) / n
        bound = np.sqrt(np.log(1 / self.alpha_d) / (2 * n))
        cut = x.size - np.argmin((mean + bound)[::-1])  # values before it; of equals the last
        if cut == x.size:
            return 0, 0.0
        m = 1 / cut - 1 / x.size
        for said, alpha in ((2, self.alpha_d), (1, self.alpha_w)):
            if mean[-1] - mean[cut - 1] >= np.sqrt(m / 2 * np.log(2 / alpha)):
                return said, x[cut:].mean() - x[:cut].mean()
        return 0, 0.0
