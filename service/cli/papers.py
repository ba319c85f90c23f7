"""`onepass papers`: the papers' experiments run again, ours beside the printed figures; exit 1 if a bar is missed."""

import argparse
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tqdm import tqdm

from learners.registry import nearest
from service.bench.report import Bar, document
from service.cli.tables import table
from service.errors import BadSettings
from service.papers.experiment import Experiment, Findings, carried_out, check_files

PAPERS = {"mk-adult": "mk_adult", "mk-synthetic": "mk_synthetic", "mk-trec": "mk_trec"}
"""By name, the module of the experiment."""


def configure(parser: argparse.ArgumentParser) -> None:
    experiments = {name: _experiment(name) for name in PAPERS}
    told = "\n".join(
        f"  {name:13} {experiment.words}\n{'':15} --quick: {experiment.quick}"
        for name, experiment in experiments.items()
    )
    example = "example:\n  onepass papers mk-adult --data ~/data --quick"
    parser.epilog = f"names:\n{told}\n\nexit status: 1 if a bar is missed\n\n{example}"
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones, see below (default: all of them)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the data sets (default: $ONEPASS_DATA)")
    parser.add_argument("--quick", action="store_true", help="fewer runs, see below")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def execute(command: str, arguments: argparse.Namespace) -> int:
    del command
    for name in arguments.names:
        if name not in PAPERS:
            raise BadSettings(f"unknown paper '{name}'{nearest(name, list(PAPERS))}")
    folder = arguments.data or (Path(os.environ["ONEPASS_DATA"]) if os.environ.get("ONEPASS_DATA") else None)
    chosen = {name: _experiment(name) for name in arguments.names or PAPERS}
    for name, experiment in chosen.items():
        check_files(name, experiment, folder)
    found = {name: _found(name, experiment, folder, arguments.quick) for name, experiment in chosen.items()}
    bars = [_named(name, bar) for name, findings in found.items() for bar in findings.bars]
    results = {name: {"tables": part.tables, "remarks": part.remarks} for name, part in found.items()}
    told = document(results, bars)
    if arguments.json:
        print(json.dumps(told))
    else:
        _show(told)
    return 0 if all(bar.ok for bar in bars) else 1


def _experiment(name: str) -> Experiment:
    found: Experiment = import_module(f"service.papers.{PAPERS[name]}").EXPERIMENT
    return found


def _found(name: str, experiment: Experiment, folder: Path | None, quick: bool) -> Findings:
    jobs = experiment.jobs(folder, quick=quick)
    with tqdm(total=len(jobs), desc=name, unit=" runs", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:
        return experiment.findings(carried_out(jobs, bar.update))


def _named(name: str, bar: Bar) -> Bar:
    return bar._replace(name=f"{name}: {bar.name}")


def _show(told: dict[str, Any]) -> None:
    print("machine:", ", ".join(told["machine"].values()))
    for name, part in told["results"].items():
        for title, rows in part["tables"].items():
            print(f"\n{name}, {title}")
            headings = list(rows[0])
            print("\n".join(table(headings, [[_cell(row[heading]) for heading in headings] for row in rows])))
        print(*part["remarks"], sep="\n")
    for number, bar in enumerate(told["bars"]):
        if number == 0:
            print("\nbars")
        word = "ok    " if bar["ok"] else "MISSED"
        print(f"  {word} {bar['name']} {bar['value']:.3g} {bar['op']} {bar['goal']:.3g}")


def _cell(value: Any) -> str:
    """A word, a number, or a mean with its deviation."""
    if isinstance(value, dict):
        deviation = f" ± {value['sd']:,.2f}" if "sd" in value else ""
        return f"{value['mean']:,.2f}{deviation}"
    if value is None:
        return ""
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
