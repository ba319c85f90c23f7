"""`onepass bench serve`: speed of predictions, beside bare FastAPI and beside learning."""

import json
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from service.bench.report import Bar, document
from service.bench.serve.latency import ONE, measure_apart, measure_together
from service.bench.serve.load import Report, run_load
from service.bench.serve.processes import instance
from service.bench.serve.promptness import measure_promptness
from service.bench.serve.setup import CLOSED, Plan, Setup, make_load, wait_until_learned
from service.embedded.redis import redis_server

BATCHES, MANY = 4, 1000
"""Connections of each load."""
BATCH = 1000
FIRST_EVENTS = 20_000
BACKLOG = 60_000

FULL = Plan(15, 15, 1.5, 60.0, 60_000)
QUICK = Plan(3, 3, 0.8, 3.0, 30_000)
"""Plans with many short windows, so that a disturbance of some seconds spoils only a few."""


def bench_serve(*, quick: bool) -> dict[str, Any]:
    """Run the whole benchmark and return one document."""
    with (
        tempfile.TemporaryDirectory() as folder,
        redis_server(Path(folder), appendonly=False) as redis,
    ):
        setup = Setup(Path(folder), redis, QUICK if quick else FULL)
        figures, bars = _load_replica(setup)
        figures["promptness"], prompt_bars = measure_promptness(setup, BACKLOG)
        figures["learn and serve"], apart_bars = measure_apart(setup, FIRST_EVENTS)
        most = figures["learn and serve"]["learner"]["at most"]
        figures["run"], together_bars = measure_together(setup, most)
    return document(figures, [*bars, *prompt_bars, *apart_bars, *together_bars])


def _load_replica(setup: Setup) -> tuple[dict[str, Any], list[Bar]]:
    """Load an idle replica: single requests in turns with the bare server, batches, a crowd."""
    plan = setup.plan
    many = json.dumps({"instances": [instance(seed) for seed in range(BATCH)]}).encode()
    with setup.stream("alone", FIRST_EVENTS), setup.role("run", "alone") as first:
        wait_until_learned(first, FIRST_EVENTS)
    with setup.role("serve", "alone") as ours, setup.bare() as theirs:
        pairs = [
            tuple(
                run_load(make_load(server, plan.seconds, CLOSED), ONE) for server in (ours, theirs)
            )
            for _ in range(plan.pairs)
        ]
        load = replace(make_load(ours, plan.seconds, BATCHES), path="/predict/batch")
        batches = [run_load(load, many) for _ in range(plan.windows)]
        rate = statistics.median(mine.per_second for mine, _ in pairs)
        crowd = run_load(make_load(ours, plan.crowd_seconds, MANY, rate / 2), ONE)
    return _summarize(pairs, batches, crowd, plan.crowd_seconds)


def _summarize(
    pairs: list[tuple[Report, ...]], batches: list[Report], crowd: Report, seconds: float
) -> tuple[dict[str, Any], list[Bar]]:
    """Return figures and bars of the loads on a replica."""
    rate = statistics.median(mine.per_second for mine, _ in pairs)
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
        "1,000 clients": {
            "requests per second": crowd.per_second,
            "p50 ms": crowd.p50,
            "p99 ms": crowd.p99,
        },
    }
    return figures, [
        Bar(
            "requests/s of /predict over those of a bare FastAPI handler",
            statistics.median(shares),
            ">=",
            0.9,
        ),
        Bar("instances/s in batches of 1,000", statistics.median(instances), ">=", 100_000),
        Bar("errors of these", errors, "<=", 0),
        Bar(f"errors of 1,000 clients in {seconds:.0f} s", crowd.errors, "<=", 0),
    ]
