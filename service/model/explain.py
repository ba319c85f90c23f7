"""Explain a prediction or a whole model: by feature name, or by stored row for a kernel model."""

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from learners.batch import BIAS, Array, Batch
from learners.learner import SupportTerms, Terms
from service.features.decoder import Named, batch
from service.features.slot_names import SlotNames
from service.model.model import Model
from service.model.results import ModelVersion, Prediction

MOST_FEATURES = 100
"""Features in an explanation, the largest contributions first. The others appear as a sum."""

MOST_ROWS = 10
"""Stored rows in an explanation, the largest contributions first. The others appear as a sum."""

MOST_ROW_FEATURES = 20
"""Features of a stored row, the largest values first."""

MOST_SUMMARY_ROWS = 50
"""Stored rows of one class in an explanation of the model."""

BLOCK = 1 << 18
"""Slots whose weights are copied under one lock."""

NO_TERMS = Terms(np.zeros(0, np.int32), np.zeros(0), np.zeros(0), 0.0)
"""The terms of a linear model that has not seen a class yet."""

NO_ROWS = SupportTerms([], np.zeros(0), np.zeros(0), 0.0, 0.0, 0, exact=True)
"""The terms of a kernel model that has not seen a class yet."""


class Explanation(NamedTuple):
    """A prediction and its explanation, both from the state `served`."""

    served: ModelVersion
    answer: Prediction | str
    """The prediction, or why the learner refuses the row."""
    explanation: dict[str, Any] | None


class GlobalExplanation(NamedTuple):
    """The explanation of a model, class by class."""

    served: ModelVersion
    classes: list[dict[str, Any]]
    omitted: int
    """Number of classes that are left out."""


def explain(model: Model, named: Named) -> Explanation:
    """Predict one instance and explain the score, both from the same state."""
    X, learner = batch([named.event]), model.learner
    with model.lock:
        served, (answer,) = model.predict(X)
        if isinstance(answer, str):
            return Explanation(served, answer, None)
        best = _best_classes(answer)
        columns = [0] if best is None else [model.labels.names.index(label) for label in best]
        found: list[Terms | SupportTerms] = [
            learner.support_terms(model.state, X, column, MOST_ROWS)
            if learner.capabilities.stores_rows
            else learner.terms(model.state, X, column)
            for column in columns
        ]
    parts = [
        explain_support(terms, model.names)
        if isinstance(terms, SupportTerms)
        else _explain_terms(terms, named, model.names)
        for terms in found or [NO_ROWS if learner.capabilities.stores_rows else NO_TERMS]
    ]
    explanation: dict[str, Any] = {
        "score": answer.score,
        "runner_up": None,
        "names_complete": model.names.complete,
    }
    explanation |= parts[0]
    if best is not None and answer.scores is not None and len(best) > 1:
        runner_up = {"label": best[1], "score": answer.scores[best[1]]}
        explanation["runner_up"] = runner_up | parts[1]
    return Explanation(served, answer, explanation)


def weights_of(model: Model, top: int, classes: int) -> GlobalExplanation:
    """Describe the largest weights of each class, or the stored rows of a kernel model.

    A binary model has only its positive class.
    """
    stores = model.learner.capabilities.stores_rows
    names = [model.labels.label(1)] if model.labels.binary else list(model.labels.names)
    described = [
        {"label": name}
        | (
            _summarize_support(model, column, top)
            if stores
            else summary(_weight_blocks(model, column), top, model.names)
        )
        for column, name in enumerate(names[:classes])
    ]
    return GlobalExplanation(model.version(), described, len(names[classes:]))


def stock_of(model: Model) -> dict[str, int] | None:
    """Count the stored rows and their capacity over all classes. None for a model with weights."""
    if not model.learner.capabilities.stores_rows:
        return None
    with model.lock:
        classes = 1 if model.labels.binary else len(model.labels.names)
        usages = [model.learner.support_usage(model.state, column) for column in range(classes)]
    return {
        "rows": sum(usage.rows for usage in usages),
        "room": sum(usage.room for usage in usages),
    }


def summary(blocks: Iterable[Array], top: int, names: SlotNames) -> dict[str, Any]:
    """Describe the `top` largest weights, without zeros, and all weights together."""
    slots, weights = [np.zeros(0, np.int64)], [np.zeros(0)]
    dimension, nonzero, squares = 0, 0, 0.0
    for block in blocks:
        sizes = np.abs(block)
        largest = np.argpartition(sizes, -top)[-top:] if top < sizes.size else np.arange(sizes.size)
        largest = largest[sizes[largest] > 0.0]
        slots.append(dimension + largest)
        weights.append(block[largest])
        dimension += block.size
        nonzero += int(np.count_nonzero(block))
        squares += float(block @ block)
    top_slots, top_weights = np.concatenate(slots), np.concatenate(weights)
    order = np.lexsort((top_slots, -np.abs(top_weights)))[:top]
    return {
        "top": [
            _describe_slot(slot, names, "weight", weight)
            for slot, weight in zip(
                top_slots[order].tolist(), top_weights[order].tolist(), strict=True
            )
        ],
        "nonzero": nonzero,
        "dimension": dimension,
        "sparsity": 1.0 - nonzero / dimension,
        "norm": math.sqrt(squares),
    }


