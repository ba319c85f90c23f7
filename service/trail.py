"""What a pass leaves to be drawn: the curve of a model's errors with its alarms, and those of the baselines.

AFTER MERGE: `Followed` and `Alarm` go away, replay makes a `Model`, and `curves_of` reads `model.alarms` and
`whole(model.judgement.history)`, with the newest counts behind it.
"""

from typing import NamedTuple

import numpy as np

from learners.batch import Batch, Ints
from learners.drift.detector import ALARM
from learners.drift.registry import make_detector
from learners.evaluation import WINDOW
from service.model import Model
from service.pictures import Curve, Mark

POINTS = 256
BASELINES = ("majority", "no change")


class Alarm(NamedTuple):
    event: int
    detector: str
    series: str
    change: str


class Followed(Model):
    """A model that keeps every outcome of a pass; not for a service, whose streams have no end."""

    def reset(self) -> None:
        super().reset()
        self._seen: dict[float, int] = {}
        self._last = np.nan
        self._outcomes: list[tuple[int, int, int]] = []
        self.alarms: list[Alarm] = []
        try:
            self._detector = make_detector("adwin")
            self._watching = self._detector.init()
        except ModuleNotFoundError:
            self._watching = None

    def _learn(self, X: Batch, numbers: list[float | None]) -> int:
        first = int(self.progress.events[0])
        errors = super()._learn(X, numbers)
        labels = [number for number in numbers if number is not None]
        wrong = self.progress.recent[(first + np.arange(len(labels))) % WINDOW]
        for label, missed in zip(labels, wrong.tolist(), strict=True):
            usual = max(self._seen, key=self._seen.__getitem__) if self._seen else np.nan
            self._outcomes.append((missed, int(label != usual), int(label != self._last)))
            self._seen[label] = self._seen.get(label, 0) + 1
            self._last = label
        if self._watching is not None:
            watched = self._detector.watch(self._watching, wrong.astype(np.float64))
            for row in np.flatnonzero(watched.said == ALARM).tolist():
                change = "worse" if watched.rise[row] > 0 else "better"
                self.alarms.append(Alarm(first + row + 1, "adwin", "error", change))
        return errors

    def points(self) -> Ints:
        """Events, errors, the majority's and no change's, at no more than POINTS places."""
        total = np.array(self._outcomes, np.int64).reshape(-1, 3).cumsum(axis=0)
        counted = np.column_stack([np.arange(1, len(total) + 1), total])
        step = max(1, -(-len(counted) // POINTS))
        return counted[(len(counted) - 1) % step :: step]


def curves_of(model: Followed, name: str) -> tuple[Curve, list[Curve]]:
    """The model's own curve, and the baselines' over the same events."""
    events, errors, *others = model.points().T
    marks = [Mark(alarm.event, alarm.change == "worse") for alarm in model.alarms if alarm.series == "error"]
    return Curve(name, events, errors, marks), [
        Curve(called, events, theirs) for called, theirs in zip(BASELINES, others, strict=True)
    ]
