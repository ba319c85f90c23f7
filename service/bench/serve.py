"""`onepass bench serve`: what answering costs beside the least that FastAPI does, and beside learning."""

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from service.bench.load import Load, Report, under_load
from service.bench.report import Bar, document
from service.bench.roles import HEADERS, Role, Stream, bare, instance, role
from service.embedded.redis import RedisServer, redis_server

CLOSED, OPEN, BATCHES, MANY = 32, 64, 4, 1000
"""Connections of each kind of load."""
BATCH = 1000
FIRST_EVENTS = 20_000
LEARN_SECONDS = 120.0


class Plan(NamedTuple):
    pairs: int
    windows: int
    seconds: float
    """Of one window."""
    crowd_seconds: float
    events: int
    """Enough for a learner at full speed for some seconds."""


FULL = Plan(7, 7, 4.0, 60.0, 500_000)
QUICK = Plan(2, 2, 1.0, 3.0, 150_000)


class World(NamedTuple):
    folder: Path
    redis: RedisServer
    plan: Plan

    @contextmanager
    def role(self, what: str, stream: str) -> Iterator[Role]:
        with role(self.folder, self.redis.url, what, stream) as process:
            yield process

    @contextmanager
    def stream(self, name: str, events: int) -> Iterator[Stream]:
        """A stream with so many events."""
        stream = Stream(self.redis.port, name)
        try:
            stream.fill(events)
            yield stream
        finally:
            stream.close()


def bench_serve(*, quick: bool) -> dict[str, Any]:
    """The whole benchmark as one document."""
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder), appendonly=False) as redis:
        world = World(Path(folder), redis, QUICK if quick else FULL)
        alone, bars = _alone(world)
        rate = alone["requests per second"]["onepass"] / 2
        most = _fastest(world)
        apart, apart_bars = _apart(world, rate, most)
        together, together_bars = _together(world, rate, most)
    results = {**alone, "learn and serve": apart, "run": together}
    return document(results, [*bars, *apart_bars, *together_bars])


def _alone(world: World) -> tuple[dict[str, Any], list[Bar]]:
    """A replica with nothing to do but answer: single requests by turns with the bare server, batches, a crowd."""
    plan, one = world.plan, json.dumps(instance()).encode()
    many = json.dumps({"instances": [instance(seed) for seed in range(BATCH)]}).encode()
    with world.stream("alone", FIRST_EVENTS), world.role("run", "alone") as first:
        _caught_up(first, FIRST_EVENTS)
    with world.role("serve", "alone") as ours, bare(world.folder) as theirs:
        pairs = [
            tuple(under_load(_load(server, plan.seconds, CLOSED), one) for server in (ours, theirs))
            for _ in range(plan.pairs)
        ]
        load = replace(_load(ours, plan.seconds, BATCHES), path="/predict/batch")
        batches = [under_load(load, many) for _ in range(plan.windows)]
        rate = statistics.median(mine.per_second for mine, _ in pairs)
        crowd = under_load(_load(ours, plan.crowd_seconds, MANY, rate / 2), one)
    shares = [mine.per_second / other.per_second for mine, other in pairs]
    instances = [BATCH * window.per_second for window in batches]
    errors = sum(report.errors for report in [*(mine for mine, _ in pairs), *batches])
    figures = {
        "requests per second": {
            "onepass": rate,
            "bare FastAPI": statistics.median(other.per_second for _, other in pairs),
            "share": statistics.median(shares),
            "from": min(shares),
            "to": max(shares),
        },
        "instances per second in batches of 1,000": {
            "median": statistics.median(instances),
            "from": min(instances),
            "to": max(instances),
        },
        "1,000 clients": {"requests per second": crowd.per_second, "p50 ms": crowd.p50, "p99 ms": crowd.p99},
    }
    return figures, [
        Bar("requests/s of /predict over those of a bare FastAPI handler", statistics.median(shares), ">=", 0.9),
        Bar("instances/s in batches of 1,000", statistics.median(instances), ">=", 100_000),
        Bar("errors of these", errors, "<=", 0),
        Bar(f"errors of 1,000 clients in {plan.crowd_seconds:.0f} s", crowd.errors, "<=", 0),
    ]