def _summarize_support(model: Model, column: int, top: int) -> dict[str, Any]:
    """Describe the stored rows of one class that have the largest coefficients."""
    with model.lock:
        found = model.learner.support_terms(model.state, None, column, min(top, MOST_SUMMARY_ROWS))
        usage = model.learner.support_usage(model.state, column)
    return {
        "top": [],
        "support": _describe_rows(found, model.names),
        "stored": usage.rows,
        "room": usage.room,
        "norm": usage.norm,
    }


def explain_support(found: SupportTerms, names: SlotNames) -> dict[str, Any]:
    """Explain a score as a sum over stored rows.

    A kernel has no bias. The constant is what the learner adds to the sum.
    """
    return {
        "bias": 0.0,
        "constant": found.constant,
        "features": [],
        "support": _describe_rows(found, names),
        "omitted": {"count": found.stored - len(found.rows), "contribution": found.others},
        "stored": found.stored,
        "exact": found.exact,
    }


def _best_classes(answer: Prediction) -> list[str] | None:
    """The two best classes, as far as there are any. None for a binary model."""
    if answer.scores is None:
        return None
    # The sort is stable, so a tie goes to the first class.
    return sorted(answer.scores, key=answer.scores.__getitem__, reverse=True)[:2]


def _explain_terms(terms: Terms, named: Named, names: SlotNames) -> dict[str, Any]:
    """Explain a score as a sum over features."""
    contributions = terms.values * terms.weights
    order = np.argsort(-np.abs(contributions), kind="stable")
    order = order[terms.slots[order] != BIAS]
    shown, omitted = order[:MOST_FEATURES], order[MOST_FEATURES:]
    sent = dict(zip(named.event.slots, named.event.values, strict=True))
    features = []
    for index in shown.tolist():
        slot = int(terms.slots[index])
        requested = list(named.names.get(slot, ()))
        known = (name for name in names.of(slot) if name not in requested)
        name, *others = [*requested, *known]
        feature = {
            "name": name,
            "value": sent.get(slot, 0.0),
            "scaled": float(terms.values[index]),
            "weight": float(terms.weights[index]),
            "contribution": float(contributions[index]),
        }
        features.append(feature | ({"collides_with": others} if others else {}))
    return {
        "bias": float(contributions[terms.slots == BIAS].sum()),
        "constant": float(terms.constant),
        "features": features,
        "omitted": {"count": omitted.size, "contribution": float(contributions[omitted].sum())},
    }


def _weight_blocks(model: Model, column: int) -> Iterator[Array]:
    """Yield the weights in blocks, so that nothing waits long for the lock.

    Events may be learned between two blocks.
    """
    for start in itertools.count(0, BLOCK):
        with model.lock:
            block = model.learner.weights(model.state, column, slice(start, start + BLOCK))
        yield block
        if block.size < BLOCK:
            return


def _describe_rows(found: SupportTerms, names: SlotNames) -> list[dict[str, Any]]:
    numbers = zip(found.rows, found.coefficients.tolist(), found.similarities.tolist(), strict=True)
    return [
        {"coefficient": a, "similarity": k, "contribution": a * k} | _describe_row(stored, names)
        for stored, a, k in numbers
    ]


def _describe_row(stored: Batch, names: SlotNames) -> dict[str, Any]:
    """Describe a stored row. Of a tree only the size is known, because it is stored as hashes."""
    order = np.argsort(-np.abs(stored.values), kind="stable")[: np.count_nonzero(stored.values)]
    shown = order[:MOST_ROW_FEATURES]
    return {
        "features": [
            _describe_slot(slot, names, "value", value)
            for slot, value in zip(
                stored.indices[shown].tolist(), stored.values[shown].tolist(), strict=True
            )
        ],
        "features_omitted": order.size - shown.size,
        "tree_nodes": stored.trees.productions.size,
    }


def _describe_slot(slot: int, names: SlotNames, quantity: str, number: float) -> dict[str, Any]:
    """Describe a slot by its names and one number, its value or its weight."""
    known = names.of(slot)
    described = {"slot": slot, "name": known[0] if known else None, quantity: number}
    return described | ({"collides_with": known[1:]} if known[1:] else {})
