"""`onepass bench`: print measurements as a table or JSON; a missed bar gives status 1."""

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
from service.bench.report import measure
from service.bench.serve import bench_serve

WIDTH = 100


class Bench(NamedTuple):
    run: Callable[..., dict[str, Any]]
    summary: str


BENCHES = {
    "learners": Bench(
        bench_learners,
        "compare events/s of every linear learner with River and Vowpal Wabbit, on 10 dense "
        "columns and on 60 tokens, and show the cost of an event as the slots grow from 2^12 to "
        "2^24",
    ),
    "kernels": Bench(
        bench_kernels,
        "measure the cost of scoring a row against 5,000 stored rows with an RBF kernel, compared "
        "with NumPy, and tree pairs per second, compared with a plain recursion (on real questions "
        "if ONEPASS_DATA names the data folder); 1 minute",
    ),
    "checkpoint": Bench(
        bench_checkpoint,
        "measure how long learning pauses for a checkpoint, the checkpoint's size, the time to "
        "restore 2^24 weights, and events/s with a checkpoint every second and without; uses a "
        "real Redis; 5 minutes",
    ),
    "serve": Bench(
        bench_serve,
        "compare requests/s of /predict with a bare FastAPI handler, for single instances, batches "
        "and 1,000 clients, and measure the 99th percentile of latency while a learner runs in the "
        "same and in another process; 5 minutes",
    ),
    "drift": Bench(
        bench_drift,
        "measure how soon each drift detector finds a change of the error rate and how often it "
        "alarms without one, compared with River's and with one that always fires; the same for "
        "features; and events/s with and without all metrics and detectors; 7 minutes",
    ),
}

PEERS = {"learners": {"river", "vowpalwabbit"}, "drift": {"river"}}
"""Packages that a bench compares with, if they are installed."""


def configure(parser: argparse.ArgumentParser) -> None:
    status = "exit status: 1 if a bar is missed, except with --quick"
    parser.epilog = f"{status}\n\nexample:\n  onepass bench learners --quick"
    benches = parser.add_subparsers(
        dest="name", required=True, metavar="BENCH", help="what to measure, one of:"
    )
    for name, bench in BENCHES.items():
        bench_parser = benches.add_parser(
            name,
            help=bench.summary,
            description=textwrap.fill(bench.summary[:1].upper() + bench.summary[1:] + ".", WIDTH),
            epilog=f"{status}\n\nexample:\n  onepass bench {name} --quick",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        help_text = "fewer events and rounds, for a first look; the exit status is always 0"
        bench_parser.add_argument("--quick", action="store_true", help=help_text)
        bench_parser.add_argument("--json", action="store_true", help="print one JSON document")


def execute(command: str, arguments: argparse.Namespace) -> int:
    for peer in sorted(PEERS.get(arguments.name, set()) - set(installed())):
        print(
            f"onepass {command}: {peer} is not installed and not measured; install the extra bench",
            file=sys.stderr,
        )
    document = measure(lambda: BENCHES[arguments.name].run(quick=arguments.quick))
    if arguments.json:
        print(json.dumps(document))
    else:
        _print_document(document)
    return 0 if arguments.quick or all(bar["ok"] for bar in document["bars"]) else 1


def _print_document(document: dict[str, Any]) -> None:
    print("machine:", ", ".join(_describe_machine(**document["machine"])))
    for title, table in document["results"].items():
        print(f"\n{title}")
        _print_table(table)
    print("\nbars")
    for bar in document["bars"]:
        word = "ok    " if bar["ok"] else "MISSED"
        value, goal = _format_figure(bar["value"]), _format_figure(bar["goal"])
        print(f"  {word} {bar['name']}: {value} {bar['op']} {goal}")


def _describe_machine(stolen: float | None, **names: str) -> list[str]:
    note = "" if stolen is None else f"{stolen:.1%} of its CPU time stolen by the hypervisor"
    return [*names.values(), *filter(None, [note])]


def _print_table(table: dict[str, Any], indent: str = "  ") -> None:
    for name, value in table.items():
        if isinstance(value, dict) and any(isinstance(inner, dict) for inner in value.values()):
            print(f"{indent}{name}")
            _print_table(value, indent + "  ")
        elif isinstance(value, dict):
            print(
                f"{indent}{name:24}  "
                + "  ".join(f"{key} {_format_figure(figure)}" for key, figure in value.items())
            )
        else:
            print(f"{indent}{name}: {_format_figure(value)}")


def _format_figure(value: float) -> str:
    """Format with three significant digits, or as a whole number from 100 on."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
