"""What the learner writes beside its state: rejected events, as they came, with why and where; and alarms.

Both are in their logs before the checkpoint that passes their records; after a crash some may be there twice.
"""

import time
from collections.abc import Callable, Iterable

from service.alarms import Alarm
from service.failpoints import reach
from service.sources.contract import Entry, Record, Sink, SourceDown

RETRY_SECONDS = 0.2
LONGEST = 900_000
"""Bytes of a rejected event that are kept: with its headers it must fit a broker's limit for one message."""

OpenSink = Callable[[], Sink | None]


def nowhere() -> None:
    """The sink of those who keep none."""


class Letters:
    """Events and alarms wait here until their logs have them; a key is a place, so a repetition can be recognised."""

    def __init__(self, model: str, open_dead: OpenSink = nowhere, open_alarms: OpenSink = nowhere) -> None:
        self._model = model
        self._dead = _Outbox(open_dead)
        self._alarms = _Outbox(open_alarms)

    def __len__(self) -> int:
        return len(self._dead.waiting) + len(self._alarms.waiting)

    def post(self, rejects: Iterable[tuple[Record, str]], alarms: Iterable[Alarm]) -> None:
        self._dead.waiting += [self._letter(record, reason) for record, reason in rejects]
        self._alarms.waiting += [alarm.entry(self._model) for alarm in alarms]

    def _letter(self, record: Record, reason: str) -> Entry:
        place = f"{self._model}:{record.partition}:{record.position}"
        headers = {"reason": reason, "partition": record.partition, "position": record.position}
        if len(record.value) > LONGEST:
            headers["bytes"] = str(len(record.value))
        named = tuple((name, value.encode()) for name, value in headers.items())
        return Entry(record.value[:LONGEST], place.encode(), named)

    def deliver(self) -> None:
        """Append what waits; on return the logs have it, or there are none to have it."""
        self._dead.deliver()
        self._alarms.deliver()

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
        self._dead.waiting, self._alarms.waiting = [], []

    def close(self) -> None:
        self._dead.close()
        self._alarms.close()


class _Outbox:
    """One log, opened when there is something for it."""

    def __init__(self, open_sink: OpenSink) -> None:
        self._open_sink = open_sink
        self._sink: Sink | None = None
        self.waiting: list[Entry] = []

    def deliver(self) -> None:
        if self.waiting:
            self._sink = self._sink or self._open_sink()
            if self._sink is not None:
                self._sink.append(self.waiting)
            reach("in_letters")
            self.waiting = []

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()
        self._sink = None
