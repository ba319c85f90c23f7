"""Run an experiment of a paper as independent jobs, and compare its figures with the paper's."""

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from service.bench.report import Bar
from service.errors import SettingsError
from service.papers.training import Outcome

MOST_PROCESSES = 2

Figure = tuple[float, float | None]


class Job(NamedTuple):
    """A call that another process can make: a module's function and plain arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Findings(NamedTuple):
    tables: dict[str, list[dict[str, Any]]]
    """Title -> rows of cells, each a text, a number, or a mean with its deviation."""
    bars: list[Bar]
    remarks: list[str]


class Experiment(NamedTuple):
    summary: str
    quick: str
    """What `--quick` leaves out."""
    files: tuple[str, ...]
    """Files that it needs in the data folder."""
    jobs: Callable[..., list[Job]]
    """Called as `jobs(folder, quick=…)`."""
    findings: Callable[[list[Any]], Findings]
    """Called with the results of the jobs, in their order."""


def check_files(name: str, experiment: Experiment, folder: Path | None) -> None:
    if experiment.files and folder is None:
        raise SettingsError(f"{name} needs data: give --data DIR or set ONEPASS_DATA")
    for file in experiment.files:
        if folder is not None and not (folder / file).exists():
            raise SettingsError(f"{name} needs {file}, which is not in {folder}")


def run_jobs(jobs: Sequence[Job], done: Callable[[], object]) -> list[Any]:
    """Run each job in another process, so that its CPU time is its own, and return the results."""
    processes = min(MOST_PROCESSES, os.cpu_count() or 1)
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        futures = [pool.submit(job.function, *job.arguments) for job in jobs]
        for future in futures:
            future.add_done_callback(lambda _: done())
        return [future.result() for future in futures]


def compare_with_thesis(
    passes: list[Outcome], wanted: Mapping[str, tuple[Figure, Figure, Figure, Figure]]
) -> list[dict[str, Any]]:
    """Build rows of F1, accuracy, support vectors and CPU seconds, ours beside the thesis's."""
    rows: list[dict[str, Any]] = []
    for row, theirs in wanted.items():
        mine = [outcome for outcome in passes if outcome.row == row]
        if not mine and row != "SVM":
            continue
        ours = {
            "F1": [outcome.f1 for outcome in mine],
            "accuracy": [outcome.accuracy for outcome in mine],
            "SV": [float(outcome.support) for outcome in mine],
            "CPU s": [outcome.seconds for outcome in mine],
        }
        cells: dict[str, Any] = {"row": row, "runs": len(mine)}
        for (name, figures), figure in zip(ours.items(), theirs, strict=True):
            cells |= {
                name: mean_and_deviation(figures) if figures else None,
                f"{name}, thesis": published(*figure),
            }
        rows.append(cells)
    return rows


def mean_and_deviation(figures: Sequence[float]) -> dict[str, float]:
    """Return the mean over runs and, for several runs, their standard deviation."""
    deviation = {"sd": statistics.stdev(figures)} if len(figures) > 1 else {}
    return {"mean": statistics.fmean(figures), **deviation}


def published(mean: float, sd: float | None = None) -> dict[str, float]:
    """Return a figure of a paper in the same form."""
    return {"mean": mean} if sd is None else {"mean": mean, "sd": sd}


def make_bar(name: str, found: float, wanted: float, share: float) -> Bar:
    """Make a bar: the figure differs from the printed one by at most this share of it."""
    title = f"{name}: {found:,.0f} beside {wanted:,.0f}, off by a share of"
    return Bar(title, abs(found / wanted - 1.0), "<=", share)
