"""What an explanation is: what a score is the sum of, by the names that were sent; and what weighs most of all."""

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from learners.batch import BIAS, Array
from learners.influences import Influences
from learners.learner import Terms
from service.answers import Prediction, Served
from service.events import batch
from service.model import Model
from service.names import Names
from service.naming import Named
from service.stored import MOST_ROWS, NO_ROWS, parts_of, support_of

MOST_FEATURES = 100
"""Features of an explanation, the largest contributions first; of the others only the sum is told."""


BLOCK = 1 << 18
"""Slots whose weights are copied at once."""

NO_TERMS = Terms(np.zeros(0, np.int32), np.zeros(0), np.zeros(0), 0.0)
"""Before there is a class."""


class Explained(NamedTuple):
    served: Served
    answer: Prediction | str
    """The prediction, or why the learner refuses the row."""
    explanation: dict[str, Any] | None


def explained(model: Model, named: Named) -> Explained:
    """A prediction and what it is the sum of, both of the same state."""
    X, learner = batch([named.event]), model.learner
    with model.still:
        served, (answer,) = model.predict(X)
        if isinstance(answer, str):
            return Explained(served, answer, None)
        best = _best(answer)
        columns = [0] if best is None else [model.labels.names.index(label) for label in best]
        found: list[Terms | Influences] = [
            learner.influences(model.state, X, column, MOST_ROWS)
            if learner.stores_rows()
            else learner.terms(model.state, X, column)
            for column in columns
        ]
    parts = [
        parts_of(one, model.names) if isinstance(one, Influences) else _parts(one, named, model.names)
        for one in found or [NO_ROWS if learner.stores_rows() else NO_TERMS]
    ]
    explanation: dict[str, Any] = {"score": answer.score, "runner_up": None, "names_complete": model.names.complete}
    explanation |= parts[0]
    if best is not None and answer.scores is not None and len(best) > 1:
        runner_up = {"label": best[1], "score": answer.scores[best[1]]}
        explanation["runner_up"] = runner_up | parts[1]
    return Explained(served, answer, explanation)


def _best(answer: Prediction) -> list[str] | None:
    """The class answered with and the next best, as far as there are any; None where the score is of one of two."""
    if answer.scores is None:
        return None
    return sorted(answer.scores, key=answer.scores.__getitem__, reverse=True)[:2]  # stable: the first on a tie


def _parts(terms: Terms, named: Named, names: Names) -> dict[str, Any]:
    contributions = terms.values * terms.weights
    places = np.argsort(-np.abs(contributions), kind="stable")
    places = places[terms.slots[places] != BIAS]
    shown, omitted = places[:MOST_FEATURES], places[MOST_FEATURES:]
    sent = dict(zip(named.event.slots, named.event.values, strict=True))
    features = []
    for place in shown.tolist():
        slot = int(terms.slots[place])
        own = list(named.names.get(slot, ()))
        name, *others = [*own, *(name for name in names.of(slot) if name not in own)]
        feature = {
            "name": name,
            "value": sent.get(slot, 0.0),
            "scaled": float(terms.values[place]),
            "weight": float(terms.weights[place]),
            "contribution": float(contributions[place]),
        }
        features.append(feature | ({"collides_with": others} if others else {}))
    return {
        "bias": float(contributions[terms.slots == BIAS].sum()),
        "constant": float(terms.constant),
        "features": features,
        "omitted": {"count": omitted.size, "contribution": float(contributions[omitted].sum())},
    }


class Global(NamedTuple):
    served: Served
    classes: list[dict[str, Any]]
    omitted: int
    """Classes that are left out."""


def weights_of(model: Model, top: int, classes: int) -> Global:
    """The largest weights of each class, or of the positive one of two; of a kernel model its stored rows."""
    stores = model.learner.stores_rows()
    names = [model.labels.label(1)] if model.labels.binary else list(model.labels.names)
    told = [
        {"label": name}
        | (support_of(model, column, top) if stores else summary(_blocks(model, column), top, model.names))
        for column, name in enumerate(names[:classes])
    ]
    return Global(model.served(), told, len(names[classes:]))


def _blocks(model: Model, column: int) -> Iterator[Array]:
    """The weights, some slots at a time, so that nothing waits long for the lock.

    While events are learned the blocks are of states that are a moment apart.
    """
    for start in itertools.count(0, BLOCK):
        with model.still:
            block = model.learner.weights(model.state, column, slice(start, start + BLOCK))
        yield block
        if block.size < BLOCK:
            return


def summary(blocks: Iterable[Array], top: int, names: Names) -> dict[str, Any]:
    """The largest weights that are not 0, in order, and what is to be said of all."""
    slots, weights = [np.zeros(0, np.int64)], [np.zeros(0)]
    dimension, nonzero, squares = 0, 0, 0.0
    for block in blocks:
        sizes = np.abs(block)
        places = np.argpartition(sizes, -top)[-top:] if top < sizes.size else np.arange(sizes.size)
        places = places[sizes[places] > 0.0]
        slots.append(dimension + places)
        weights.append(block[places])
        dimension += block.size
        nonzero += int(np.count_nonzero(block))
        squares += float(block @ block)
    found, theirs = np.concatenate(slots), np.concatenate(weights)
    order = np.lexsort((found, -np.abs(theirs)))[:top]
    return {
        "top": [
            _entry(slot, weight, names)
            for slot, weight in zip(found[order].tolist(), theirs[order].tolist(), strict=True)
        ],
        "nonzero": nonzero,
        "dimension": dimension,
        "sparsity": 1.0 - nonzero / dimension,
        "norm": math.sqrt(squares),
    }


def _entry(slot: int, weight: float, names: Names) -> dict[str, Any]:
    known = names.of(slot)
    entry = {"slot": slot, "name": known[0] if known else None, "weight": weight}
    return entry | ({"collides_with": known[1:]} if known[1:] else {})
