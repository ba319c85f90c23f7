"""Honest counts: from labels and the scores made before each update, in a state that is checkpointed with the model."""

from typing import NamedTuple

import numpy as np

from learners.batch import Array, Flags, Ints
from learners.outputs import predicted

WINDOW = 1000
"""How many events "recent" is."""


class Progress(NamedTuple):
    """Errors over all events, and the last WINDOW outcomes as a ring in which event n has place n mod WINDOW."""

    events: Ints
    errors: Ints
    recent: Flags

    @property
    def error_rate(self) -> float:
        """Share of events whose label was predicted wrongly; 0 before the first."""
        return int(self.errors[0]) / max(1, int(self.events[0]))

    @property
    def recent_error_rate(self) -> float:
        """The same over the last WINDOW events."""
        return int(self.recent.sum()) / max(1, min(WINDOW, int(self.events[0])))


def fresh_progress() -> Progress:
    return Progress(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(WINDOW, np.uint8))


class Report(NamedTuple):
    """How a frozen model does on rows it has not learned from."""

    events: int
    accuracy: float
    precision: float
    recall: float
    f1: float


def report(y: Array, scores: Array) -> Report:
    """Precision, recall and F1 of the positive class; for several classes the means over those in `y` or predicted."""
    guess = predicted(scores)
    classes = [1] if scores.ndim == 1 else sorted({*y.astype(int).tolist(), *guess.tolist()} - {-1})
    parts = np.array([_positive(y == c, guess == c) for c in classes]).mean(axis=0) if y.size else np.zeros(3)
    return Report(int(y.size), float(np.mean(guess == y)) if y.size else 0.0, *(float(part) for part in parts))


def _positive(truth: np.ndarray, guess: np.ndarray) -> tuple[float, float, float]:
    hits = int((truth & guess).sum())
    precision = hits / max(1, int(guess.sum()))
    recall = hits / max(1, int(truth.sum()))
    return precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0
