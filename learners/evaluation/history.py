"""How errors grew over a model's life: two curves of at most POINTS points, checkpointed with the
model.

A point is (events, errors, errors of majority, errors of no change). All four are cumulative, so
the error rate between any two points is exact. `life` spans all events: it has a point every `step`
events, and when it is full, every second point is removed and the step doubles. `near` has the last
points, one every NEAR events. Both depend on the events only, not on batches.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.batch import Ints
from learners.jit import kernel
from learners.state import restore

POINTS = 256
"""Points per curve at most."""

NEAR = 200
"""Events between two points of `near`."""

MOST = 2**46
"""Events. No model lives longer, and sums of such counts over all possible classes are exact."""


EVENTS, STEP = 0, 1
"""Indices into `History.marked`."""


class History(NamedTuple):
    """Both curves. Unused rows are 0."""

    marked: Ints
    """Events so far, and events between two points of `life`: a power of 2."""
    life: Ints
    """Row k is the point at event (k + 1)·step."""
    near: Ints
    """A ring: the point at event (k + 1)·NEAR is in row k mod POINTS."""


def fresh_history() -> History:
    return History(
        np.array([0, 1]), np.zeros((POINTS, 4), np.int64), np.zeros((POINTS, 4), np.int64)
    )


def whole(history: History) -> Ints:
    """Copy the curve over the whole life. It ends less than one step before now."""
    events, step = history.marked.tolist()
    return history.life[: events // step].copy()


def latest(history: History) -> Ints:
    """Copy the last points, in order."""
    marked = int(history.marked[EVENTS]) // NEAR
    return history.near[np.arange(max(0, marked - POINTS), marked) % POINTS]


def restore_history(arrays: dict[str, NDArray[Any]]) -> History:
    """Restore a flattened history. Raise ValueError if no events could have led to it."""
    h: History = restore(fresh_history(), arrays)
    events, step = h.marked.tolist()
    if not (0 <= events <= MOST and step == _step(events)):
        raise ValueError("corrupt checkpoint: history has a step that does not fit its events")
    if not _curves_are_valid(h):
        raise ValueError("corrupt checkpoint: history curves are inconsistent")
    return h


def grows(points: Ints) -> bool:
    """Whether, from point to point, no count falls and none grows by more than the events."""
    grown = np.diff(points, axis=0)
    return bool(((grown >= 0) & (grown <= grown[:, :1])).all())


def _step(events: int) -> int:
    """The step that this many events lead to."""
    step = 1
    while events // step > POINTS:
        step *= 2
    return step


def _curves_are_valid(h: History) -> bool:
    life, near = whole(h), latest(h)
    first = int(h.marked[EVENTS]) // NEAR - len(near)
    both = np.concatenate([life, near])
    if ((both < 0) | (both > MOST)).any():
        return False
    return bool(
        (life[:, 0] == (np.arange(len(life)) + 1) * h.marked[STEP]).all()
        and (near[:, 0] == (np.arange(len(near)) + first + 1) * NEAR).all()
        and not h.life[len(life) :].any()
        and not h.near[len(near) :].any()
        and (both[:, 2:] >= 1).all()  # a baseline is wrong at the first event
        and grows(
            np.concatenate(
                [np.zeros((1, 4), np.int64), both[np.argsort(both[:, 0], kind="stable")]]
            )
        )
    )


@kernel
def due(events: int, step: int) -> bool:
    """Whether a point is due.

    Separate from `mark`, because calling that with its arrays takes longer.
    """
    return events & (step - 1) == 0 or events % NEAR == 0


@kernel
def mark(marked: Ints, life: Ints, near: Ints, totals: Ints) -> None:
    """Add the point that is due. `totals` begins with the four counts."""
    events, step = marked[EVENTS], marked[STEP]
    if events // step > POINTS:
        for k in range(POINTS):
            for j in range(4):
                life[k, j] = life[2 * k + 1, j] if k < POINTS // 2 else 0
        step *= 2
        marked[STEP] = step
    for j in range(4):
        if events % step == 0:
            life[events // step - 1, j] = totals[j]
        if events % NEAR == 0:
            near[(events // NEAR - 1) % POINTS, j] = totals[j]
