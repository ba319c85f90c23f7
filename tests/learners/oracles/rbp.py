"""McKenna, section 3.2: the perceptron, which forgets a random row when the budget is full;
importance counts as 1.

The draws are those of SplitMix64 in Python's integers, modulo the number of rows.
"""


def splitmix64(state):
    z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


class Oracle:
    def __init__(self, K, budget, seed):
        self.K, self.budget = K, budget
        self.stream = seed
        self.stored = []

    def score(self, x):
        return sum(y * self.K(z, x) for z, y in self.stored)

    def learn(self, x, y, c):  # noqa: ARG002
        if y * self.score(x) > 0 or self.K(x, x) <= 0:
            return False
        if len(self.stored) == self.budget:
            self.stream = (self.stream + 0x9E3779B97F4A7C15) % 2**64
            self.stored.pop(splitmix64(self.stream) % self.budget)
        self.stored.append((x, y))
        return True
