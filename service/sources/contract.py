"""What the worker asks of a log, whichever it is: records in order, and a position to come back to.

A position is opaque text of the source's own making; only the source that made it reads it. `Record.after` is where to
go on once the record is dealt with, so a checkpoint holds exactly the positions of what it has applied.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from service.errors import Protective

Positions = dict[str, str]
"""Next position per partition."""


class SourceDown(Exception):
    """The log cannot be reached or read now; trying again later is right."""


class SourceLost(Protective):
    """The log no longer holds what a position points at; going on would lose or repeat events."""


class Record(NamedTuple):
    """One message as it lies in the log."""

    partition: str
    position: str
    after: str
    value: bytes


class Entry(NamedTuple):
    """One message to append to a log."""

    value: bytes
    key: bytes = b""
    headers: tuple[tuple[str, bytes], ...] = ()


class Source(Protocol):
    """A log to learn from; used by one thread."""

    def seek(self, positions: Mapping[str, str]) -> None:
        """Go on at these positions; a partition without one starts at the configured start."""

    def until_end(self) -> None:
        """Deliver nothing beyond the end that the log has now (call after `seek`)."""

    def poll(self, seconds: float, most: int) -> list[Record]:
        """Up to `most` next records, waiting at most `seconds` for the first; none is no error."""

    def positions(self) -> Positions:
        """Where to go on after the last record that `poll` returned."""

    @property
    def exhausted(self) -> bool:
        """Whether everything up to the end set by `until_end` has been delivered."""

    def lag(self) -> dict[str, int]:
        """Records not yet delivered, per partition; asks the server, so it is the health probe too."""

    def close(self) -> None: ...


class Sink(Protocol):
    """A log to append to."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Append in order; on return the log has them all."""

    def close(self) -> None: ...
