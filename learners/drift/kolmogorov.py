"""The two-sample Kolmogorov–Smirnov test, exactly: Hodges, The significance probability of the Smirnov test, 1958.

Of n and m values with lcm L of both the distance D of the empirical distributions is h/L for a whole h: all that is
compared is whole numbers.
"""

import math
from functools import lru_cache

import numpy as np

from learners.batch import Array
from learners.kernels import kernel


@kernel
def distance(one: Array, other: Array) -> int:
    """Of two samples, each in ascending order: h = L·D."""
    n, m = one.size, other.size
    g = math.gcd(n, m)
    i, j, h = 0, 0, 0
    while i < n and j < m:
        x = min(one[i], other[j])
        while i < n and one[i] <= x:
            i += 1
        while j < m and other[j] <= x:
            j += 1
        h = max(h, abs(i * (m // g) - j * (n // g)))
    return h


@kernel
def chance(n: int, m: int, h: int) -> float:
    """P(L·D ≥ h) of two samples of one continuous distribution.

    Their merged order is a walk from (0, 0) to (n, m), all equally likely; summed is the mass of the walks where they
    first reach h, so that a small chance is as exact as a large one.
    """
    if h <= 0:
        return 1.0
    g = math.gcd(n, m)
    inside, reached = np.zeros(m + 1), 0.0
    for i in range(n + 1):
        for j in range(m + 1):
            left = float(n + m + 1 - i - j)  # values still to come before this step
            mass = 1.0 if i + j == 0 else 0.0
            if i > 0:
                mass += inside[j] * (n - i + 1) / left
            if j > 0:
                mass += inside[j - 1] * (m - j + 1) / left
            if abs(i * (m // g) - j * (n // g)) >= h:
                reached += mass
                mass = 0.0
            inside[j] = mass
    return reached


@lru_cache(maxsize=64)
def critical(n: int, m: int, alpha: float) -> int:
    """The smallest h whose chance is at most α; L + 1 where there is none."""
    low, high = 1, math.lcm(n, m) + 1
    while low < high:
        middle = (low + high) // 2
        if chance(n, m, middle) <= alpha:
            high = middle
        else:
            low = middle + 1
    return low
