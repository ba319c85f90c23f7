"""Count prequential errors: predictions from before each update that differ from the label.

A score becomes a predicted label: binary `+1` if the score is ≥ 0, one-vs-rest the class with the
highest score, the first one on a tie. The counts are part of a checkpoint. `report` measures a
model that no longer learns.
"""

from typing import NamedTuple

import numpy as np

from learners.batch import Array, Flags, Ints

SIGNS = np.array([-1, 1])
"""Label of a score below 0, and of all other scores."""

WINDOW = 1000
"""Events that count as recent."""


class Progress(NamedTuple):
    """Errors over all events, and the last WINDOW outcomes.

    The outcomes are a ring: event n is at index n mod WINDOW.
    """

    events: Ints
    errors: Ints
    recent: Flags

    @property
    def error_rate(self) -> float:
        """Share of events whose label was predicted wrongly. 0 before the first event."""
        return int(self.errors[0]) / max(1, int(self.events[0]))

    @property
    def recent_error_rate(self) -> float:
        """Error rate over the last WINDOW events."""
        return int(self.recent.sum()) / max(1, min(WINDOW, int(self.events[0])))


class Report(NamedTuple):
    """Performance of a model that does not learn, on rows that it has not learned from."""

    events: int
    accuracy: float
    precision: float
    recall: float
    f1: float


def fresh_progress() -> Progress:
    return Progress(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(WINDOW, np.uint8))


def predict_labels(scores: Array) -> Ints:
    """−1/+1 for a vector of scores.

    For a matrix: the class index, or −1 if no class has been seen.
    """
    if scores.ndim == 1:
        return SIGNS.take(scores >= 0.0)
    return np.where(np.isneginf(scores).all(axis=1), -1, np.argmax(scores, axis=1))


def report(y: Array, scores: Array) -> Report:
    """Precision, recall and F1 of the positive class.

    With several classes: means over the classes in `y` or predicted.
    """
    guess = predict_labels(scores)
    classes = [1] if scores.ndim == 1 else sorted({*y.astype(int).tolist(), *guess.tolist()} - {-1})
    parts = (
        np.array([_precision_recall_f1(y == c, guess == c) for c in classes]).mean(axis=0)
        if y.size
        else np.zeros(3)
    )
    return Report(
        int(y.size), float(np.mean(guess == y)) if y.size else 0.0, *(float(part) for part in parts)
    )


def _precision_recall_f1(truth: np.ndarray, guess: np.ndarray) -> tuple[float, float, float]:
    hits = int((truth & guess).sum())
    precision = hits / max(1, int(guess.sum()))
    recall = hits / max(1, int(truth.sum()))
    return precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0
