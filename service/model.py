"""`Model`: a learner, its state, its classes and its honest counts, behind one lock."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learners.batch import Array, Batch
from learners.calibration import Calibration, probabilities
from learners.evaluation import Progress
from learners.kernels import ACCEPTED, REFUSALS
from learners.learner import REWROTE, Learner, slot_arrays
from learners.state import flatten
from service.alarms import Alarm, Alarms
from service.answers import Outcome, Prediction, Served, predictions
from service.checkpoints import Manifest
from service.drift_settings import Drift
from service.events import Decoder, Event, batch
from service.fitting import check_arrays, check_parts, check_settings, fitted
from service.judgement import Judged, Judgement
from service.labels import Labels
from service.lineage import Lineage
from service.reaction import LOOKED_AT, STRETCH, carried_out, decided
from service.settings import Features, Label
from service.snapshot import ALARMS, NAMES, SLOTS, Snapshot
from service.sources.contract import Bookmark, Record
from service.touched import Touched, frozen
from service.turns import Portion, Turns

WATCHED = Drift()


class Model:
    """Learns and predicts; the lock is held for 64 rows learned (fewer if slow) or 1,024 watched, at most."""

    def __init__(
        self, learner: Learner, features: Features, label: Label, decoder: Decoder, drift: Drift = WATCHED
    ) -> None:
        check_parts(learner, features, label, drift)
        self.learner = learner.settled(decoder.slots)
        self.made_with: dict[str, Any] = {
            "learner": self.learner.model_dump(mode="json"),
            "features": features.model_dump(mode="json"),
            "label": label.model_dump(mode="json"),
            "limits": decoder.limits.model_dump(mode="json"),
            "drift": drift.model_dump(mode="json", exclude={"alarms"}),
        }
        self._dim = decoder.slots.dim
        self.names = decoder.names
        self._label, self._drift = label, drift
        self.columns = len(decoder.slots.columns)
        self._lock = self.still = Turns()  # for whoever looks at several things of one state
        self._portion = Portion(STRETCH)
        self._slot_arrays = frozenset(f"state/{name}" for name in slot_arrays(self.learner))
        self.reset()

    def reset(self) -> None:
        """Become a model that has learned nothing."""
        with self._lock:
            self.state = self.learner.init(self._dim)
            classes = 0 if self._label.classes == "binary" else self._label.max_classes
            self.judgement = Judgement(self._drift, classes, self.columns)
            self.alarms = Alarms()
            self.labels = Labels(self._label)
            self.rejects: dict[str, int] = {}
            self.names.become()
            self._touched = Touched(self._dim)
            self._generation, self._made = 0, time.time()

    @property
    def progress(self) -> Progress:
        return self.judgement.progress

    @property
    def calibration(self) -> Calibration:
        return self.judgement.calibration

    def learn(self, events: Sequence[Event], origins: Sequence[Record] = ()) -> Outcome:
        """Predict, count, update, in order; an event that cannot be learned changes nothing and is named.

        A waiting prediction waits for part of a stretch: by the learners' second law cuts change nothing. The origins
        are the events' records, by which alarms say where they are.
        """
        began = time.perf_counter()
        X = batch(events)
        codes = self.learner.refusals(X).tolist()
        before, updates, first = self.judgement.quality.totals.copy(), self.updates(), 0
        refused: list[tuple[int, str]] = []
        alarms: list[Alarm] = []
        learned: list[int] = []
        judged: list[Judged] = []
        while first < len(events):
            with self._lock:
                turn, rest = time.perf_counter(), STRETCH - int(self.progress.events[0]) % STRETCH
                places = range(first, min(len(events), first + min(rest, self._portion.rows)))
                numbers = [
                    self.labels.taught(events[place].label, events[place].weight) if codes[place] == ACCEPTED else None
                    for place in places
                ]
                judged.append(self._learn(X.rows(places.start, places.stop), numbers))
                learned += [place for place, number in zip(places, numbers, strict=True) if number is not None]
                first = places.stop
                # Who only looks may look at many at once, which is quicker; predictions wait for it all the same.
                if self._drift.acts or len(learned) >= LOOKED_AT or first == len(events):
                    alarms += self._watched(X, learned, judged, origins)
                    learned, judged = [], []
            self._portion.took(len(places), time.perf_counter() - turn)
            if None in numbers:
                unknown = [place for place, number in zip(places, numbers, strict=True) if number is None]
                refused += [(place, REFUSALS[codes[place]] or "label") for place in unknown]
        count, errors, majority, no_change, _ = (self.judgement.quality.totals - before).tolist()
        updates, seconds = self.updates() - updates, time.perf_counter() - began
        return Outcome(count, errors, majority, no_change, updates, refused, alarms, seconds)

    def _learn(self, X: Batch, numbers: list[float | None]) -> Judged:
        if None in numbers:
            X = X.where(np.array([number is not None for number in numbers], np.bool_))
        y = np.array([number for number in numbers if number is not None], np.float64)
        self._touched.add(X.indices)
        X, rewrote = carried_out(self.judgement, self.learner, self.state, X)
        scores, moved = self.learner.learn_rows(self.state, X, y)
        if rewrote or (moved & REWROTE).any():
            self._touched.everything = True
        self._made = time.time()
        return self.judgement.judge(y, scores, X.weights)

    def _watched(self, X: Batch, places: list[int], judged: list[Judged], origins: Sequence[Record]) -> list[Alarm]:
        """Let the detectors look at the rows that were learned last, those at these places."""
        if not places:
            return []
        rows = X.rows(places[0], places[-1] + 1)
        if rows.size > len(places):
            rows = rows.where(np.isin(np.arange(places[0], places[-1] + 1), places))
        before = int(self.progress.events[0]) - len(places)
        signs = self.judgement.watch(rows, *map(np.concatenate, zip(*judged, strict=True)))
        where = [origins[place] for place in places] if signs and origins else []
        alarms = [decided(self.judgement, sign, before, where, self.named) for sign in signs]
        self.alarms.extend(alarms)
        return alarms

    def count_rejects(self, reasons: Sequence[str]) -> None:
        """Rejected events are part of the history, so their counts are checkpointed with it."""
        with self._lock:
            for reason in reasons:
                self.rejects[reason] = self.rejects.get(reason, 0) + 1

    def predict(self, X: Batch) -> tuple[Served, list[Prediction | str]]:
        """Score without changing anything; a reason instead of a prediction for a row that the learner refuses."""
        codes = self.learner.refusals(X).tolist()
        refused = [place for place, code in enumerate(codes) if code != ACCEPTED]
        rows = X.where(np.array(codes) == ACCEPTED) if refused else X
        with self._lock:
            scores = self.learner.score_rows(self.state, rows)
            sure = probabilities(self.calibration, scores)
            names, served = self.labels, self._served()
        answers: list[Prediction | str] = [*predictions(scores, sure, names)]
        for place in refused:
            answers.insert(place, REFUSALS[codes[place]])
        return served, answers

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

    def named(self, slot: int) -> str:
        """What a feature is called; two names where they collide."""
        return " or ".join(self.names.of(slot)) or f"slot {slot}"

    def norm(self) -> float:
        """Euclidean norm of the weights."""
        with self._lock:
            return self.learner.norm(self.state)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """All that is learned and counted, by the names it has in a snapshot; not copied."""
        return flatten(self.state, "state/") | self.judgement.arrays()

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
            copied.arrays[ALARMS] = self.alarms.array()
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
        found = fitted(self.learner, self._dim, self._label, self.names, self.judgement, snapshot)
        with self._lock:
            self.state, self.judgement, self.alarms = found.state, found.judgement, found.alarms
            self.labels, self.rejects = Labels(self._label, snapshot.classes), dict(snapshot.rejects)
            self.names.become(found.names)
            self._touched.take()
            self._touched.everything |= found.older
            if manifest is not None:
                self._generation, self._made = manifest.generation, manifest.created

    def check(self, snapshot: Snapshot) -> None:
        """Refuse other settings, strange arrays and classes that cannot be; their shapes are seen by `restore`."""
        check_settings(self.made_with, snapshot)
        check_arrays({*self._arrays(), NAMES, ALARMS}, self.labels, snapshot)
