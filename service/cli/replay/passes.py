"""Several passes over a file, for papers that train in this way; a stream never does.

The worker made the first pass. This module repeats it, keeps the dual variables of each row, and
then makes the later passes. Statistics count each row once. One generator draws the order of all
passes.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from learners.batch import Array, Ints
from learners.evaluation.progress import predict_labels
from learners.learner import Memory
from learners.state import state_digest
from service.features.decoder import Decoder, Event, batch
from service.features.reject import Reject
from service.files import DataFile, events
from service.model.model import Model

BLOCK = 4096
"""Rows learned by one call."""


def further_passes(
    model: Model,
    fresh: Model,
    decoder: Decoder,
    file: DataFile,
    *,
    passes: int,
    shuffle: int | None,
    limit: int | None,
) -> list[dict[str, Any]]:
    """Train the model for the remaining passes and return the errors of every pass."""
    rows = [decoder.event(value) for value in events(file)]
    classes = () if fresh.labels.binary else (fresh.spec["label"]["max_classes"],)
    duals = np.zeros((*classes, len(rows)))
    totals: list[dict[str, Any]] = []
    for turn, order in enumerate(_orders(len(rows), passes, shuffle, limit)):
        learned = errors = 0
        for start in range(0, order.size, BLOCK):
            part = [
                (row, *found)
                for row in order[start : start + BLOCK]
                if (found := _number_label(fresh, rows[row]))
            ]
            indices = np.array([row for row, _, _ in part], np.int64)
            y: Array = np.array([number for _, _, number in part], np.float64)
            memory = Memory(duals[..., indices].copy(), again=turn > 0)
            scores = fresh.learner.learn(
                fresh.state, batch([event for _, event, _ in part]), y, memory
            )
            duals[..., indices] = memory.duals
            fine = ~np.isnan(scores).reshape(y.size, -1).any(axis=1)
            learned += int(fine.sum())
            errors += int((predict_labels(scores[fine]) != y[fine]).sum())
        if turn == 0 and state_digest(fresh.state) != state_digest(model.state):
            raise RuntimeError(
                "the repeated first pass gave another state: the learner is not deterministic"
            )
        totals.append({"events": learned, "errors": errors, "error_rate": errors / max(1, learned)})
    model.state = fresh.state
    return totals


def _number_label(model: Model, row: Event | Reject) -> tuple[Event, float] | None:
    """Return an event and the number of its label; None for a rejected row."""
    number = (
        None if isinstance(row, Reject) or row.label is None else model.labels.number(row.label)
    )
    return None if isinstance(row, Reject) or number is None else (row, number)


def _orders(rows: int, passes: int, shuffle: int | None, limit: int | None) -> Iterator[Ints]:
    draws = None if shuffle is None else np.random.default_rng(shuffle)
    for _ in range(passes):
        order = np.arange(rows) if draws is None else draws.permutation(rows)
        yield order[:limit]
