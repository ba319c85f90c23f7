"""`onepass bench serve`: what answering costs beside the least that FastAPI does, and beside learning."""

import json
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from service.bench.latency import ONE, apart, together
from service.bench.load import under_load
from service.bench.report import Bar, document
from service.bench.roles import instance
from service.bench.world import CLOSED, Plan, World, caught_up, load_on
from service.embedded.redis import redis_server

BATCHES, MANY = 4, 1000
"""Connections of those loads."""
BATCH = 1000
FIRST_EVENTS = 20_000

FULL = Plan(15, 15, 1.5, 60.0, 60_000)
QUICK = Plan(3, 3, 0.8, 3.0, 30_000)
"""Many short windows: what disturbs a shared machine for seconds then spoils few of them."""


def bench_serve(*, quick: bool) -> dict[str, Any]:
    """The whole benchmark as one document."""
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder), appendonly=False) as redis:
        world = World(Path(folder), redis, QUICK if quick else FULL)
        figures, bars = _alone(world)
        figures["learn and serve"], apart_bars = apart(world, FIRST_EVENTS)
        most = figures["learn and serve"]["learner"]["at most"]
        figures["run"], together_bars = together(world, most)
    return document(figures, [*bars, *apart_bars, *together_bars])


def _alone(world: World) -> tuple[dict[str, Any], list[Bar]]:
    """A replica with nothing to do but answer: single requests by turns with the bare server, batches, a crowd."""
    plan = world.plan
    many = json.dumps({"instances": [instance(seed) for seed in range(BATCH)]}).encode()
    with world.stream("alone", FIRST_EVENTS), world.role("run", "alone") as first:
        caught_up(first, FIRST_EVENTS)
    with world.role("serve", "alone") as ours, world.bare() as theirs:
        pairs = [
            tuple(under_load(load_on(server, plan.seconds, CLOSED), ONE) for server in (ours, theirs))
            for _ in range(plan.pairs)
        ]
        load = replace(load_on(ours, plan.seconds, BATCHES), path="/predict/batch")
        batches = [under_load(load, many) for _ in range(plan.windows)]
        rate = statistics.median(mine.per_second for mine, _ in pairs)
        crowd = under_load(load_on(ours, plan.crowd_seconds, MANY, rate / 2), ONE)
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
