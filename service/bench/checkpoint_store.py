"""Checkpoints against a real Redis: how soon a large model is back, and what a checkpoint every second costs."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from learners.registry import make
from service.app import Service
from service.bench.report import Bar
from service.cli.payments import payments
from service.embedded.redis import redis_server
from service.events import Decoder
from service.lineage import Lineage
from service.model import Model
from service.settings import Features, Label, Limits, Settings, StoreSettings
from service.sources import open_sink
from service.sources.contract import BEGINNING, Entry
from service.store import RedisStore

LARGE = 24
SMALL = 18
NEVER = 1e9
LEARNERS: dict[str, Any] = {"pa1": "pa1", "scaled pa1": {"kind": "scaled", "base": "pa1"}}


def stored(*, quick: bool) -> tuple[dict[str, Any], list[Bar]]:
    """Figures and bars."""
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as server:
        back = _restore(server.url, 1 if quick else 3)
        speeds = _throughput(server.url, events=60_000 if quick else 250_000, rounds=1 if quick else 5)
    share = speeds["pa1"]["share"]
    return {"restore": back, "throughput": speeds}, [
        Bar(f"restore of 2^{LARGE} weights, in s", back["seconds"], "<=", 10.0),
        Bar("events/s on Redis Streams with a checkpoint every second over those with none", share, ">=", 0.9),
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


def _throughput(url: str, events: int, rounds: int) -> dict[str, dict[str, float]]:
    """Events per second from a full stream to its end, with and without checkpoints on the way; all take turns."""
    sink = open_sink(f"{url}/payments")
    source = payments(0, 0)
    while batch := [Entry(value) for value in islice(source, min(1000, events))]:
        sink.append(batch)
        events -= len(batch)
        if not events:
            break
    sink.close()
    speeds: dict[tuple[str, float], list[float]] = {}
    for turn in range(rounds + 1):
        for name, learner in LEARNERS.items():
            for seconds in (1.0, NEVER):
                speed = _speed(url, f"{name}-{turn}-{seconds}".replace(" ", "-"), learner, seconds)
                if turn:  # the first turn warms everything up
                    speeds.setdefault((name, seconds), []).append(speed)
    table = {}
    for name in LEARNERS:
        often, never = (statistics.median(speeds[name, seconds]) for seconds in (1.0, NEVER))
        table[name] = {"every second": often, "none": never, "share": often / never}
    return table


def _speed(url: str, name: str, learner: Any, seconds: float) -> float:
    settings = Settings.model_validate(
        {
            "name": name,
            "learner": learner,
            "features": {"bits": SMALL},
            "label": {"positive": "fraud"},
            "source": {"url": f"{url}/payments"},
            "store": {"url": url, "every_seconds": seconds, "every_events": 10**9, "keep": 1, "keep_older": 0},
            "api": {"port": 0},
        }
    )
    service = Service(settings, "learn", until_end=True)
    started = time.perf_counter()
    status = service.run()
    assert status == 0
    return int(service.model.progress.events[0]) / (time.perf_counter() - started)
