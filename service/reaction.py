"""What is done about drift: every sign becomes an alarm and, by the settings, leads to actions.

Actions begin at the next multiple of so many events, so they are a function of the events and not of how the log was
cut: a replay gives the same bits.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np

from learners.batch import Batch
from learners.learner import Learner
from learners.state import State
from service.alarms import Alarm
from service.judgement import INPUTS, Judgement, Sign
from service.sources.contract import Record

STRETCH = 64
"""Events."""

LOOKED_AT = 1024
"""Events that detectors look at in one go where nothing is done about it."""

LONGEST = 200
"""Characters of a feature's name that an alarm tells: a word can be as long as an event."""

RAISE, RESET = 0, 1
"""Places in `Tally.pending`."""
ACTIONS = {"raise": RAISE, "reset_scaler": RESET}


def decided(
    judgement: Judgement, sign: Sign, before: int, origins: Sequence[Record], named: Callable[[int], str]
) -> Alarm:
    """The alarm of a sign among rows that came after so many events, from these records; its actions wait."""
    of_error = sign.detector not in INPUTS
    drift = judgement.drift
    actions = (drift.on_error if of_error else drift.on_inputs) if sign.worse else ()
    for action in actions:
        judgement.tally.pending[ACTIONS[action]] = 1
    series = "error" if of_error else named(sign.slot)[:LONGEST] if sign.slot else sign.detector.removesuffix("s")
    return Alarm(
        before + sign.row + 1,
        sign.detector,
        series,
        "moved" if not of_error else "worse" if sign.worse else "better",
        sign.size,
        sign.psi,
        origins[sign.row].partition if origins else "",
        origins[sign.row].position if origins else "",
        actions,
        time.time(),
    )


def carried_out(judgement: Judgement, learner: Learner, state: State, X: Batch) -> tuple[Batch, bool]:
    """Before rows of one stretch are learned: the rows as they are to count, and whether other slots were rewritten."""
    tally, rewrote = judgement.tally, False
    if int(judgement.progress.events[0]) % STRETCH == 0:
        if tally.pending[RAISE]:
            tally.raised[0] = judgement.drift.raise_for
        if tally.pending[RESET]:
            learner.forget_scale(state)
            rewrote = True
        tally.pending[:] = 0
    raised = int(tally.raised[0])
    if raised:
        tally.raised[0] = max(0, raised - X.size)
        X = X._replace(weights=np.where(np.arange(X.size) < raised, X.weights * judgement.drift.raise_by, X.weights))
    return X, rewrote
