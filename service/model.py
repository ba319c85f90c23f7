"""`Model`: a learner, its state, its classes and its honest counts, behind one lock."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from learners.batch import Array
from learners.compose.one_vs_rest import OneVsRest
from learners.evaluation import Progress, fresh_progress, record
from learners.kernels import ACCEPTED, REFUSALS
from learners.learner import REWROTE, Learner, flatten, restore, slot_arrays
from learners.outputs import predicted
from learners.registry import make
from service.differences import differences
from service.errors import Protective
from service.events import Decoder, Event, batch
from service.labels import Labels
from service.lineage import Lineage
from service.settings import Features, Label, Limits
from service.snapshot import SLOTS, Snapshot
from service.sources.contract import Bookmark
from service.touched import Touched, frozen

REQUIRED = ("learner", "features", "label")
"""Settings that every checkpoint tells; limits came later."""


class Mismatch(Protective):
    """A checkpoint that was made with other settings than the configuration has, or is not one of such a model."""


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
    version: int
    """Events learned before this prediction."""


class Model:
    """Learns and predicts; each call holds the lock for one batch, so predictions wait microseconds."""

    def __init__(self, learner: Learner, features: Features, label: Label, decoder: Decoder) -> None:
        _check_classes(learner, label)
        self.learner = learner.settled(decoder.slots)
        self.made_with: dict[str, Any] = {
            "learner": self.learner.model_dump(mode="json"),
            "features": features.model_dump(mode="json"),
            "label": label.model_dump(mode="json"),
            "limits": decoder.limits.model_dump(mode="json"),
        }
        self._dim = decoder.slots.dim
        self._label = label
        self._lock = threading.Lock()
        self._slot_arrays = frozenset(f"state/{name}" for name in slot_arrays(self.learner))
        self.reset()

    def reset(self) -> None:
        """Become a model that has learned nothing."""
        with self._lock:
            self.state = self.learner.init(self._dim)
            self.progress = fresh_progress()
            self.labels = Labels(self._label)
            self.rejects: dict[str, int] = {}
            self._touched = Touched(self._dim)

    def learn(self, events: Sequence[Event]) -> Outcome:
        """Predict, count, update, in order; an event that cannot be learned changes nothing and is named."""
        with self._lock:
            before = self.learner.updates(self.state)
            X = batch(events)
            codes = self.learner.refusals(X)
            numbers = [
                self._number(event) if code == ACCEPTED else None for event, code in zip(events, codes, strict=True)
            ]
            known = np.array([number is not None for number in numbers], np.bool_)
            refused = [(place, REFUSALS[codes[place]] or "label") for place in np.flatnonzero(~known).tolist()]
            y = np.array([number for number in numbers if number is not None], np.float64)
            X = X if known.all() else X.where(known)
            self._touched.add(X.indices)
            scores, moved = self.learner.learn_rows(self.state, X, y)
            if (moved & REWROTE).any():
                self._touched.everything = True
            errors = record(self.progress, y, scores)
            return Outcome(int(y.size), errors, self.learner.updates(self.state) - before, refused)

    def _number(self, event: Event) -> float | None:
        """The label for the learner. An event of weight 0 changes nothing, so it brings no class into being either."""
        if event.label is None:
            return None
        return self.labels.number(event.label) if event.weight else self.labels.known_number(event.label)

    def count_rejects(self, reasons: Sequence[str]) -> None:
        """Rejected events are part of the history, so their counts are checkpointed with it."""
        with self._lock:
            for reason in reasons:
                self.rejects[reason] = self.rejects.get(reason, 0) + 1

    def predict(self, events: Sequence[Event]) -> list[Prediction | str]:
        """Score without changing anything; a reason instead of a prediction for a row that the learner refuses."""
        X = batch(events)
        codes = self.learner.refusals(X)
        with self._lock:
            scores = self.learner.scores(self.state, X)
            version = int(self.progress.events[0])
            guesses = predicted(scores).tolist()
            best = scores if scores.ndim == 1 else scores.max(axis=1)
            return [
                REFUSALS[codes[row]]
                if codes[row] != ACCEPTED
                else Prediction(self.labels.label(guesses[row]), _finite(best[row]), version)
                for row in range(X.size)
            ]

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
        parts = (("state", self.state), ("progress", self.progress))
        return {name: array for part, arrays in parts for name, array in flatten(arrays, f"{part}/").items()}

    def snapshot(self, bookmark: Bookmark, lineage: Lineage, *, whole: bool) -> Snapshot:
        """A copy between two events, or of what has changed since the last one or since `restore`: learning pauses.

        Whole all the same where that is as good or the only way: see `Touched`.
        """
        with self._lock:
            if whole:
                self._touched.everything = True
            copied = frozen(self._arrays(), self._slot_arrays, self._touched.take())
            classes, rejects = list(self.labels.names), dict(self.rejects)
        return Snapshot(self.made_with, classes, bookmark, lineage, rejects, None, copied.arrays, copied.sliced)

    def put_back(self, snapshot: Snapshot) -> None:
        """The last snapshot did not become a checkpoint: the next one holds its slots again."""
        with self._lock:
            self._touched.put_back(snapshot.arrays.get(SLOTS))

    def restore(self, snapshot: Snapshot) -> None:
        """Become what the snapshot holds; one that does not fit is a `Mismatch`, and changes nothing."""
        self.check(snapshot)
        parts: dict[str, dict[str, Any]] = {"state": {}, "progress": {}}
        for path, array in snapshot.arrays.items():
            part, _, name = path.partition("/")
            parts[part][name] = array
        try:
            state = restore(self.learner.init(self._dim), parts["state"])
            progress: Progress = restore(fresh_progress(), parts["progress"])
        except ValueError as error:
            raise Mismatch(f"the checkpoint is not one of this model: {error}") from error
        seen: Any = parts["state"].get("base/seen", parts["state"].get("seen"))  # of one_vs_rest, scaled or not
        if (progress.recent > 1).any() or (not self.labels.binary and seen[len(snapshot.classes) :].any()):
            raise Mismatch("the checkpoint is not one of this model: it has outcomes or classes that cannot be")
        with self._lock:
            self.state, self.progress = state, progress
            self.labels, self.rejects = Labels(self._label, snapshot.classes), dict(snapshot.rejects)
            self._touched.take()

    def check(self, snapshot: Snapshot) -> None:
        """Refuse other settings, strange arrays and classes that cannot be; their shapes are seen by `restore`."""
        if missing := [part for part in REQUIRED if part not in snapshot.model]:
            raise Mismatch(f"the checkpoint does not say with which settings of '{missing[0]}' it was made")
        theirs = {part: _read_today(part, made_with) for part, made_with in snapshot.model.items()}
        mine = {part: self.made_with.get(part) for part in theirs}
        if different := differences(mine, theirs):
            raise Mismatch(
                f"the checkpoint was made with other settings: {'; '.join(different)[:500]}; "
                "use another `name`, or the old settings"
            )
        if strange := sorted(snapshot.arrays.keys() - self._arrays().keys()):
            raise Mismatch(f"the checkpoint has an array that this model has not: {strange[0][:80]!r}")
        if wrong := self.labels.wrong(snapshot.classes):
            raise Mismatch(f"the checkpoint is not one of this model: {wrong}")


def _check_classes(learner: Learner, label: Label) -> None:
    """A class without a column would be learned into another's, or into nothing."""
    inner: Learner | None = learner
    while inner is not None and not isinstance(inner, OneVsRest):
        inner = getattr(inner, "base", None)
    if inner is None and label.classes == "grow":
        raise ValueError("label.classes: grow needs a learner of kind one_vs_rest")
    if inner is not None and label.classes == "binary":
        raise ValueError("a learner of kind one_vs_rest needs label.classes: grow")
    if inner is not None and inner.max_classes < label.max_classes:
        raise ValueError(
            f"one_vs_rest has max_classes {inner.max_classes}, the label {label.max_classes}; set both to the same"
        )


def _read_today(part: str, made_with: Any) -> Any:
    """Settings of a checkpoint as this version writes them: a parameter that came later has its default."""
    readers: dict[str, Callable[[Any], BaseModel]] = {
        "learner": make,
        "features": Features.model_validate,
        "label": Label.model_validate,
        "limits": Limits.model_validate,
    }
    try:
        return readers[part](made_with).model_dump(mode="json") if part in readers else made_with
    except ValueError:
        return made_with


def _finite(score: float) -> float | None:
    return float(score) if np.isfinite(score) else None
