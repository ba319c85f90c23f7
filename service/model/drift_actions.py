"""Drift actions: every detection becomes an alarm and, by the settings, starts actions.

Actions begin at the next multiple of `STRETCH` events. So they depend on the events only, not on
how the log was cut into batches, and a replay gives the same bits.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np

from learners.batch import Batch
from learners.learner import Learner
from learners.state import State
from service.model.alarms import Alarm
from service.model.monitor import INPUTS, Detection, Monitor
from service.sources.base import Record

STRETCH = 64
"""Events between two points at which actions may begin."""

LOOKED_AT = 1024
"""Events that detectors process at once if there are no actions."""

LONGEST = 200
"""Characters of a feature's name in an alarm. A word can be as long as an event."""

BOOST, RESET = 0, 1
"""Indices in `DriftCounters.pending`."""
ACTIONS = {"boost": BOOST, "reset_scaler": RESET}


def make_alarm(
    monitor: Monitor,
    detection: Detection,
    before: int,
    origins: Sequence[Record],
    name_feature: Callable[[int], str],
) -> Alarm:
    """Build the alarm for one detection and mark its actions pending.

    `before` is the number of events learned before this batch. `origins` are the batch's records.
    """
    of_error = detection.detector not in INPUTS
    drift = monitor.drift
    actions = (drift.on_error if of_error else drift.on_inputs) if detection.worse else ()
    for action in actions:
        monitor.counters.pending[ACTIONS[action]] = 1
    return Alarm(
        before + detection.row + 1,
        detection.detector,
        _series(detection, name_feature),
        "moved" if not of_error else "worse" if detection.worse else "better",
        detection.size,
        detection.psi,
        origins[detection.row].partition if origins else "",
        origins[detection.row].position if origins else "",
        actions,
        time.time(),
    )


def apply_pending_actions(
    monitor: Monitor, learner: Learner, state: State, X: Batch
) -> tuple[Batch, bool]:
    """Apply pending actions before the rows `X` are learned.

    Return the rows with their new weights, and whether all slots were rewritten.
    """
    counters, rewrote = monitor.counters, False
    if int(monitor.progress.events[0]) % STRETCH == 0:
        if counters.pending[BOOST]:
            counters.raised[0] = monitor.drift.boost_events
        if counters.pending[RESET]:
            learner.forget_scale(state)
            rewrote = True
        counters.pending[:] = 0
    raised = int(counters.raised[0])
    if raised:
        counters.raised[0] = max(0, raised - X.size)
        boosted = X.weights * monitor.drift.boost_factor
        X = X._replace(weights=np.where(np.arange(X.size) < raised, boosted, X.weights))
    return X, rewrote


def _series(detection: Detection, name_feature: Callable[[int], str]) -> str:
    if detection.detector not in INPUTS:
        return "error"
    if detection.slot:
        return name_feature(detection.slot)[:LONGEST]
    return detection.detector.removesuffix("s")
