"""McKenna, algorithm 4 with the averaged prediction: every hypothesis is kept whole, with its
count.

The sum over them is divided by that of the counts, as the learner says.
"""


class Oracle:
    def __init__(self, K, max_support, weighting):
        self.K, self.max_support = K, max_support
        self.by_norm = weighting == "norm"
        self.stored = []
        # Of hypothesis i, which is the first i + 1 of the stored rows.
        self.counts, self.norms = [], []

    def values(self, x):
        """What each hypothesis says of x."""
        parts = [a * self.K(z, x) for z, a in self.stored]
        return [sum(parts[: i + 1]) for i in range(len(parts))]

    def score(self, x):
        if not self.stored:
            return 0.0
        parts = zip(self.counts, self.norms, self.values(x), strict=True)
        return sum(c * v / norm for c, norm, v in parts) / sum(self.counts)

    def learn(self, x, y, c):
        if y * [0.0, *self.values(x)][-1] > 0:
            self.counts[-1] += 1
            return False
        if self.K(x, x) <= 0 or len(self.stored) == self.max_support:
            return False
        self.stored.append((x, c * y))
        self.counts.append(1)
        self.norms.append(self.norm() if self.by_norm else 1.0)
        return True

    def norm(self):
        return sum(a * self.values(z)[-1] for z, a in self.stored) ** 0.5
