"""The inverse Gram matrix, watched for loss of precision and rebuilt: it is never silently wrong.

At each mistake one stored row is looked at, all in turn: K⁻¹ times its similarities must be a column of the identity.
(The youngest row says nothing: it comes out right by algebra, whatever the error.) If it is not, the factor is rebuilt
from the kernel's values in order of age. Where that does not help, or not for long, the rows are too dependent for
float64: the share of K(x,x) that a row must add rises tenfold, and rows below it are projected onto the older ones.
After a calm time it falls again.
"""

import math

from learners.batch import Array
from learners.dual.inverse import DEPENDENT, Inverse, forget, grow, growable, project
from learners.dual.similarity import Kernel, weighted
from learners.dual.stored import stored_similarities
from learners.dual.support import Support, drop
from learners.dual.work import Work
from learners.kernels import LARGEST_WEIGHT, kernel

TOLERANCE = 1e-7
"""How far the column that is watched may be from the identity's, in units of the rows' lengths.

One column says little less than all: the worst of them is seldom ten times as far away.
"""

LONGEST = 1.001
"""A projection is no longer than the row, ‖Pk‖² ≤ K(x,x); one that is longer than this shows a wrong factor."""


CALM = 32
"""Mistakes per stored row without a rebuild after which the share that a row must add falls again, tenfold."""

CLOSE = 1e-4
"""Where a newcomer adds no more than this share of K(x,x), the row that it is closest to is looked at as well."""


@kernel
def closest(inverse: Inverse, n: int, d: Array, left: float, own: float) -> int:
    """The row with the largest part in a newcomer's projection, if the newcomer adds little; else −1."""
    found, most = -1, 0.0
    if left <= CLOSE * own:
        for i in range(n):
            part = abs(d[i]) * math.sqrt(inverse.own[i])
            if part > most:
                found, most = i, part
    return found


@kernel
def watch(support: Support, inverse: Inverse, square: Array, K: Kernel, close: int, work: Work, d: Array) -> None:
    """Look at the next stored row, of which there must be one, and at this one if any; overwrites `work.k` and d."""
    inverse.since[0] += 1
    inverse.turn[0] = (inverse.turn[0] + 1) % support.size[0]
    if (close >= 0 and not holds(support, inverse, K, close, work, d)) or not holds(
        support, inverse, K, inverse.turn[0], work, d
    ):
        rebuild(support, inverse, square, K, work, d)
    elif inverse.since[0] % (CALM * support.size[0]) == 0:
        inverse.limit[0] = max(DEPENDENT, 0.1 * inverse.limit[0])  # times may have become better


@kernel
def holds(support: Support, inverse: Inverse, K: Kernel, j: int, work: Work, d: Array) -> bool:
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
def rebuild(support: Support, inverse: Inverse, square: Array, K: Kernel, work: Work, d: Array) -> None:
    """Of the rows' own similarities; overwrites `work.k` and d."""
    if inverse.since[0] < support.size[0]:  # a rebuild costs as much as so many mistakes: it shall not come more often
        inverse.limit[0] = min(1.0, 10.0 * inverse.limit[0])
    _regrow(support, inverse, K, work, d)
    while not _all_hold(support, inverse, K, work, d):
        inverse.limit[0] = min(1.0, 10.0 * inverse.limit[0])  # ends at 1, with one row
        _regrow(support, inverse, K, work, d)
    inverse.since[0] = 0
    inverse.rebuilt[0] += 1
    square[0] = squared(support, K, work)


@kernel
def _all_hold(support: Support, inverse: Inverse, K: Kernel, work: Work, d: Array) -> bool:
    for j in range(support.size[0]):
        if not holds(support, inverse, K, j, work, d):
            return False
    return True


@kernel
def _regrow(support: Support, inverse: Inverse, K: Kernel, work: Work, d: Array) -> None:
    r = 0
    while r < support.size[0]:
        own = stored_similarities(support, K, r, work)
        left = max(0.0, own - project(inverse, r, work.k, d))
        if r == 0 or (left > inverse.limit[0] * own and growable(d, r, math.sqrt(left))):
            grow(inverse, r, d, math.sqrt(left), own)
            r += 1
        else:
            absorb(support.a, r, support.a[r], d)
            drop(support, r)
            forget(inverse, support.size[0])


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
def squared(support: Support, K: Kernel, work: Work) -> float:
    """‖f‖² = aᵀKa from the kernel's values."""
    total = 0.0
    for j in range(support.size[0]):
        stored_similarities(support, K, j, work)
        total += support.a[j] * weighted(support, work.k)
    return max(0.0, total)
