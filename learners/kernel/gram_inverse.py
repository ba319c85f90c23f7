"""Keep the inverse Gram matrix of the stored rows, K⁻¹ = WᵀW, as its lower triangular factor W.
Orabona et al. (2008).

W is the inverse of K's Cholesky factor. It needs half the memory of K⁻¹, and a product with K⁻¹
reads it once. Its error grows with cond(K); that of rank-one updates of K⁻¹ itself grows with
cond(K)².

The factor is checked for loss of precision, so that it is never silently wrong. At each mistake the
next stored row is checked: K⁻¹ times its similarities must be a column of the identity. (The
youngest row proves nothing: by algebra it is right whatever the error.) If the check fails, the
factor is rebuilt from kernel values in order of age. If that does not help, or not for long, the
rows are too dependent for float64. Then the share of K(x,x) that a row must add rises tenfold, and
rows that add less are projected onto the older ones. Later the share falls again.
"""

import math
from typing import NamedTuple

import numpy as np

from learners.batch import Array, Ints
from learners.jit import LARGEST_SQUARE, LARGEST_WEIGHT, kernel
from learners.kernel.similarity import Kernel, squared_norm, stored_similarities
from learners.kernel.support import Support, Work, drop

DEPENDENT = 1e-10
"""Share of K(x,x). A row with δ² up to this share is a combination of the stored rows, as far as
float64 can tell."""

LARGEST_ENTRY = 1e45
"""Largest entry of W. With ‖f‖² ≤ 1e100, no coefficient then exceeds the largest weight."""

SMALLEST_DIAGONAL = 1e-51
"""Smallest diagonal entry of W: it is 1/δ, and δ² ≤ K(x,x) ≤ 1e100."""

TOLERANCE = 1e-7
"""How far the checked column may be from the identity's, in units of the rows' lengths.

Checking one column is almost as good as checking all: the worst is seldom ten times as far off."""

LONGEST = 1.001
"""Ratio to K(x,x). A projection is no longer than the row, ‖Pk‖² ≤ K(x,x). A longer one shows
that the factor is wrong."""

CALM = 32
"""Mistakes per stored row without a rebuild, after which the share that a row must add falls
tenfold."""

CLOSE = 1e-4
"""Share of K(x,x). If a new row adds no more than this, the row that it is closest to is checked
too."""


class Inverse(NamedTuple):
    factor: Array
    """W, row by row: row i is entries i(i+1)/2 … i(i+1)/2 + i."""
    own: Array
    """K(x_i, x_i)."""
    limit: Array
    """Share of K(x,x) up to which a row counts as dependent. It rises where float64 cannot keep
    K⁻¹ precise."""
    turn: Ints
    """The stored row that was checked last."""
    since: Ints
    """Mistakes since W was rebuilt."""
    rebuilt: Ints
    """Number of rebuilds."""

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


def is_valid_inverse(inverse: Inverse, n: int) -> bool:
    """Whether rows could have led to this factor. Kernels divide by its diagonal."""
    ends = np.cumsum(np.arange(1, n + 1))
    entries = inverse.factor[: ends[-1] if n else 0]
    return bool(
        np.isfinite(entries).all()
        and (entries[ends - 1] >= SMALLEST_DIAGONAL).all()
        and ((inverse.own[:n] > 0.0) & (inverse.own[:n] <= LARGEST_SQUARE)).all()
        and DEPENDENT <= inverse.limit[0] <= 1.0
        and min(inverse.turn[0], inverse.since[0]) >= 0
    )


@kernel
def project(inverse: Inverse, n: int, k: Array, d: Array) -> float:
    """For the first n rows: d = K⁻¹k = Wᵀ(Wk).

    Return p = kᵀd = ‖Wk‖², the squared norm of the projection.
    """
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
def can_grow(d: Array, n: int, delta: float) -> bool:
    """Whether W stays in the safe range with a row of this projection and distance."""
    if not LARGEST_ENTRY * delta >= 1.0:
        return False
    for i in range(n):
        if not abs(d[i]) <= LARGEST_ENTRY * delta:
            return False
    return True


@kernel
def grow(inverse: Inverse, n: int, d: Array, delta: float, own: float) -> None:
    """Add a row to n others, so that W gets the row (−d, 1)/δ.

    K⁻¹ = [K⁻¹ 0; 0 0] + (d; −1)(d; −1)ᵀ/δ².
    """
    row = _row(inverse, n)
    for i in range(n):
        row[i] = -d[i] / delta
    row[n] = 1.0 / delta
    inverse.own[n] = own


