"""`Judgement`: how well a model does, and whether the world changed, from the scores made before each update.

All of it is a pure function of the events in order, and travels in the checkpoint with the model.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.batch import Array, Batch, Flags, Ints
from learners.calibration import calibrate, fresh_calibration, restored_calibration
from learners.drift.detector import ALARM
from learners.drift.inputs import FEATURES, LABEL, restored_inputs
from learners.evaluation import Progress, fresh_progress
from learners.history import MOST, fresh_history, restored_history
from learners.outputs import predicted
from learners.plausible import check_together, restored_quality
from learners.quality import assess, fresh_quality
from learners.state import flatten, restore
from service.drift_settings import Drift

Arrays = dict[str, NDArray[Any]]

CLASSES = 16
"""Told one by one, in answers and as metrics; the others together."""

INPUTS = ("inputs", "labels", "predictions")
"""What watches distributions, by the names that alarms and metrics have."""


class Judged(NamedTuple):
    """Rows in order: their labels, what was said of them, and 1 where that was wrong."""

    y: Array
    guess: Ints
    wrong: Flags


class Sign(NamedTuple):
    """What a detector said of a row."""

    row: int
    detector: str
    slot: int | None
    """The feature that moved, if it is one."""
    size: float
    worse: bool
    """Not an error that fell."""
    psi: float | None = None


class Tally(NamedTuple):
    """What was found so far, and what is still to be done about it."""

    alarms: Ints
    """Of each detector, then of each of `INPUTS`; an error that fell is none."""
    pending: Ints
    """Actions that wait for the next stretch of events: raise, reset_scaler."""
    raised: Ints
    """Events left that count more."""


class Judgement:
    """Counts, calibrator, quality, curve and detectors of one model."""

    def __init__(self, drift: Drift, classes: int, columns: int) -> None:
        """Of so many classes at most, 0 where labels are −1 and +1."""
        self.drift = drift
        self._classes = classes
        self._columns = columns
        self.progress = fresh_progress()
        self.calibration = fresh_calibration()
        self.quality = fresh_quality(classes)
        self.history = fresh_history()
        self._begin()

    def _begin(self) -> None:
        """Watch for drift from here on, as if nothing had been before."""
        self.detecting = [detector.init() for detector in self.drift.detectors]
        self.watching = self.drift.inputs.init(self._columns) if self.drift.inputs else None
        counts = (len(self.watched), 2, 1)
        self.tally = Tally(*(np.zeros(count, np.int64) for count in counts))

    @property
    def watched(self) -> tuple[str, ...]:
        """The names of all detectors, in the order of their counts."""
        return (*(detector.kind for detector in self.drift.detectors), *(INPUTS if self.drift.inputs else ()))

    def judge(self, y: Array, scores: Array, weights: Array) -> Judged:
        """Rows that were not refused, in order: count what was said of them before they were learned."""
        guess = predicted(scores)
        p = calibrate(self.calibration, y, scores, weights)
        return Judged(y, guess, assess(self.progress, self.quality, self.history, y, guess, p))

    def watch(self, X: Batch, y: Array, guess: Ints, wrong: Flags) -> list[Sign]:
        """Rows that were judged, in order: what the detectors say of them."""
        signs = self._of_errors(wrong.astype(np.float64))
        if self.drift.inputs and self.watching is not None:
            shifts = self.drift.inputs.watch(self.watching, X, y, guess)
            slots = self.drift.inputs.slots(self.watching) if shifts else ()
            for row, series, distance, psi in shifts:
                name = "inputs" if series >= FEATURES else "labels" if series == LABEL else "predictions"
                slot = int(slots[series - FEATURES]) if series >= FEATURES else None
                signs.append(Sign(row, name, slot, distance, worse=True, psi=psi))
        for sign in signs:
            self.tally.alarms[self.watched.index(sign.detector)] += sign.worse
        return sorted(signs, key=lambda sign: sign.row)

    def _of_errors(self, wrong: Array) -> list[Sign]:
        signs: list[Sign] = []
        for detector, state in zip(self.drift.detectors, self.detecting, strict=True):
            said, rises = detector.watch(state, wrong)
            alarms = [(row, float(rises[row])) for row in np.flatnonzero(said == ALARM).tolist()]
            signs += [Sign(row, detector.kind, None, abs(rise), worse=rise >= 0.0) for row, rise in alarms]
        return signs

    def scores(self) -> dict[str, float]:
        """How near each detector is to an alarm; of a distribution its largest PSI, 1 at most."""
        found = {
            detector.kind: detector.score(state)
            for detector, state in zip(self.drift.detectors, self.detecting, strict=True)
        }
        if self.drift.inputs and self.watching is not None:
            psi = np.minimum(self.drift.inputs.psi(self.watching), 1.0)
            parts = (psi[FEATURES:], psi[:1], psi[1:FEATURES])
            found |= {name: float(part.max(initial=0.0)) for name, part in zip(INPUTS, parts, strict=True)}
        return found

    def feature_psi(self) -> list[tuple[int, float]]:
        """Slot and PSI of every watched feature."""
        if self.drift.inputs is None or self.watching is None:
            return []
        pairs = zip(
            self.drift.inputs.slots(self.watching).tolist(),
            self.drift.inputs.psi(self.watching)[FEATURES:].tolist(),
            strict=True,
        )
        return [(slot, psi) for slot, psi in pairs if slot >= 0]

    def arrays(self) -> Arrays:
        """By the names they have in a snapshot; not copied."""
        found: Arrays = {}
        for name, part in self._parts().items():
            found |= flatten(part, f"{name}/")
        return found

    def _parts(self) -> dict[str, Any]:
        detectors = zip(self.drift.detectors, self.detecting, strict=True)
        return {
            "progress": self.progress,
            "calibration": self.calibration,
            "quality": self.quality,
            "history": self.history,
            "drift/tally": self.tally,
            **{f"drift/{detector.kind}": state for detector, state in detectors},
            **({"drift/inputs": self.watching} if self.watching is not None else {}),
        }

    def restored(self, arrays: Arrays, *, same_drift: bool) -> tuple["Judgement", bool]:
        """What a snapshot holds, and whether that lacks parts, which then begin anew; misfits are a ValueError.

        Detectors of other settings than these begin anew too.
        """
        found, parts = Judgement(self.drift, self._classes, self._columns), list(self._parts())
        progress: Progress = restore(fresh_progress(), _part(arrays, "progress"))
        if (progress.recent > 1).any() or progress.events[0] > MOST:
            raise ValueError("it has outcomes that cannot be")
        found.progress = progress
        lacking = {part for part in parts if not _part(arrays, part)}
        if "calibration" not in lacking:
            found.calibration = restored_calibration(_part(arrays, "calibration"))
        if not {"quality", "history"} & lacking:  # both are of the same events, so one alone is as good as none
            found.quality = restored_quality(self._classes, _part(arrays, "quality"))
            found.history = restored_history(_part(arrays, "history"))
            check_together(found.progress, found.quality, found.history)
        if same_drift and "drift/tally" not in lacking:
            found._take_up(arrays)
        return found, bool(lacking) or not same_drift

    def _take_up(self, arrays: Arrays) -> None:
        self.tally = restore(self.tally, _part(arrays, "drift/tally"))
        counts = np.concatenate(self.tally)
        if (counts < 0).any() or (counts > MOST).any() or (self.tally.pending > 1).any():
            raise ValueError("it has a tally of alarms that cannot be")
        self.detecting = [
            detector.restored(_part(arrays, f"drift/{detector.kind}")) for detector in self.drift.detectors
        ]
        if self.drift.inputs:
            self.watching = restored_inputs(self.drift.inputs, self._columns, _part(arrays, "drift/inputs"))


def _part(arrays: Arrays, part: str) -> Arrays:
    return {name.removeprefix(f"{part}/"): array for name, array in arrays.items() if name.startswith(f"{part}/")}
