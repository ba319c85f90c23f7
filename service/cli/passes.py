"""Several passes over a file: for papers that train so, never for a stream.

The first pass is the worker's, the honest one. Here it is taken again, with the dual variables of each row kept, and
the later ones follow; statistics count each row once. The order of every pass is drawn from the same generator.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from learners.batch import Array, Ints
from learners.learner import Memory
from learners.outputs import predicted
from learners.state import state_digest
from service.events import Decoder, Event, batch
from service.files import DataFile, events
from service.model import Model
from service.reasons import Reject

TOGETHER = 4096
"""Rows learned by one call."""


def further_passes(
    model: Model, fresh: Model, decoder: Decoder, file: DataFile, *, passes: int, shuffle: int | None, limit: int | None
) -> list[dict[str, Any]]:
    """Bring a model that has had its first pass to its last one; errors of every pass."""
    rows = [decoder.event(value) for value in events(file)]
    classes = () if fresh.labels.binary else (fresh.made_with["label"]["max_classes"],)
    duals = np.zeros((*classes, len(rows)))
    done: list[dict[str, Any]] = []
    for turn, order in enumerate(_orders(len(rows), passes, shuffle, limit)):
        learned = errors = 0
        for start in range(0, order.size, TOGETHER):
            part = [(row, *found) for row in order[start : start + TOGETHER] if (found := _labelled(fresh, rows[row]))]
            places = np.array([row for row, _, _ in part], np.int64)
            y: Array = np.array([number for _, _, number in part], np.float64)
            memory = Memory(duals[..., places].copy(), again=turn > 0)
            scores = fresh.learner.learn(fresh.state, batch([event for _, event, _ in part]), y, memory)
            duals[..., places] = memory.duals
            fine = ~np.isnan(scores).reshape(y.size, -1).any(axis=1)
            learned += int(fine.sum())
            errors += int((predicted(scores[fine]) != y[fine]).sum())
        if turn == 0 and state_digest(fresh.state) != state_digest(model.state):
            raise RuntimeError("the first pass came out differently: a learner breaks the laws")
        done.append({"events": learned, "errors": errors, "error_rate": errors / max(1, learned)})
    model.state = fresh.state
    return done


def _labelled(model: Model, row: Event | Reject) -> tuple[Event, float] | None:
    """An event and its number; nothing for a row that is rejected in every pass."""
    number = None if isinstance(row, Reject) or row.label is None else model.labels.number(row.label)
    return None if isinstance(row, Reject) or number is None else (row, number)


def _orders(rows: int, passes: int, shuffle: int | None, limit: int | None) -> Iterator[Ints]:
    draws = None if shuffle is None else np.random.default_rng(shuffle)
    for _ in range(passes):
        order = np.arange(rows) if draws is None else draws.permutation(rows)
        yield order[:limit]
