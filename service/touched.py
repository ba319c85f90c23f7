"""Which slots the next checkpoint of a large model needs: those of the events learned since the last one.

By the learners' fifth law all others are as they were, unless an event says that it rewrote everything. Adding and
taking cost what was touched, not what there is.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.batch import BIAS, Ints, Slots
from service.snapshot import SLOTS

SMALLEST_DELTA = 1 << 17
"""Slots below which a model is always copied whole: that takes a millisecond or two, and a chain saves little."""

LARGEST_SHARE = 0.25
"""Share of touched slots above which a whole copy is the better one: a delta holds their numbers too."""

ALIGNED = 64
"""Arrays begin at multiples of so many bytes, the length of a cache line."""


class Frozen(NamedTuple):
    """The arrays of a model at one moment, copied; those in `sliced` only at the array `slots` of their last axis."""

    arrays: dict[str, NDArray[Any]]
    sliced: tuple[str, ...]


class Touched:
    """Slots touched since the last time they were taken."""

    def __init__(self, dim: int) -> None:
        self._small = dim < SMALLEST_DELTA
        self._most = int(LARGEST_SHARE * dim)
        self._marked = np.zeros(0 if self._small else dim, np.bool_)
        self._parts: list[Slots] = []
        self._count = 0
        self.everything = True
        """Single slots are not worth telling apart; so it is before the first checkpoint."""

    def add(self, slots: Slots) -> None:
        if self.everything:
            return
        fresh = slots[~self._marked[slots]]
        if fresh.size:
            self._marked[fresh] = True
            self._parts.append(fresh)  # a slot may be in it twice, if two rows of a batch have it
        self._count += fresh.size
        self.everything = self._count > self._most

    def take(self) -> Ints | None:
        """The touched slots in order, the bias among them, or None for everything; from now on none is touched."""
        slots = None if self.everything else _distinct(np.concatenate([np.array([BIAS], np.int32), *self._parts]))
        for part in self._parts if slots is None else [slots]:
            self._marked[part] = False
        self._parts, self._count, self.everything = [], 0, self._small
        return slots

    def put_back(self, slots: Ints | None) -> None:
        """What was taken did not become a checkpoint."""
        if slots is None:
            self.everything = True
        else:
            self.add(slots.astype(np.int32))


def _distinct(slots: Slots) -> Ints:
    """Sorted and each once; `np.unique` goes by a hash table, fifty times slower here."""
    slots.sort()
    distinct: Ints = slots[np.concatenate([[True], slots[1:] != slots[:-1]])].astype(np.int64)
    return distinct


def frozen(arrays: dict[str, NDArray[Any]], slot_arrays: frozenset[str], slots: Ints | None) -> Frozen:
    """Copies of arrays by name, whole or at these slots."""
    if slots is None:
        return Frozen(_copied(arrays), ())
    # mode: the slots are in range, and to check each of them takes longer than all the rest
    copies = {
        name: array.take(slots, axis=-1, mode="clip") if name in slot_arrays else array.copy()
        for name, array in arrays.items()
    }
    return Frozen(copies | {SLOTS: slots}, tuple(name for name in arrays if name in slot_arrays))


def _copied(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Copies in one piece of memory, which they free together.

    The system gives it in huge pages, or it is that of the last copy; to be given 2,000 small pages anew, as separate
    arrays of 2 MB are, takes four times as long as to copy into them.
    """
    ends = np.cumsum([array.nbytes + -array.nbytes % ALIGNED for array in arrays.values()]).tolist()
    room = np.empty(ends[-1], np.uint8)
    copies: dict[str, NDArray[Any]] = {}
    for (name, array), start in zip(arrays.items(), [0, *ends[:-1]], strict=True):
        copies[name] = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        copies[name][...] = array
    return copies
