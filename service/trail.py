"""What a pass leaves to be told and drawn: every alarm, the curve of a model's errors, and those of the baselines."""

from collections.abc import Sequence

import msgspec
import numpy as np

from learners.history import whole
from learners.quality import EVENTS, NO_CHANGE
from service.alarms import Alarm
from service.model import Model
from service.pictures import Curve, Mark
from service.sources.contract import Entry, Place

BASELINES = ("majority", "no change")


class Trail:
    """The log of alarms of a pass, in memory: a model keeps only its newest."""

    def __init__(self) -> None:
        self.alarms: list[Alarm] = []

    def append(self, entries: Sequence[Entry]) -> list[Place]:
        self.alarms += [_alarm(entry.value) for entry in entries]
        return [Place("0", str(len(self.alarms))) for _ in entries]

    def close(self) -> None: ...


def _alarm(value: bytes) -> Alarm:
    fields = msgspec.json.decode(value)
    del fields["model"]
    return msgspec.convert(fields, Alarm)


def curves_of(model: Model, name: str, trail: Trail) -> tuple[Curve, list[Curve]]:
    """The model's own curve, and the baselines' over the same events."""
    now = model.judgement.quality.totals[EVENTS : NO_CHANGE + 1]
    points = whole(model.judgement.history)
    if now[EVENTS] and (not len(points) or points[-1, EVENTS] != now[EVENTS]):
        points = np.vstack([points, now])
    events, errors, *others = points.T
    of_errors = [alarm for alarm in trail.alarms if alarm.change != "moved"]
    marks = [Mark(alarm.event, alarm.change == "worse", alarm.detector) for alarm in of_errors]
    return Curve(name, events, errors, marks), [
        Curve(called, events, theirs) for called, theirs in zip(BASELINES, others, strict=True)
    ]
