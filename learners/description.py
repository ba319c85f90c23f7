"""Learners and detectors as the outside sees them: what each computes, its parameters, when to choose it."""

import inspect
import sys
from typing import Any

from learners.drift.detector import Detector
from learners.drift.registry import detector_class
from learners.dual.learner import KernelLearner
from learners.learner import Learner
from learners.registry import COMPOSITIONS, kind_class


def describe(kind: str) -> dict[str, Any]:
    """One learner as the outside sees it."""
    return _described(kind, kind_class(kind), family(kind))


def family(kind: str) -> str:
    """The file a learner lives in, one per paper family; of a rule that is also linear, the kernel form is another."""
    learner = kind_class(kind)
    if kind in COMPOSITIONS:
        return "composition"
    name = learner.__module__.rsplit(".", 1)[-1]
    return f"kernel {name}" if issubclass(learner, KernelLearner) else name


def describe_detector(kind: str) -> dict[str, Any]:
    """The same of a detector."""
    return _described(kind, detector_class(kind), "drift")


def _described(kind: str, made: type[Learner] | type[Detector], family: str) -> dict[str, Any]:
    module = sys.modules[made.__module__]
    _, _, paper = (inspect.getdoc(module) or "").split("\n\n")[0].partition(". ")
    parameters = [
        {
            "name": name,
            "default": None if field.is_required() else field.default,
            "required": field.is_required(),
            "help": field.description or "",
        }
        for name, field in made.model_fields.items()
        if name != "kind"
    ]
    return {
        "kind": kind,
        "family": family,
        "paper": " ".join(paper.split()).rstrip("."),
        "rule": made.rule,
        "when": " ".join((inspect.getdoc(made) or "").split()),
        "parameters": parameters,
    }
