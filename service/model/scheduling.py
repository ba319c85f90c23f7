"""Let the learner and the requests share one model and one interpreter.

`FairLock` gives the model to a waiting request before the learner can retake it. `SliceSizer` keeps
each of the learner's turns short. `RequestGate` shares the interpreter: a thread that runs Python
gives it up only after a switch interval, and a request needs it several times. So the learner waits
while a request is being answered, but only for a bounded time.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

HOLD = 0.005
"""Seconds for which the learner may hold the model. A row that takes longer is learned alone."""

LONGEST_WAIT = 0.1
"""Seconds per round for which requests can delay the learner. Load slows it down, but never stops
it."""

BETWEEN_LOOKS = 8
"""Records decoded between two checks for open requests."""

FEW = 64
"""Records per round under load. A log client takes milliseconds for many and does not yield."""

T = TypeVar("T")


class FairLock:
    """A re-entrant, fair lock: a waiting thread always gets it before the previous holder can
    retake it.

    A plain lock goes to the thread that asks first after its release. That is the learner, which
    asks at once, so a prediction could wait for seconds. Here a waiting thread holds the gate, and
    the learner waits at the gate.
    """

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._depth = 0

    @property
    def mine(self) -> bool:
        """Whether this thread holds the lock."""
        return self._owner == threading.get_ident()

    def __enter__(self) -> None:
        if not self.mine:
            with self._gate:
                self._lock.acquire()
            self._owner = threading.get_ident()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            self._lock.release()


class SliceSizer:
    """Chooses how many rows to learn in one turn of `hold` seconds, from the time of the last turn.

    It decides when rows are learned, and never changes the result.
    """

    def __init__(self, most: int, hold: float | None = None) -> None:
        self._most = self.rows = most
        self._hold = HOLD if hold is None else hold

    def took(self, rows: int, seconds: float) -> None:
        """Record how long the last turn took."""
        self.rows = max(1, min(self._most, int(rows * self._hold / max(seconds, 1e-9))))


class RequestGate:
    """Counts the requests that are being answered. The event loop counts, the learner waits."""

    def __init__(self) -> None:
        self._open = 0
        self._idle = threading.Event()
        self._idle.set()
        self._waited = 0.0

    def arrived(self) -> None:
        """Count a request that arrived completely. One still being received delays nobody."""
        if self._open == 0:
            self._idle.clear()
        self._open += 1

    def answered(self) -> None:
        """Stop counting a request that was answered or whose connection is lost."""
        self._open -= 1
        if self._open == 0:
            self._idle.set()

    def poll_limit(self, most: int) -> int:
        """Begin a round. Return how many records to fetch, few if the last was delayed."""
        delayed = self._waited > 0.0
        self._waited = 0.0
        self.yield_to_requests()
        return min(FEW, most) if delayed else most

    def yield_to_requests(self) -> None:
        """Wait until no request is open, or until this round has waited `LONGEST_WAIT`."""
        while self._open and self._waited < LONGEST_WAIT:
            began = time.monotonic()
            self._idle.wait(LONGEST_WAIT - self._waited)
            self._waited += time.monotonic() - began

    def iterate(self, records: Iterable[T]) -> Iterator[T]:
        """Yield the records, and let requests go first every few records and after the last."""
        for index, record in enumerate(records):
            if index % BETWEEN_LOOKS == 0:
                self.yield_to_requests()
            yield record
        self.yield_to_requests()
