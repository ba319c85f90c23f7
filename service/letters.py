"""What the learner writes beside its state: rejected events, as they came, with why and where; and alarms.

What has a log of its own by the settings is there before the checkpoint that passes its record, after a crash perhaps
twice; learning waits for it. Alarms that nobody asked for are written beside the source if that can be had.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from service.alarms import Alarm
from service.failpoints import reach
from service.reasons import Reject
from service.sources.contract import Entry, Record, Sink, SourceDown

RETRY_SECONDS = 0.2
TOLD = 5
"""Alarms of a batch that are told one by one in the process's own log."""
LONGEST = 900_000
"""Bytes of a rejected event that are kept: with its headers it must fit a broker's limit for one message."""

AGAIN_SECONDS = 60.0
"""Until a log that need not be there is tried again."""

log = logging.getLogger("onepass")

OpenSink = Callable[[], Sink | None]


class SideDown(SourceDown):
    """A log beside the source cannot be written; the source itself may well be there."""


def nowhere() -> None:
    """The sink of those who keep none."""


class Letters:
    """Events and alarms wait here until their logs have them; a key is a place, so a repetition can be recognised."""

    def __init__(
        self,
        model: str,
        open_dead: OpenSink = nowhere,
        open_alarms: OpenSink = nowhere,
        *,
        wait_for_alarms: bool = True,
        tells: bool = True,
    ) -> None:
        self._model = model
        self._tells = tells
        self._told: set[str] = set()
        self._dead = _Outbox(open_dead, wait=True)
        self._alarms = _Outbox(open_alarms, wait=wait_for_alarms)

    def __len__(self) -> int:
        return len(self._dead.waiting) + len(self._alarms.waiting)

    def post(self, rejects: Iterable[tuple[Record, Reject]], alarms: Sequence[Alarm]) -> None:
        for record, reject in rejects:
            self._dead.waiting.append(self._letter(record, reject))
            self._tell(record, reject)
        self._alarms.waiting += [alarm.entry(self._model) for alarm in alarms]
        if self._tells:
            for alarm in alarms[:TOLD]:
                log.info("%s", alarm.words)
            if len(alarms) > TOLD:
                log.info("%s more alarms in the same batch", f"{len(alarms) - TOLD:,}")

    def _tell(self, record: Record, reject: Reject) -> None:
        """The first of each reason: a producer that sends nothing else is found by a look at the log of the process."""
        if self._tells and reject.reason not in self._told:
            self._told.add(reject.reason)
            where = f"partition {record.partition}, position {record.position}"
            words = "an event was rejected (%s): %s; %s; more of this reason are counted and not told"
            log.warning(words, reject.reason, reject.message, where)

    def _letter(self, record: Record, reject: Reject) -> Entry:
        place = f"{self._model}:{record.partition}:{record.position}"
        headers = {"reason": reject.reason, "partition": record.partition, "position": record.position}
        if reject.character is not None:
            headers["character"] = str(reject.character)
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

    def __init__(self, open_sink: OpenSink, *, wait: bool) -> None:
        self._open_sink = open_sink
        self._wait = wait
        self._not_before = 0.0
        self._sink: Sink | None = None
        self.waiting: list[Entry] = []

    def deliver(self) -> None:
        if not self.waiting:
            return
        try:
            if time.monotonic() >= self._not_before:
                self._sink = self._sink or self._open_sink()
                if self._sink is not None:
                    self._sink.append(self.waiting)
        except SourceDown as error:
            if self._wait:
                raise SideDown(str(error)) from error
            self.close()
            self._not_before = time.monotonic() + AGAIN_SECONDS
            log.warning("the log of alarms cannot be written, they are in /status: %s", error)
        reach("in_letters")
        self.waiting = []

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()
        self._sink = None
