"""`onepass bench learners`: the cost of an event for each linear learner and its peers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from learners.batch import Array, Batch
from learners.kernel.learner import KernelLearner
from learners.learner import Learner
from learners.registry import LEARNERS, kind_class, make
from learners.state import flatten
from service.bench.peers import RIVER, VW, dictionaries, installed, river_pass, vw_lines, vw_pass
from service.bench.report import Bar, document, time_interleaved

NOT_O_NNZ = {"pa-l1"}
"""Learners that need all weights for a step."""


def linear_kinds() -> list[str]:
    """Return all learners except those that store rows, whose cost grows with the rows."""
    return [kind for kind in LEARNERS if not issubclass(kind_class(kind), KernelLearner)]


def bench_learners(*, quick: bool) -> dict[str, Any]:
    """Run the whole benchmark and return one document."""
    rounds = 3 if quick else 7
    dense = dense_events(5_000 if quick else 20_000)
    tokens = token_events(1_000 if quick else 5_000)
    results: dict[str, Any] = {
        "events_per_second": {
            "dense10": _measure_speeds(*dense, dim=11, rounds=rounds, peer_rows=1_000),
            "tokens60": _measure_speeds(*tokens, dim=50_001, rounds=rounds, peer_rows=500),
        },
        "microseconds_by_dimension": _measure_by_dimension(500 if quick else 2_000, rounds),
    }
    return document(
        results, [*_speed_bars(results["events_per_second"]), *_dimension_bars(results)]
    )


def dense_events(rows: int) -> tuple[Batch, Array]:
    """Draw ten positive columns, which every learner accepts, and a noisy linear rule."""
    draws = np.random.default_rng(0)
    values = np.column_stack([np.ones(rows), draws.exponential(size=(rows, 10))])
    rule = draws.normal(size=11)
    noise = draws.normal(scale=0.3, size=rows)
    y = np.where(values @ rule - np.median(values @ rule) + noise > 0.0, 1.0, -1.0)
    indices = np.tile(np.arange(11, dtype=np.int32), rows)
    return Batch(np.arange(0, 11 * rows + 1, 11), indices, values.ravel(), np.ones(rows)).validate(
        11
    ), y


def token_events(rows: int) -> tuple[Batch, Array]:
    """Draw sixty words of a vocabulary of 50,000 with Zipf frequencies."""
    draws = np.random.default_rng(1)
    shares = 1.0 / np.arange(1, 50_001)
    rule = draws.normal(size=50_001)
    words = 1 + draws.choice(50_000, size=(rows, 60), p=shares / shares.sum())
    counted = [np.unique(row, return_counts=True) for row in words]
    X = Batch.from_rows(
        [([0, *slots.tolist()], [1.0, *counts.astype(float)]) for slots, counts in counted]
    )
    sums = np.array([rule[slots] @ counts for slots, counts in counted])
    return X.validate(50_001), np.where(sums > np.median(sums), 1.0, -1.0)


def uniform_events(rows: int, dim: int) -> tuple[Batch, Array]:
    """Draw rows with fifty non-zero slots at random places."""
    draws = np.random.default_rng(2)
    slots = np.sort(1 + draws.integers(dim - 1, size=(rows, 50)), axis=1)
    cells = [np.unique(row) for row in slots]
    X = Batch.from_rows([([0, *row.tolist()], [1.0] * (row.size + 1)) for row in cells])
    return X.validate(dim), np.where(draws.random(rows) < 0.5, 1.0, -1.0)


def make_learner(kind: str) -> Learner:
    """Return a learner with its defaults, for hashed features."""
    open_choice = {"absent": "skip"} if "absent" in kind_class(kind).model_fields else {}
    return make({"kind": kind, **open_choice})


def _make_job(learner: Learner, X: Batch, y: Array, dim: int) -> Callable[[], object]:
    learner.learn(learner.init(dim), X.rows(0, 2), y[:2])  # compile outside of the clock
    return lambda: learner.learn(learner.init(dim), X, y)


def _measure_speeds(
    X: Batch, y: Array, *, dim: int, rounds: int, peer_rows: int
) -> dict[str, dict[str, int]]:
    """Return events/s of every learner, and of its peers on the first `peer_rows` events."""
    few, labels = X.rows(0, peer_rows), y[:peer_rows]
    jobs: dict[str, Callable[[], object]] = {}
    counts: dict[str, int] = {}

    def add(name: str, rows: int, job: Callable[[], object]) -> None:
        jobs[name], counts[name] = job, rows

    for kind in linear_kinds():
        rows = X.size if kind not in NOT_O_NNZ else peer_rows
        add(f"onepass {kind}", rows, _make_job(make_learner(kind), X.rows(0, rows), y[:rows], dim))
    scaled = make({"kind": "scaled", "center": dim < 4096, "base": "pa1"})
    add("onepass scaled pa1", X.size, _make_job(scaled, X, y, dim))
    if "river" in installed():
        dictionary_rows = dictionaries(few)
        for kind in RIVER:
            add(f"river {kind}", peer_rows, river_pass(kind, dictionary_rows, labels))
        add("river scaled pa1", peer_rows, river_pass("pa1", dictionary_rows, labels, scaled=True))
    if "vowpalwabbit" in installed():
        lines = vw_lines(few, labels)
        for kind in VW:
            add(f"vowpalwabbit {kind}", peer_rows, vw_pass(kind, lines, labels))
    seconds = time_interleaved(jobs, rounds)
    table: dict[str, dict[str, int]] = {}
    for name, taken in seconds.items():
        who, _, kind = name.partition(" ")
        table.setdefault(kind, {})[who] = round(counts[name] / max(taken, 1e-9))
    return table


def _measure_by_dimension(rows: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return microseconds per event at four dimensions, with all memory mapped before."""
    table: dict[str, dict[str, float]] = {}
    for kind in linear_kinds():
        if kind in NOT_O_NNZ:
            continue
        jobs = {}
        for bits in (12, 20, 22, 24):
            X, y = uniform_events(rows, 1 << bits)
            learner = make_learner(kind)
            state = learner.init(1 << bits)
            for array in flatten(state).values():
                np.add(array, 0, out=array)  # map every page before the clock starts
            learner.learn(state, X, y)
            jobs[str(bits)] = lambda learner=learner, state=state, X=X, y=y: learner.learn(
                state, X, y
            )
        table[kind] = {
            bits: taken / rows * 1e6 for bits, taken in time_interleaved(jobs, rounds).items()
        }
    return table


def _speed_bars(speeds: dict[str, dict[str, dict[str, int]]]) -> list[Bar]:
    goals = [("dense10", "pa1", 100.0), ("tokens60", "pa1", 50.0), ("dense10", "scaled pa1", 100.0)]
    return [
        Bar(f"{kind} on {stream}, times River", row["onepass"] / row["river"], ">=", goal)
        for stream, kind, goal in goals
        if "river" in (row := speeds[stream][kind])
    ]


def _dimension_bars(results: dict[str, Any]) -> list[Bar]:
    bars = []
    for kind, row in results["microseconds_by_dimension"].items():
        bars.append(Bar(f"{kind}: cost at 2^22 over 2^12", row["22"] / row["12"], "<=", 10.0))
        bars.append(Bar(f"{kind}: cost at 2^24 over 2^20", row["24"] / row["20"], "<=", 2.5))
    return bars
