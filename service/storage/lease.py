"""The lease of one learner. A separate thread and connection renew it.

The lease only keeps other learners waiting. The token makes writes safe. By the local clock the
lease ends before it does in Redis. So a learner stops applying events before another can begin.
A renewal also reads whether an operator froze learning.
"""

import threading
import time
from typing import Any

import msgspec

from service.checkpoint.store import CorruptCheckpointError, Freeze, StoreUnavailableError
from service.errors import SettingsError
from service.failpoints import FailpointError, failpoint
from service.storage.connection import Server
from service.storage.lua import RELEASE, RENEW

LONGEST_WAIT = 1.0
"""Seconds that one renewal may take."""
RENEWALS = 3
"""Renewals within the duration of a lease, at least."""
LOOK_SECONDS = 1.0
"""Seconds within which the learner sees a freeze or an unfreeze, however long the lease is."""
MARGIN = 0.1
"""Share of the lease that the local clock does not use, because clocks differ in speed."""
UNREADABLE = Freeze(0.0, 0)
"""Stands for a freeze that cannot be decoded."""
END_OF_TIME = 1e11
"""Seconds since the epoch. A later time is damage."""


class Lease:
    """This learner's lease, and the thread that renews it.

    Invariant: `held` is true only while Redis also has the lease as ours.
    """

    def __init__(
        self, server: Server, keys: tuple[str, str, str], holder: str, seconds: float
    ) -> None:
        self._server = server
        self._keys = keys
        """The keys of lease, token and freeze."""
        self.milliseconds = round(seconds * 1000)
        self.holder = f"{holder}:{self.milliseconds}"
        """It ends with the length of the lease, so that other learners notice a lease that a clock
        set back made too long.
        """
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
        """Note that Redis granted the lease to a request sent at `sent`, and start to renew it."""
        with self._lock:
            self._token = token
            self._until = sent + self._seconds * (1 - MARGIN)
            self._disturbed = False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
            self._thread.start()

    def drop(self) -> None:
        """Note that another learner holds the lease."""
        with self._lock:
            self._token = ""
            self._until = 0.0

    def disturb(self) -> None:
        """Note that this learner was fenced: it must acquire the store again."""
        self._disturbed = True

    def extend(self, token: str, sent: float) -> None:
        """Note that Redis extended the lease by a request sent at `sent`."""
        with self._lock:
            if token == self._token:
                self._until = max(self._until, sent + self._seconds * (1 - MARGIN))

    def renew(self) -> None:
        """Try once to renew the lease. If it fails, the lease ends by time."""
        token = self._token
        if not token:
            return
        try:
            failpoint("before_renew")
            sent = time.monotonic()
            with self._server.translate_errors("renew"):
                if self._client is None:
                    self._client = self._server.client(
                        min(LONGEST_WAIT, self._seconds / RENEWALS), 0
                    )
                arguments = self.holder, self.milliseconds, token
                answer, frozen = self._client.eval(RENEW, len(self._keys), *self._keys, *arguments)
        except (StoreUnavailableError, SettingsError, CorruptCheckpointError, FailpointError):
            return
        with self._lock:
            if token != self._token:  # the lease was acquired again during the call
                return
            self.frozen = read_freeze(frozen)
            if answer != b"OK":
                self._disturbed = True
        if answer == b"OK":
            self.extend(token, sent)

    def close(self) -> None:
        """Release the lease if it is ours."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self.drop()
            try:
                with self._server.translate_errors("release"):
                    client = self._client or self._server.client(LONGEST_WAIT, 0)
                    client.eval(RELEASE, 1, self._keys[0], self.holder)
                    client.close()
            except (StoreUnavailableError, SettingsError, CorruptCheckpointError):
                pass  # the lease ends by time

    def _run(self) -> None:
        while not self._stop.wait(min(self._seconds / RENEWALS, LOOK_SECONDS)):
            self.renew()


def read_freeze(raw: bytes | None) -> Freeze | None:
    """Decode a freeze. An unreadable one still stops learning. An empty value is no freeze."""
    if not raw:
        return None
    try:
        freeze = msgspec.json.decode(raw, type=Freeze)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNREADABLE
    valid = 0 <= freeze.since < END_OF_TIME and 0 <= freeze.generation < 1 << 63
    return freeze if valid else UNREADABLE
