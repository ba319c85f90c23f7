"""The catalog of learners and detectors: rule, parameters, paper, and when to choose each."""

import inspect
import sys
from typing import Any

from learners.drift.detector import Detector
from learners.drift.registry import detector_class
from learners.kernel.learner import KernelLearner
from learners.learner import Learner
from learners.registry import COMPOSITIONS, kind_class


def describe(kind: str) -> dict[str, Any]:
    """Describe one learner for documentation and the CLI."""
    return _describe(kind, kind_class(kind), family(kind))


def family(kind: str) -> str:
    """Name of the group of learners from one paper.

    The kernel form of a linear rule has its own group.
    """
    learner = kind_class(kind)
    if kind in COMPOSITIONS:
        return "composition"
    name = learner.family or learner.__module__.rsplit(".", 1)[-1]
    return f"kernel {name}" if issubclass(learner, KernelLearner) else name


def describe_detector(kind: str) -> dict[str, Any]:
    """Describe one detector."""
    return _describe(kind, detector_class(kind), "drift")


def _describe(kind: str, cls: type[Learner] | type[Detector], family: str) -> dict[str, Any]:
    module = sys.modules[cls.__module__]
    first_paragraph = (inspect.getdoc(module) or "").split("\n\n")[0]
    _, _, paper = " ".join(first_paragraph.split()).partition(". ")
    parameters = [
        {
            "name": name,
            "default": None if field.is_required() else field.default,
            "required": field.is_required(),
            "help": field.description or "",
        }
        for name, field in cls.model_fields.items()
        if name != "kind"
    ]
    return {
        "kind": kind,
        "family": family,
        "paper": cls.paper or paper.rstrip("."),
        "rule": cls.rule,
        "when": " ".join((inspect.getdoc(cls) or "").split()),
        "parameters": parameters,
    }
