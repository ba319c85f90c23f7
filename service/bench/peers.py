"""The nearest learner of River and of Vowpal Wabbit for each of ours: predict, then learn.

Each gets its preferred input: River gets ready dictionaries, Vowpal Wabbit gets lines of text. The
progressive prediction is read from the learned example, because a separate call would parse the
line twice. Neither has a Winnow, ROMMA, a norm-constrained PA or dynamic feature scaling; those
have no peer here.
"""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from learners.batch import Array, Batch

RIVER: dict[str, tuple[str, str, dict[str, float]]] = {
    "perceptron": ("linear_model", "Perceptron", {}),
    "pa": ("linear_model", "PAClassifier", {"mode": 0}),
    "pa1": ("linear_model", "PAClassifier", {"C": 1.0, "mode": 1}),
    "pa2": ("linear_model", "PAClassifier", {"C": 1.0, "mode": 2}),
    "sgd-log": ("linear_model", "LogisticRegression", {}),
}
VW = {
    "perceptron": "--loss_function hinge --sgd",
    "pa1": "--loss_function hinge",
    "sgd-log": "--loss_function logistic --sgd",
    "adagrad": "--loss_function logistic --adaptive",
    "ftrl": "--loss_function logistic --ftrl",
}


def installed() -> list[str]:
    """Return the peers that are installed."""
    return [name for name in ("river", "vowpalwabbit") if importlib.util.find_spec(name)]


def dictionaries(X: Batch) -> list[dict[str, float]]:
    """Convert rows for River, without the bias, which it adds itself."""
    names = [str(slot) for slot in range(int(X.indices.max()) + 1)]
    return [
        {
            names[slot]: value
            for slot, value in zip(
                *(part[X.indptr[t] : X.indptr[t + 1]].tolist() for part in (X.indices, X.values)),
                strict=True,
            )
            if slot
        }
        for t in range(X.size)
    ]


def river_pass(
    kind: str, rows: list[dict[str, float]], y: Array, *, scaled: bool = False
) -> Callable[[], int]:
    """Run one prequential pass of a new River learner and return its errors."""
    module, name, parameters = RIVER[kind]
    labels = [value > 0 for value in y.tolist()]
    make = getattr(importlib.import_module(f"river.{module}"), name)
    preprocessing = importlib.import_module("river.preprocessing")

    def run() -> int:
        model = make(**parameters)
        if scaled:
            model = preprocessing.StandardScaler() | model
        errors = 0
        for row, label in zip(rows, labels, strict=True):
            errors += model.predict_one(row) != label
            model.learn_one(row, label)
        return errors

    return run


def vw_lines(X: Batch, y: Array) -> list[str]:
    """Convert rows to Vowpal Wabbit's text lines."""
    lines = []
    for t in range(X.size):
        slots, values = (
            part[X.indptr[t] : X.indptr[t + 1]].tolist() for part in (X.indices, X.values)
        )
        features = " ".join(
            f"{slot}:{value!r}" for slot, value in zip(slots, values, strict=True) if slot
        )
        lines.append(f"{int(y[t])} | {features}")
    return lines


def vw_pass(kind: str, lines: list[str], y: Array) -> Callable[[], int]:
    """Run one progressive pass of a new Vowpal Wabbit."""
    wabbit: Any = importlib.import_module("vowpalwabbit")
    labels = [value > 0 for value in y.tolist()]

    def run() -> int:
        workspace = wabbit.Workspace(f"{VW[kind]} --quiet -b 18")
        errors = 0
        for line, label in zip(lines, labels, strict=True):
            example = workspace.parse(line)
            workspace.learn(example)
            errors += (example.get_simplelabel_prediction() >= 0) != label
            workspace.finish_example(example)
        workspace.finish()
        return errors

    return run
