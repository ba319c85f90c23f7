"""`onepass learners`: what can be configured, read off the registry."""

import argparse
import json
from typing import Any

from learners.description import describe
from learners.registry import KINDS


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--markdown", action="store_true", help="the page docs/learners.md")
    parser.epilog = "example:\n  onepass learners --json"


def execute(command: str, arguments: argparse.Namespace) -> int:
    del command
    described = [describe(kind) for kind in KINDS]
    if arguments.markdown:
        print(page(described))
        return 0
    return show(described, as_json=arguments.json)


def show(described: list[dict[str, Any]], *, as_json: bool) -> int:
    """Every kind with its parameters."""
    if as_json:
        print(json.dumps(described, indent=2))
        return 0
    for entry in described:
        print(f"{entry['kind']}  ({entry['family']}; {entry['paper']})\n    {entry['when']}")
        for parameter in entry["parameters"]:
            default = "required" if parameter["required"] else parameter["default"]
            print(f"    {parameter['name']} = {default}: {parameter['help']}")
    return 0


def page(described: list[dict[str, Any]]) -> str:
    """Every learner on one page: rule, parameters, paper, and when to choose it."""
    parts = [INTRODUCTION]
    for entry in described:
        parts.append(f"## `{entry['kind']}`\n\n{entry['when']}\n\n**Rule:** {entry['rule']}\n\n*{entry['paper']}*\n")
        rows = [f"| `{p['name']}` | {_default(p)} | {_cell(p['help'])} |" for p in entry["parameters"]]
        if rows:
            parts.append("\n".join(["| parameter | default | |", "|---|---|---|", *rows]) + "\n")
    return "\n".join(parts).rstrip()


def _cell(text: str) -> str:
    """Words that stay within a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _default(parameter: dict[str, Any]) -> str:
    if parameter["required"]:
        return "required"
    return "left out" if parameter["default"] is None else f"`{parameter['default']}`"


INTRODUCTION = """# The learners

Made by `onepass learners --markdown`; do not edit. `y` is −1 or +1, `s = w·x` the score before the update, the
prediction is +1 iff `s ≥ 0`. The bias is a feature that is always 1. Shorthand: `kind:name=value,name=value`.
Compositions nest in one order: `scaled(one_vs_rest(selected(averaged(learner))))`.

Cumulative error on a stationary stream (`a9a_train`, shuffled with seed 0) and on one that drifts (`electricity`),
every learner with its defaults behind GN scaling where that makes sense; made by `python -m service.bench.curves`:

![Cumulative error on a9a, by family](curves-a9a.svg)

![Cumulative error on electricity, by family](curves-electricity.svg)
"""
