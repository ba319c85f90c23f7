"""`onepass bench checkpoint`: pause, size and cost of checkpoints, and time to restore."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from learners.batch import Ints
from learners.registry import make
from learners.state import flatten
from service.bench.report import Bar, document
from service.bench.stream import fill_stream, measure_speed, silence_log
from service.checkpoint.lineage import Lineage
from service.checkpoint.snapshot import Snapshot
from service.config.settings import CheckpointSettings, Features, Label, Limits, StoreSettings
from service.embedded.redis import redis_server
from service.features.decoder import Decoder, Event
from service.model.model import Model
from service.sources.base import BEGINNING
from service.storage import RedisStore

SMALL = 18
"""Bits of the features of a small model, which is always copied whole."""

LARGE = 24
"""Bits of the features of a large model, of which a delta copies only the dirty slots."""

CHANGED = 0.01
"""Share of the slots that change between two checkpoints."""

NEVER = 1e9
"""Seconds between two checkpoints, long enough that none is written."""

WARM_UP = 5_000
"""Events before the clock starts, at most."""

LEARNERS: dict[str, Any] = {"pa1": "pa1", "scaled pa1": {"kind": "scaled", "base": "pa1"}}


def bench_checkpoint(*, quick: bool) -> dict[str, Any]:
    """Run the whole benchmark and return one document."""
    pauses = _measure_pauses(5 if quick else 15)
    figures, bars = measure_store(quick=quick)
    return document({"pauses": pauses, **figures}, [*_pause_bars(pauses), *bars])


def measure_store(*, quick: bool) -> tuple[dict[str, Any], list[Bar]]:
    """Measure restore and throughput on a real Redis; return figures and bars."""
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as server:
        restore = _measure_restore(server.url, 1 if quick else 3)
        speeds = measure_throughput(
            server.url, events=60_000 if quick else 150_000, rounds=2 if quick else 11
        )
    return {"restore": restore, "throughput": speeds}, [
        Bar(f"restore of 2^{LARGE} weights, in s", restore["seconds"], "<=", 10.0),
        *(
            Bar(
                f"{name}: events/s with a checkpoint every second over those with none",
                row["share"],
                ">=",
                0.9,
            )
            for name, row in speeds.items()
        ),
    ]


def measure_throughput(url: str, events: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return events/s over a full stream, with a checkpoint every second and without.

    The two are measured in interleaved pairs, in alternating order. The share is the median over
    the pairs, so that a slow minute of the machine affects both or neither.
    """
    fill_stream(f"{url}/warm", min(events, WARM_UP))
    fill_stream(f"{url}/payments", events)
    pairs: dict[str, list[dict[float, float]]] = {name: [] for name in LEARNERS}
    with silence_log():
        for name, learner in LEARNERS.items():
            measure_speed(url, "warm", name=f"warm {name}", learner=learner)
        for turn in range(rounds):
            for name, learner in LEARNERS.items():
                order = (1.0, NEVER) if turn % 2 else (NEVER, 1.0)
                model = f"{name} {turn}"
                pairs[name].append(
                    {pace: _measure_speed(url, f"{model} {pace}", learner, pace) for pace in order}
                )
    return {name: _summarize(taken) for name, taken in pairs.items()}


