"""Named points at which a test lets the process die, wait or fail; without `ONEPASS_FAILPOINT` they do nothing.

`ONEPASS_FAILPOINT=before_commit:kill@3` kills at the third time that point is reached; the other actions are
`sleep=SECONDS` and `raise`. Several are separated by commas.
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
"""In the order in which a run meets them, roughly."""


class Failpoint(RuntimeError):
    """A failure that was asked for."""


_planned: dict[str, tuple[str, int]] = {}
_reached: Counter[str] = Counter()


def arm(plan: str) -> None:
    """Take the plan from its text; a word that is not understood stops the start."""
    _planned.clear()
    _reached.clear()
    for word in filter(None, plan.split(",")):
        point, _, action = word.partition(":")
        action, _, turn = action.partition("@")
        known = action in {"kill", "raise"} or action.startswith("sleep=")
        if point not in POINTS or not known or not (turn or "1").isdecimal():
            raise ValueError(
                f"{VARIABLE}: '{word}' is not POINT:kill|raise|sleep=SECONDS[@TURN] of {', '.join(POINTS)}"
            )
        _planned[point] = (action, int(turn or "1"))


def reach(point: str) -> None:
    """This line of the program is `point`."""
    if point not in _planned:
        return
    action, turn = _planned[point]
    _reached[point] += 1
    if _reached[point] != turn:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "raise":
        raise Failpoint(f"failpoint {point}")
    time.sleep(float(action.removeprefix("sleep=")))


arm(os.environ.get(VARIABLE, ""))
