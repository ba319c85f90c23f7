"""Train in one pass over shuffled rows, then score other rows: McKenna's thesis, section 4.5."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from learners.batch import NO_TREES, Array, Batch, Ints, Trees
from learners.evaluation.progress import predict_labels, report
from learners.learner import Layout, Learner
from service.config.settings import Label, Limits
from service.errors import SettingsError
from service.features.decoder import Decoder, Event, batch
from service.features.labels import Labels
from service.files import DataFile, align_columns, events, features_of, label_of, scan


class Data(NamedTuple):
    X: Batch
    y: Array
    test: Batch
    truth: Array
    slots: Layout


class Outcome(NamedTuple):
    """Results of one pass; shares are in percent."""

    row: str
    seed: int
    accuracy: float
    f1: float
    """F1 of the positive class; with several classes their mean."""
    by_class: tuple[float, ...]
    """F1 of each class's own learner; empty for two classes."""
    support: int
    """Stored rows of all classes."""
    seconds: float
    """CPU seconds of the pass alone."""


def read_data(train: Path, test: Path) -> Data:
    """Read two files through the service's decoder."""
    files = align_columns([scan(train), scan(test)])
    label = label_of(files[0], positive=None, multiclass=False)
    decoder = Decoder(features_of(files, 18), label, Limits())
    (X, y), (other, truth) = [_rows(file, decoder, label) for file in files]
    return Data(X, y, other, truth, decoder.slots)


def one_pass(row: str, seed: int, learner: Learner, data: Data) -> Outcome:
    """Train on the rows in the seed's order, then score the test rows."""
    order = np.random.default_rng(seed).permutation(data.y.size)
    X, y = permute(data.X, order), data.y[order]
    learner = learner.bind(data.slots)
    learner.learn(learner.init(data.slots.dim), X.rows(0, 2), y[:2])  # compile outside of the clock
    state = learner.init(data.slots.dim)
    began = time.process_time()
    learner.learn(state, X, y)
    seconds = time.process_time() - began
    scores = learner.scores(state, data.test)
    result = report(data.truth, scores)
    columns = range(scores.shape[1]) if scores.ndim == 2 else ()
    by_class = [_own_f1(data.truth == c, scores[:, c]) for c in columns]
    accuracy = 100.0 * float(np.mean(predict_labels(scores) == data.truth))
    return Outcome(
        row, seed, accuracy, 100.0 * result.f1, tuple(by_class), count_stored(state), seconds
    )


def permute(X: Batch, order: Ints) -> Batch:
    """Return the rows in another order."""
    lengths = np.diff(X.indptr)[order]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    entries = np.repeat(X.indptr[:-1][order] - indptr[:-1], lengths) + np.arange(indptr[-1])
    trees = (
        Trees.concatenate([X.trees.rows(i, i + 1) for i in order])
        if X.trees.ends.size
        else NO_TREES
    )
    return Batch(indptr, X.indices[entries], X.values[entries], X.weights[order], trees)


def count_stored(state: Any) -> int:
    """Return the number of rows in the support sets of all classes."""
    return int((state.classes if hasattr(state, "classes") else state).support.size.sum())


def _rows(file: DataFile, decoder: Decoder, label: Label) -> tuple[Batch, Array]:
    decoded, labels, numbers = [], Labels(label), []
    for value in events(file):
        event = decoder.event(value)
        number = None
        if isinstance(event, Event) and event.label is not None:
            number = labels.number(event.label)
        if not isinstance(event, Event) or number is None:
            raise SettingsError(
                f"{file.path}: a row is not an event with a label; give the file as published"
            )
        decoded.append(event)
        numbers.append(number)
    return batch(decoded), np.array(numbers)


def _own_f1(mine: Any, scores: Array) -> float:
    return 100.0 * report(np.where(mine, 1.0, -1.0), scores).f1
