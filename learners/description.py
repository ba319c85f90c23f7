"""A learner as the outside sees it, read off its class: what it computes, its parameters, when to choose it."""

import inspect
import sys
from typing import Any

from learners.dual.learner import KernelLearner
from learners.registry import COMPOSITIONS, kind_class


def family(kind: str) -> str:
    """The file a learner lives in, one per paper family; of a rule that is also linear, the kernel form is another."""
    learner = kind_class(kind)
    if kind in COMPOSITIONS:
        return "composition"
    name = learner.__module__.rsplit(".", 1)[-1]
    return f"kernel {name}" if issubclass(learner, KernelLearner) else name


def describe(kind: str) -> dict[str, Any]:
    """One learner as the outside sees it."""
    learner = kind_class(kind)
    module = sys.modules[learner.__module__]
    _, _, paper = (inspect.getdoc(module) or "").split("\n\n")[0].partition(". ")
    parameters = [
        {
            "name": name,
            "default": None if field.is_required() else field.default,
            "required": field.is_required(),
            "help": field.description or "",
        }
        for name, field in learner.model_fields.items()
        if name != "kind"
    ]
    return {
        "kind": kind,
        "family": family(kind),
        "paper": " ".join(paper.split()).rstrip("."),
        "rule": learner.rule,
        "when": " ".join((inspect.getdoc(learner) or "").split()),
        "parameters": parameters,
    }
