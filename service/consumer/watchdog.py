"""Watch the thread that reads the log, because a client library that hangs looks like a quiet
topic.
"""

import logging
import os
import threading
import time
from collections.abc import Callable

from service.monitoring.health import Health

log = logging.getLogger("onepass")

CHECK_SECONDS = 1.0
STALLED_SECONDS = 30.0
"""Seconds without a record, though the log has more, after which the source reconnects."""


class Watchdog:
    """Ends the process if the log's client hangs, and asks for a new connection if no record comes
    though the log has more.
    """

    def __init__(
        self, health: Health, renew: Callable[[], None], end: Callable[[int], object] = os._exit
    ) -> None:
        self._health = health
        self._renew = renew
        self._end = end
        self._renewed_at = float("-inf")

    def watch(self, stop: threading.Event) -> None:
        while not stop.wait(CHECK_SECONDS):
            self.check(time.monotonic())

    def check(self, now: float) -> None:
        if now >= self._health.in_log_until:
            log.critical("the log's client does not return: the process ends, restart it")
            self._end(1)  # events in no checkpoint are learned again
        elif now - max(self._health.moved_at, self._renewed_at) >= STALLED_SECONDS and any(
            self._health.lag.values()
        ):
            self._renewed_at = now
            self._renew()
