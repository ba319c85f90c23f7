"""Named points at which a test makes the process die, wait or fail.

`ONEPASS_FAILPOINT=before_commit:kill@3` kills the process when it reaches that point for the third
time. The other actions are `sleep=SECONDS` and `raise`. Commas separate several failpoints. Without
the variable the points do nothing.
"""

import os
import signal
import time
from collections import Counter

VARIABLE = "ONEPASS_FAILPOINT"

POINTS = (
    "after_apply",
    "before_freeze",
    "after_chunk",
    "before_commit",
    "after_commit",
    "before_renew",
    "in_letters",
    "in_restore",
    "after_seek",
    "in_stop",
)
"""Names of the points, roughly in the order in which a run reaches them."""


class FailpointError(RuntimeError):
    """A test asked for this failure."""


_planned: dict[str, tuple[str, int]] = {}
_reached: Counter[str] = Counter()


def arm(plan: str) -> None:
    """Parse the plan. An invalid plan raises ValueError, so the service does not start."""
    _planned.clear()
    _reached.clear()
    for word in filter(None, plan.split(",")):
        point, _, action = word.partition(":")
        action, _, turn = action.partition("@")
        known = action in {"kill", "raise"} or action.startswith("sleep=")
        if point not in POINTS or not known or not (turn or "1").isdecimal():
            raise ValueError(
                f"{VARIABLE}: '{word}' is not POINT:kill|raise|sleep=SECONDS[@TURN] "
                f"of {', '.join(POINTS)}"
            )
        _planned[point] = (action, int(turn or "1"))


def failpoint(point: str) -> None:
    """Do what the plan says for this point, if it says anything."""
    if point not in _planned:
        return
    action, turn = _planned[point]
    _reached[point] += 1
    if _reached[point] != turn:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "raise":
        raise FailpointError(f"failpoint {point}")
    time.sleep(float(action.removeprefix("sleep=")))


arm(os.environ.get(VARIABLE, ""))
