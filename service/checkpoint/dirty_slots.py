"""The slots that the next checkpoint of a large model must hold: those of events learned since the
last one.

By the learners' fifth law the other slots have not changed, unless a learner says that it rewrote
everything. The time of `add` and `take` depends on the number of dirty slots, not on the model's
size.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.batch import BIAS, Ints, Slots
from service.checkpoint.snapshot import SLOTS

SMALLEST_DELTA = 1 << 17
"""Slots of the smallest model that writes deltas. Copying a smaller one takes a millisecond or two,
and a chain of deltas saves little.
"""

LARGEST_SHARE = 0.25
"""Share of dirty slots above which a whole copy is better, because a delta also holds the numbers
of its slots.
"""

ALIGNED = 64
"""Bytes of a cache line. Each array begins at a multiple of it."""


class ArrayCopy(NamedTuple):
    """A copy of a model's arrays at one moment.

    The arrays named in `sliced` hold only the values at the slots in `arrays["slots"]`, along their
    last axis.
    """

    arrays: dict[str, NDArray[Any]]
    sliced: tuple[str, ...]


class DirtySlots:
    """The slots that have changed since the last `take`."""

    def __init__(self, dim: int) -> None:
        self._small = dim < SMALLEST_DELTA
        self._most = int(LARGEST_SHARE * dim)
        self._marked = np.zeros(0 if self._small else dim, np.bool_)
        self._parts: list[Slots] = []
        self._count = 0
        self.all_dirty = True
        """True: copy everything. Initially true, because there is no base for a delta."""

    def add(self, slots: Slots) -> None:
        if self.all_dirty:
            return
        fresh = slots[~self._marked[slots]]
        if fresh.size:
            self._marked[fresh] = True
            self._parts.append(fresh)  # a slot is in it twice if two rows of the batch have it
        self._count += fresh.size
        self.all_dirty = self._count > self._most

    def take(self) -> Ints | None:
        """Return the dirty slots in order, with the bias, and mark all slots clean.

        Return None if everything is dirty.
        """
        slots = (
            None
            if self.all_dirty
            else _distinct(np.concatenate([np.array([BIAS], np.int32), *self._parts]))
        )
        for part in self._parts if slots is None else [slots]:
            self._marked[part] = False
        self._parts = []
        self._count = 0
        self.all_dirty = self._small
        return slots

    def put_back(self, slots: Ints | None) -> None:
        """Mark slots dirty again, because the checkpoint that took them failed."""
        if slots is None:
            self.all_dirty = True
        else:
            self.add(slots.astype(np.int32))


def copy_arrays(
    arrays: dict[str, NDArray[Any]], slot_arrays: frozenset[str], slots: Ints | None
) -> ArrayCopy:
    """Copy arrays by name, whole or only at `slots`."""
    if slots is None:
        return ArrayCopy(_copy_contiguous(arrays), ())
    # The slots are in range. Without mode="clip" numpy checks each one, which takes longer than
    # the copy.
    copies = {
        name: array.take(slots, axis=-1, mode="clip") if name in slot_arrays else array.copy()
        for name, array in arrays.items()
    }
    return ArrayCopy(copies | {SLOTS: slots}, tuple(name for name in arrays if name in slot_arrays))


def _distinct(slots: Slots) -> Ints:
    """Sort the slots and drop repetitions. `np.unique` uses a hash table, 50 times slower here."""
    slots.sort()
    distinct: Ints = slots[np.concatenate([[True], slots[1:] != slots[:-1]])].astype(np.int64)
    return distinct


def _copy_contiguous(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Copy all arrays into one block of memory, which is freed as a whole.

    The system gives such a block in huge pages, or reuses the block of the last copy. Separate
    arrays of 2 MB get 2,000 small pages each time, which takes four times as long as the copy.
    """
    ends = np.cumsum([array.nbytes + -array.nbytes % ALIGNED for array in arrays.values()]).tolist()
    room = np.empty(ends[-1], np.uint8)
    copies: dict[str, NDArray[Any]] = {}
    for (name, array), start in zip(arrays.items(), [0, *ends[:-1]], strict=True):
        copies[name] = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        copies[name][...] = array
    return copies
