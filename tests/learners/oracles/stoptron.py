"""McKenna, section 3.2: the perceptron until the budget is full; importance counts as 1."""


class Oracle:
    def __init__(self, K, budget):
        self.K, self.budget = K, budget
        self.stored = []

    def score(self, x):
        return sum(y * self.K(z, x) for z, y in self.stored)

    def learn(self, x, y, c):  # noqa: ARG002
        if y * self.score(x) > 0 or self.K(x, x) <= 0 or len(self.stored) == self.budget:
            return False
        self.stored.append((x, y))
        return True
