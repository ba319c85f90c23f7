"""`Model`: learns from events and predicts, behind one lock."""

import time
from collections.abc import Sequence

import numpy as np

from learners.batch import Array, Batch
from learners.evaluation.calibration import Calibration, probabilities
from learners.evaluation.progress import Progress
from learners.jit import ACCEPTED, ROW_REFUSALS
from learners.learner import REWROTE, Learner
from service.config.settings import Drift, Features, Label
from service.features.decoder import Decoder, Event, batch
from service.features.labels import Labels
from service.model.alarms import Alarm
from service.model.configuration_checks import check_parts
from service.model.drift_actions import LOOKED_AT, STRETCH, apply_pending_actions, make_alarm
from service.model.monitor import Evaluation
from service.model.persistence import ModelState
from service.model.results import LearnResult, ModelVersion, Prediction, make_predictions
from service.model.scheduling import SliceSizer
from service.sources.base import Record

DEFAULT_DRIFT = Drift()


class Model(ModelState):
    """Learns and predicts.

    It holds the lock for at most 64 rows to learn, fewer if they are slow, or for at most 1,024
    rows that the detectors watch.
    """

    def __init__(
        self,
        learner: Learner,
        features: Features,
        label: Label,
        decoder: Decoder,
        drift: Drift = DEFAULT_DRIFT,
    ) -> None:
        check_parts(learner, features, label, drift)
        super().__init__(learner, features, label, decoder, drift)
        self._slices = SliceSizer(STRETCH)

    @property
    def progress(self) -> Progress:
        return self.monitor.progress

    @property
    def calibration(self) -> Calibration:
        return self.monitor.calibration

    def learn(self, events: Sequence[Event], origins: Sequence[Record] = ()) -> LearnResult:
        """Predict, count and update, event by event.

        An event that cannot be learned changes nothing. The result names it with the reason.

        The lock is released between slices, so a prediction waits for one slice only. By the
        learners' second law the cuts do not change the result. `origins` are the records of the
        events. Alarms name their positions.
        """
        began = time.perf_counter()
        X = batch(events)
        codes = self.learner.row_refusals(X).tolist()
        before, updates, first = self.monitor.quality.totals.copy(), self.updates(), 0
        refused: list[tuple[int, str]] = []
        alarms: list[Alarm] = []
        learned: list[int] = []
        evaluated: list[Evaluation] = []
        while first < len(events):
            with self.lock:
                turn = time.perf_counter()
                rows = self._next_slice(first, len(events))
                numbers = self._training_numbers(events, codes, rows)
                evaluated.append(self._learn(X.rows(rows.start, rows.stop), numbers))
                pairs = list(zip(rows, numbers, strict=True))
                learned += [row for row, number in pairs if number is not None]
                first = rows.stop
                # Without actions the detectors may look at many rows at once, which is faster.
                # Predictions wait for that too.
                if self._drift.acts or len(learned) >= LOOKED_AT or first == len(events):
                    alarms += self._detect(X, learned, evaluated, origins)
                    learned, evaluated = [], []
            self._slices.took(len(rows), time.perf_counter() - turn)
            if None in numbers:
                unknown = [row for row, number in pairs if number is None]
                refused += [(row, ROW_REFUSALS[codes[row]] or "label") for row in unknown]
        count, errors, majority, no_change, _ = (self.monitor.quality.totals - before).tolist()
        updates, seconds = self.updates() - updates, time.perf_counter() - began
        return LearnResult(count, errors, majority, no_change, updates, refused, alarms, seconds)

    def _next_slice(self, first: int, events: int) -> range:
        """Choose the rows of one turn. A slice never crosses a multiple of `STRETCH` events."""
        rest = STRETCH - int(self.progress.events[0]) % STRETCH
        return range(first, min(events, first + min(rest, self._slices.rows)))

    def _training_numbers(
        self, events: Sequence[Event], codes: list[int], rows: range
    ) -> list[float | None]:
        """Return the numbers of the rows' labels. None if the event cannot be learned."""
        return [
            self.labels.training_number(events[row].label, events[row].weight)
            if codes[row] == ACCEPTED
            else None
            for row in rows
        ]

    def _learn(self, X: Batch, numbers: list[float | None]) -> Evaluation:
        if None in numbers:
            X = X.where(np.array([number is not None for number in numbers], np.bool_))
        y = np.array([number for number in numbers if number is not None], np.float64)
        self._dirty.add(X.indices)
        X, rewrote = apply_pending_actions(self.monitor, self.learner, self.state, X)
        scores, moved = self.learner.learn_rows(self.state, X, y)
        if rewrote or (moved & REWROTE).any():
            self._dirty.all_dirty = True
        self._state_time = time.time()
        return self.monitor.evaluate(y, scores, X.weights)

    def _detect(
        self, X: Batch, rows: list[int], evaluated: list[Evaluation], origins: Sequence[Record]
    ) -> list[Alarm]:
        """Run the detectors on the rows that were learned last."""
        if not rows:
            return []
        learned = X.rows(rows[0], rows[-1] + 1)
        if learned.size > len(rows):
            learned = learned.where(np.isin(np.arange(rows[0], rows[-1] + 1), rows))
        before = int(self.progress.events[0]) - len(rows)
        detections = self.monitor.watch(learned, *map(np.concatenate, zip(*evaluated, strict=True)))
        records = [origins[row] for row in rows] if detections and origins else []
        alarms = [
            make_alarm(self.monitor, detection, before, records, self.feature_name)
            for detection in detections
        ]
        self.alarms.extend(alarms)
        return alarms

    def count_rejects(self, reasons: Sequence[str]) -> None:
        """Count rejected events. They are part of the history, so checkpoints hold their counts."""
        with self.lock:
            for reason in reasons:
                self.rejects[reason] = self.rejects.get(reason, 0) + 1

    def predict(self, X: Batch) -> tuple[ModelVersion, list[Prediction | str]]:
        """Predict each row without any change to the model.

        A row that the learner refuses has a reason in place of its prediction.
        """
        codes = self.learner.row_refusals(X).tolist()
        refused = [row for row, code in enumerate(codes) if code != ACCEPTED]
        rows = X.where(np.array(codes) == ACCEPTED) if refused else X
        with self.lock:
            scores = self.learner.score_rows(self.state, rows)
            calibrated = probabilities(self.calibration, scores)
            labels, version = self.labels, self._version()
        answers: list[Prediction | str] = [*make_predictions(scores, calibrated, labels)]
        for row in refused:
            answers.insert(row, ROW_REFUSALS[codes[row]])
        return version, answers

    def version(self) -> ModelVersion:
        """Return the version of the current state."""
        with self.lock:
            return self._version()

    def _version(self) -> ModelVersion:
        return ModelVersion(int(self.progress.events[0]), self._generation, self._state_time)

    def mark_saved(self, generation: int) -> None:
        """Record that the newest checkpoint holds this state or an earlier one."""
        with self.lock:
            self._generation = generation

    def score_labelled(self, events: Sequence[Event]) -> tuple[Array, Array]:
        """Score labelled events without learning. Return the labels' numbers and the scores.

        Events with an unknown label and refused rows are left out. A class that the model has never
        seen counts as an error, not as unknown.
        """
        with self.lock:
            known = Labels(self._label, self.labels.names)
            numbers = [
                None if event.label is None else known.number(event.label) for event in events
            ]
            labelled = [row for row, number in enumerate(numbers) if number is not None]
            scores = self.learner.scores(self.state, batch([events[row] for row in labelled]))
            y = np.array([numbers[row] for row in labelled], np.float64)
            accepted = ~np.isnan(scores) if scores.ndim == 1 else ~np.isnan(scores).any(axis=1)
            return y[accepted], scores[accepted]

    def updates(self) -> int:
        """Count the events that changed a weight."""
        with self.lock:
            return self.learner.updates(self.state)

    def dropped(self) -> int:
        """Count the events whose update a guard dropped."""
        with self.lock:
            return self.learner.dropped_updates(self.state)

    def feature_name(self, slot: int) -> str:
        """Return the name of a feature, or both names if they collide."""
        return " or ".join(self.names.of(slot)) or f"slot {slot}"

    def norm(self) -> float:
        """Return the Euclidean norm of the weights."""
        with self.lock:
            return self.learner.norm(self.state)