def _fastest(world: World) -> float:
    """Events per second of a learner that has nothing to wait for and nobody to answer."""
    with world.stream("fast", world.plan.events), world.role("learn", "fast") as learner:
        speed = learner.learned(world.plan.seconds)
        assert learner.status()["lag"], "the stream was too short for this machine"
    return speed


def _apart(world: World, rate: float, most: float) -> tuple[dict[str, Any], list[Bar]]:
    """A learner at half its speed in one process, and a replica of it in another.

    The bare server in the replica's place tells how much of the latency is the machine's, which has few processors.
    """
    with world.stream("apart", FIRST_EVENTS) as stream, world.role("learn", "apart") as learner:
        _caught_up(learner, FIRST_EVENTS)
        with world.role("serve", "apart") as ours, bare(world.folder) as theirs, stream.filling(most / 2):
            windows, learned = _windows(world, ours, learner, rate)
            machine, _ = _windows(world, theirs, learner, rate)
    figures = {
        "latency": _latency(windows, rate),
        "latency of bare FastAPI in its place": _latency(machine, rate),
        "learner": {"events per second": learned, "at most": most},
    }
    return figures, _bars("learn and serve", windows, 10.0)


def _together(world: World, rate: float, most: float) -> tuple[dict[str, Any], list[Bar]]:
    """One process that learns as fast as it can, and answers."""
    seconds = 2.0 + world.plan.windows * (world.plan.seconds + 2.0)
    with world.stream("together", int(most * seconds)), world.role("run", "together") as both:
        windows, learned = _windows(world, both, both, rate)
        left = both.status()["lag"]
    learner = {"events per second": learned, "at most": most, "events left at the end": left}
    bars = [*_bars("run", windows, 15.0), Bar("run: events left to learn at the end", left, ">=", 1)]
    return {"latency": _latency(windows, rate), "learner": learner}, bars


def _windows(world: World, server: Role, learner: Role, rate: float) -> tuple[list[Report], float]:
    """The reports of some windows of open-loop load, and how fast the learner was meanwhile."""
    one = json.dumps(instance()).encode()
    before, started = learner.status()["events"], time.perf_counter()
    windows = [under_load(_load(server, world.plan.seconds, OPEN, rate), one) for _ in range(world.plan.windows)]
    return windows, (learner.status()["events"] - before) / (time.perf_counter() - started)


def _latency(windows: list[Report], rate: float) -> dict[str, float]:
    p99s = [window.p99 for window in windows]
    return {
        "requests per second": rate,
        "p50 ms": statistics.median(window.p50 for window in windows),
        "p99 ms": statistics.median(p99s),
        "from": min(p99s),
        "to": max(p99s),
        "longest ms": max(window.longest for window in windows),
    }


def _bars(name: str, windows: list[Report], goal: float) -> list[Bar]:
    p99 = statistics.median(window.p99 for window in windows)
    errors = sum(window.errors for window in windows)
    return [
        Bar(f"{name}: p99 at half the rate in ms, median of {len(windows)} windows", p99, "<=", goal),
        Bar(f"{name}: errors", errors, "<=", 0),
    ]


def _load(server: Role, seconds: float, connections: int, rate: float | None = None) -> Load:
    return Load(server.port, "/predict", seconds, connections, rate, headers=HEADERS)


def _caught_up(learner: Role, events: int) -> None:
    give_up = time.monotonic() + LEARN_SECONDS
    while learner.status()["checkpoint"]["events"] < events:
        assert time.monotonic() < give_up, "the learner does not come to the end of its stream"
        time.sleep(0.1)
