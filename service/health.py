"""What the working threads know of themselves, for `/status`, `/readyz`, `/metrics` and the live line to read."""

import time
from dataclasses import dataclass, field

from service.checkpoints import Manifest


@dataclass
class Health:
    """One writer (the learner or the follower), many readers; each field is replaced whole."""

    ready: bool = False
    """The model is restored, the kernels are warm and the log has been reached."""
    source_up: bool = False
    store_up: bool = False
    trouble: str = ""
    """What is being waited for, in one line; empty when all is well."""
    lag: dict[str, int] = field(default_factory=dict)
    checkpoint: Manifest | None = None
    """The newest generation written or loaded."""

    @property
    def checkpoint_age(self) -> float | None:
        return None if self.checkpoint is None else max(0.0, time.time() - self.checkpoint.created)
