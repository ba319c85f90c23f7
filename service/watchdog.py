"""A thread that watches the one which reads the log: a client library that hangs must not look like a quiet topic."""

import logging
import os
import threading
import time
from collections.abc import Callable

from service.health import Health

log = logging.getLogger("onepass")

LOOK_SECONDS = 1.0
STALLED_SECONDS = 30.0
"""The log has more and nothing comes for so long: the connection is renewed."""


class Watchdog:
    """Ends the process when the learner hangs in the log's client; asks for a new connection when nothing comes."""

    def __init__(self, health: Health, renew: Callable[[], None], end: Callable[[int], object] = os._exit) -> None:
        self._health = health
        self._renew = renew
        self._end = end

    def watch(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_SECONDS):
            self.look(time.monotonic())

    def look(self, now: float) -> None:
        if now >= self._health.in_log_until:
            log.critical("the log's client does not come back: ending, to be started again")
            self._end(1)  # what is in no checkpoint is learned again
        elif now - self._health.moved_at >= STALLED_SECONDS and any(self._health.lag.values()):
            self._health.moved_at = now
            self._renew()
