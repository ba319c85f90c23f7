"""Checkpoints against a real Redis: how soon a large model is back, and what a checkpoint every second costs."""

import logging
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
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
    _fill(f"{url}/warm", min(events, WARM_UP))
    _fill(f"{url}/payments", events)
    pairs: dict[str, list[dict[float, float]]] = {name: [] for name in LEARNERS}
    with _quiet():
        for name, learner in LEARNERS.items():
            _speed(url, "warm", f"warm {name}", learner, 1.0)
        for turn in range(rounds):
            for name, learner in LEARNERS.items():
                order = (1.0, NEVER) if turn % 2 else (NEVER, 1.0)
                model = f"{name} {turn}"
                pairs[name].append({pace: _speed(url, "payments", f"{model} {pace}", learner, pace) for pace in order})
    return {name: _row(taken) for name, taken in pairs.items()}


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


def _fill(url: str, events: int) -> None:
    with closing(open_sink(url)) as sink:
        source = islice(payments(0, 0), events)
        while batch := [Entry(value) for value in islice(source, 1000)]:
            sink.append(batch)


@contextmanager
def _quiet() -> Iterator[None]:
    """A service of a second says nothing that anybody needs, unless it is an error."""
    log = logging.getLogger("onepass")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def _speed(url: str, stream: str, name: str, learner: Any, seconds: float) -> float:
    settings = Settings.model_validate(
        {
            "name": name.replace(" ", "-"),
            "learner": learner,
            "features": {"bits": SMALL},
            "label": {"positive": "fraud"},
            "source": {"url": f"{url}/{stream}"},
            "store": {"url": url, "every_seconds": seconds, "every_events": 10**9, "keep": 1, "keep_older": 0},
            "api": {"port": 0},
        }
    )
    service = Service(settings, "learn", until_end=True)
    started = time.perf_counter()
    status = service.run()
    assert status == 0
    return int(service.model.progress.events[0]) / (time.perf_counter() - started)
