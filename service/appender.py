"""Events that came over HTTP on their way into the log: one thread, a short queue, and a place for each event."""

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

from service.sources.contract import Entry, Place, Sink, SourceDown

WAITING = 64
"""Events that may wait for the log; one more is refused. Far fewer than requests may be in flight: a silent log keeps
them waiting for seconds, and predictions must not wait behind them."""
TOGETHER = 64
"""Most events of one append."""
LONG = 65_536
"""An event of more bytes goes alone: one that the log refuses for its size must not take others with it."""

log = logging.getLogger("onepass")

Job = tuple[bytes, "Future[Place]"]


class Busy(Exception):
    """More events wait than may."""


class Appender:
    """Opens the log at the first event, and again after every trouble; `append` never waits."""

    def __init__(self, open_log: Callable[[], Sink]) -> None:
        self._open_log = open_log
        self._sink: Sink | None = None
        self._jobs: queue.Queue[Job | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None
        self._down = False

    def append(self, value: bytes) -> "Future[Place]":
        """Where the log has it, once it does; `SourceDown` if it may not. Called by one thread only."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="appender", daemon=True)
            self._thread.start()
        future: Future[Place] = Future()
        try:
            self._jobs.put_nowait((value, future))
        except queue.Full:
            raise Busy from None
        return future

    def close(self, seconds: float = 2.0) -> None:
        """End the thread, if the log lets it."""
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
            found = [self._jobs.get()]
            while len(found) < TOGETHER and not self._jobs.empty():
                found.append(self._jobs.get())
            stopping = None in found
            # A request that was given up is not appended any more.
            wanted = [job for job in found if job is not None and job[1].set_running_or_notify_cancel()]
            self._append([job for job in wanted if len(job[0]) <= LONG])
            for job in wanted:
                if len(job[0]) > LONG:
                    self._append([job])
        self._forget_sink()

    def _append(self, jobs: list[Job]) -> None:
        if not jobs:
            return
        try:
            self._sink = self._sink or self._open_log()
            places = self._sink.append([Entry(value) for value, _ in jobs])
        except Exception as error:  # noqa: BLE001 - a client library may raise anything; the next event tries anew
            self._trouble(jobs, error)
            return
        if self._down:
            log.info("the log of posted events is back")
        self._down = False
        for (_, future), place in zip(jobs, places, strict=True):
            future.set_result(place)

    def _trouble(self, jobs: list[Job], error: Exception) -> None:
        if not self._down:
            log.warning("posted events cannot be appended: %s", error)
        self._down = True
        self._forget_sink()
        for _, future in jobs:
            future.set_exception(SourceDown("the log does not take events"))

    def _forget_sink(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            try:
                sink.close()
            except Exception:  # noqa: BLE001 - it is thrown away
                log.debug("the log's client did not close well")
