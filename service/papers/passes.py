"""One pass over rows in a drawn order, then the frozen model on other rows: McKenna's thesis, section 4.5."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from learners.batch import NO_TREES, Array, Batch, Ints, Trees
from learners.evaluation import report
from learners.learner import Layout, Learner
from learners.outputs import predicted
from service.errors import BadSettings
from service.events import Decoder, Event, batch
from service.files import DataFile, aligned, events, features_of, label_of, scan
from service.labels import Labels
from service.settings import Label, Limits


class Data(NamedTuple):
    X: Batch
    y: Array
    test: Batch
    truth: Array
    slots: Layout


class Outcome(NamedTuple):
    """Of one pass; shares in percent."""

    row: str
    seed: int
    accuracy: float
    f1: float
    """Of the positive class; with several, the mean over them."""
    by_class: tuple[float, ...]
    """F1 of each class's own learner; none where there are two classes."""
    support: int
    """Stored rows, over all classes."""
    seconds: float
    """CPU time of the pass alone."""


def read(train: Path, test: Path) -> Data:
    """Two files of columns, through the decoder that serves."""
    files = aligned([scan(train), scan(test)])
    label = label_of(files[0], positive=None, multiclass=False)
    decoder = Decoder(features_of(files, 18), label, Limits())
    (X, y), (other, truth) = [_rows(file, decoder, label) for file in files]
    return Data(X, y, other, truth, decoder.slots)


def _rows(file: DataFile, decoder: Decoder, label: Label) -> tuple[Batch, Array]:
    found, labels, numbers = [], Labels(label), []
    for value in events(file):
        event = decoder.event(value)
        number = labels.number(event.label) if isinstance(event, Event) and event.label is not None else None
        if not isinstance(event, Event) or number is None:
            raise BadSettings(f"{file.path}: a row is no event with a label; give the file as it was published")
        found.append(event)
        numbers.append(number)
    return batch(found), np.array(numbers)


def permuted(X: Batch, order: Ints) -> Batch:
    """Its rows in another order."""
    lengths = np.diff(X.indptr)[order]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    entries = np.repeat(X.indptr[:-1][order] - indptr[:-1], lengths) + np.arange(indptr[-1])
    trees = Trees.joined([X.trees.rows(i, i + 1) for i in order]) if X.trees.ends.size else NO_TREES
    return Batch(indptr, X.indices[entries], X.values[entries], X.weights[order], trees)


def one_pass(row: str, seed: int, learner: Learner, data: Data) -> Outcome:
    """Train on the rows as the seed orders them, then score the test's."""
    order = np.random.default_rng(seed).permutation(data.y.size)
    X, y = permuted(data.X, order), data.y[order]
    learner = learner.settled(data.slots)
    learner.learn(learner.init(data.slots.dim), X.rows(0, 2), y[:2])  # compiling is not part of the speed
    state = learner.init(data.slots.dim)
    began = time.process_time()
    learner.learn(state, X, y)
    seconds = time.process_time() - began
    scores = learner.scores(state, data.test)
    told = report(data.truth, scores)
    by_class = [_own_f1(data.truth == c, scores[:, c]) for c in range(scores.shape[1])] if scores.ndim == 2 else []
    accuracy = 100.0 * float(np.mean(predicted(scores) == data.truth))
    return Outcome(row, seed, accuracy, 100.0 * told.f1, tuple(by_class), stored(state), seconds)


def stored(state: Any) -> int:
    """Rows in the support set, of all classes where there are several."""
    return int((state.classes if hasattr(state, "classes") else state).support.size.sum())


def _own_f1(mine: Any, scores: Array) -> float:
    return 100.0 * report(np.where(mine, 1.0, -1.0), scores).f1
