"""A client that asks for a prediction every 20 ms and counts the answers, whatever happens to the
servers.
"""

import http.client
import threading
from collections import Counter
from contextlib import contextmanager

from tests.chaos.events import QUESTION
from tests.waiting import HANG_SECONDS

EVERY_SECONDS = 0.02


class Watcher:
    """Count the answers by status; 0 means no answer."""

    def __init__(self, port):
        self.statuses = Counter()
        self._port = port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._thread.start()

    def close(self):
        self._stop.set()
        self._thread.join(2 * HANG_SECONDS)

    def _watch(self):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=HANG_SECONDS)
        while not self._stop.wait(EVERY_SECONDS):
            try:
                connection.request(
                    "POST", "/predict", QUESTION, {"Content-Type": "application/json"}
                )
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except (OSError, http.client.HTTPException):
                connection.close()
                status = 0
            self.statuses[status] += 1
        connection.close()


@contextmanager
def watch_predictions(process):
    """Check that every prediction requested in this block is answered with 200."""
    process.answers("/readyz", 200)
    watcher = Watcher(process.port)
    try:
        yield watcher
    finally:
        watcher.close()
    assert watcher.statuses.keys() == {200}, f"answers by status: {dict(watcher.statuses)}"
