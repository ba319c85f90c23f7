"""Load or compile the kernels of a learner before the first event."""

import threading
from collections.abc import Callable

from learners.learner import Learner
from learners.warmup import warm
from service.config.settings import Drift

PATIENCE = 2.0
"""Seconds before a message says that kernels are being compiled. Loading cached ones takes less."""


def warm_up(learner: Learner, drift: Drift, tell: Callable[[str], object]) -> None:
    """Prepare all kernels that the learner and its detectors need.

    If that takes long, `tell` gets a message, because the first start of a learner compiles them.
    """
    message = (
        "compiling the kernels of this learner, which may take a minute or two; "
        "the next start will load them"
    )
    slow = threading.Timer(PATIENCE, tell, [message])
    slow.daemon = True
    slow.start()
    try:
        warm(learner, drift.detectors, drift.inputs)
    finally:
        slow.cancel()
