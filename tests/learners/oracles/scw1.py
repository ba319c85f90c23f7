"""Wang, Zhao & Hoi, ICML 2012, proposition 1 (SCW-I), diagonal; c multiplies C."""

import numpy as np


class Oracle:
    def __init__(self, dim, eta, C):
        self.w = np.zeros(dim)
        self.sigma = np.ones(dim)
        self.phi, self.C = quantile(eta), C

    def score(self, x):
        return self.w @ x

    def learn(self, x, y, c):
        phi, m, v = self.phi, y * self.score(x), self.sigma @ x**2
        if phi * np.sqrt(v) <= m:
            return False
        psi, zeta = 1 + phi**2 / 2, 1 + phi**2
        k = min(
            c * self.C, (-m * psi + np.sqrt(m**2 * phi**4 / 4 + v * phi**2 * zeta)) / (v * zeta)
        )
        if k <= 0:
            return False
        u = 0.25 * (-k * v * phi + np.sqrt(k**2 * v**2 * phi**2 + 4 * v)) ** 2
        self.w = self.w + k * y * self.sigma * x
        self.sigma = 1 / (1 / self.sigma + k * phi / np.sqrt(u) * x**2)
        return True

    def weights(self):
        return self.w


def quantile(eta):
    """The standard normal's, by Newton's method from 0, on areas by quadrature."""
    z, (nodes, weights) = 0.0, np.polynomial.legendre.leggauss(40)
    for _ in range(30):
        area = z / 2 * weights @ density(z / 2 * (nodes + 1))
        z -= (area - (eta - 0.5)) / density(z)
    return z


def density(z):
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
