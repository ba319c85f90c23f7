"""What the worker asks of a log, whichever it is: records in order, and a position to come back to.

A position is opaque text of the source's own making; only the source that made it reads it. `Record.after` is where to
go on once the record is dealt with, so a checkpoint holds exactly the positions of what it has applied.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from service.errors import Protective
from service.log_settings import Security

Positions = dict[str, str]
"""Next position per partition."""


Loss = Literal["retention", "recreated", "truncated", "corrupt"]
"""Why a part of the log cannot be delivered any more."""


class Bookmark(NamedTuple):
    """Where to go on in a log, and what must still be true of it there."""

    positions: Positions
    marks: dict[str, str]
    """Of the source's own making: which log it was (key ""), and per partition the record before the position."""


BEGINNING = Bookmark({}, {})
"""No partition has a position: each starts at the configured start."""


class Gap(NamedTuple):
    """A stretch of a partition that was passed over, since the log no longer has it and the policy says to go on."""

    partition: str
    start: str
    end: str
    """The first position that is delivered again."""
    events: int
    """Positions passed over; 0 where the old log cannot be counted (it was recreated)."""
    reason: Loss


class Options(NamedTuple):
    """How a log is read or written, beside its address; each kind takes what concerns it."""

    client: Literal["kafka-python", "confluent"] = "kafka-python"
    on_lost: Literal["fail", "earliest", "latest"] = "fail"
    """When the log has lost what the bookmark points at: stop, or go on at its start or end with the gap told.

    Only an unreadable stretch is passed over alike by both: reading goes on right behind it.
    """
    security: Security | None = None
    group: str | None = None
    """Consumer group under which durable positions are shown to lag tools; never read."""
    only: str | None = None
    """Read this partition alone."""


PLAIN = Options()


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
    written: float | None = None
    """When the log says that it came, in seconds since the epoch."""


class Entry(NamedTuple):
    """One message to append to a log."""

    value: bytes
    key: bytes = b""
    headers: tuple[tuple[str, bytes], ...] = ()


class Place(NamedTuple):
    """Where an appended entry lies; a source that reads it names the same in its `Record`."""

    partition: str
    position: str


class Source(Protocol):
    """A log to learn from; used by one thread."""

    def seek(self, bookmark: Bookmark) -> None:
        """Go on there; a partition without a position starts at the configured start (a new one at its beginning).

        A log that does not fit the bookmark is `SourceLost`, or by policy a gap.
        """

    def until_end(self, end: Positions | None = None) -> Positions:
        """Deliver nothing beyond `end`, or beyond the end that the log has now; that end (call after `seek`)."""

    def poll(self, seconds: float, most: int) -> list[Record]:
        """Up to `most` next records, waiting at most `seconds` for the first; none is no error."""

    def bookmark(self) -> Bookmark:
        """Where to go on after the last record that `poll` returned."""

    def gaps(self) -> list[Gap]:
        """What was passed over since the last call; to be recorded with the next bookmark."""

    def settled(self, positions: Positions) -> None:
        """These positions are in a checkpoint: tell lag tools, if there is a way; never waits, never fails."""

    @property
    def exhausted(self) -> bool:
        """Whether everything up to the end set by `until_end` has been delivered."""

    def lag(self) -> dict[str, int]:
        """Records not yet delivered, per partition; asks the server, so it is the health probe too."""

    def close(self) -> None: ...


class Sink(Protocol):
    """A log to append to."""

    def append(self, entries: Sequence[Entry]) -> list[Place]:
        """Append in order; on return the log has them all, each at its place."""

    def close(self) -> None: ...
