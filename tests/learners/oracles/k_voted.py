"""McKenna, algorithm 4: every hypothesis is kept, and has one vote plus one for each event it
predicted right.

The sum of the votes is divided by their number, as the learner divides it.
"""


class Oracle:
    def __init__(self, K, max_support):
        self.K, self.max_support = K, max_support
        self.stored = []
        self.counts = []  # of hypothesis i, which is the first i + 1 of the stored rows

    def values(self, x):
        """What each hypothesis says of x."""
        parts = [a * self.K(z, x) for z, a in self.stored]
        return [sum(parts[: i + 1]) for i in range(len(parts))]

    def score(self, x):
        if not self.stored:
            return 0.0
        signs = [1 if v >= 0 else -1 for v in self.values(x)]
        return sum(c * sign for c, sign in zip(self.counts, signs, strict=True)) / sum(self.counts)

    def learn(self, x, y, c):
        if y * [0.0, *self.values(x)][-1] > 0:
            self.counts[-1] += 1
            return False
        if self.K(x, x) <= 0 or len(self.stored) == self.max_support:
            return False
        self.stored.append((x, c * y))
        self.counts.append(1)
        return True
