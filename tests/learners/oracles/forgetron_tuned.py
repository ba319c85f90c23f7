"""McKenna, section 3.2.1, self-tuned: the gentlest φ by bisection on its own definition."""


class Oracle:
    def __init__(self, K, budget):
        self.K, self.B = K, budget
        self.stored = []  # (row, label, σ), oldest first
        self.Q, self.M = 0.0, 0

    def score(self, x):
        return sum(s * y * self.K(z, x) for z, y, s in self.stored)

    def learn(self, x, y, c):  # noqa: ARG002
        if y * self.score(x) > 0 or self.K(x, x) <= 0:
            return False
        self.M += 1
        self.stored.append((x, y, 1.0))
        if len(self.stored) > self.B:
            self.drop(0)
        return True

    def drop(self, r):
        z, label, s = self.stored[r]
        mu = label * self.score(z)

        def within(phi):
            return psi(s * phi, phi * mu) + self.Q <= 15 / 32 * self.M

        low, high = 0.0, 1.0
        if within(high):
            low = high
        while low < (low + high) / 2 < high:
            middle = (low + high) / 2
            low, high = (middle, high) if within(middle) else (low, middle)
        self.stored = [(z, label, low * s) for z, label, s in self.stored]
        self.Q += psi(s * low, low * mu)
        del self.stored[r]


def psi(lam, mu):
    return lam**2 + 2 * lam - 2 * lam * mu
