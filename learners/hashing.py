"""Feature names to slots: bias first, then one slot per declared column, then 2^bits hashed slots.

The hash is part of the checkpoint format. It never changes within a format version.
"""

import zlib
from collections.abc import Sequence

DENSE_COLUMNS = 4096
"""Columns. Rows with more columns are not filled up with zeros."""

SPREAD = 2654435769
"""2^32 divided by the golden ratio. The upper bits of the product with it depend on all bits of the
checksum."""

REMEMBERED = 1 << 17
"""Names whose slot is cached. The cache is emptied when it is full, so that names that never repeat
cannot exhaust the memory."""


class SlotTable:
    """Maps the feature names of one model to slots."""

    def __init__(self, columns: Sequence[str], bits: int, *, bias: bool) -> None:
        self.columns = {name: 1 + column for column, name in enumerate(columns)}
        self.bits = bits
        self.bias = bias
        self._first = 1 + len(columns)
        self._remembered: dict[str, int] = {}
        self.met: list[tuple[int, str]] | None = None
        """Slots and names that were not cached, collected until the reader of this list empties it.
        None if nobody reads it."""

    @property
    def dim(self) -> int:
        """Number of slots."""
        return self._first + (1 << self.bits if self.bits else 0)

    @property
    def dense(self) -> bool:
        """Whether all features are columns, few enough to fill rows up with zeros."""
        return self.bits == 0 and len(self.columns) <= DENSE_COLUMNS

    def hash_slot(self, name: str) -> int:
        """Return the slot of a name that is not a column, and cache it. Needs bits > 0."""
        slot = self._remembered.get(name)
        if slot is None:
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            slot = self.compute_slot(name)
            self._remembered[name] = slot
            if self.met is not None:
                self.met.append((slot, name))
        return slot

    def compute_slot(self, name: str) -> int:
        """Compute the slot without the cache."""
        checksum = zlib.crc32(name.encode("utf-8", "surrogatepass"))
        return self._first + ((checksum * SPREAD & 0xFFFFFFFF) >> (32 - self.bits))

    def forget(self, name: str | None = None) -> None:
        """Remove one name or all names from the cache, so that they count as new."""
        if name is not None:
            self._remembered.pop(name, None)
            return
        self._remembered.clear()
        if self.met is not None:
            self.met = []
