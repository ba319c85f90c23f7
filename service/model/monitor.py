"""`Monitor`: the quality of a model and drift detection, from the scores before each update.

Its state is a pure function of the events in order. The checkpoint holds it with the model.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.batch import Array, Batch, Flags, Ints
from learners.drift.detector import ALARM
from learners.drift.inputs import FEATURES, LABEL, restore_inputs
from learners.evaluation.calibration import calibrate, fresh_calibration, restore_calibration
from learners.evaluation.history import MOST, fresh_history, restore_history
from learners.evaluation.progress import Progress, fresh_progress, predict_labels
from learners.evaluation.quality import assess, fresh_quality
from learners.evaluation.validation import check_together, restore_quality
from learners.state import flatten, restore
from service.config.settings import Drift

Arrays = dict[str, NDArray[Any]]

CLASSES = 16
"""Classes that replies and metrics list one by one. The others appear together."""

INPUTS = ("inputs", "labels", "predictions")
"""Names of the detectors on distributions, in alarms and metrics."""


class Evaluation(NamedTuple):
    """Rows in order: their labels, their predictions, and 1 where the prediction was wrong."""

    y: Array
    guess: Ints
    wrong: Flags


class Detection(NamedTuple):
    """A change that a detector found at a row."""

    row: int
    detector: str
    slot: int | None
    """Slot of the feature whose distribution changed, if it is a feature."""
    size: float
    worse: bool
    """False only for an error rate that fell."""
    psi: float | None = None


class DriftCounters(NamedTuple):
    """Counts of alarms, and the actions that are pending or active."""

    alarms: Ints
    """Alarms of each detector, then of each of `INPUTS`. A fall of the error is not counted."""
    pending: Ints
    """1 for each action that begins at the next stretch of events: boost, reset_scaler."""
    raised: Ints
    """Number of coming events that will count more."""


class Monitor:
    """The counts, calibration, quality, error curve and drift detectors of one model."""

    def __init__(self, drift: Drift, classes: int, columns: int) -> None:
        """`classes` is the largest number of classes, or 0 if labels are −1 and +1."""
        self.drift = drift
        self._classes = classes
        self._columns = columns
        self.progress = fresh_progress()
        self.calibration = fresh_calibration()
        self.quality = fresh_quality(classes)
        self.history = fresh_history()
        self._reset_detectors()

    def _reset_detectors(self) -> None:
        """Start drift detection without any past."""
        self.detector_states = [detector.init() for detector in self.drift.detectors]
        self.input_state = self.drift.inputs.init(self._columns) if self.drift.inputs else None
        counts = (len(self.detector_names), 2, 1)
        self.counters = DriftCounters(*(np.zeros(count, np.int64) for count in counts))

    @property
    def detector_names(self) -> tuple[str, ...]:
        """Names of all detectors, in the order of `DriftCounters.alarms`."""
        return (
            *(detector.kind for detector in self.drift.detectors),
            *(INPUTS if self.drift.inputs else ()),
        )

    def evaluate(self, y: Array, scores: Array, weights: Array) -> Evaluation:
        """Count the predictions of rows, in order, by their scores before they were learned."""
        guess = predict_labels(scores)
        p = calibrate(self.calibration, y, scores, weights)
        return Evaluation(y, guess, assess(self.progress, self.quality, self.history, y, guess, p))

    def watch(self, X: Batch, y: Array, guess: Ints, wrong: Flags) -> list[Detection]:
        """Run the detectors on rows that were evaluated, in order."""
        detections = self._detect_errors(wrong.astype(np.float64))
        if self.drift.inputs and self.input_state is not None:
            shifts = self.drift.inputs.watch(self.input_state, X, y, guess)
            slots = self.drift.inputs.slots(self.input_state) if shifts else ()
            for row, series, distance, psi in shifts:
                name = (
                    "inputs"
                    if series >= FEATURES
                    else "labels"
                    if series == LABEL
                    else "predictions"
                )
                slot = int(slots[series - FEATURES]) if series >= FEATURES else None
                detections.append(Detection(row, name, slot, distance, worse=True, psi=psi))
        for detection in detections:
            self.counters.alarms[self.detector_names.index(detection.detector)] += detection.worse
        return sorted(detections, key=lambda detection: detection.row)

    def _detect_errors(self, wrong: Array) -> list[Detection]:
        detections: list[Detection] = []
        for detector, state in zip(self.drift.detectors, self.detector_states, strict=True):
            signals, rises = detector.watch(state, wrong)
            alarms = [(row, float(rises[row])) for row in np.flatnonzero(signals == ALARM).tolist()]
            detections += [
                Detection(row, detector.kind, None, abs(rise), worse=rise >= 0.0)
                for row, rise in alarms
            ]
        return detections

    def scores(self) -> dict[str, float]:
        """How near each detector is to an alarm. For distributions, the largest PSI, up to 1."""
        scores = {
            detector.kind: detector.score(state)
            for detector, state in zip(self.drift.detectors, self.detector_states, strict=True)
        }
        if self.drift.inputs and self.input_state is not None:
            psi = np.minimum(self.drift.inputs.psi(self.input_state), 1.0)
            parts = (psi[FEATURES:], psi[:1], psi[1:FEATURES])
            scores |= {
                name: float(part.max(initial=0.0)) for name, part in zip(INPUTS, parts, strict=True)
            }
        return scores

    def feature_psi(self) -> list[tuple[int, float]]:
        """Return slot and PSI of every watched feature."""
        if self.drift.inputs is None or self.input_state is None:
            return []
        pairs = zip(
            self.drift.inputs.slots(self.input_state).tolist(),
            self.drift.inputs.psi(self.input_state)[FEATURES:].tolist(),
            strict=True,
        )
        return [(slot, psi) for slot, psi in pairs if slot >= 0]

    def arrays(self) -> Arrays:
        """Return the arrays by their names in a snapshot, without a copy."""
        arrays: Arrays = {}
        for name, part in self._parts().items():
            arrays |= flatten(part, f"{name}/")
        return arrays

    def _parts(self) -> dict[str, Any]:
        detectors = zip(self.drift.detectors, self.detector_states, strict=True)
        return {
            "progress": self.progress,
            "calibration": self.calibration,
            "quality": self.quality,
            "history": self.history,
            "drift/tally": self.counters,
            **{f"drift/{detector.kind}": state for detector, state in detectors},
            **({"drift/inputs": self.input_state} if self.input_state is not None else {}),
        }

    def restore(self, arrays: Arrays, *, same_drift: bool) -> tuple["Monitor", bool]:
        """Make a monitor from a snapshot, and say whether the snapshot lacks parts.

        A missing part starts empty. So do detectors if the drift settings have changed. Arrays that
        do not fit raise ValueError.
        """
        restored = Monitor(self.drift, self._classes, self._columns)
        progress: Progress = restore(fresh_progress(), _select(arrays, "progress"))
        if (progress.recent > 1).any() or progress.events[0] > MOST:
            raise ValueError("corrupt checkpoint: progress has impossible outcomes or counts")
        restored.progress = progress
        lacking = {part for part in self._parts() if not _select(arrays, part)}
        if "calibration" not in lacking:
            restored.calibration = restore_calibration(_select(arrays, "calibration"))
        # Both count the same events, so one without the other is useless.
        if not {"quality", "history"} & lacking:
            restored.quality = restore_quality(self._classes, _select(arrays, "quality"))
            restored.history = restore_history(_select(arrays, "history"))
            check_together(restored.progress, restored.quality, restored.history)
        if same_drift and "drift/tally" not in lacking:
            restored._restore_drift(arrays)
        return restored, bool(lacking) or not same_drift

    def _restore_drift(self, arrays: Arrays) -> None:
        self.counters = restore(self.counters, _select(arrays, "drift/tally"))
        counts = np.concatenate(self.counters)
        if (counts < 0).any() or (counts > MOST).any() or (self.counters.pending > 1).any():
            raise ValueError("corrupt checkpoint: counters of alarms are inconsistent")
        self.detector_states = [
            detector.restore(_select(arrays, f"drift/{detector.kind}"))
            for detector in self.drift.detectors
        ]
        if self.drift.inputs:
            self.input_state = restore_inputs(
                self.drift.inputs, self._columns, _select(arrays, "drift/inputs")
            )


def _select(arrays: Arrays, part: str) -> Arrays:
    return {
        name.removeprefix(f"{part}/"): array
        for name, array in arrays.items()
        if name.startswith(f"{part}/")
    }
