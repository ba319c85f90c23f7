"""The inverse Gram matrix of the stored rows, K⁻¹ = WᵀW, by its lower triangular factor W. Orabona et al. (2008).

W is the inverse of K's Cholesky factor. It takes half the room of K⁻¹, a product with K⁻¹ reads it once, and it loses
precision by cond(K), where sums of rank one on K⁻¹ itself lose it by the square of that.
"""

import math
from typing import NamedTuple

import numpy as np

from learners.batch import Array, Ints
from learners.kernels import LARGEST_SQUARE, kernel

DEPENDENT = 1e-10
"""A row of δ² ≤ this share of K(x,x) is a combination of the stored ones, as far as float64 can tell."""

LARGEST_ENTRY = 1e45
"""Of W: with ‖f‖² ≤ 1e100 no coefficient then passes the largest weight."""

SMALLEST_DIAGONAL = 1e-51
"""Of W: 1/δ, and δ² ≤ K(x,x) ≤ 1e100."""


class Inverse(NamedTuple):
    factor: Array
    """W, row by row: row i is entries i(i+1)/2 … i(i+1)/2 + i."""
    own: Array
    """K(x_i, x_i)."""
    limit: Array
    """The share of K(x,x) at which a row counts as dependent; it rises where float64 cannot keep K⁻¹ otherwise."""
    turn: Ints
    """The stored row that was watched last."""
    since: Ints
    """Mistakes since W was rebuilt."""
    rebuilt: Ints
    """How often it was."""

    def in_use(self) -> dict[str, tuple[int, ...]]:
        n = int(np.count_nonzero(self.own, axis=-1).max())
        return {"factor": (n * (n + 1) // 2,), "own": (n,)}


def fresh_inverse(rows: int) -> Inverse:
    zero = np.zeros(1, np.int64)
    return Inverse(
        np.zeros(rows * (rows + 1) // 2),
        np.zeros(rows),
        np.array([DEPENDENT]),
        zero,
        zero.copy(),
        zero.copy(),
    )


def possible(inverse: Inverse, n: int) -> bool:
    """Whether rows could have led to such a factor: kernels divide by its diagonal."""
    ends = np.cumsum(np.arange(1, n + 1))
    kept = inverse.factor[: ends[-1] if n else 0]
    return bool(
        np.isfinite(kept).all()
        and (kept[ends - 1] >= SMALLEST_DIAGONAL).all()
        and ((inverse.own[:n] > 0.0) & (inverse.own[:n] <= LARGEST_SQUARE)).all()
        and DEPENDENT <= inverse.limit[0] <= 1.0
        and min(inverse.turn[0], inverse.since[0]) >= 0
    )


@kernel
def _row(inverse: Inverse, i: int) -> Array:
    start = i * (i + 1) // 2
    return inverse.factor[start : start + i + 1]


@kernel
def _product(row: Array, k: Array) -> float:
    """In eight sums, so that none waits for the last."""
    p0 = p1 = p2 = p3 = p4 = p5 = p6 = p7 = 0.0
    stop = row.size // 8 * 8
    for j in range(0, stop, 8):
        p0 += row[j] * k[j]
        p1 += row[j + 1] * k[j + 1]
        p2 += row[j + 2] * k[j + 2]
        p3 += row[j + 3] * k[j + 3]
        p4 += row[j + 4] * k[j + 4]
        p5 += row[j + 5] * k[j + 5]
        p6 += row[j + 6] * k[j + 6]
        p7 += row[j + 7] * k[j + 7]
    for j in range(stop, row.size):
        p0 += row[j] * k[j]
    return ((p0 + p1) + (p2 + p3)) + ((p4 + p5) + (p6 + p7))


@kernel
def project(inverse: Inverse, n: int, k: Array, d: Array) -> float:
    """Of the first n rows: d = K⁻¹k = Wᵀ(Wk); returns p = kᵀd = ‖Wk‖², the squared norm of the projection."""
    p = 0.0
    for i in range(n):
        d[i] = 0.0
    for i in range(n):
        row = _row(inverse, i)
        u = _product(row, k)
        p += u * u
        for j in range(row.size):
            d[j] += u * row[j]
    return p


@kernel
def growable(d: Array, n: int, delta: float) -> bool:
    """Whether W with a row of this projection and distance stays within what sums can take."""
    if not LARGEST_ENTRY * delta >= 1.0:
        return False
    for i in range(n):
        if not abs(d[i]) <= LARGEST_ENTRY * delta:
            return False
    return True


@kernel
def grow(inverse: Inverse, n: int, d: Array, delta: float, own: float) -> None:
    """A row joins n others: K⁻¹ = [K⁻¹ 0; 0 0] + (d; −1)(d; −1)ᵀ/δ², so W gets the row (−d, 1)/δ."""
    row = _row(inverse, n)
    for i in range(n):
        row[i] = -d[i] / delta
    row[n] = 1.0 / delta
    inverse.own[n] = own


@kernel
def distance(inverse: Inverse, n: int, r: int) -> float:
    """δ_r of row r from the span of the others: K⁻¹_rr = 1/δ_r²."""
    total = 0.0
    for i in range(r, n):
        w = inverse.factor[i * (i + 1) // 2 + r]
        total += w * w
    return 1.0 / math.sqrt(total)


@kernel
def shrink(inverse: Inverse, n: int, r: int, d: Array) -> float:
    """Row r of n leaves: d becomes its projection onto the others, as they are numbered then; returns δ_r.

    Rotations of W's rows, which change no WᵀW, gather its column r in one row: that is q/√c, where c = K⁻¹_rr and
    q = K⁻¹_{·r}. The others then have WᵀW = K⁻¹_{−r} − qqᵀ/c, and are a lower triangle again.
    """
    first = _row(inverse, r)
    for j in range(r + 1):
        d[j] = first[j]
    for i in range(r + 1, n):
        row, left = _row(inverse, i), _row(inverse, i - 1)
        d[i] = 0.0
        norm = math.sqrt(d[r] * d[r] + row[r] * row[r])
        cos, sin = d[r] / norm, row[r] / norm
        for j in range(r):
            gathered = d[j]
            left[j] = cos * row[j] - sin * gathered
            d[j] = cos * gathered + sin * row[j]
        d[r] = norm
        for j in range(r + 1, i + 1):
            gathered = d[j]
            left[j - 1] = cos * row[j] - sin * gathered
            d[j] = cos * gathered + sin * row[j]
    delta: float = 1.0 / d[r]
    for j in range(r):
        d[j] *= -delta  # d = −q/c
    for j in range(r + 1, n):
        d[j - 1] = -d[j] * delta
        inverse.own[j - 1] = inverse.own[j]
    forget(inverse, n - 1)
    return delta


@kernel
def forget(inverse: Inverse, r: int) -> None:
    """The last row r is no more: what is free is 0."""
    _row(inverse, r)[:] = 0.0
    inverse.own[r] = 0.0
