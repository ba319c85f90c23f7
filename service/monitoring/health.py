"""Hold the state of the working threads, which `/status`, `/readyz`, `/metrics`, the watchdog and
the progress line read.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from service.checkpoint.store import Manifest
from service.features.reject import Reject
from service.sources.base import Record

LAST_REJECTS = 16
"""Rejects that are remembered."""


class Rejected(NamedTuple):
    """Position and reason of a rejected event. Its content is only in the dead-letter log."""

    reason: str
    partition: str
    position: str
    at: float


@dataclass
class Health:
    """Each field has one writer and many readers. A writer replaces a field's value as a whole.

    The worker writes what concerns the log, the checkpointer what concerns the store. A process
    that only serves, or stands by, has neither: there the replica writes the fields of the store
    and `ready`.
    """

    role: Literal["run", "learn", "serve"] = "run"
    ready: bool = False
    """A model is loaded and its kernels are compiled."""
    source_up: bool = False
    store_up: bool = False
    trouble: str = ""
    """What the working thread waits for, in one line; empty when all is well."""
    lag: dict[str, int] = field(default_factory=dict)
    checkpoint: Manifest | None = None
    """The newest generation that was written or loaded."""
    lease_held: bool = False
    frozen: bool = False
    rejects: deque[Rejected] = field(default_factory=lambda: deque(maxlen=LAST_REJECTS))
    """The last rejects of this process."""
    events_lost: int = 0
    """Events that this process skipped because the log had lost them."""
    in_log_until: float = float("inf")
    """Monotonic deadline of the call into the log's client that is under way."""
    moved_at: float = field(default_factory=time.monotonic)
    """Monotonic time when the learner last learned something, had nothing to learn, or paused."""
    confirmed_at: float | None = None
    """Monotonic time when the store last confirmed that this replica serves the newest generation;
    None in a process that learns.
    """

    def note_rejects(self, rejects: Sequence[tuple[Record, Reject]]) -> None:
        """Remember the last of these rejects."""
        now = time.time()
        self.rejects.extend(
            Rejected(reject.reason, record.partition, record.position, now)
            for record, reject in rejects[-LAST_REJECTS:]
        )

    @property
    def stale_seconds(self) -> float:
        """Seconds for which a newer generation may have existed; 0 in a process that learns."""
        return 0.0 if self.confirmed_at is None else max(0.0, time.monotonic() - self.confirmed_at)

    @property
    def checkpoint_age(self) -> float | None:
        return None if self.checkpoint is None else max(0.0, time.time() - self.checkpoint.created)

    @contextmanager
    def in_log(self, seconds: float = 30.0) -> Iterator[None]:
        """Wrap a call into the log's client. The watchdog ends the process if the call takes longer
        than this.
        """
        self.in_log_until = time.monotonic() + seconds
        try:
            yield
        finally:
            self.in_log_until = float("inf")
