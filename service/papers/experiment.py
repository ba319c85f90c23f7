"""What an experiment is: jobs that run apart from each other, and what they say beside the printed figures."""

import os
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from service.bench.report import Bar
from service.errors import BadSettings

MOST_PROCESSES = 2


class Job(NamedTuple):
    """A call that another process can make: a function of a module, and plain arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Findings(NamedTuple):
    tables: dict[str, list[dict[str, Any]]]
    """By title: rows of cells, each a word, a number, or a mean with its deviation."""
    bars: list[Bar]
    remarks: list[str]


class Experiment(NamedTuple):
    words: str
    quick: str
    """What `--quick` leaves out."""
    files: tuple[str, ...]
    """Of the data folder."""
    jobs: Callable[..., list[Job]]
    """`jobs(folder, quick=…)`."""
    findings: Callable[[list[Any]], Findings]
    """From what the jobs returned, in their order."""


def check_files(name: str, experiment: Experiment, folder: Path | None) -> None:
    if experiment.files and folder is None:
        raise BadSettings(f"{name} needs data: give --data DIR or set ONEPASS_DATA")
    for file in experiment.files:
        if folder is not None and not (folder / file).exists():
            raise BadSettings(f"{name} needs {file}, which is not in {folder}")


def carried_out(jobs: Sequence[Job], done: Callable[[], object]) -> list[Any]:
    """What each job returns; in processes of their own, so that a job's CPU time is its own too."""
    with ProcessPoolExecutor(min(MOST_PROCESSES, os.cpu_count() or 1), get_context("spawn")) as pool:
        waiting = [pool.submit(job.function, *job.arguments) for job in jobs]
        for promise in waiting:
            promise.add_done_callback(lambda _: done())
        return [promise.result() for promise in waiting]


def spread(figures: Sequence[float]) -> dict[str, float]:
    """Mean over runs and, where there are several, their deviation, as the papers print them."""
    deviation = {"sd": statistics.stdev(figures)} if len(figures) > 1 else {}
    return {"mean": statistics.fmean(figures), **deviation}


def printed(mean: float, sd: float | None = None) -> dict[str, float]:
    """A figure of a paper in the same form."""
    return {"mean": mean} if sd is None else {"mean": mean, "sd": sd}


def within(name: str, found: float, wanted: float, share: float) -> Bar:
    """Not further from the printed figure than a share of it."""
    return Bar(f"{name}: {found:,.0f} beside {wanted:,.0f}, off by a share of", abs(found / wanted - 1.0), "<=", share)
