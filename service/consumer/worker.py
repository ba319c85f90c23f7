"""Run the learner's loop: acquire, checkpoint, connect, poll, decode, learn, record.

State and positions move together: a checkpoint holds the state after exactly the records before its
positions. So after a crash at any line events are read again, but never counted twice. Rejected
events are in the dead-letter log before the checkpoint that passes them.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from service.checkpoint.store import Acquired, CorruptCheckpointError, StoreUnavailableError
from service.consumer.checkpointer import Checkpointer
from service.consumer.dead_letters import SideOutputs, SideOutputUnavailableError
from service.consumer.replica import Replica
from service.errors import UnfinishedError, UnsavedError
from service.failpoints import failpoint
from service.features.decoder import Decoder, Event
from service.features.reject import Reject
from service.model.model import Model
from service.model.scheduling import RequestGate, SliceSizer
from service.monitoring import Monitoring
from service.monitoring.health import Health
from service.sources.base import (
    Positions,
    Record,
    Source,
    SourceLostError,
    SourceUnavailableError,
)

log = logging.getLogger("onepass")

POLL_SECONDS = 0.2
"""Seconds that a poll waits for the first record."""
LAG_SECONDS = 1.0
"""Seconds between two measurements of the lag."""
FIRST_WAIT = 0.2
LONGEST_WAIT = 5.0
"""Seconds before the next attempt after a failure: the first wait, doubled each time, and the cap.
"""
PIECE_SECONDS = 0.25
"""Seconds of learning after which the stop signal and due checkpoints are checked within a batch.
"""
FINISH_SECONDS = 5.0
"""Seconds that the last checkpoint may take."""
CONNECT_SECONDS = 300.0
"""Seconds that connecting may take: a source may have to check much of the log first."""
REMIND_SECONDS = 30.0
"""Seconds after which a failure that goes on is logged again."""

STANDING_BY = "standing by: another learner of this model holds the lease"


class Reading(NamedTuple):
    """How the worker reads the log."""

    open_source: Callable[[], Source]
    max_poll_records: int
    until_end: bool = False
    """Stop at the end that the log has at the first connection."""
    patient: bool = False
    """Wait for the last checkpoint however long it takes."""


class Worker:
    """One thread that turns the log into learned state."""

    def __init__(
        self,
        reading: Reading,
        decoder: Decoder,
        model: Model,
        checkpointer: Checkpointer,
        replica: Replica | None,
        outputs: SideOutputs,
        gate: RequestGate,
        monitoring: Monitoring,
    ) -> None:
        self._reading = reading
        self._decoder = decoder
        self._model = model
        self._checkpointer = checkpointer
        self._replica = replica
        self._outputs = outputs
        self._gate = gate
        self._metrics = monitoring.metrics
        self._health = monitoring.health
        self._progress_log = ProgressLog(monitoring.health)
        self._source: Source | None = None
        self._end: Positions | None = None
        self._renew = threading.Event()
        self._stop = threading.Event()
        self._sizer = SliceSizer(reading.max_poll_records, PIECE_SECONDS)
        self._lag_measured_at = time.monotonic()

    def run(self, stop: threading.Event, after_round: Callable[[], None] = lambda: None) -> None:
        """Learn until `stop` is set or the end is reached, then commit a last checkpoint."""
        self._stop = stop
        try:
            self._learn_until(stop, after_round)
            at_end = self._at_end()
            self._finish()
        except SourceLostError:
            with contextlib.suppress(UnsavedError):
                self._finish()  # keep what was learned: the log cannot give it again
            raise
        finally:
            self._close()
        if self._reading.until_end and not at_end:
            raise UnfinishedError("stopped before the end that the log had at the start")

    def _learn_until(self, stop: threading.Event, after_round: Callable[[], None]) -> None:
        wait = FIRST_WAIT
        while not stop.is_set() and not self._at_end():
            try:
                waiting = self.step()
                after_round()
                wait = FIRST_WAIT
            except (SourceUnavailableError, StoreUnavailableError) as error:
                self._note_unavailable(error)
                wait = min(LONGEST_WAIT, 2 * wait)
                stop.wait(wait)
                continue
            self._progress_log.report(failing=self._checkpointer.last_error, waiting=waiting)
            if waiting:
                stop.wait(FIRST_WAIT)

    def step(self) -> str:
        """Do one round. Return why nothing may be learned now, or an empty text."""
        if not self._checkpointer.owns_lease and not self._acquire():
            return STANDING_BY
        if not self._outputs:  # rejected events are in their log, so a checkpoint may pass them
            self._checkpointer.tick()
        source = self._source or self._connect()
        self._outputs.flush()
        self._measure_lag(source)
        if reason := self._checkpointer.pause_reason:
            self._health.moved_at = time.monotonic()
            return reason
        limit = self._gate.poll_limit(self._reading.max_poll_records)
        with self._health.in_log():
            records = source.poll(POLL_SECONDS, limit)
        if records:
            self._apply(records)
        else:
            self._checkpointer.record(())
            self._check_progress(moved=False)
        return ""

    def renew_source(self) -> None:
        """Reconnect soon. The watchdog's thread calls it if the log has more, but nothing comes."""
        self._renew.set()

    def _acquire(self) -> bool:
        """Become the learner that may write. If another one is, follow it and return False."""
        acquired = self._checkpointer.acquire()
        if acquired is Acquired.HELD_ELSEWHERE:
            self._disconnect()
            self._health.lag = {}
            if self._replica is not None:
                # The holder of the lease deals with damage.
                with contextlib.suppress(CorruptCheckpointError):
                    self._replica.step()
            return False
        if acquired is Acquired.STALE:
            self._disconnect()
            self._outputs.forget()  # their records are read again
            self._health.ready |= self._health.checkpoint is not None
            if self._replica is not None:
                self._replica.stop_following()
        return True

    def _connect(self) -> Source:
        """Open the log, and seek right after the records that the model has applied."""
        self._renew.clear()
        with self._health.in_log(CONNECT_SECONDS):
            source = self._reading.open_source()
            try:
                source.seek(self._checkpointer.position)
                failpoint("after_seek")
                if self._reading.until_end:
                    self._end = source.stop_at_end(self._end)
                self._health.lag = source.lag()
            except BaseException:
                source.close()
                raise
        self._source = source
        self._checkpointer.attach(source)
        self._check_progress(moved=True)
        self._health.source_up = True
        self._health.ready = True
        return source

    def _measure_lag(self, source: Source) -> None:
        if time.monotonic() - self._lag_measured_at >= LAG_SECONDS:
            self._lag_measured_at = time.monotonic()
            with self._health.in_log():
                self._health.lag = source.lag()
            self._health.source_up = True
            self._checkpointer.record(())  # a gap is recorded before the records that follow it

    def _apply(self, records: list[Record]) -> None:
        """Learn a batch in pieces, so that a stop signal or a due checkpoint need not wait for all
        of it.

        After each piece the position is right behind it. If the batch ends early, the rest is
        polled again.
        """
        taken = 0
        try:
            while taken < len(records):
                piece = self._learn(records[taken:])
                taken += len(piece)
                self._checkpointer.record(piece, None if taken == len(records) else taken)
                self._check_progress(moved=True)
                self._outputs.flush()
                if taken < len(records):
                    self._checkpointer.tick()
                    if self._stop.is_set() or not self._checkpointer.owns_lease:
                        break
        finally:
            if taken < len(records):
                self._disconnect()  # the log's client is ahead of the position

    def _learn(self, records: list[Record]) -> list[Record]:
        """Learn the first records, for about `PIECE_SECONDS`. Return those that were learned or
        rejected.
        """
        began = time.monotonic()
        events: list[Event] = []
        origins: list[Record] = []
        rejects: list[tuple[Record, Reject]] = []
        for record in self._gate.iterate(records[: self._sizer.rows]):
            event = self._decoder.event(record.value)
            if isinstance(event, Reject):
                rejects.append((record, event))
            else:
                events.append(event)
                origins.append(record)
            if time.monotonic() - began >= PIECE_SECONDS:
                break
        piece = records[: len(events) + len(rejects)]
        result = self._model.learn(events, origins)
        rejects += [(origins[row], Reject(reason)) for row, reason in result.refused]
        reasons = [reject.reason for _, reject in rejects]
        self._model.count_rejects(reasons)
        self._metrics.learned(result, piece[-1].written)
        self._metrics.rejected(reasons)
        self._health.note_rejects(rejects)
        self._outputs.add(rejects, result.alarms)
        self._sizer.took(len(piece), time.monotonic() - began)
        return piece

    def _check_progress(self, *, moved: bool) -> None:
        """After each call to the log, report to the watchdog, and reconnect if it asks for that."""
        if moved or not any(self._health.lag.values()):
            self._health.moved_at = time.monotonic()
        if self._renew.is_set():
            self._renew.clear()
            raise SourceUnavailableError("the log has more, but nothing comes; reconnecting")

    def _note_unavailable(self, error: SourceUnavailableError | StoreUnavailableError) -> None:
        if isinstance(error, SourceUnavailableError):
            # A dead-letter log that is unavailable says nothing about the source.
            self._health.source_up &= isinstance(error, SideOutputUnavailableError)
            self._disconnect()
        self._progress_log.report(failing=str(error))

    def _disconnect(self) -> None:
        if self._source is not None:
            self._source.close()
        self._source = None
        self._checkpointer.detach()
        self._outputs.close()

    def _at_end(self) -> bool:
        return self._reading.until_end and self._source is not None and self._source.at_end

    def _finish(self) -> None:
        """Commit a last checkpoint. Events that it cannot hold in time are learned again after a
        restart.
        """
        self._health.ready = False
        failpoint("in_stop")
        seconds = float("inf") if self._reading.patient else FINISH_SECONDS
        deadline = time.monotonic() + seconds
        try:
            self._outputs.flush_before(deadline)
        except SourceUnavailableError as error:
            raise UnsavedError(f"stopped without a last checkpoint: {error}") from error
        reason = self._checkpointer.finish(deadline, always=self._reading.until_end)
        if reason:
            raise UnsavedError(f"stopped without a last checkpoint: {reason}")

    def _close(self) -> None:
        """Close the log and give the lease back, however the loop ended."""
        self._health.ready = False
        if self._source is not None:
            with contextlib.suppress(SourceUnavailableError, SourceLostError):
                self._health.lag = self._source.lag()
        self._disconnect()
        self._checkpointer.close()


class ProgressLog:
    """Logs why learning waits when the reason changes. A failure that goes on is logged repeatedly.
    `Health` has the reason too.
    """

    def __init__(self, health: Health) -> None:
        self._health = health
        self._last = ""
        self._warned_at = 0.0

    def report(self, *, failing: str = "", waiting: str = "") -> None:
        """`failing` is retried, `waiting` is not a fault; with neither, learning goes on."""
        text = "; ".join(filter(None, (waiting, failing)))
        repeat = time.monotonic() - self._warned_at >= REMIND_SECONDS
        if failing and (text != self._last or repeat):
            log.warning("%s; retrying", text)
            self._warned_at = time.monotonic()
        elif text != self._last:
            log.info("%s", text or "learning goes on")
        self._last = text
        self._health.trouble = text
