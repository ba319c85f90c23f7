"""What a kernel model has in place of weights, in words: the stored rows that a score is the sum of."""

from typing import Any

import numpy as np

from learners.batch import Batch
from learners.influences import Influences
from service.model import Model
from service.names import Names

MOST_ROWS = 10
"""Rows of an explanation, the largest contributions first; of the others only the sum is told."""

MOST_OF_ALL = 50
"""Rows of one class where the whole set is told of."""

MOST_FEATURES = 20
"""Features that are told of a row, the largest values first."""

NO_ROWS = Influences([], np.zeros(0), np.zeros(0), 0.0, 0.0, 0, exact=True)
"""Before there is a class."""


def parts_of(found: Influences, names: Names) -> dict[str, Any]:
    """A score as the sum of rows; a kernel sees no bias, and what a rule adds of its own is its constant."""
    return {
        "bias": 0.0,
        "constant": found.constant,
        "features": [],
        "support": _rows(found, names),
        "omitted": {"count": found.stored - len(found.rows), "contribution": found.others},
        "stored": found.stored,
        "exact": found.exact,
    }


def support_of(model: Model, column: int, top: int) -> dict[str, Any]:
    """The stored rows of one class that weigh most."""
    with model.still:
        found = model.learner.influences(model.state, None, column, min(top, MOST_OF_ALL))
        stock = model.learner.stock(model.state, column)
    return {
        "top": [],
        "support": _rows(found, model.names),
        "stored": stock.rows,
        "room": stock.room,
        "norm": stock.norm,
    }


def stock_of(model: Model) -> dict[str, int] | None:
    """Rows stored and room for them, of all classes seen so far; None where the model has weights."""
    if not model.learner.stores_rows():
        return None
    with model.still:
        classes = 1 if model.labels.binary else len(model.labels.names)
        stocks = [model.learner.stock(model.state, column) for column in range(classes)]
    return {"rows": sum(stock.rows for stock in stocks), "room": sum(stock.room for stock in stocks)}


def _rows(found: Influences, names: Names) -> list[dict[str, Any]]:
    numbers = zip(found.rows, found.coefficients.tolist(), found.similarities.tolist(), strict=True)
    return [
        {"coefficient": a, "similarity": k, "contribution": a * k} | _row(stored, names) for stored, a, k in numbers
    ]


def _row(stored: Batch, names: Names) -> dict[str, Any]:
    """A tree is stored as hashes of its productions, so only its size can be told."""
    places = np.argsort(-np.abs(stored.values), kind="stable")[: np.count_nonzero(stored.values)]
    shown = places[:MOST_FEATURES]
    return {
        "features": [
            _feature(slot, value, names)
            for slot, value in zip(stored.indices[shown].tolist(), stored.values[shown].tolist(), strict=True)
        ],
        "features_omitted": places.size - shown.size,
        "tree_nodes": stored.trees.productions.size,
    }


def _feature(slot: int, value: float, names: Names) -> dict[str, Any]:
    known = names.of(slot)
    feature = {"slot": slot, "name": known[0] if known else None, "value": value}
    return feature | ({"collides_with": known[1:]} if known[1:] else {})
