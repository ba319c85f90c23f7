"""What the working threads know of themselves, for `/status`, `/readyz`, `/metrics`, the watchdog and the live line."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from service.checkpoints import Manifest
from service.courtesy import Courtesy
from service.reasons import Reject
from service.sources.contract import Record

LAST_REJECTS = 16


class Rejected(NamedTuple):
    """Where a rejected event lies, and why; what it held is for the dead-letter log alone."""

    reason: str
    partition: str
    position: str
    at: float


@dataclass
class Health:
    """One writer (the learner or the follower), many readers; each field is replaced whole."""

    role: Literal["run", "learn", "serve"] = "run"
    ready: bool = False
    """A model is there to predict with, and the kernels are warm."""
    source_up: bool = False
    store_up: bool = False
    trouble: str = ""
    """What is being waited for, in one line; empty when all is well."""
    lag: dict[str, int] = field(default_factory=dict)
    checkpoint: Manifest | None = None
    """The newest generation written or loaded."""
    lease_held: bool = False
    frozen: bool = False
    rejects: deque[Rejected] = field(default_factory=lambda: deque(maxlen=LAST_REJECTS))
    """The last ones of this process."""
    lost: int = 0
    """Events that this process passed over, since the log had lost them."""
    in_log_until: float = float("inf")
    """When the log's client, if it was called, must have come back."""
    moved_at: float = field(default_factory=time.monotonic)
    """When the learner last learned something, or had nothing to learn, or was told not to."""

    requests: Courtesy = field(default_factory=Courtesy)
    """Those being answered, for which the learner gives way."""

    confirmed_at: float | None = None
    """On a replica: when the store last said that what is served is the newest generation."""

    def rejected(self, rejects: Sequence[tuple[Record, Reject]]) -> None:
        now = time.time()
        self.rejects.extend(
            Rejected(why.reason, where.partition, where.position, now) for where, why in rejects[-LAST_REJECTS:]
        )

    @property
    def stale_seconds(self) -> float:
        """For how long there may have been something newer to serve; 0 where the learner itself answers."""
        return 0.0 if self.confirmed_at is None else max(0.0, time.monotonic() - self.confirmed_at)

    @property
    def checkpoint_age(self) -> float | None:
        return None if self.checkpoint is None else max(0.0, time.time() - self.checkpoint.created)

    @contextmanager
    def in_log(self, seconds: float = 30.0) -> Iterator[None]:
        """Around every call into the log's client, which has been seen to hang: longer than this is for ever."""
        self.in_log_until = time.monotonic() + seconds
        try:
            yield
        finally:
            self.in_log_until = float("inf")
