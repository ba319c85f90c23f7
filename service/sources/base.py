"""The contract of a log: `Source` reads records in order from a position, `Sink` appends entries.

A position is opaque text, which only the source that made it can read. `Record.after` is the
position after the record, so a checkpoint holds exactly the positions that follow the applied
records. A checkpoint stores every position under the name of its log. In another log the same
offset means other events, so no checkpoint is continued there.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from service.config.settings import Security
from service.errors import ProtectiveError

Positions = dict[str, str]
"""Next position per partition."""

Loss = Literal["retention", "recreated", "truncated", "corrupt"]
"""Why the log can no longer deliver a part of its records."""


class SourceUnavailableError(Exception):
    """The log cannot be reached or read now. Try again later."""


class SourceLostError(ProtectiveError):
    """The log no longer has the records after a position. To go on would lose or repeat events."""


class Bookmark(NamedTuple):
    """Positions of all partitions of a log, and anchors that show whether it is the same log."""

    positions: Positions
    marks: dict[str, str]
    """Anchors, which only the source writes and reads. The key "" names the log. The other keys are
    partitions, with the record before the position."""

    def qualified(self, log_name: str) -> "Bookmark":
        """Put each position under the name of its log, as a checkpoint stores it."""
        return Bookmark({f"{log_name}/{key}": at for key, at in self.positions.items()}, self.marks)

    def local(self, log_name: str) -> "Bookmark":
        """Undo `qualified`. Raise `SourceLostError` if the bookmark belongs to another log."""
        others = sorted({key.rpartition("/")[0] for key in self.positions} - {log_name})
        if others:
            other = f"the log {others[0]}" if others[0] else "a log without a name"
            raise SourceLostError(
                f"the checkpoint belongs to {other}, but the source is {log_name}; use another"
                " `name`"
            )
        positions = {key.rpartition("/")[2]: at for key, at in self.positions.items()}
        return Bookmark(positions, self.marks)


BEGINNING = Bookmark({}, {})
"""No partition has a position: each starts at the configured start."""


class Gap(NamedTuple):
    """Records of a partition that the reader skipped, by policy, because the log lost them."""

    partition: str
    start: str
    end: str
    """The first position after the gap."""
    events: int
    """Number of skipped positions. 0 if the log was recreated: then they cannot be counted."""
    reason: Loss


class Options(NamedTuple):
    """How to read or write a log. Each kind of log uses the options that concern it."""

    client: Literal["kafka-python", "confluent"] = "kafka-python"
    on_data_loss: Literal["fail", "earliest", "latest"] = "fail"
    """If the log lost records after the bookmark: stop, or go on at its start or end and report the
    gap. After an unreadable batch both `earliest` and `latest` go on right behind the batch."""
    security: Security | None = None
    group: str | None = None
    """Consumer group that gets the durable positions, for lag tools. It is never read."""
    only: str | None = None
    """Read only this partition."""


PLAIN = Options()


class Record(NamedTuple):
    """One message of a log."""

    partition: str
    position: str
    after: str
    value: bytes
    written: float | None = None
    """Seconds since the epoch: when the record arrived in the log."""


class Entry(NamedTuple):
    """One message to append to a log."""

    value: bytes
    key: bytes = b""
    headers: tuple[tuple[str, bytes], ...] = ()


class Position(NamedTuple):
    """Where an appended entry is. The `Record` of the entry has the same partition and position."""

    partition: str
    position: str


class Source(Protocol):
    """A log to learn from. One thread uses it."""

    def seek(self, bookmark: Bookmark) -> None:
        """Continue from the bookmark.

        Without any position every partition begins at the configured start. A partition that was
        added later begins at its first record. If the log does not fit the bookmark, raise
        `SourceLostError` or, by policy, report a gap.
        """

    def stop_at_end(self, end: Positions | None = None) -> Positions:
        """Deliver nothing beyond `end`, or beyond the present end of the log. Return that end.

        Call it after `seek`.
        """

    def poll(self, seconds: float, most: int) -> list[Record]:
        """Return up to `most` next records, or none. Wait at most `seconds` for the first."""

    def bookmark(self, taken: int | None = None) -> Bookmark:
        """Return the bookmark after the last record that `poll` returned.

        With `taken`, 1 or more, return the bookmark after the first `taken` of these records.
        """

    def gaps(self) -> list[Gap]:
        """Return the gaps since the last call. The caller records them with the next bookmark."""

    def checkpointed(self, positions: Positions) -> None:
        """Show lag tools the positions of a checkpoint, if there is a way. Never wait or fail."""

    @property
    def at_end(self) -> bool:
        """Whether everything up to the end that `stop_at_end` set was delivered."""

    def lag(self) -> dict[str, int]:
        """Count the records not yet delivered, per partition.

        It asks the server, so it is the health probe too.
        """

    def close(self) -> None: ...


class Sink(Protocol):
    """A log to append to."""

    def append(self, entries: Sequence[Entry]) -> list[Position]:
        """Append the entries in order. Return their positions once the log has them all."""

    def close(self) -> None: ...
