"""What it costs to see: events per second with every metric and every detector on, over those with none."""

import statistics
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from learners.batch import Array, Batch, Flags, Ints
from learners.calibration import calibrate
from learners.drift.registry import DETECTORS
from learners.outputs import predicted
from service.app import Service
from service.bench.report import Bar
from service.bench.stream import fill, quiet, speed
from service.cli.payments import COLUMNS
from service.embedded.redis import redis_server
from service.judgement import Judged, Judgement, Sign

LEARNER = {"kind": "scaled", "base": "pa1"}
FEATURES = {"columns": list(COLUMNS), "bits": 10}
ALL = {"detectors": list(DETECTORS)}
NONE: Any = {"detectors": [], "inputs": None}
SCRAPES = 1.0
"""Seconds between two of them."""


def cost(*, quick: bool) -> tuple[dict[str, Any], list[Bar]]:
    """Figures and bars: pairs, one right after the other and by turns the one or the other first."""
    events, rounds = (40_000, 2) if quick else (150_000, 9)
    pairs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as server, quiet():
        fill(f"{server.url}/warm", 5_000)
        fill(f"{server.url}/payments", events)
        for turn in range(-1, rounds):
            stream = "warm" if turn < 0 else "payments"
            order = ("all", "none") if turn % 2 else ("none", "all")
            pair = {name: RUNS[name](server.url, stream, f"{name} {turn}") for name in order}
            if turn >= 0:
                pairs.append(pair)
    shares = [pair["all"] / pair["none"] for pair in pairs]
    low, middle, high = statistics.quantiles(shares, n=4, method="inclusive")
    figures = {
        "events per second with all": statistics.median(pair["all"] for pair in pairs),
        "events per second with none": statistics.median(pair["none"] for pair in pairs),
        "share": middle,
        "from": low,
        "to": high,
    }
    bar = Bar("events/s with all metrics and detectors, scraped every second, over those with none", middle, ">=", 0.9)
    return {"cost": figures}, [bar]


def _with_all(url: str, stream: str, name: str) -> float:
    return speed(url, stream, name=name, learner=LEARNER, features=FEATURES, drift=ALL, beside=_scraped)


def _with_none(url: str, stream: str, name: str) -> float:
    with patch("service.model.Judgement", _Counted), patch("service.metrics.Metrics.learned", lambda *_: None):
        return speed(url, stream, name=name, learner=LEARNER, features=FEATURES, drift=NONE)


RUNS = {"all": _with_all, "none": _with_none}


class _Counted(Judgement):
    """Calibrates, since predictions need it, and counts events and errors: nothing else."""

    def judge(self, y: Array, scores: Array, weights: Array) -> Judged:
        calibrate(self.calibration, y, scores, weights)
        guess = predicted(scores)
        wrong = (guess != y).astype(np.uint8)
        self.progress.events[0] += y.size
        self.progress.errors[0] += int(wrong.sum())
        return Judged(y, guess, wrong)

    def watch(self, X: Batch, y: Array, guess: Ints, wrong: Flags) -> list[Sign]:
        del X, y, guess, wrong
        return []


@contextmanager
def _scraped(service: Service) -> Iterator[None]:
    """As Prometheus would, from another thread."""
    end = threading.Event()

    def scrape() -> None:
        while not end.wait(SCRAPES):
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{service.port}/metrics") as reply:
                reply.read()  # at its end the service answers no more

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
