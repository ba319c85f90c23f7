"""Room in which one row is compared with the stored ones, lent to one call at a time.

A row is spread over an array of all slots, which is zeros before and after each comparison. So each thread keeps one:
to make a large one anew costs more than all else of a short call.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from learners.batch import Array
from learners.dual.support import Support

_kept = threading.local()


class Work(NamedTuple):
    """Room for one row's similarities."""

    k: Array
    """K(x_i, x) of the stored rows."""
    spread: Array
    """The row by slot; zeros outside it."""


@contextmanager
def lent(support: Support) -> Iterator[Work]:
    """Room that fits this set; it is kept only if its use came to its end, for else a row may be left in it."""
    dim = int(support.dim[0])
    spread: Array | None = _kept.__dict__.pop("spread", None)
    if spread is None or spread.size != dim:
        spread = np.zeros(dim)
    yield Work(np.empty(support.a.size), spread)
    _kept.spread = spread
