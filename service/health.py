"""What the working threads know of themselves, for `/status`, `/readyz`, `/metrics`, the watchdog and the live line."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from service.checkpoints import Manifest
from service.courtesy import Courtesy


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
