"""`Model`: a learner, its state, its classes and its honest counts, behind one lock."""

import math
import threading
import time
from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.batch import Array, Batch
from learners.calibration import calibrate, fresh_calibration, probabilities
from learners.evaluation import fresh_progress, record
from learners.kernels import ACCEPTED, REFUSALS
from learners.learner import REWROTE, Learner, flatten, slot_arrays
from learners.outputs import predicted
from service.checkpoints import Manifest
from service.events import Decoder, Event, batch
from service.fitting import Mismatch, check_classes, check_settings, fitted
from service.labels import Labels
from service.lineage import Lineage
from service.settings import Features, Label
from service.snapshot import NAMES, SLOTS, Snapshot
from service.sources.contract import Bookmark
from service.touched import Touched, frozen

SLICE = 64
"""Rows learned while a prediction waits."""


class Outcome(NamedTuple):
    """What became of a batch of events."""

    learned: int
    errors: int
    updates: int
    refused: list[tuple[int, str]]
    """Place in the batch and reason of each event that was not learned."""


class Prediction(NamedTuple):
    label: str | int | None
    score: float | None
    """Of the positive class, or of the label answered with."""
    probability: float | None
    """Calibrated: that the event is of the positive class; of several classes, that the label is right."""
    scores: dict[str, float] | None = None
    """Of every class seen so far, when there are several."""


class Served(NamedTuple):
    """Which state an answer is of: what a replica serves can be had again from its generation."""

    version: int
    """Events learned before."""
    generation: int
    """The newest checkpoint; on a replica the very one that answers."""
    made: float
    """When that state came to be, in seconds since the epoch."""


