"""Count the rows that Projectron++ keeps on Adult under other comparisons of δ.

The thesis prints 2,010 support vectors. These variants show how many rows each comparison stores.
The learner itself compares δ ≤ η in float64. The service does not use this module, which works with
dense matrices.
"""

import time
from typing import NamedTuple

import numpy as np

from learners.batch import Array, Batch

ROOM = 6000
"""Maximum number of rows that a variant keeps. Its inverse matrix has the square of this."""


class Variant(NamedTuple):
    rule: str
    squared: bool
    """Whether δ² instead of δ is compared with η."""
    eta: float | None
    """η of the variant; None: the experiment's."""
    type: str


VARIANTS = {
    "squared": Variant("δ² ≤ η = 0.1, float64", squared=True, eta=None, type="float64"),
    "squared 0.03": Variant("δ² ≤ η = 0.03, float64", squared=True, eta=0.03, type="float64"),
    "single": Variant("δ ≤ η = 0.1, float32", squared=False, eta=None, type="float32"),
}


class VariantResult(NamedTuple):
    rule: str
    support: int
    seconds: float


def run_variant(variant: Variant, X: Batch, y: Array, *, gamma: float, eta: float) -> VariantResult:
    """Run one pass over the permutation of seed 0."""
    order = np.random.default_rng(0).permutation(y.size)
    began = time.process_time()
    X_dense = _dense(X)[order]
    eta = variant.eta or eta
    support = _projectron(X_dense, y[order], gamma, eta, variant.squared, variant.type)
    return VariantResult(variant.rule, support, time.process_time() - began)


def _dense(X: Batch) -> Array:
    dense = np.zeros((X.size, int(X.indices.max()) + 1))
    dense[np.repeat(np.arange(X.size), np.diff(X.indptr)), X.indices] = X.values
    return dense[:, 1:]  # without the bias


def _projectron(X: Array, y: Array, gamma: float, eta: float, squared: bool, kind: str) -> int:
    X, own = X.astype(kind), (X * X).sum(axis=1).astype(kind)
    stored = np.zeros((ROOM, X.shape[1]), kind)
    squares = np.zeros(ROOM, kind)
    a = np.zeros(ROOM, kind)
    inverse = np.zeros((ROOM, ROOM), kind)
    n = 0
    for x, square, label in zip(X, own, y, strict=True):
        k = np.exp(-gamma * np.maximum(0.0, squares[:n] - 2.0 * (stored[:n] @ x) + square))
        margin = label * float(a[:n] @ k)
        if margin >= 1.0:
            continue
        d = inverse[:n, :n] @ k
        p = float(k @ d)
        gap = max(0.0, 1.0 - p)  # δ², since K(x, x) = 1
        distance = gap if squared else gap**0.5
        if margin > 0.0:
            loss = 1.0 - margin
            if loss > distance / eta and p > 0.0:
                a[:n] += label * d * min(1.0, loss / p, 2.0 * (loss - distance / eta) / p)
        elif n and (distance <= eta or gap <= 1e-10):
            a[:n] += label * d
        else:
            column = np.append(d, a.dtype.type(-1.0))
            inverse[: n + 1, : n + 1] += np.outer(column, column / a.dtype.type(gap))
            stored[n], squares[n], a[n] = x, square, label
            n += 1
    return n
