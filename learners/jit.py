"""The `kernel` decorator, and primitives that kernels share.

A kernel gives the same bits whether it is compiled or, with NUMBA_DISABLE_JIT=1, interpreted.
Therefore kernels use plain loops, `math` functions and `x*x`, and no `fastmath`. They take no
functions as arguments and are no closures, because numba's disk cache supports neither.
"""

import fcntl
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import FunctionCache

from learners.batch import Array, Batch, Flags, Ints, Slots

P = ParamSpec("P")
R = TypeVar("R")

ACCEPTED, NUMERIC, NEGATIVE = 0, 1, 2
ROW_REFUSALS = ("", "numeric", "negative")
"""Why a row is refused, by code."""

LARGEST_SQUARE = 1e100
"""Largest squared norm of a row. Beyond it, sums of squares and statistics would overflow."""

LARGEST_VALUE = 1e50
"""Square root of LARGEST_SQUARE."""

LARGEST_WEIGHT = 1e100
"""Largest weight. An update that would exceed it is dropped."""


class DiskCache(FunctionCache):
    """numba's disk cache of one kernel, with two changes. If the disk fails, it warns, and the
    kernel is compiled without the cache. Only one process writes at a time.
    """

    warned = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        cache: Any = super()
        try:
            return cache.load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001 - a damaged file can raise anything
            self._warn(error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            with self._lock():
                self._save_locked(sig, data)
        except OSError as error:
            self._warn(error)

    def _save_locked(self, sig: Any, data: Any) -> None:
        cache: Any = super()
        try:
            cache.save_overload(sig, data)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - the index is damaged: begin a new one
            self._warn(error)
            cache.flush()
            cache.save_overload(sig, data)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the lock of this kernel's files. To save, numba reads the index, names a file and
        writes the index again: two processes at once could give one name to two versions.
        """
        folder = Path(self.cache_path)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _warn(self, error: Exception) -> None:
        """Warn once per process, because every other kernel would give the same warning."""
        if not DiskCache.warned:
            DiskCache.warned = True
            why = getattr(error, "strerror", None) or f"a damaged file ({type(error).__name__})"
            warnings.warn(
                f"kernels are not cached: {self.cache_path}: {why}; each start compiles them again:"
                " free some space there, or set ONEPASS_CACHE_DIR to another folder",
                RuntimeWarning,
                stacklevel=2,
            )


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a module-level function. It releases the GIL and is loaded from the disk cache."""
    compiled: Any = numba.njit(nogil=True)(function)
    if compiled is function:  # interpreted: be as silent about overflow as compiled code
        return cast("Callable[P, R]", np.errstate(all="ignore")(function))
    cache: Any = DiskCache
    with suppress(RuntimeError):  # no writable folder: the code that sets the folder has warned
        compiled._cache = cache(function)  # noqa: SLF001 - numba offers no way to hand over a cache
    return cast("Callable[P, R]", compiled)


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


def row_refusals(X: Batch) -> Flags:
    """Return NUMERIC for rows whose values, squared norm or weight are out of the safe range."""
    return _row_refusals(X.indptr, X.values, X.weights)


@kernel
def _row_refusals(indptr: Ints, values: Array, weights: Array) -> Flags:
    """Takes arrays: passing a tuple to numba takes longer than checking the row of a request."""
    codes = np.zeros(weights.size, np.uint8)
    largest = LARGEST_VALUE
    for t in range(codes.size):
        total = 0.0
        for k in range(indptr[t], indptr[t + 1]):
            # also catches NaN, and prevents overflow of the square
            if not abs(values[k]) <= largest:
                total = np.inf
                break
            total += values[k] * values[k]
        c = weights[t]
        if not total <= LARGEST_SQUARE or not (
            c == 0.0 or 1.0 / LARGEST_VALUE <= c <= LARGEST_VALUE
        ):
            codes[t] = NUMERIC
    return codes
