"""The lease, renewed by a thread and a connection of its own, and what the renewals see.

The lease keeps others waiting; only the token makes writing safe. By the local clock the lease ends before it does in
Redis, so that nobody applies events in the belief to be alone after another may have begun.
"""

import threading
import time
from typing import Any

import msgspec

from service.checkpoints import Corrupt, Freeze, StoreDown
from service.errors import BadSettings
from service.failpoints import Failpoint, reach
from service.store.connection import Server
from service.store.scripts import RELEASE, RENEW

LONGEST_WAIT = 1.0
RENEWALS = 3
"""In the time that a lease lasts, at least."""
LOOK_SECONDS = 1.0
"""An operator's freeze or unfreeze is seen within this time however long the lease."""
MARGIN = 0.1
"""Part of the lease that is not counted on: clocks run at slightly different speeds."""


UNREADABLE = Freeze(0.0, 0)
END_OF_TIME = 1e11
"""In seconds; later is no date."""


class Lease:
    """Invariant: `held` only while Redis, too, would call it ours."""

    def __init__(self, server: Server, keys: tuple[str, str, str], holder: str, seconds: float) -> None:
        self._server = server
        self._keys = keys
        """Of lease, token and frozen."""
        self.holder = holder
        self.milliseconds = round(seconds * 1000)
        self._seconds = seconds
        self._client: Any = None
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0
        self._disturbed = False
        self.frozen: Freeze | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def held(self) -> bool:
        return time.monotonic() < self._until

    @property
    def disturbed(self) -> bool:
        return self._disturbed

    def hold(self, token: str, sent: float) -> None:
        """It was taken by a word sent at `sent`; from now on it is renewed."""
        with self._lock:
            self._token = token
            self._until = sent + self._seconds * (1 - MARGIN)
            self._disturbed = False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
            self._thread.start()

    def drop(self) -> None:
        """Another has it."""
        with self._lock:
            self._token, self._until = "", 0.0

    def disturb(self) -> None:
        self._disturbed = True

    def renewed(self, token: str, sent: float) -> None:
        with self._lock:
            if token == self._token:
                self._until = max(self._until, sent + self._seconds * (1 - MARGIN))

    def renew(self) -> None:
        """Once; that it cannot be done is seen by the time that passes."""
        token = self._token
        if not token:
            return
        try:
            reach("before_renew")
            sent = time.monotonic()
            with self._server.translated("renew"):
                if self._client is None:
                    self._client = self._server.client(min(LONGEST_WAIT, self._seconds / RENEWALS), 0)
                arguments = self.holder, self.milliseconds, token
                answer, frozen = self._client.eval(RENEW, len(self._keys), *self._keys, *arguments)
        except (StoreDown, BadSettings, Corrupt, Failpoint):
            return
        with self._lock:
            if token != self._token:  # it was taken anew while we asked
                return
            self.frozen = read_freeze(frozen)
            if answer != b"OK":
                self._disturbed = True
        if answer == b"OK":
            self.renewed(token, sent)

    def close(self) -> None:
        """Give it back, if it is ours."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self.drop()
            try:
                with self._server.translated("release"):
                    client = self._client or self._server.client(LONGEST_WAIT, 0)
                    client.eval(RELEASE, 1, self._keys[0], self.holder)
                    client.close()
            except (StoreDown, BadSettings, Corrupt):
                pass  # then it ends by itself

    def _run(self) -> None:
        while not self._stop.wait(min(self._seconds / RENEWALS, LOOK_SECONDS)):
            self.renew()


def read_freeze(raw: bytes | None) -> Freeze | None:
    """A word that cannot be read still holds learning; an empty one is none."""
    if not raw:
        return None
    try:
        word = msgspec.json.decode(raw, type=Freeze)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNREADABLE
    return word if 0 <= word.since < END_OF_TIME and 0 <= word.generation < 1 << 63 else UNREADABLE
