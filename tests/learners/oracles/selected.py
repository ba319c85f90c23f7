"""Carvalho & Cohen 5.2 (keep the K largest and smallest); regularised PA 3.3 (keep all but the
small ones). Learning ignores the mask.
"""

import numpy as np


class Oracle:
    def __init__(self, base, selector, every, sigma, K, P):
        self.base, self.selector, self.every = base(), selector, every
        self.sigma, self.K, self.top = sigma, K, round(P * K)
        self.events = 0
        self.left_out = set()

    def score(self, x):
        return self.base.answer(
            self.base.weights(), np.array([0 if j in self.left_out else v for j, v in enumerate(x)])
        )

    def learn(self, x, y, c):
        moved = self.base.learn(x, y, c)
        self.events += 1
        if self.events % self.every == 0:
            sizes = {
                j: float(f"{size:.9g}") for j, size in self.base.sizes(self.base.weights()).items()
            }
            self.left_out = self.pruned(sizes) if self.selector == "prune" else self.middle(sizes)
        return moved

    def pruned(self, sizes):
        left_out, total = set(), 0.0
        for size, j in sorted((size, j) for j, size in sizes.items() if j != 0):
            total += size**2
            if total > self.sigma:
                break
            left_out.add(j)
        return left_out

    def middle(self, sizes):
        ranked = [j for _, j in sorted((-size, j) for j, size in sizes.items() if j != 0)]
        bottom = self.K - self.top
        kept = set(ranked[: self.top]) | set(ranked[max(self.top, len(ranked) - bottom) :])
        return set(range(1, len(self.base.weights().T))) - kept

    def weights(self):
        weights = np.array(self.base.weights())
        weights[..., sorted(self.left_out)] = 0.0
        return weights
