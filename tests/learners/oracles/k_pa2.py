"""McKenna, section 3.1.3, PA-II, with K(x, x) for the squared norm: 1/(2C) is added to it; c
multiplies C.
"""


class Oracle:
    def __init__(self, K, max_support, epsilon, update_on, C):
        self.K, self.max_support, self.epsilon, self.C = K, max_support, epsilon, C
        self.mistakes_only = update_on == "mistake"
        self.stored = []

    def score(self, x):
        return sum(a * self.K(z, x) for z, a in self.stored)

    def learn(self, x, y, c):
        f, own = self.score(x), self.K(x, x)
        loss = max(0.0, self.epsilon - y * f)
        if (
            loss == 0.0
            or own <= 0
            or (self.mistakes_only and y * f > 0)
            or len(self.stored) == self.max_support
        ):
            return False
        self.stored.append((x, y * loss / (own + 1 / (2 * c * self.C))))
        return True
