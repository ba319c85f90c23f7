"""Checkpoints against a real Redis: how soon a large model is back, and what a checkpoint every second costs."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from learners.registry import make
from service.bench.report import Bar
from service.bench.stream import fill, quiet, speed
from service.embedded.redis import redis_server
from service.events import Decoder
from service.lineage import Lineage
from service.model import Model
from service.settings import Features, Label, Limits, StoreSettings
from service.sources.contract import BEGINNING
from service.store import RedisStore

LARGE = 24
NEVER = 1e9
WARM_UP = 5_000
LEARNERS: dict[str, Any] = {"pa1": "pa1", "scaled pa1": {"kind": "scaled", "base": "pa1"}}


def stored(*, quick: bool) -> tuple[dict[str, Any], list[Bar]]:
    """Figures and bars."""
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as server:
        back = _restore(server.url, 1 if quick else 3)
        speeds = throughput(server.url, events=60_000 if quick else 150_000, rounds=2 if quick else 11)
    return {"restore": back, "throughput": speeds}, [
        Bar(f"restore of 2^{LARGE} weights, in s", back["seconds"], "<=", 10.0),
        *(
            Bar(f"{name}: events/s with a checkpoint every second over those with none", row["share"], ">=", 0.9)
            for name, row in speeds.items()
        ),
    ]


def _restore(url: str, rounds: int) -> dict[str, float]:
    features, label = Features(bits=LARGE), Label()
    model = Model(make("pa1"), features, label, Decoder(features, label, Limits()))
    with _store(url) as store:
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
    return {"seconds": statistics.median(times), "save seconds": save, "megabytes": written.size / 1e6}


@contextmanager
def _store(url: str) -> Iterator[RedisStore]:
    store = RedisStore(StoreSettings(url=url, keep=1, keep_older=0), "restore")
    try:
        yield store
    finally:
        store.close()


def throughput(url: str, events: int, rounds: int) -> dict[str, dict[str, float]]:
    """Events per second from a full stream to its end, with a checkpoint every second and with none on the way.

    The two are measured in pairs, one right after the other and by turns the one or the other first; the share is the
    median over the pairs, so that a slow minute of the machine is in both or in neither.
    """
    fill(f"{url}/warm", min(events, WARM_UP))
    fill(f"{url}/payments", events)
    pairs: dict[str, list[dict[float, float]]] = {name: [] for name in LEARNERS}
    with quiet():
        for name, learner in LEARNERS.items():
            speed(url, "warm", name=f"warm {name}", learner=learner)
        for turn in range(rounds):
            for name, learner in LEARNERS.items():
                order = (1.0, NEVER) if turn % 2 else (NEVER, 1.0)
                model = f"{name} {turn}"
                pairs[name].append({pace: _speed(url, f"{model} {pace}", learner, pace) for pace in order})
    return {name: _row(taken) for name, taken in pairs.items()}


def _speed(url: str, name: str, learner: Any, seconds: float) -> float:
    return speed(url, "payments", name=name, learner=learner, store={"every_seconds": seconds})


def _row(pairs: list[dict[float, float]]) -> dict[str, float]:
    """Medians, and between which shares the middle half of the pairs lies: how much of it is noise."""
    shares = [pair[1.0] / pair[NEVER] for pair in pairs]
    low, middle, high = statistics.quantiles(shares, n=4, method="inclusive")
    return {
        "every second": statistics.median(pair[1.0] for pair in pairs),
        "none": statistics.median(pair[NEVER] for pair in pairs),
        "share": middle,
        "from": low,
        "to": high,
    }
