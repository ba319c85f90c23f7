"""Kernels before the first event. A learner's first start compiles them, which takes a while: then that is told."""

import threading
from collections.abc import Callable

from learners.learner import Learner
from learners.warmup import warm
from service.drift_settings import Drift

PATIENCE = 2.0
"""Seconds for which nobody wonders; kernels that were compiled before are loaded in less."""


def warmed(learner: Learner, drift: Drift, tell: Callable[[str], object]) -> None:
    """Return when everything that the learner and its detectors need is there."""
    words = "compiling the kernels of this learner, which may take a minute or two; the next start finds them"
    slow = threading.Timer(PATIENCE, tell, [words])
    slow.daemon = True
    slow.start()
    try:
        warm(learner, drift.detectors, drift.inputs)
    finally:
        slow.cancel()
