"""How soon each detector finds a change of the error rate, and how often it alarms falsely.

The peers are River's detector of the same kind, fed value by value, and a dummy that always fires.
The dummy finds every change at once, so a delay means nothing without the false alarms.
"""

import importlib
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from learners.batch import Array
from learners.drift.detector import ALARM
from learners.drift.registry import DETECTORS, make_detector
from service.bench.peers import installed
from service.bench.report import Bar

CHANGE, EVENTS = 5_000, 10_000
"""Events: where the error rate begins to change, and the length of such a stream."""

SOON = 200
"""Events after the change in which an alarm counts; a later one may be chance."""

STATIONARY = 20_000
"""Events of a stream without a change."""

RIVER = {
    "adwin": ("drift", "ADWIN"),
    "ddm": ("drift.binary", "DDM"),
    "eddm": ("drift.binary", "EDDM"),
    "hddm-a": ("drift.binary", "HDDMA"),
    "hddm-w": ("drift.binary", "HDDMW"),
    "page-hinkley": ("drift", "PageHinkley"),
    "kswin": ("drift", "KSWIN"),
}

Run = Callable[[Array, int], Iterator[int]]
"""Maps the values and the number of a stream to the events of its alarms."""

Table = dict[str, dict[str, dict[str, float]]]


def measure_detectors(*, quick: bool) -> tuple[dict[str, Any], list[Bar]]:
    """Run every detector with its defaults on the same seeded streams."""
    count = 10 if quick else 100
    table: Table = {kind: {"onepass": _figures(_run_ours(kind), count)} for kind in DETECTORS}
    if "river" in installed():
        with _memoized_test():
            for kind in RIVER:
                table[kind]["river"] = _figures(_run_river(kind), count)
    table["always"] = {"dummy": _figures(lambda values, _: iter(range(values.size)), count)}
    return {"detectors on the error": table}, _bars(table)


def rates() -> dict[str, Array]:
    """Return the error rate at each event."""
    event = np.arange(EVENTS)
    return {
        "abrupt": np.where(event < CHANGE, 0.1, 0.3),
        "gradual": 0.1 + 0.2 * np.clip((event - CHANGE) / 2_000, 0.0, 1.0),
        "stationary": np.full(STATIONARY, 0.2),
    }


def _run_ours(kind: str) -> Run:
    detector = make_detector(kind)
    return lambda values, _: iter(
        np.flatnonzero(detector.watch(detector.init(), values).said == ALARM).tolist()
    )


def _run_river(kind: str) -> Run:
    module, name = RIVER[kind]
    make: Any = getattr(importlib.import_module(f"river.{module}"), name)

    def run(values: Array, number: int) -> Iterator[int]:
        detector = make(seed=number) if kind == "kswin" else make()
        for t, value in enumerate(values.tolist()):
            detector.update(value)
            if detector.drift_detected:
                yield t

    return run


@contextmanager
def _memoized_test() -> Iterator[None]:
    """Let River's KSWIN call SciPy only once per pair of error counts, which decide the result.

    Otherwise a hundred streams would take half an hour.
    """
    program: Any = importlib.import_module("river.drift.kswin")
    test = importlib.import_module("scipy.stats").ks_2samp

    @cache
    def of_counts(one: int, ones: int, other: int, others: int, method: str) -> Any:
        return test(
            [1.0] * ones + [0.0] * (one - ones),
            [1.0] * others + [0.0] * (other - others),
            method=method,
        )

    def ks_2samp(one: list[float], other: list[float], method: str) -> Any:
        return of_counts(len(one), int(sum(one)), len(other), int(sum(other)), method)

    original, program.stats = program.stats, SimpleNamespace(ks_2samp=ks_2samp)
    try:
        yield
    finally:
        program.stats = original


def _figures(run: Run, count: int) -> dict[str, float]:
    """Return the shares of changes found, their median delay, and alarms per 10,000 events.

    The delay of a change that is not found is the rest of the stream.
    """
    figures: dict[str, float] = {}
    before, alarms = 0, 0
    for k, (name, rate) in enumerate(rates().items()):
        delays = []
        for number in range(count):
            errors = np.random.default_rng([k, number]).random(rate.size) < rate
            events = run(errors.astype(np.float64), number)
            if name == "stationary":
                alarms += sum(1 for _ in events)
                continue
            first = EVENTS
            for event in events:
                if event >= CHANGE:
                    first = event
                    break
                before += 1
            delays.append(first - CHANGE)
        if delays:
            figures[f"{name} found"] = sum(delay < EVENTS - CHANGE for delay in delays) / count
            figures[f"{name} soon"] = sum(delay < SOON for delay in delays) / count
            figures[f"{name} delay"] = statistics.median(delays)
    figures["false before"] = before / (2 * count * CHANGE) * 10_000
    figures["false stationary"] = alarms / (count * STATIONARY) * 10_000
    return figures


def _bars(table: Table) -> list[Bar]:
    adwin = table["adwin"]["onepass"]
    bars = [
        Bar("adwin: share of abrupt changes found", adwin["abrupt found"], ">=", 0.95),
        Bar("adwin: median delay of an abrupt change", adwin["abrupt delay"], "<=", 200),
        Bar("adwin: alarms in 10,000 stationary events", adwin["false stationary"], "<=", 0.1),
    ]
    names = {
        "abrupt delay": "median delay of an abrupt change",
        "gradual delay": "median delay of a gradual change",
        "false stationary": "alarms in 10,000 stationary events",
    }
    for kind, programs in table.items():
        if "river" in programs:
            bars += [
                Bar(
                    f"{kind}: {words}, 1.1 × River's",
                    programs["onepass"][name],
                    "<=",
                    1.1 * programs["river"][name],
                )
                for name, words in names.items()
            ]
    return bars
