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
from service.letters import Letters
from service.metrics import Metrics
from service.model import Model
from service.sources.contract import Record, Sink, Source, SourceDown, SourceLost

log = logging.getLogger("onepass")

POLL_SECONDS = 0.2
LAG_SECONDS = 1.0
FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0
FINISH_SECONDS = 5.0
SAY_AGAIN_SECONDS = 30.0


class Unsaved(Exception):
    """The last events are not in a checkpoint; they will be learned again."""


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
        log_name: str,
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
        self._log_name = log_name
        self._pace = pace
        self._model = model
        self._decoder = decoder
        self._store = store
        self._open_source = open_source
        self._metrics = metrics
        self._health = health
        self._until_end = until_end
        self._source: Source | None = None
        self._positions: dict[str, str] | None = None
        self._letters = Letters(name, open_sink)
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
        self._letters.deliver()  # nothing is polled or checkpointed while a rejected event has no safe place
        records = source.poll(POLL_SECONDS, self._pace.records)
        if records:
            self._learn(records)
            self._positions = source.positions()
            self._letters.deliver()
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
            restored = self._own(stored[1].positions) if stored else {}
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

    def _own(self, positions: dict[str, str]) -> dict[str, str]:
        """Positions without the name of the log, which must be ours: in another log they would mean other events."""
        strange = sorted({key.rpartition("/")[0] for key in positions} - {self._log_name})
        if strange:
            raise SourceLost(
                f"the checkpoint is of the log {strange[0]}, the source is {self._log_name}; use another `name`"
            )
        return {key.rpartition("/")[2]: position for key, position in positions.items()}

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
        for record, reason in rejects:
            self._letters.add(record, reason)
        self._since += len(records)

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
                positions = {f"{self._log_name}/{key}": at for key, at in self._positions.items()}
                self._health.checkpoint = self._store.save(self._model.snapshot(positions))
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
        if self._source is not None:
            self._source.close()
        self._source = None
        self._letters.close()

    def _finished(self) -> bool:
        return self._until_end and self._source is not None and self._source.exhausted

    def _finish(self) -> None:
        """A last checkpoint of whatever has not had one; what cannot be written in time will be learned again."""
        self._health.ready = False
        deadline = time.monotonic() + FINISH_SECONDS
        try:
            self._save_the_rest(deadline)
        finally:
            if self._source is not None:
                with contextlib.suppress(SourceDown, SourceLost):
                    self._health.lag = self._source.lag()
            self._disconnect()
            self._store.close()

    def _save_the_rest(self, deadline: float) -> None:
        while self._positions is not None and (self._since or self._letters or self._unsaved()):
            try:
                self._letters.deliver()
                self._checkpoint()
            except (SourceDown, StoreDown) as error:
                if time.monotonic() >= deadline:
                    raise Unsaved(f"stopped without a last checkpoint: {error}") from error
                time.sleep(FIRST_WAIT)

    def _unsaved(self) -> bool:
        """With `--until-end` there is a checkpoint to show, even of a log without events."""
        return self._until_end and self._health.checkpoint is None
