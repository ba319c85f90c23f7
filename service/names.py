"""Which names met which hashed slot: a log of first meetings, part of the checkpoint, so that slots can be named.

Of each slot the first name is kept and the first other one, which makes it a collision. The log is a pure function of
the decoded events in order: it is told of a name whenever the slot had to be computed, and to be told twice changes
nothing, so it does not matter when the table of remembered slots is emptied.
"""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from learners.batch import BIAS
from learners.hashing import SlotTable

LONGEST = 4 * 1024 * 1024
"""Bytes of the log."""

LEFT_OUT = (BIAS, "")
"""The entry that says that a name was left out, for want of room; no name is hashed to the bias."""

LINES = msgspec.json.Decoder(tuple[int, str])


class Table:
    """The log as bytes, a JSON array of slot and name per line, and the same by slot."""

    def __init__(self) -> None:
        self.first: dict[int, str] = {}
        self.other: dict[int, str] = {}
        self.log = bytearray()
        self.left_out = False

    def copy(self) -> "Table":
        copy = Table()
        copy.first, copy.other = dict(self.first), dict(self.other)
        copy.log, copy.left_out = self.log[:], self.left_out
        return copy

    def add(self, slot: int, name: str, most: float) -> None:
        """Keep a name that is new to its slot, if there is room; if not, say so once."""
        known = self.first.get(slot)
        if known == name or slot in self.other:
            return
        line = _line(slot, name)
        if len(self.first) + len(self.other) < most and len(self.log) + len(line) <= LONGEST:
            (self.first if known is None else self.other)[slot] = name
            self.log += line
        elif not self.left_out:
            self.leave_out()

    def leave_out(self) -> None:
        self.left_out = True
        self.log += _line(*LEFT_OUT)


class Names:
    """The names of one model's slots; `most` of them are kept, and 0 keeps none."""

    def __init__(self, most: int, slots: SlotTable) -> None:
        self._most = most
        self._slots = slots
        self._columns = {slot: name for name, slot in slots.columns.items()}
        self._table = Table()
        self._saved = 0
        if most:
            slots.met = []

    @property
    def kept(self) -> bool:
        return self._most > 0

    @property
    def complete(self) -> bool:
        """No name was left out: a slot without a collision here has none."""
        return not self._slots.bits or (self.kept and not self._table.left_out)

    def of(self, slot: int) -> list[str]:
        """What is known of a slot's name: none, one, or two that collide."""
        if slot == BIAS:
            return ["bias"]
        if slot in self._columns:
            return [self._columns[slot]]
        table = self._table
        return [names[slot] for names in (table.first, table.other) if slot in names]

    def heard(self, *, accepted: bool) -> None:
        """The names that the last event met for the first time; of a rejected one they are forgotten again."""
        met = self._slots.met
        for slot, name in met or ():
            if accepted:
                self._table.add(slot, name, self._most)
            else:
                self._slots.forget(name)
        self._slots.met = []

    def taken(self, *, whole: bool) -> NDArray[np.uint8]:
        """The log, or what it has more than when it was last taken."""
        log = self._table.log
        start, self._saved = 0 if whole else self._saved, len(log)
        return np.frombuffer(bytes(memoryview(log)[start:]), np.uint8)

    def put_back(self, part: NDArray[np.uint8]) -> None:
        """What was taken last did not become a checkpoint."""
        self._saved -= part.size

    def read(self, part: NDArray[Any] | None, *, learned: bool) -> Table:
        """The table of a checkpoint; one that cannot be is a `ValueError`. Without one, names of the past are unknown.

        What is known already is not read again: whoever follows checkpoints reads only the new.
        """
        if part is None or not self.kept:
            table = Table()
            if self.kept and learned:
                table.leave_out()
            return table
        if part.dtype != np.uint8 or part.ndim != 1 or part.size > LONGEST + len(_line(*LEFT_OUT)):
            raise ValueError("names are of another type or too many")
        data = part.tobytes()
        if data == self._table.log:
            return self._table
        table = self._table.copy() if data.startswith(self._table.log) else Table()
        try:
            entries = LINES.decode_lines(data[len(table.log) :])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError("names are not lines of a slot and a name") from error
        for slot, name in entries:
            if (slot, name) == LEFT_OUT and not table.left_out:
                table.leave_out()
            elif self._slots.bits and slot == self._slots.computed(name):
                table.add(slot, name, float("inf"))
        if table.log != data:
            raise ValueError("a name is there twice, or is not of its slot")
        return table

    def become(self, table: Table | None = None) -> None:
        """Go on from a table that was read, or from none."""
        self._table = Table() if table is None else table
        self._saved = len(self._table.log)
        self._slots.forget()


def _line(slot: int, name: str) -> bytes:
    return msgspec.json.encode((slot, name)) + b"\n"
