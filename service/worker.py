"""The order of things: poll, decode, learn, count, keep rejected events, checkpoint. And nothing else.

State and positions move together: a checkpoint holds the state after exactly the records before its positions, so a
crash at any line costs a repetition, never a double count. Rejected events are in the dead-letter log before the
checkpoint that passes them.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from service.checkpoints import Store, StoreDown
from service.events import Decoder, Event, Reject
from service.health import Health
from service.metrics import Metrics
from service.model import Model
from service.sources.contract import Entry, Record, Sink, Source, SourceDown

log = logging.getLogger("onepass")

POLL_SECONDS = 0.2
LAG_SECONDS = 1.0
FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0
FINISH_SECONDS = 8.0
SAY_AGAIN_SECONDS = 30.0
LONGEST_LETTER = 900_000
"""Bytes of a rejected event that are kept: with its headers it must fit a broker's limit for one message."""


class Pace(NamedTuple):
    """How much is done between two looks up."""

    records: int
    """Most records of one round."""
    seconds: float
    events: int
    """A checkpoint is due after so many seconds or events, whichever comes first."""


class Worker:
    """One thread that turns the log into learned state."""

    def __init__(
        self,
        name: str,
        pace: Pace,
        model: Model,
        decoder: Decoder,
        store: Store,
        open_source: Callable[[], Source],
        open_sink: Callable[[], Sink | None],
        metrics: Metrics,
        health: Health,
        *,
        until_end: bool = False,
    ) -> None:
        self._name = name
        self._pace = pace
        self._model = model
        self._decoder = decoder
        self._store = store
        self._open_source = open_source
        self._open_sink = open_sink
        self._metrics = metrics
        self._health = health
        self._until_end = until_end
        self._source: Source | None = None
        self._sink: Sink | None = None
        self._positions: dict[str, str] | None = None
        self._letters: list[Entry] = []
        self._since = 0
        self._saved_at = self._lag_at = self._said_at = time.monotonic()

    def run(self, stop: threading.Event, after_round: Callable[[], None] = lambda: None) -> None:
        """Learn until told to stop (or until the end), whatever is away meanwhile; then leave a last checkpoint."""
        wait = FIRST_WAIT
        while not stop.is_set() and not self._finished():
            try:
                self.step()
                after_round()
                if self._health.source_up and self._health.store_up:
                    self._health.trouble = ""
                wait = FIRST_WAIT
            except (SourceDown, StoreDown) as error:
                self._note(error)
                stop.wait(wait)
                wait = min(LONGEST_WAIT, 2 * wait)
        self._finish()

    def step(self) -> None:
        """Connect if need be, then one round: records from the log into the state."""
        source = self._source or self._connected()
        self._keep_letters()
        records = source.poll(POLL_SECONDS, self._pace.records)
        if records:
            self._learn(records)
            self._positions = source.positions()
            self._keep_letters()
        self._measure(source)
        if self._due():
            self._checkpoint()

    def _connected(self) -> Source:
        """Restore the newest checkpoint (once), reach the log, and go on where the state is."""
        if self._positions is None:
            self._store.acquire()
            stored = self._store.load()
            if stored is not None:
                self._health.checkpoint, snapshot = stored
                self._model.restore(snapshot)
                log.info("restored generation %s: %s events", stored[0].generation, snapshot.events)
            self._health.store_up = True
            restored = stored[1].positions if stored else {}
        else:
            restored = self._positions
        source = self._open_source()
        source.seek(restored)
        if self._until_end:
            source.until_end()
        self._positions = source.positions()
        self._source = source
        self._health.source_up = self._health.ready = True
        self._health.lag = source.lag()
        return source

    def _learn(self, records: list[Record]) -> None:
        events: list[Event] = []
        origins: list[Record] = []
        rejects: list[tuple[Record, str]] = []
        for record in records:
            event = self._decoder.event(record.value)
            if isinstance(event, Reject):
                rejects.append((record, event.reason))
            else:
                events.append(event)
                origins.append(record)
        outcome = self._model.learn(events)
        rejects += [(origins[place], reason) for place, reason in outcome.refused]
        reasons = [reason for _, reason in rejects]
        self._model.count_rejects(reasons)
        self._metrics.learned(outcome.learned, outcome.errors, outcome.updates)
        self._metrics.rejected(reasons)
        self._letters += [self._letter(record, reason) for record, reason in rejects]
        self._since += len(records)

    def _letter(self, record: Record, reason: str) -> Entry:
        """The event as it came, with why and where; its key is its place, so a repetition can be recognised."""
        place = f"{self._name}:{record.partition}:{record.position}"
        headers = {"reason": reason, "partition": record.partition, "position": record.position}
        if len(record.value) > LONGEST_LETTER:
            headers["bytes"] = str(len(record.value))
        return Entry(
            record.value[:LONGEST_LETTER],
            place.encode(),
            tuple((name, value.encode()) for name, value in headers.items()),
        )

    def _keep_letters(self) -> None:
        """Nothing is polled and nothing is checkpointed while a rejected event has no safe place."""
        if self._letters:
            self._sink = self._sink or self._open_sink()
            if self._sink is not None:
                self._sink.append(self._letters)
            self._letters = []

    def _measure(self, source: Source) -> None:
        if time.monotonic() - self._lag_at >= LAG_SECONDS:
            self._lag_at = time.monotonic()
            self._health.lag = source.lag()
            self._health.source_up = True

    def _due(self) -> bool:
        waited = time.monotonic() - self._saved_at >= self._pace.seconds
        return self._since >= self._pace.events or (self._since > 0 and waited)

    def _checkpoint(self) -> None:
        assert self._positions is not None
        self._saved_at = time.monotonic()
        try:
            with self._metrics.checkpoint_seconds.time():
                self._health.checkpoint = self._store.save(self._model.snapshot(self._positions))
        except StoreDown:
            self._metrics.checkpoint_failed("down")
            raise
        self._health.store_up = True
        self._since = 0

    def _note(self, error: SourceDown | StoreDown) -> None:
        """Say now and then what is waited for; a lost connection to the log is opened anew, at our own positions."""
        if isinstance(error, StoreDown):
            self._health.store_up = False
        else:
            self._health.source_up = False
            self._disconnect()
        if str(error) != self._health.trouble or time.monotonic() - self._said_at >= SAY_AGAIN_SECONDS:
            log.warning("%s; trying again", error)
            self._said_at = time.monotonic()
        self._health.trouble = str(error)

    def _disconnect(self) -> None:
        for end in (self._source, self._sink):
            if end is not None:
                end.close()
        self._source = self._sink = None

    def _finished(self) -> bool:
        return self._until_end and self._source is not None and self._source.exhausted

    def _finish(self) -> None:
        """A last checkpoint of whatever has not had one; what cannot be written in time will be learned again."""
        self._health.ready = False
        deadline = time.monotonic() + FINISH_SECONDS
        while self._positions is not None and (self._since or self._letters or self._unsaved()):
            try:
                self._keep_letters()
                self._checkpoint()
            except (SourceDown, StoreDown) as error:
                if time.monotonic() >= deadline:
                    log.warning("stopped without a last checkpoint: %s", error)
                    break
                time.sleep(FIRST_WAIT)
        if self._source is not None:
            with contextlib.suppress(SourceDown):
                self._health.lag = self._source.lag()
        self._disconnect()
        self._store.close()

    def _unsaved(self) -> bool:
        """With `--until-end` there is a checkpoint to show, even of a log without events."""
        return self._until_end and self._health.checkpoint is None