@kernel
def shrink(inverse: Inverse, n: int, r: int, d: Array) -> float:
    """Remove row r of n. d becomes its projection onto the others, in their new order. Return δ_r.

    Rotations of W's rows keep WᵀW. They gather column r in one row: q/√c, where c = K⁻¹_rr and q =
    K⁻¹_{·r}. The other rows then have WᵀW = K⁻¹_{−r} − qqᵀ/c and form a lower triangle again.
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
    _clear_row(inverse, n - 1)
    return delta


@kernel
def distance(inverse: Inverse, n: int, r: int) -> float:
    """δ_r, the distance of row r from the span of the others: K⁻¹_rr = 1/δ_r²."""
    total = 0.0
    for i in range(r, n):
        w = inverse.factor[i * (i + 1) // 2 + r]
        total += w * w
    return 1.0 / math.sqrt(total)


@kernel
def absorb(a: Array, n: int, step: float, d: Array) -> bool:
    """Add step·d to a, unless a coefficient would leave the safe range."""
    for i in range(n):
        if not abs(a[i] + step * d[i]) <= LARGEST_WEIGHT:
            return False
    for i in range(n):
        a[i] += step * d[i]
    return True


@kernel
def closest(inverse: Inverse, n: int, d: Array, left: float, own: float) -> int:
    """The row with the largest part in a new row's projection, if the new row adds little.

    Otherwise −1.
    """
    found, most = -1, 0.0
    if left <= CLOSE * own:
        for i in range(n):
            part = abs(d[i]) * math.sqrt(inverse.own[i])
            if part > most:
                found, most = i, part
    return found


@kernel
def check_next_row(
    support: Support, inverse: Inverse, square: Array, K: Kernel, close: int, work: Work, d: Array
) -> None:
    """Check W on the next stored row, and on row `close` unless it is −1. Rebuild W if it is wrong.

    There must be a stored row. Overwrites `work.k` and d.
    """
    inverse.since[0] += 1
    inverse.turn[0] = (inverse.turn[0] + 1) % support.size[0]
    if (close >= 0 and not _column_holds(support, inverse, K, close, work, d)) or not _column_holds(
        support, inverse, K, inverse.turn[0], work, d
    ):
        rebuild(support, inverse, square, K, work, d)
    elif inverse.since[0] % (CALM * support.size[0]) == 0:
        # the rows may have become less dependent
        inverse.limit[0] = max(DEPENDENT, 0.1 * inverse.limit[0])


@kernel
def rebuild(
    support: Support, inverse: Inverse, square: Array, K: Kernel, work: Work, d: Array
) -> None:
    """Rebuild the factor from the rows' similarities. Overwrites `work.k` and d."""
    # a rebuild costs as much as n mistakes, so it must not happen more often
    if inverse.since[0] < support.size[0]:
        inverse.limit[0] = min(1.0, 10.0 * inverse.limit[0])
    _rebuild_factor(support, inverse, K, work, d)
    while not _all_columns_hold(support, inverse, K, work, d):
        inverse.limit[0] = min(1.0, 10.0 * inverse.limit[0])  # ends at 1, with one row
        _rebuild_factor(support, inverse, K, work, d)
    inverse.since[0] = 0
    inverse.rebuilt[0] += 1
    square[0] = squared_norm(support, K, work)


@kernel
def _column_holds(
    support: Support, inverse: Inverse, K: Kernel, j: int, work: Work, d: Array
) -> bool:
    """Whether K⁻¹K_{·j} is e_j."""
    n = support.size[0]
    stored_similarities(support, K, j, work)
    project(inverse, n, work.k, d)
    d[j] -= 1.0
    for i in range(n):
        if not abs(d[i]) * math.sqrt(inverse.own[i] / inverse.own[j]) <= TOLERANCE:
            return False
    return True


@kernel
def _all_columns_hold(support: Support, inverse: Inverse, K: Kernel, work: Work, d: Array) -> bool:
    for j in range(support.size[0]):
        if not _column_holds(support, inverse, K, j, work, d):
            return False
    return True


@kernel
def _rebuild_factor(support: Support, inverse: Inverse, K: Kernel, work: Work, d: Array) -> None:
    r = 0
    while r < support.size[0]:
        own = stored_similarities(support, K, r, work)
        left = max(0.0, own - project(inverse, r, work.k, d))
        if r == 0 or (left > inverse.limit[0] * own and can_grow(d, r, math.sqrt(left))):
            grow(inverse, r, d, math.sqrt(left), own)
            r += 1
        else:
            absorb(support.a, r, support.a[r], d)
            drop(support, r)
            _clear_row(inverse, support.size[0])


@kernel
def _clear_row(inverse: Inverse, r: int) -> None:
    """Set row r, the last one, to 0."""
    _row(inverse, r)[:] = 0.0
    inverse.own[r] = 0.0


@kernel
def _row(inverse: Inverse, i: int) -> Array:
    start = i * (i + 1) // 2
    return inverse.factor[start : start + i + 1]


@kernel
def _product(row: Array, k: Array) -> float:
    """Inner product in eight sums, so that no addition waits for the one before."""
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
