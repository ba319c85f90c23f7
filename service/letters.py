"""Rejected events on their way to the dead-letter log: as they came, with why and where."""

import time
from collections.abc import Callable

from service.failpoints import reach
from service.sources.contract import Entry, Record, Sink, SourceDown

RETRY_SECONDS = 0.2
LONGEST = 900_000
"""Bytes of a rejected event that are kept: with its headers it must fit a broker's limit for one message."""


class Letters:
    """Events wait here until the log has them; a letter's key is its place, so a repetition can be recognised."""

    def __init__(self, model: str, open_sink: Callable[[], Sink | None]) -> None:
        self._model = model
        self._open_sink = open_sink
        self._sink: Sink | None = None
        self._waiting: list[Entry] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, record: Record, reason: str) -> None:
        place = f"{self._model}:{record.partition}:{record.position}"
        headers = {"reason": reason, "partition": record.partition, "position": record.position}
        if len(record.value) > LONGEST:
            headers["bytes"] = str(len(record.value))
        named = tuple((name, value.encode()) for name, value in headers.items())
        self._waiting.append(Entry(record.value[:LONGEST], place.encode(), named))

    def deliver(self) -> None:
        """Append what waits; on return the log has it, or there is none to have it."""
        if self._waiting:
            self._sink = self._sink or self._open_sink()
            if self._sink is not None:
                self._sink.append(self._waiting)
            reach("in_letters")
            self._waiting = []

    def deliver_before(self, deadline: float) -> None:
        """Append what waits, trying until then."""
        while True:
            try:
                return self.deliver()
            except SourceDown:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(RETRY_SECONDS)

    def forget(self) -> None:
        """What waits is of records that will be read again."""
        self._waiting = []

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()
        self._sink = None
