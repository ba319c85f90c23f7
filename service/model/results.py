"""The results of a model: of learning a batch, of a prediction, and the version of its state."""

from collections.abc import Iterator
from itertools import repeat
from math import isfinite
from typing import NamedTuple

import msgspec
import numpy as np

from learners.batch import Array
from learners.evaluation.progress import predict_labels
from service.features.labels import Labels
from service.model.alarms import Alarm


class LearnResult(NamedTuple):
    """The result of learning a batch of events."""

    learned: int
    errors: int
    majority_errors: int
    """Errors of the majority baseline on the same events."""
    no_change_errors: int
    """Errors of the no-change baseline on the same events."""
    updates: int
    refused: list[tuple[int, str]]
    """Index in the batch and reason of each event that was not learned."""
    alarms: list[Alarm]
    seconds: float
    """Duration of learning."""


class Prediction(msgspec.Struct, frozen=True):
    """The prediction of one row."""

    label: str | int | None
    score: float | None
    """Score of the positive class, or with several classes of the predicted label."""
    probability: float | None
    """Calibrated probability of the positive class, or with several classes of the label."""
    scores: dict[str, float] | None = None
    """Scores of all classes seen so far, if there are several classes."""


class ModelVersion(NamedTuple):
    """The state that made an answer. A replica's state can be loaded again by its generation."""

    version: int
    """Number of events learned before."""
    generation: int
    """Generation of the newest checkpoint. On a replica it is the one that answers."""
    made: float
    """Seconds since the epoch at which that state was made."""


def make_predictions(scores: Array, calibrated: Array, labels: Labels) -> Iterator[Prediction]:
    """Yield the prediction of each row."""
    best = scores if scores.ndim == 1 else scores.max(axis=1, initial=-np.inf)
    by_class = (
        repeat(None) if scores.ndim == 1 else (_by_class(labels.names, row) for row in scores)
    )
    guesses = predict_labels(scores).tolist()
    names = {guess: labels.label(guess) for guess in {*guesses}}
    return map(
        Prediction,
        map(names.__getitem__, guesses),
        _finite(best),
        _finite(calibrated),
        by_class,
    )


def _by_class(names: list[str], scores: Array) -> dict[str, float]:
    """Scores of the classes seen so far. The other columns are −inf."""
    return {
        name: score for name, score in zip(names, scores.tolist(), strict=False) if score > -np.inf
    }


def _finite(numbers: Array) -> list[float | None]:
    """Replace infinities and NaN, which JSON cannot express, by None."""
    return [number if isfinite(number) else None for number in numbers.tolist()]
