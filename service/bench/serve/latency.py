"""Latency under an open load of half the capacity, while a learner runs.

A shared machine may be twice as fast at one moment as at the next. So the rate of requests and the
learner's speed are measured before each window, each with nothing else running.
"""

import json
import statistics
import time
from typing import Any, NamedTuple

from service.bench.report import Bar
from service.bench.serve.load import Report, run_load
from service.bench.serve.processes import Role, Stream, instance
from service.bench.serve.setup import CLOSED, OPEN, Setup, make_load, wait_until_learned

ONE = json.dumps(instance()).encode()
GAUGE = 0.5
"""Share of a window's seconds for its warm-up."""


class Window(NamedTuple):
    rate: float
    """Requests due per second: half of the rate measured just before."""
    ours: Report
    learned: float
    """Events learned per second during the window."""


class Machine(NamedTuple):
    """Latency of another server under the same load."""

    most: float
    """Events per second of an undisturbed learner."""
    bare: Report


def measure_apart(setup: Setup, events: int) -> tuple[dict[str, Any], list[Bar]]:
    """Run a learner at half its speed in one process, and its replica in another.

    The bare server in the replica's place shows how much of the latency comes from the machine.
    """
    windows, machine = [], []
    with setup.stream("apart", events) as stream, setup.role("learn", "apart") as learner:
        wait_until_learned(learner, events)
        with setup.role("serve", "apart") as ours, setup.bare() as theirs:
            for _ in range(setup.plan.windows):
                rate, most = _measure_half_rate(setup, ours), _measure_speed(setup, stream, learner)
                with stream.filling(most / 2):
                    windows.append(_measure_window(setup, ours, learner, rate))
                    machine.append(Machine(most, _run_open_load(setup, theirs, rate)))
    figures = {
        "latency": _summarize_latency([window.ours for window in windows]),
        "latency of bare FastAPI in its place": _summarize_latency(
            [beside.bare for beside in machine]
        ),
        **_summarize_speeds(windows),
    }
    figures["learner"]["at most"] = statistics.median(beside.most for beside in machine)
    return figures, _make_bars("learn and serve", windows, 10.0)


def measure_together(setup: Setup, most: float) -> tuple[dict[str, Any], list[Bar]]:
    """Run one process that learns at full speed and serves. Pause it to measure the rate."""
    windows = []
    seconds = 5.0 + setup.plan.windows * (setup.plan.seconds + 2.0)
    with (
        setup.stream("together", int(1.5 * most * seconds)),
        setup.role("serve", "alone") as beside,
        setup.role("run", "together") as both,
    ):
        for _ in range(setup.plan.windows):
            with both.paused():
                rate = _measure_half_rate(setup, beside)
            windows.append(_measure_window(setup, both, both, rate))
        left = both.status()["lag"]
    figures = {
        "latency": _summarize_latency([window.ours for window in windows]),
        **_summarize_speeds(windows),
    }
    figures["learner"]["events left at the end"] = left
    return figures, [
        *_make_bars("run", windows, 15.0),
        Bar("run: events left to learn at the end", left, ">=", 1),
    ]


def _measure_half_rate(setup: Setup, server: Role) -> float:
    """Return half of the rate that a server reaches now."""
    return run_load(make_load(server, GAUGE * setup.plan.seconds, CLOSED), ONE).per_second / 2


def _measure_speed(setup: Setup, stream: Stream, learner: Role) -> float:
    """Return events/s of a learner without requests."""
    before, started = learner.status()["events"], time.perf_counter()
    stream.fill(setup.plan.events)
    while (learned := learner.status()["events"] - before) < setup.plan.events:
        time.sleep(0.02)
    return float(learned / (time.perf_counter() - started))


def _run_open_load(setup: Setup, server: Role, rate: float) -> Report:
    return run_load(make_load(server, setup.plan.seconds, OPEN, rate), ONE)


def _measure_window(setup: Setup, server: Role, learner: Role, rate: float) -> Window:
    before, started = learner.status()["events"], time.perf_counter()
    ours = _run_open_load(setup, server, rate)
    return Window(
        rate, ours, (learner.status()["events"] - before) / (time.perf_counter() - started)
    )


def _summarize_latency(reports: list[Report]) -> dict[str, float]:
    p99s = [report.p99 for report in reports]
    return {
        "p50 ms": statistics.median(report.p50 for report in reports),
        "p99 ms": statistics.median(p99s),
        "from": min(p99s),
        "to": max(p99s),
        "longest ms": max(report.longest for report in reports),
    }


def _summarize_speeds(windows: list[Window]) -> dict[str, dict[str, float]]:
    rates = [window.rate for window in windows]
    return {
        "requests per second": {
            "median": statistics.median(rates),
            "from": min(rates),
            "to": max(rates),
        },
        "learner": {"events per second": statistics.median(window.learned for window in windows)},
    }


def _make_bars(name: str, windows: list[Window], goal: float) -> list[Bar]:
    p99 = statistics.median(window.ours.p99 for window in windows)
    errors = sum(window.ours.errors for window in windows)
    return [
        Bar(
            f"{name}: p99 at half the rate in ms, median of {len(windows)} windows", p99, "<=", goal
        ),
        Bar(f"{name}: errors", errors, "<=", 0),
    ]
