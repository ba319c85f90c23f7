"""Write the side outputs of the learner: dead letters, which are rejected events with reason and
position, and drift alarms.

Learning waits until a configured log has them. So the log has them before the checkpoint that
passes their record. After a crash it may have them twice. Alarms without a configured log are
written to a log beside the source where possible, and learning does not wait for them.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from service.failpoints import failpoint
from service.features.reject import Reject
from service.model.alarms import Alarm
from service.sources.base import Entry, Record, Sink, SourceUnavailableError

RETRY_SECONDS = 0.2
"""Seconds between two attempts to flush before the process stops."""
LOGGED_ALARMS = 5
"""Alarms of one batch that get a line of the process log each."""
LONGEST = 900_000
"""Bytes of a rejected event that are kept. With its headers it must fit a broker's limit for one
message.
"""
OPTIONAL_RETRY_SECONDS = 60.0
"""Seconds until an alarm log that nobody configured is tried again."""

log = logging.getLogger("onepass")

OpenSink = Callable[[], Sink | None]


class SideOutputUnavailableError(SourceUnavailableError):
    """The dead-letter or alarm log cannot be written; the source itself may be available."""


def no_sink() -> None:
    """Open no log, for a learner that keeps no dead letters or alarms."""


class SideOutputs:
    """Queues rejected events and alarms until their logs have them. The key of an entry names its
    position, so duplicates can be recognised.
    """

    def __init__(
        self,
        model: str,
        open_dead: OpenSink = no_sink,
        open_alarms: OpenSink = no_sink,
        *,
        wait_for_alarms: bool = True,
        quiet: bool = False,
    ) -> None:
        self._model = model
        self._quiet = quiet
        self._logged_reasons: set[str] = set()
        self._dead = _Outbox(open_dead, wait=True)
        self._alarms = _Outbox(open_alarms, wait=wait_for_alarms)

    def __len__(self) -> int:
        return len(self._dead.waiting) + len(self._alarms.waiting)

    def add(self, rejects: Iterable[tuple[Record, Reject]], alarms: Sequence[Alarm]) -> None:
        """Queue rejected events and alarms, and log some of them."""
        for record, reject in rejects:
            self._dead.waiting.append(self._make_dead_letter(record, reject))
            self._log_first(record, reject)
        self._alarms.waiting += [alarm.entry(self._model) for alarm in alarms]
        if not self._quiet:
            for alarm in alarms[:LOGGED_ALARMS]:
                log.info("%s", alarm.message)
            if len(alarms) > LOGGED_ALARMS:
                log.info("%s more alarms in the same batch", f"{len(alarms) - LOGGED_ALARMS:,}")

    def _log_first(self, record: Record, reject: Reject) -> None:
        """Log the first reject of each reason, so that a producer that sends nothing else is
        noticed.
        """
        if self._quiet or reject.reason in self._logged_reasons:
            return
        self._logged_reasons.add(reject.reason)
        where = f"partition {record.partition}, position {record.position}"
        text = "an event was rejected (%s): %s; %s; further rejects of this reason are only counted"
        log.warning(text, reject.reason, reject.message, where)

    def _make_dead_letter(self, record: Record, reject: Reject) -> Entry:
        key = f"{self._model}:{record.partition}:{record.position}"
        headers = {
            "reason": reject.reason,
            "partition": record.partition,
            "position": record.position,
        }
        if reject.character is not None:
            headers["character"] = str(reject.character)
        if len(record.value) > LONGEST:
            headers["bytes"] = str(len(record.value))
        encoded = tuple((name, value.encode()) for name, value in headers.items())
        return Entry(record.value[:LONGEST], key.encode(), encoded)

    def flush(self) -> None:
        """Append the queued entries. On return the logs have them, or there is no log for them."""
        self._dead.flush()
        self._alarms.flush()

    def flush_before(self, deadline: float) -> None:
        """Append the queued entries, retrying until the deadline."""
        while True:
            try:
                return self.flush()
            except SourceUnavailableError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(RETRY_SECONDS)

    def forget(self) -> None:
        """Drop the queued entries: their records are read again."""
        self._dead.waiting = []
        self._alarms.waiting = []

    def close(self) -> None:
        self._dead.close()
        self._alarms.close()


class _Outbox:
    """One log, opened when the first entry is queued."""

    def __init__(self, open_sink: OpenSink, *, wait: bool) -> None:
        self._open_sink = open_sink
        self._wait = wait
        self._not_before = 0.0
        self._sink: Sink | None = None
        self.waiting: list[Entry] = []

    def flush(self) -> None:
        if not self.waiting:
            return
        try:
            if time.monotonic() >= self._not_before:
                self._sink = self._sink or self._open_sink()
                if self._sink is not None:
                    self._sink.append(self.waiting)
        except SourceUnavailableError as error:
            if self._wait:
                raise SideOutputUnavailableError(str(error)) from error
            self.close()
            self._not_before = time.monotonic() + OPTIONAL_RETRY_SECONDS
            log.warning("the alarm log cannot be written, /status still has the alarms: %s", error)
        failpoint("in_letters")
        self.waiting = []

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()
        self._sink = None
