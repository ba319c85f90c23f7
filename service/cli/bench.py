"""`onepass bench`: the measured claims, as a table or as JSON; exit 1 if a bar is missed, unless it is only a look."""

import argparse
import json
import sys
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from service.bench.checkpoint import bench_checkpoint
from service.bench.drift import bench_drift
from service.bench.kernels import bench_kernels
from service.bench.learners import bench_learners
from service.bench.peers import installed
from service.bench.report import measured
from service.bench.serve import bench_serve

WIDTH = 100


class Bench(NamedTuple):
    run: Callable[..., dict[str, Any]]
    words: str


BENCHES = {
    "learners": Bench(
        bench_learners,
        "events/s of every linear learner beside River and Vowpal Wabbit, on 10 dense columns and on 60 tokens; "
        "and what an event costs as the slots grow from 2^12 to 2^24",
    ),
    "kernels": Bench(
        bench_kernels,
        "what a row costs that is scored against 5,000 stored ones by an RBF kernel, beside NumPy; and pairs of trees "
        "per second beside a plain recursion, of real questions where ONEPASS_DATA names the data; 1 minute",
    ),
    "checkpoint": Bench(
        bench_checkpoint,
        "how long learning stands still for a checkpoint, and its bytes; how soon 2^24 weights are "
        "restored; events/s with a checkpoint every second beside none; on a real Redis, 5 minutes",
    ),
    "serve": Bench(
        bench_serve,
        "requests/s of /predict beside a bare FastAPI handler, batches, 1,000 clients; and the 99th percentile "
        "of latencies beside a learner, in one process and in two; 5 minutes",
    ),
    "drift": Bench(
        bench_drift,
        "how soon each drift detector finds a change of the error rate, and how often it alarms where there is none, "
        "beside River's and one that always fires; the same of features that move; and events/s with every metric and "
        "detector on beside none; 7 minutes",
    ),
}

PEERS = {"learners": {"river", "vowpalwabbit"}, "drift": {"river"}}
"""What is measured beside ours."""


def configure(parser: argparse.ArgumentParser) -> None:
    status = "exit status: 1 if a bar is missed, but for --quick"
    parser.epilog = f"{status}\n\nexample:\n  onepass bench learners --quick"
    benches = parser.add_subparsers(dest="name", required=True, metavar="BENCH", help="what to measure, one of:")
    for name, bench in BENCHES.items():
        made = benches.add_parser(
            name,
            help=bench.words,
            description=textwrap.fill(bench.words[:1].upper() + bench.words[1:] + ".", WIDTH),
            epilog=f"{status}\n\nexample:\n  onepass bench {name} --quick",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        help_text = "fewer events and rounds: a look, not a figure; a missed bar is shown and the exit status is 0"
        made.add_argument("--quick", action="store_true", help=help_text)
        made.add_argument("--json", action="store_true", help="one JSON document")


def execute(command: str, arguments: argparse.Namespace) -> int:
    for peer in sorted(PEERS.get(arguments.name, set()) - set(installed())):
        print(f"onepass {command}: {peer} is not installed and not measured: install the extra bench", file=sys.stderr)
    document = measured(lambda: BENCHES[arguments.name].run(quick=arguments.quick))
    if arguments.json:
        print(json.dumps(document))
    else:
        _show(document)
    return 0 if arguments.quick or all(bar["ok"] for bar in document["bars"]) else 1


def _show(document: dict[str, Any]) -> None:
    print("machine:", ", ".join(_machine(**document["machine"])))
    for title, table in document["results"].items():
        print(f"\n{title}")
        _table(table)
    print("\nbars")
    for bar in document["bars"]:
        word = "ok    " if bar["ok"] else "MISSED"
        print(f"  {word} {bar['name']}: {_figure(bar['value'])} {bar['op']} {_figure(bar['goal'])}")


def _machine(stolen: float | None, **names: str) -> list[str]:
    told = "" if stolen is None else f"{stolen:.1%} of its CPU time stolen by the hypervisor"
    return [*names.values(), *filter(None, [told])]


def _table(table: dict[str, Any], indent: str = "  ") -> None:
    for name, value in table.items():
        if isinstance(value, dict) and any(isinstance(inner, dict) for inner in value.values()):
            print(f"{indent}{name}")
            _table(value, indent + "  ")
        elif isinstance(value, dict):
            print(f"{indent}{name:24}  " + "  ".join(f"{key} {_figure(figure)}" for key, figure in value.items()))
        else:
            print(f"{indent}{name}: {_figure(value)}")


def _figure(value: float) -> str:
    """Three digits that count, or all before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
