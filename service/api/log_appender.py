"""Append events that came over HTTP to the log: one thread with a short queue, which returns the
position of each event.
"""

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

from service.sources.base import Entry, Position, Sink, SourceUnavailableError

WAITING = 64
"""Events that may wait for the log; one more is refused. It is far below the limit of requests in
flight: a silent log keeps events waiting for seconds, and predictions must not wait behind them.
"""
APPEND_EVENTS = 64
"""Events: the most in one append."""
LONG = 65_536
"""Bytes: a longer event is appended alone, because the log may refuse it for its size, and with it
all events of the append.
"""

log = logging.getLogger("onepass")

Job = tuple[bytes, "Future[Position]"]


class LogBusyError(Exception):
    """Too many events wait to be appended to the log."""


class Appender:
    """Opens the log at the first event, and again after every error. `append` never blocks."""

    def __init__(self, open_log: Callable[[], Sink]) -> None:
        self._open_log = open_log
        self._sink: Sink | None = None
        self._jobs: queue.Queue[Job | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None
        self._down = False
        """Whether the last append failed."""

    def append(self, value: bytes) -> "Future[Position]":
        """Queue an event. The future gives its position in the log, or raises
        `SourceUnavailableError` if the log may lack the event. Only one thread may call this.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="appender", daemon=True)
            self._thread.start()
        future: Future[Position] = Future()
        try:
            self._jobs.put_nowait((value, future))
        except queue.Full:
            raise LogBusyError from None
        return future

    def close(self, seconds: float = 2.0) -> None:
        """End the thread, if the log answers in time."""
        if self._thread is None:
            return
        try:
            self._jobs.put(None, timeout=seconds)
        except queue.Full:
            return
        self._thread.join(seconds)

    def _work(self) -> None:
        stopping = False
        while not stopping:
            jobs = [self._jobs.get()]
            while len(jobs) < APPEND_EVENTS and not self._jobs.empty():
                jobs.append(self._jobs.get())
            stopping = None in jobs
            # Drop events whose request has timed out.
            wanted = [
                job for job in jobs if job is not None and job[1].set_running_or_notify_cancel()
            ]
            self._append([job for job in wanted if len(job[0]) <= LONG])
            for job in wanted:
                if len(job[0]) > LONG:
                    self._append([job])
        self._close_sink()

    def _append(self, jobs: list[Job]) -> None:
        if not jobs:
            return
        try:
            self._sink = self._sink or self._open_log()
            positions = self._sink.append([Entry(value) for value, _ in jobs])
        except Exception as error:  # noqa: BLE001 - a client library may raise anything
            self._fail(jobs, error)
            return
        if self._down:
            log.info("posted events are appended again")
        self._down = False
        for (_, future), position in zip(jobs, positions, strict=True):
            future.set_result(position)

    def _fail(self, jobs: list[Job], error: Exception) -> None:
        if not self._down:
            log.warning("posted events cannot be appended: %s", error)
        self._down = True
        self._close_sink()
        for _, future in jobs:
            future.set_exception(SourceUnavailableError("the log does not take events"))

    def _close_sink(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            try:
                sink.close()
            except Exception:  # noqa: BLE001 - it is not used again
                log.debug("the log's client failed to close")
