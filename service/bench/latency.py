"""Latency under an open load of half of what can be answered, beside learning.

A shared machine is twice as fast at one moment as at the next, and half of what it did a minute ago may be all that it
can do now. So before each window the rate is taken anew, and the learner's speed too, each with nothing else at work.
"""

import json
import statistics
import time
from typing import Any, NamedTuple

from service.bench.load import Report, under_load
from service.bench.report import Bar
from service.bench.roles import Role, Stream, instance
from service.bench.world import CLOSED, OPEN, World, caught_up, load_on

ONE = json.dumps(instance()).encode()
GAUGE = 0.5
"""Of a window's seconds, for what goes before it."""


class Window(NamedTuple):
    rate: float
    """Requests due per second: half of what was answered just before."""
    ours: Report
    learned: float
    """Events per second meanwhile."""


class Machine(NamedTuple):
    """What the same load did to something else, in the same place."""

    most: float
    """Events per second of a learner that nobody disturbs."""
    bare: Report


def apart(world: World, events: int) -> tuple[dict[str, Any], list[Bar]]:
    """A learner at half its speed in one process, and a replica of it in another.

    The bare server in the replica's place tells how much of the latency is the machine's, which has few processors.
    """
    windows, machine = [], []
    with world.stream("apart", events) as stream, world.role("learn", "apart") as learner:
        caught_up(learner, events)
        with world.role("serve", "apart") as ours, world.bare() as theirs:
            for _ in range(world.plan.windows):
                rate, most = _rate(world, ours), _speed(world, stream, learner)
                with stream.filling(most / 2):
                    windows.append(_window(world, ours, learner, rate))
                    machine.append(Machine(most, _asked(world, theirs, rate)))
    figures = {
        "latency": _latency([window.ours for window in windows]),
        "latency of bare FastAPI in its place": _latency([beside.bare for beside in machine]),
        **_speeds(windows),
    }
    figures["learner"]["at most"] = statistics.median(beside.most for beside in machine)
    return figures, _bars("learn and serve", windows, 10.0)


def together(world: World, most: float) -> tuple[dict[str, Any], list[Bar]]:
    """One process that learns as fast as it can, and answers; it stands still while the rate is taken beside it."""
    windows = []
    seconds = 5.0 + world.plan.windows * (world.plan.seconds + 2.0)
    with (
        world.stream("together", int(1.5 * most * seconds)),
        world.role("serve", "alone") as beside,
        world.role("run", "together") as both,
    ):
        for _ in range(world.plan.windows):
            with both.paused():
                rate = _rate(world, beside)
            windows.append(_window(world, both, both, rate))
        left = both.status()["lag"]
    figures = {"latency": _latency([window.ours for window in windows]), **_speeds(windows)}
    figures["learner"]["events left at the end"] = left
    return figures, [*_bars("run", windows, 15.0), Bar("run: events left to learn at the end", left, ">=", 1)]


def _rate(world: World, server: Role) -> float:
    """Half of what a server answers now."""
    return under_load(load_on(server, GAUGE * world.plan.seconds, CLOSED), ONE).per_second / 2


def _speed(world: World, stream: Stream, learner: Role) -> float:
    """Events per second of a learner that has nothing to wait for and nobody to answer."""
    before, started = learner.status()["events"], time.perf_counter()
    stream.fill(world.plan.events)
    while (learned := learner.status()["events"] - before) < world.plan.events:
        time.sleep(0.02)
    return float(learned / (time.perf_counter() - started))


def _asked(world: World, server: Role, rate: float) -> Report:
    return under_load(load_on(server, world.plan.seconds, OPEN, rate), ONE)


def _window(world: World, server: Role, learner: Role, rate: float) -> Window:
    before, started = learner.status()["events"], time.perf_counter()
    ours = _asked(world, server, rate)
    return Window(rate, ours, (learner.status()["events"] - before) / (time.perf_counter() - started))


def _latency(reports: list[Report]) -> dict[str, float]:
    p99s = [report.p99 for report in reports]
    return {
        "p50 ms": statistics.median(report.p50 for report in reports),
        "p99 ms": statistics.median(p99s),
        "from": min(p99s),
        "to": max(p99s),
        "longest ms": max(report.longest for report in reports),
    }


def _speeds(windows: list[Window]) -> dict[str, dict[str, float]]:
    rates = [window.rate for window in windows]
    return {
        "requests per second": {"median": statistics.median(rates), "from": min(rates), "to": max(rates)},
        "learner": {"events per second": statistics.median(window.learned for window in windows)},
    }


def _bars(name: str, windows: list[Window], goal: float) -> list[Bar]:
    p99 = statistics.median(window.ours.p99 for window in windows)
    errors = sum(window.ours.errors for window in windows)
    return [
        Bar(f"{name}: p99 at half the rate in ms, median of {len(windows)} windows", p99, "<=", goal),
        Bar(f"{name}: errors", errors, "<=", 0),
    ]
