"""Page 1954, with a fading sum, from all values since the last alarm."""

import numpy as np


class Oracle:
    def __init__(self, delta, lam, alpha, mode, warmup):
        self.delta, self.lam, self.alpha, self.warmup = delta, lam, alpha, warmup
        self.signs = {"up": (1,), "down": (-1,), "both": (1, -1)}[mode]
        self.values = []

    def take(self, value):
        self.values.append(value)
        x = np.array(self.values)
        n = np.arange(1, x.size + 1)
        fading = np.tril(self.alpha ** np.maximum(n[:, None] - n, 0))
        for sign in self.signs:
            m = fading @ (sign * (x - np.cumsum(x) / n) - self.delta)
            least = int(np.argmin(m))
            if x.size >= self.warmup and m[-1] - m[least] > self.lam:
                self.values = []
                return 2, x[least + 1 :].mean() - x[: least + 1].mean()
        return 0, 0.0
