"""What a model says: of a batch that it learned, of an event that it is asked about, and from which state."""

from collections.abc import Iterator
from itertools import repeat
from math import isfinite
from typing import NamedTuple

import msgspec
import numpy as np

from learners.batch import Array
from learners.outputs import predicted
from service.alarms import Alarm
from service.labels import Labels


class Outcome(NamedTuple):
    """What became of a batch of events."""

    learned: int
    errors: int
    majority_errors: int
    """What the baselines would have got wrong of them."""
    no_change_errors: int
    updates: int
    refused: list[tuple[int, str]]
    """Place in the batch and reason of each event that was not learned."""
    alarms: list[Alarm]
    seconds: float
    """What it took."""


class Prediction(msgspec.Struct, frozen=True):
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


def predictions(scores: Array, sure: Array, labels: Labels) -> Iterator[Prediction]:
    """One of each row, in words."""
    best = scores if scores.ndim == 1 else scores.max(axis=1, initial=-np.inf)
    by_class = repeat(None) if scores.ndim == 1 else (_by_class(labels.names, row) for row in scores)
    guesses = predicted(scores).tolist()
    words = {guess: labels.label(guess) for guess in {*guesses}}
    return map(Prediction, map(words.__getitem__, guesses), _finite(best), _finite(sure), by_class)


def _by_class(names: list[str], scores: Array) -> dict[str, float]:
    """Of the classes seen so far; the others have columns too, at −inf."""
    return {name: score for name, score in zip(names, scores.tolist(), strict=False) if score > -np.inf}


def _finite(numbers: Array) -> list[float | None]:
    """None for what JSON has no number for."""
    return [number if isfinite(number) else None for number in numbers.tolist()]
