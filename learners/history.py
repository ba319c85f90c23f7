"""How errors have grown over a life of any length: two curves of at most POINTS points each, kept with the model.

A point is (events, errors, the majority's errors, no change's errors), all cumulative, so the error rate between
any two points is exact. One curve spans the whole life: a point every `step` events, and when it is full every second
one goes and the step doubles. The other is the last points at every NEAR events. Both depend on the events alone.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.batch import Ints
from learners.kernels import kernel
from learners.state import restore

POINTS = 256
"""Of each curve at most."""

NEAR = 200
"""Events between two of the latest points."""

MOST = 2**46
"""Events that no life has: sums of counts up to it, over all classes there can be, are exact."""


EVENTS, STEP = 0, 1
"""Places in `History.marked`."""


class History(NamedTuple):
    """Both curves; a row that is not in use is 0."""

    marked: Ints
    """Events, and how many are between two points of the whole life: a power of 2."""
    life: Ints
    """Row k is the point at event (k + 1)·step."""
    near: Ints
    """A ring: the point at event (k + 1)·NEAR has row k mod POINTS."""


def fresh_history() -> History:
    return History(np.array([0, 1]), np.zeros((POINTS, 4), np.int64), np.zeros((POINTS, 4), np.int64))


def whole(history: History) -> Ints:
    """The curve from the first events to within a step of the last, as a copy."""
    events, step = history.marked.tolist()
    return history.life[: events // step].copy()


def latest(history: History) -> Ints:
    """The last points, as a copy in order."""
    marked = int(history.marked[EVENTS]) // NEAR
    return history.near[np.arange(max(0, marked - POINTS), marked) % POINTS]


def restored_history(arrays: dict[str, NDArray[Any]]) -> History:
    """The inverse of `flatten`; what no events could have led to is refused."""
    h: History = restore(fresh_history(), arrays)
    if not (0 <= h.marked[EVENTS] <= MOST and h.marked[STEP] == _step(int(h.marked[EVENTS])) and _can_be(h)):
        raise ValueError("it has a history that cannot be")
    return h


def grows(points: Ints) -> bool:
    """Whether one point after the other can be: no count falls, none grows by more than the events do."""
    grown = np.diff(points, axis=0)
    return bool(((grown >= 0) & (grown <= grown[:, :1])).all())


def _step(events: int) -> int:
    """What so many events have led to."""
    step = 1
    while events // step > POINTS:
        step *= 2
    return step


def _can_be(h: History) -> bool:
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
        and grows(np.concatenate([np.zeros((1, 4), np.int64), both[np.argsort(both[:, 0], kind="stable")]]))
    )


@kernel
def due(events: int, step: int) -> bool:
    """Whether a point is to be marked after so many; apart from `mark`, whose call with its arrays takes longer."""
    return events & (step - 1) == 0 or events % NEAR == 0


@kernel
def mark(marked: Ints, life: Ints, near: Ints, totals: Ints) -> None:
    """Put a point, of which the totals begin with the four counts, where it is due."""
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
