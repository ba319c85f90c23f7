"""What the Kafka source asks of a client library: a connection that reads, thrown away at the first trouble."""

from collections.abc import Mapping
from typing import Protocol

from service.sources.kafka_batches import Unreadable
from service.sources.kafka_place import Bounds, Message


class OutOfRange(Exception):
    """A partition does not have the offset that was asked for."""


class BadBatch(Exception):
    """A batch cannot be read: its place, or None when it is read well after all."""

    def __init__(self, where: Unreadable | None, why: str) -> None:
        super().__init__(why)
        self.where = where


class Client(Protocol):
    """One connection that reads; any exception but these leaves it unusable: OutOfRange, BadBatch, SourceDown."""

    def partitions(self) -> set[int]:
        """As known now: asked anew at least every 30 s."""

    def identity(self) -> str:
        """The mark cluster/topic-id, as new as `partitions`; a part that the broker does not tell is empty."""

    def bounds(self, partitions: set[int]) -> dict[int, Bounds]:
        """Asks the server."""

    def read(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from there on, and no other."""

    def rest(self, partitions: set[int]) -> None:
        """Fetch no more of these."""

    def poll(self, seconds: float, most: int) -> tuple[list[Message], dict[int, int]]:
        """Next messages, and positions reached where offsets had no message for us."""

    def close(self) -> None: ...
