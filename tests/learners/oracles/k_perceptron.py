"""McKenna, algorithm 3, and the own bias of algorithm 2: a list of (row, coefficient)."""


class Oracle:
    def __init__(self, K, max_support, bias, eta):
        self.K, self.max_support = K, max_support
        self.stored = []
        self.b, self.R2 = 0.0, 0.0
        self.eta = eta if bias == "r2" else 0.0

    def score(self, x):
        return sum(a * self.K(z, x) for z, a in self.stored) + self.b

    def learn(self, x, y, c):
        own = self.K(x, x)
        self.R2 = max(self.R2, own)
        if y * self.score(x) > 0 or own <= 0 or len(self.stored) == self.max_support:
            return False
        self.stored.append((x, c * y))
        self.b += c * self.eta * y * self.R2
        return True