def _measure_pauses(rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return median pause and bytes of each form of checkpoint, per learner.

    Models of one size take turns. Models of different sizes do not: the cost of a copy depends on
    memory freed before, and no process has models of both sizes.
    """
    draws = np.random.default_rng(0)
    table: dict[str, dict[str, dict[str, float]]] = {}
    for bits in (SMALL, LARGE):
        models = {name: _mapped_model(spec, bits) for name, spec in LEARNERS.items()}
        times: dict[tuple[str, str], list[float]] = {}
        for _ in range(rounds):
            for name, model in models.items():
                for form in ("whole", "delta"):
                    model.learn(_draw_events(draws, 1 << bits))
                    seconds, size = _measure_pause(model, whole=form == "whole")
                    taken = times.setdefault((form, name), [])
                    taken.append(1e3 * seconds)
                    table.setdefault(f"{form} 2^{bits}", {})[name] = {
                        "milliseconds": statistics.median(taken),
                        "longest": max(taken),
                        "megabytes": size / 1e6,
                    }
    return table


def _mapped_model(spec: Any, bits: int) -> Model:
    """Make a model whose memory is mapped and whose first snapshot is taken."""
    model = _make_model(spec, bits)
    for array in flatten(model.state).values():
        np.add(array, 0, out=array)  # map every page before the clock starts
    _take_snapshot(model, whole=True)
    return model


def _draw_events(draws: np.random.Generator, dim: int) -> list[Event]:
    """Make some hundred rows that change the share CHANGED of all slots, at random."""
    slots: Ints = 1 + draws.integers(dim - 1, size=round(1.006 * CHANGED * dim))  # a few repeat
    rows = [np.unique(row).tolist() for row in np.array_split(slots, 200)]
    return [Event([0, *row], [1.0] * (len(row) + 1), str(n % 2), 1.0) for n, row in enumerate(rows)]


def _measure_pause(model: Model, *, whole: bool) -> tuple[float, int]:
    """Return the seconds in which the model learns nothing, and the bytes of the copy."""
    started = time.perf_counter()
    snapshot = _take_snapshot(model, whole=whole)
    seconds = time.perf_counter() - started
    return seconds, sum(array.nbytes for array in snapshot.arrays.values())


def _take_snapshot(model: Model, *, whole: bool) -> Snapshot:
    return model.snapshot(BEGINNING, Lineage(), whole=whole)


def _pause_bars(pauses: dict[str, dict[str, dict[str, float]]]) -> list[Bar]:
    bars = []
    for name in LEARNERS:
        whole, large, delta = (
            pauses[form][name]
            for form in (f"whole 2^{SMALL}", f"whole 2^{LARGE}", f"delta 2^{LARGE}")
        )
        bars += [
            Bar(
                f"{name}: pause at 2^{SMALL} slots, whole, in ms", whole["milliseconds"], "<=", 5.0
            ),
            Bar(
                f"{name}: pause at 2^{LARGE} slots, 1 % touched, in ms",
                delta["milliseconds"],
                "<=",
                50.0,
            ),
            Bar(
                f"{name}: bytes of that delta over the model's",
                delta["megabytes"] / large["megabytes"],
                "<=",
                0.05,
            ),
        ]
    return bars


def _measure_restore(url: str, rounds: int) -> dict[str, float]:
    model = _make_model("pa1", LARGE)
    with _open_store(url) as store:
        store.acquire()
        store.load()
        started = time.perf_counter()
        written = store.save(model.snapshot(BEGINNING, Lineage(), whole=True))
        save = time.perf_counter() - started
        times: list[float] = []
        for _ in range(rounds):
            started = time.perf_counter()
            found = store.load()
            assert found is not None
            model.restore(found.snapshot)
            times.append(time.perf_counter() - started)
    return {
        "seconds": statistics.median(times),
        "save seconds": save,
        "megabytes": written.size / 1e6,
    }


@contextmanager
def _open_store(url: str) -> Iterator[RedisStore]:
    store = RedisStore(StoreSettings(url=url), "restore", CheckpointSettings(keep=1, keep_levels=0))
    try:
        yield store
    finally:
        store.close()


def _make_model(spec: Any, bits: int) -> Model:
    features, label = Features(bits=bits), Label()
    return Model(make(spec), features, label, Decoder(features, label, Limits()))


def _measure_speed(url: str, name: str, learner: Any, seconds: float) -> float:
    return measure_speed(
        url, "payments", name=name, learner=learner, checkpoint={"interval_seconds": seconds}
    )


def _summarize(pairs: list[dict[float, float]]) -> dict[str, float]:
    """Return medians and the quartiles of the pairs, which show the noise."""
    shares = [pair[1.0] / pair[NEVER] for pair in pairs]
    low, middle, high = statistics.quantiles(shares, n=4, method="inclusive")
    return {
        "every second": statistics.median(pair[1.0] for pair in pairs),
        "none": statistics.median(pair[NEVER] for pair in pairs),
        "share": middle,
        "from": low,
        "to": high,
    }
