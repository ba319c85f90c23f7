"""The feature names of hashed slots, as a log that the checkpoint holds.

The log has the first name of each slot and the first other name, which is a collision. It is a pure
function of the decoded events in order. The decoder reports a name each time it computes the slot.
A repeated name changes nothing, so it does not matter when the cache of slots is emptied.
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
"""The entry of a full log that left a name out. No name is hashed to the bias."""

LINES = msgspec.json.Decoder(tuple[int, str])


class Table:
    """The log as bytes, one JSON array of slot and name per line, and the same names by slot."""

    def __init__(self) -> None:
        self.first: dict[int, str] = {}
        self.other: dict[int, str] = {}
        self.log = bytearray()
        self.left_out = False

    def copy(self) -> "Table":
        copy = Table()
        copy.first = dict(self.first)
        copy.other = dict(self.other)
        copy.log = self.log[:]
        copy.left_out = self.left_out
        return copy

    def add(self, slot: int, name: str, most: float) -> None:
        """Add a name that is new to its slot. A full log notes once that it left a name out."""
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
        """Note that the log does not have all names."""
        self.left_out = True
        self.log += _line(*LEFT_OUT)


class SlotNames:
    """The names of one model's slots, at most `most` of them. 0 keeps no names."""

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
        """Whether names are kept at all."""
        return self._most > 0

    @property
    def complete(self) -> bool:
        """Whether the log has every name. A slot with one name then has no collision."""
        return not self._slots.bits or (self.kept and not self._table.left_out)

    def of(self, slot: int) -> list[str]:
        """Return the known names of a slot: none, one, or two that collide."""
        if slot == BIAS:
            return ["bias"]
        if slot in self._columns:
            return [self._columns[slot]]
        table = self._table
        return [names[slot] for names in (table.first, table.other) if slot in names]

    def commit(self, *, accepted: bool) -> None:
        """Add the names that the last event brought, or forget them if it was rejected."""
        met = self._slots.met
        for slot, name in met or ():
            if accepted:
                self._table.add(slot, name, self._most)
            else:
                self._slots.forget(name)
        self._slots.met = []

    def delta(self, *, whole: bool) -> NDArray[np.uint8]:
        """Return the lines that are new since the last call, or the whole log."""
        log = self._table.log
        start = 0 if whole else self._saved
        self._saved = len(log)
        return np.frombuffer(bytes(memoryview(log)[start:]), np.uint8)

    def put_back(self, part: NDArray[np.uint8]) -> None:
        """Undo the last `delta`, because its checkpoint failed. The next has its lines again."""
        self._saved -= part.size

    def read(self, part: NDArray[Any] | None, *, learned: bool) -> Table:
        """Read the table of a checkpoint. An invalid table raises ValueError.

        Without a table the names of earlier events are unknown. Lines that are already known are
        not parsed again, so a replica that follows checkpoints parses only new lines.
        """
        if part is None or not self.kept:
            table = Table()
            if self.kept and learned:
                table.leave_out()
            return table
        if part.dtype != np.uint8 or part.ndim != 1 or part.size > LONGEST + len(_line(*LEFT_OUT)):
            raise ValueError("names have a wrong type or are too long")
        data = part.tobytes()
        if data == self._table.log:
            return self._table
        table = self._table.copy() if data.startswith(self._table.log) else Table()
        try:
            entries = LINES.decode_lines(data[len(table.log) :])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError("names are not lines with a slot and a name") from error
        for slot, name in entries:
            if (slot, name) == LEFT_OUT and not table.left_out:
                table.leave_out()
            elif self._slots.bits and slot == self._slots.compute_slot(name):
                table.add(slot, name, float("inf"))
        if table.log != data:
            raise ValueError("names repeat, or a name does not belong to its slot")
        return table

    def load(self, table: Table | None = None) -> None:
        """Continue with a table that `read` returned, or with an empty one."""
        self._table = Table() if table is None else table
        self._saved = len(self._table.log)
        self._slots.forget()


def _line(slot: int, name: str) -> bytes:
    return msgspec.json.encode((slot, name)) + b"\n"
