"""Measure events/s of a service that reads an existing stream to its end."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from itertools import islice
from typing import Any

from service.app import Service
from service.config.settings import Settings
from service.embedded.payments import payments
from service.sources import open_sink
from service.sources.base import Entry

BITS = 18
During = Callable[[Service], Any]
"""A context that is open while the service learns."""


def fill_stream(url: str, events: int) -> None:
    with closing(open_sink(url)) as sink:
        source = islice(payments(0, 0), events)
        while batch := [Entry(value) for value in islice(source, 1000)]:
            sink.append(batch)


@contextmanager
def silence_log() -> Iterator[None]:
    """Silence the log below errors: the services here live for a second."""
    log = logging.getLogger("onepass")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def measure_speed(
    url: str,
    stream: str,
    *,
    name: str,
    learner: Any,
    features: Any = None,
    drift: Any = None,
    checkpoint: Any = None,
    during: During = nullcontext,
) -> float:
    """Return events/s, with checkpoints in the same Redis."""
    settings = Settings.model_validate(
        {
            "name": name.replace(" ", "-"),
            "learner": learner,
            "features": features or {"bits": BITS},
            "label": {"positive": "fraud"},
            "source": {"url": f"{url}/{stream}"},
            "drift": drift or {},
            "store": {"url": url},
            "checkpoint": {"interval_events": 10**9, "keep": 1, "keep_levels": 0}
            | (checkpoint or {}),
            "api": {"port": 0},
        }
    )
    service = Service(settings, "learn", until_end=True)
    with during(service):
        started = time.perf_counter()
        status = service.run()
        seconds = time.perf_counter() - started
    assert status == 0
    return int(service.model.progress.events[0]) / seconds
