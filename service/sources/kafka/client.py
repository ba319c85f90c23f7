"""What the Kafka source needs of a client library: `Client`, one connection that reads."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from service.sources.kafka.bad_batches import Unreadable


class Message(NamedTuple):
    """One record as a client returns it."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class Bounds(NamedTuple):
    """Offsets that a partition holds: from `first` up to, but not including, `last`."""

    first: int
    last: int


class PositionOutOfRangeError(Exception):
    """A partition does not have the offset that was asked for."""


class BadBatchError(Exception):
    """A batch cannot be read. `where` is None if it could be read after all."""

    def __init__(self, where: Unreadable | None, why: str) -> None:
        super().__init__(why)
        self.where = where


class Client(Protocol):
    """One connection that reads.

    Any exception but `PositionOutOfRangeError`, `BadBatchError` and `SourceUnavailableError` leaves
    it unusable.
    """

    spent: bool
    """Whether it has fetched more than it may unpack at once. Another client must continue."""

    def partitions(self) -> set[int]:
        """Return the partitions. The client asks for them at least every 30 s."""

    def identity(self) -> str:
        """Return cluster/topic-id, as new as `partitions`. An unknown part is empty."""

    def bounds(self, partitions: set[int]) -> dict[int, Bounds]:
        """Ask the broker for the offsets that each partition holds."""

    def read(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others."""

    def pause(self, partitions: set[int]) -> None:
        """Fetch no more of these partitions."""

    def poll(self, seconds: float, most: int) -> tuple[list[Message], dict[int, int]]:
        """Return the next messages, and the positions behind offsets that hold no message."""

    def close(self) -> None: ...
