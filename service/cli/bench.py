"""`onepass bench`: the measured claims, as a table or as JSON; exit 1 if a bar is missed."""

import argparse
import json
import sys
from typing import Any

from service.bench.checkpoint import bench_checkpoint
from service.bench.learners import bench_learners
from service.bench.peers import installed

BENCHES = {"learners": bench_learners, "checkpoint": bench_checkpoint}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=BENCHES, help="what to measure")
    parser.add_argument("--quick", action="store_true", help="fewer events and rounds: a look, not a figure")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.epilog = "example:\n  onepass bench learners --quick"


def execute(command: str, arguments: argparse.Namespace) -> int:
    for peer in {"river", "vowpalwabbit"} - set(installed()) if arguments.name == "learners" else ():
        print(f"onepass {command}: {peer} is not installed and not measured: install the extra bench", file=sys.stderr)
    document = BENCHES[arguments.name](quick=arguments.quick)
    if arguments.json:
        print(json.dumps(document))
    else:
        _show(document)
    return 0 if all(bar["ok"] for bar in document["bars"]) else 1


def _show(document: dict[str, Any]) -> None:
    print("machine:", ", ".join(document["machine"].values()))
    for title, table in document["results"].items():
        print(f"\n{title}")
        _table(table)
    print("\nbars")
    for bar in document["bars"]:
        print(
            f"  {'ok    ' if bar['ok'] else 'MISSED'} {bar['name']}: {bar['value']:.4g} {bar['op']} {bar['goal']:.4g}"
        )


def _table(table: dict[str, Any], indent: str = "  ") -> None:
    for name, value in table.items():
        if isinstance(value, dict) and any(isinstance(inner, dict) for inner in value.values()):
            print(f"{indent}{name}")
            _table(value, indent + "  ")
        elif isinstance(value, dict):
            print(f"{indent}{name:24}" + "  ".join(f"{key} {figure:,.4g}" for key, figure in value.items()))
        else:
            print(f"{indent}{name}: {value}")
