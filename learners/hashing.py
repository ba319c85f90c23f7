"""Feature names to slots: bias first, then one slot per declared column, then 2^bits hashed slots.

The values of the hash are part of the checkpoint format: they never change within a format version.
"""

import zlib
from collections.abc import Sequence

DENSE_COLUMNS = 4096
"""Up to so many columns a row may be filled up with zeros."""

SPREAD = 2654435769
"""2^32 divided by the golden ratio: takes the upper bits of the product, which depend on all bits of the checksum."""

REMEMBERED = 1 << 17
"""Names whose slot is kept at hand; the table is emptied when full, so never-repeating names cannot fill the memory."""


class SlotTable:
    """The slot of every feature name of one model."""

    def __init__(self, columns: Sequence[str], bits: int, *, bias: bool) -> None:
        self.columns = {name: 1 + place for place, name in enumerate(columns)}
        self.bits = bits
        self.bias = bias
        self._first = 1 + len(columns)
        self._remembered: dict[str, int] = {}
        self.met: list[tuple[int, str]] | None = None
        """Slots and names that were not remembered, for whoever empties the list; None: nobody asks."""

    @property
    def dim(self) -> int:
        """Number of slots."""
        return self._first + (1 << self.bits if self.bits else 0)

    @property
    def dense(self) -> bool:
        """Every feature is a column, and they are few enough to fill rows up."""
        return self.bits == 0 and len(self.columns) <= DENSE_COLUMNS

    def hashed(self, name: str) -> int:
        """The slot of a name that is not a column; needs bits above 0."""
        slot = self._remembered.get(name)
        if slot is None:
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            slot = self.computed(name)
            self._remembered[name] = slot
            if self.met is not None:
                self.met.append((slot, name))
        return slot

    def computed(self, name: str) -> int:
        """The same without remembering it."""
        checksum = zlib.crc32(name.encode("utf-8", "surrogatepass"))
        return self._first + ((checksum * SPREAD & 0xFFFFFFFF) >> (32 - self.bits))

    def forget(self, name: str | None = None) -> None:
        """A name, or all of them, will be new again."""
        if name is not None:
            self._remembered.pop(name, None)
            return
        self._remembered.clear()
        if self.met is not None:
            self.met = []
