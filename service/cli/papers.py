"""`onepass papers`: run the papers' experiments and print our figures beside the published ones."""

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
from service.errors import SettingsError
from service.papers.experiment import Experiment, Findings, check_files, run_jobs

PAPERS = {
    "mk-adult": "mckenna_adult",
    "mk-synthetic": "mckenna_synthetic",
    "mk-trec": "mckenna_trec",
}
"""Name of the experiment -> its module in `service.papers`."""


def configure(parser: argparse.ArgumentParser) -> None:
    experiments = {name: _load_experiment(name) for name in PAPERS}
    listed = "\n".join(
        f"  {name:13} {experiment.summary}\n{'':15} --quick: {experiment.quick}"
        for name, experiment in experiments.items()
    )
    example = "example:\n  onepass papers mk-adult --data ~/data --quick"
    parser.epilog = f"names:\n{listed}\n\nexit status: 1 if a bar is missed\n\n{example}"
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="experiments to run, see below (default: all)"
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="folder of the data sets (default: $ONEPASS_DATA)"
    )
    parser.add_argument("--quick", action="store_true", help="fewer runs, see below")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def execute(command: str, arguments: argparse.Namespace) -> int:
    del command
    for name in arguments.names:
        if name not in PAPERS:
            raise SettingsError(f"unknown paper '{name}'{nearest(name, list(PAPERS))}")
    folder = arguments.data or (
        Path(os.environ["ONEPASS_DATA"]) if os.environ.get("ONEPASS_DATA") else None
    )
    chosen = {name: _load_experiment(name) for name in arguments.names or PAPERS}
    for name, experiment in chosen.items():
        check_files(name, experiment, folder)
    findings_by_name = {
        name: _run_experiment(name, experiment, folder, arguments.quick)
        for name, experiment in chosen.items()
    }
    bars = [
        _prefix(name, bar) for name, findings in findings_by_name.items() for bar in findings.bars
    ]
    results = {
        name: {"tables": part.tables, "remarks": part.remarks}
        for name, part in findings_by_name.items()
    }
    report = document(results, bars)
    if arguments.json:
        print(json.dumps(report))
    else:
        _print_report(report)
    return 0 if all(bar.ok for bar in bars) else 1


def _load_experiment(name: str) -> Experiment:
    experiment: Experiment = import_module(f"service.papers.{PAPERS[name]}").EXPERIMENT
    return experiment


def _run_experiment(
    name: str, experiment: Experiment, folder: Path | None, quick: bool
) -> Findings:
    jobs = experiment.jobs(folder, quick=quick)
    with tqdm(
        total=len(jobs), desc=name, unit=" runs", disable=not sys.stderr.isatty(), file=sys.stderr
    ) as bar:
        return experiment.findings(run_jobs(jobs, bar.update))


def _prefix(name: str, bar: Bar) -> Bar:
    return bar._replace(name=f"{name}: {bar.name}")


def _print_report(report: dict[str, Any]) -> None:
    print("machine:", ", ".join(report["machine"].values()))
    for name, part in report["results"].items():
        for title, rows in part["tables"].items():
            print(f"\n{name}, {title}")
            headings = list(rows[0])
            cells = [[_format_cell(row[heading]) for heading in headings] for row in rows]
            print("\n".join(table(headings, cells)))
        print(*part["remarks"], sep="\n")
    for number, bar in enumerate(report["bars"]):
        if number == 0:
            print("\nbars")
        word = "ok    " if bar["ok"] else "MISSED"
        print(f"  {word} {bar['name']} {bar['value']:.3g} {bar['op']} {bar['goal']:.3g}")


def _format_cell(value: Any) -> str:
    """Format a text, a number, or a mean with its deviation."""
    if isinstance(value, dict):
        deviation = f" ± {value['sd']:,.2f}" if "sd" in value else ""
        return f"{value['mean']:,.2f}{deviation}"
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
