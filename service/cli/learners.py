"""`onepass learners`: what can be configured, read off the registry."""

import argparse
import inspect
import json
import sys
from typing import Any

from learners.registry import COMPOSITIONS, KINDS, kind_class


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.epilog = "example:\n  onepass learners --json"


def execute(command: str, arguments: argparse.Namespace) -> int:
    del command
    described = [describe(kind) for kind in KINDS]
    if arguments.json:
        print(json.dumps(described, indent=2))
        return 0
    for entry in described:
        print(f"{entry['kind']}  ({entry['family']}; {entry['paper']})\n    {entry['when']}")
        for parameter in entry["parameters"]:
            default = "required" if parameter["required"] else parameter["default"]
            print(f"    {parameter['name']} = {default}: {parameter['help']}")
    return 0


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
        "family": "composition" if kind in COMPOSITIONS else learner.__module__.rsplit(".", 1)[-1],
        "paper": " ".join(paper.split()).rstrip("."),
        "when": inspect.getdoc(learner),
        "parameters": parameters,
    }
