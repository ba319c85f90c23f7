"""The cost of monitoring: events/s with all metrics and detectors, and with none."""

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
from learners.drift.registry import DETECTORS
from learners.evaluation.calibration import calibrate
from learners.evaluation.progress import predict_labels
from service.app import Service
from service.bench.report import Bar
from service.bench.stream import fill_stream, measure_speed, silence_log
from service.embedded.payments import COLUMNS
from service.embedded.redis import redis_server
from service.model.monitor import Detection, Evaluation, Monitor

LEARNER = {"kind": "scaled", "base": "pa1"}
FEATURES = {"columns": list(COLUMNS), "bits": 10}
ALL = {"detectors": list(DETECTORS)}
NONE: Any = {"detectors": [], "inputs": None}
SCRAPES = 1.0
"""Seconds between two scrapes."""


def measure_cost(*, quick: bool) -> tuple[dict[str, Any], list[Bar]]:
    """Measure interleaved pairs, in alternating order, and return figures and bars."""
    events, rounds = (40_000, 2) if quick else (150_000, 9)
    pairs: list[dict[str, float]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        redis_server(Path(folder)) as server,
        silence_log(),
    ):
        fill_stream(f"{server.url}/warm", 5_000)
        fill_stream(f"{server.url}/payments", events)
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
    bar = Bar(
        "events/s with all metrics and detectors, scraped every second, over those with none",
        middle,
        ">=",
        0.9,
    )
    return {"cost": figures}, [bar]


def _speed_with_all(url: str, stream: str, name: str) -> float:
    return measure_speed(
        url, stream, name=name, learner=LEARNER, features=FEATURES, drift=ALL, during=_scrape
    )


def _speed_with_none(url: str, stream: str, name: str) -> float:
    with (
        patch("service.model.persistence.Monitor", _CountingMonitor),
        patch("service.monitoring.metrics.Metrics.learned", lambda *_: None),
    ):
        return measure_speed(url, stream, name=name, learner=LEARNER, features=FEATURES, drift=NONE)


RUNS = {"all": _speed_with_all, "none": _speed_with_none}


class _CountingMonitor(Monitor):
    """Only calibrates, which predictions need, and counts events and errors."""

    def evaluate(self, y: Array, scores: Array, weights: Array) -> Evaluation:
        calibrate(self.calibration, y, scores, weights)
        guess = predict_labels(scores)
        wrong = (guess != y).astype(np.uint8)
        self.progress.events[0] += y.size
        self.progress.errors[0] += int(wrong.sum())
        return Evaluation(y, guess, wrong)

    def watch(self, X: Batch, y: Array, guess: Ints, wrong: Flags) -> list[Detection]:
        del X, y, guess, wrong
        return []


@contextmanager
def _scrape(service: Service) -> Iterator[None]:
    """Scrape the metrics from another thread, as Prometheus would."""
    end = threading.Event()

    def scrape() -> None:
        while not end.wait(SCRAPES):
            with (
                suppress(OSError),
                urllib.request.urlopen(f"http://127.0.0.1:{service.port}/metrics") as reply,
            ):
                reply.read()  # the service may be stopping

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
