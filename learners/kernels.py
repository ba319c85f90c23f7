"""Primitives that every kernel is written with, and the `kernel` decorator itself.

Kernels run compiled or, with NUMBA_DISABLE_JIT=1, interpreted, and give the same bits: plain loops, `math` functions,
`x*x`; no `fastmath`, no function passed as an argument (numba's disk cache serves neither those nor closures).
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba
import numpy as np

from learners.batch import Array, Batch, Flags, Ints, Slots

P = ParamSpec("P")
R = TypeVar("R")

ACCEPTED, NUMERIC, NEGATIVE = 0, 1, 2
REFUSALS = ("", "numeric", "negative")
"""Why a row is refused, by code."""

LARGEST_SQUARE = 1e100
"""Largest squared norm of a row: beyond it sums of squares and statistics would not stay finite."""

LARGEST_VALUE = 1e50
"""Its root."""

LARGEST_WEIGHT = 1e100
"""Largest weight: an update that would pass it is dropped."""


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a module-level function; releases the GIL and is served from the disk cache."""
    compiled: Callable[P, R] = numba.njit(nogil=True, cache=True)(function)
    if compiled is function:  # NUMBA_DISABLE_JIT: compiled code does not warn, so this shall not either
        return np.errstate(all="ignore")(function)
    return compiled


@kernel
def row(X: Batch, t: int) -> tuple[Slots, Array]:
    """Slots and values of row t, as views."""
    return X.indices[X.indptr[t] : X.indptr[t + 1]], X.values[X.indptr[t] : X.indptr[t + 1]]


@kernel
def sq_norm(x: Array) -> float:
    total = 0.0
    for k in range(x.size):
        total += x[k] * x[k]
    return total


def refusals(X: Batch) -> Flags:
    """Code NUMERIC for rows whose values, squared norm or importance weight are beyond what sums can take."""
    return _refusals(X.indptr, X.values, X.weights)


@kernel
def _refusals(indptr: Ints, values: Array, weights: Array) -> Flags:
    """Of the arrays of a batch: to pass them as a tuple takes longer than to look at the row of a request."""
    codes = np.zeros(weights.size, np.uint8)
    largest = LARGEST_VALUE
    for t in range(codes.size):
        total = 0.0
        for k in range(indptr[t], indptr[t + 1]):
            if not abs(values[k]) <= largest:  # catches NaN too, and keeps the square from overflowing
                total = np.inf
                break
            total += values[k] * values[k]
        c = weights[t]
        if not total <= LARGEST_SQUARE or not (c == 0.0 or 1.0 / LARGEST_VALUE <= c <= LARGEST_VALUE):
            codes[t] = NUMERIC
    return codes