class Model:
    """Learns and predicts; learning holds the lock for a slice of rows at most, so predictions wait microseconds."""

    def __init__(self, learner: Learner, features: Features, label: Label, decoder: Decoder) -> None:
        check_classes(learner, label)
        self.learner = learner.settled(decoder.slots)
        self.made_with: dict[str, Any] = {
            "learner": self.learner.model_dump(mode="json"),
            "features": features.model_dump(mode="json"),
            "label": label.model_dump(mode="json"),
            "limits": decoder.limits.model_dump(mode="json"),
        }
        self._dim = decoder.slots.dim
        self.names = decoder.names
        self._label = label
        self._lock = self.still = threading.RLock()  # for whoever looks at several things of one state
        self._slot_arrays = frozenset(f"state/{name}" for name in slot_arrays(self.learner))
        self.reset()

    def reset(self) -> None:
        """Become a model that has learned nothing."""
        with self._lock:
            self.state = self.learner.init(self._dim)
            self.progress = fresh_progress()
            self.calibration = fresh_calibration()
            self.labels = Labels(self._label)
            self.rejects: dict[str, int] = {}
            self.names.become()
            self._touched = Touched(self._dim)
            self._generation, self._made = 0, time.time()

    def learn(self, events: Sequence[Event]) -> Outcome:
        """Predict, count, update, in order; an event that cannot be learned changes nothing and is named.

        A waiting prediction waits for one slice: by the learners' second law cuts change nothing.
        """
        X = batch(events)
        codes = self.learner.refusals(X).tolist()
        errors, updates, refused = 0, self.updates(), []
        for first in range(0, len(events), SLICE):
            places = range(first, min(len(events), first + SLICE))
            with self._lock:
                numbers = [
                    self.labels.taught(events[place].label, events[place].weight) if codes[place] == ACCEPTED else None
                    for place in places
                ]
                errors += self._learn(X.rows(places.start, places.stop), numbers)
            if None in numbers:
                unknown = [place for place, number in zip(places, numbers, strict=True) if number is None]
                refused += [(place, REFUSALS[codes[place]] or "label") for place in unknown]
        return Outcome(len(events) - len(refused), errors, self.updates() - updates, refused)

    def _learn(self, X: Batch, numbers: list[float | None]) -> int:
        if None in numbers:
            X = X.where(np.array([number is not None for number in numbers], np.bool_))
        y = np.array([number for number in numbers if number is not None], np.float64)
        self._touched.add(X.indices)
        scores, moved = self.learner.learn_rows(self.state, X, y)
        if (moved & REWROTE).any():
            self._touched.everything = True
        calibrate(self.calibration, y, scores, X.weights)
        self._made = time.time()
        return record(self.progress, y, scores)

    def count_rejects(self, reasons: Sequence[str]) -> None:
        """Rejected events are part of the history, so their counts are checkpointed with it."""
        with self._lock:
            for reason in reasons:
                self.rejects[reason] = self.rejects.get(reason, 0) + 1

    def predict(self, events: Sequence[Event]) -> tuple[Served, list[Prediction | str]]:
        """Score without changing anything; a reason instead of a prediction for a row that the learner refuses."""
        X = batch(events)
        codes = self.learner.refusals(X).tolist()
        rows = X.where(np.array(codes) == ACCEPTED) if any(codes) else X
        with self._lock:
            scores = self.learner.score_rows(self.state, rows)
            sure = probabilities(self.calibration, scores).tolist()
            names, served = self.labels, self._served()
        best = scores if scores.ndim == 1 else scores.max(axis=1, initial=-np.inf)
        by_class = repeat(None) if scores.ndim == 1 else (_by_class(names.names, row) for row in scores)
        answers = (
            Prediction(names.label(guess), _finite(score), _finite(probability), scored)
            for guess, score, probability, scored in zip(
                predicted(scores).tolist(), best.tolist(), sure, by_class, strict=False
            )
        )
        return served, [next(answers) if code == ACCEPTED else REFUSALS[code] for code in codes]

    def served(self) -> Served:
        with self._lock:
            return self._served()

    def _served(self) -> Served:
        return Served(int(self.progress.events[0]), self._generation, self._made)

    def saved(self, generation: int) -> None:
        """A checkpoint of this state, or of one it came from, is the newest."""
        with self._lock:
            self._generation = generation

    def examine(self, events: Sequence[Event]) -> tuple[Array, Array]:
        """Numbers and scores of labelled events, without learning from them; unknown labels and refused rows left out.

        A class that the model has never seen counts as an error, not as unknown.
        """
        with self._lock:
            known = Labels(self._label, self.labels.names)
            numbers = [None if event.label is None else known.number(event.label) for event in events]
            kept = [place for place, number in enumerate(numbers) if number is not None]
            scores = self.learner.scores(self.state, batch([events[place] for place in kept]))
            y = np.array([numbers[place] for place in kept], np.float64)
            fine = ~np.isnan(scores) if scores.ndim == 1 else ~np.isnan(scores).any(axis=1)
            return y[fine], scores[fine]

    def updates(self) -> int:
        """Events that moved a weight."""
        with self._lock:
            return self.learner.updates(self.state)

    def dropped(self) -> int:
        """Events whose update a guard dropped."""
        with self._lock:
            return self.learner.dropped(self.state)

    def norm(self) -> float:
        """Euclidean norm of the weights."""
        with self._lock:
            return self.learner.norm(self.state)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """All that is learned and counted, by the names it has in a snapshot; not copied."""
        parts = (("state", self.state), ("progress", self.progress), ("calibration", self.calibration))
        return {name: array for part, arrays in parts for name, array in flatten(arrays, f"{part}/").items()}

    def snapshot(self, bookmark: Bookmark, lineage: Lineage, *, whole: bool) -> Snapshot:
        """A copy between two events, or of what has changed since the last one or since `restore`: learning pauses.

        Whole all the same where that is as good or the only way: see `Touched`.
        """
        with self._lock:
            if whole:
                self._touched.everything = True
            copied = frozen(self._arrays(), self._slot_arrays, self._touched.take())
            if self.names.kept:
                copied.arrays[NAMES] = self.names.taken(whole=SLOTS not in copied.arrays)
            classes, rejects = list(self.labels.names), dict(self.rejects)
        return Snapshot(self.made_with, classes, bookmark, lineage, rejects, None, copied.arrays, copied.sliced)

    def put_back(self, snapshot: Snapshot) -> None:
        """The last snapshot did not become a checkpoint: the next one holds its slots again."""
        with self._lock:
            self._touched.put_back(snapshot.arrays.get(SLOTS))
            if NAMES in snapshot.arrays and not snapshot.whole:
                self.names.put_back(snapshot.arrays[NAMES])

    def restore(self, snapshot: Snapshot, manifest: Manifest | None = None) -> None:
        """Become what the snapshot holds, whole and at once; one that does not fit is a `Mismatch`."""
        self.check(snapshot)
        found = fitted(self.learner, self._dim, self._label, self.names, snapshot)
        with self._lock:
            self.state, self.progress, self.calibration = found.state, found.progress, found.calibration
            self.labels, self.rejects = Labels(self._label, snapshot.classes), dict(snapshot.rejects)
            self.names.become(found.names)
            self._touched.take()
            self._touched.everything |= found.older
            if manifest is not None:
                self._generation, self._made = manifest.generation, manifest.created

    def check(self, snapshot: Snapshot) -> None:
        """Refuse other settings, strange arrays and classes that cannot be; their shapes are seen by `restore`."""
        check_settings(self.made_with, snapshot)
        if strange := sorted(snapshot.arrays.keys() - self._arrays().keys() - {NAMES}):
            raise Mismatch(f"the checkpoint has an array that this model has not: {strange[0][:80]!r}")
        if wrong := self.labels.wrong(snapshot.classes):
            raise Mismatch(f"the checkpoint is not one of this model: {wrong}")


def _by_class(names: list[str], scores: Array) -> dict[str, float]:
    """Of the classes seen so far; the others have columns too, at −inf."""
    return {name: score for name, score in zip(names, scores.tolist(), strict=False) if score > -np.inf}


def _finite(score: float) -> float | None:
    return score if math.isfinite(score) else None
