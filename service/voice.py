"""What the learner waits for, said once and again now and then; and that it goes on."""

import logging
import time

from service.health import Health

log = logging.getLogger("onepass")

AGAIN_SECONDS = 30.0


class Voice:
    """The trouble of the moment, in the log and in `Health`."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._said = ""
        self._said_at = 0.0

    def tell(self, *, failing: str = "", waiting: str = "") -> None:
        """What is away and tried again, or why there is nothing to do but to wait; neither: learning goes on."""
        now = "; ".join(filter(None, (waiting, failing)))
        if failing and (now != self._said or time.monotonic() - self._said_at >= AGAIN_SECONDS):
            log.warning("%s; trying again", now)
            self._said_at = time.monotonic()
        elif now != self._said:
            log.info("%s", now or "learning goes on")
        self._said = self._health.trouble = now
