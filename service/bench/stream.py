"""A service at full speed from a stream that is there already to its end: what benchmarks compare."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from itertools import islice
from typing import Any

from service.app import Service
from service.cli.payments import payments
from service.settings import Settings
from service.sources import open_sink
from service.sources.contract import Entry

BITS = 18
Beside = Callable[[Service], Any]
"""What goes on while it learns, as a context."""


def fill(url: str, events: int) -> None:
    with closing(open_sink(url)) as sink:
        source = islice(payments(0, 0), events)
        while batch := [Entry(value) for value in islice(source, 1000)]:
            sink.append(batch)


@contextmanager
def quiet() -> Iterator[None]:
    """A service of a second says nothing that anybody needs, unless it is an error."""
    log = logging.getLogger("onepass")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def speed(
    url: str,
    stream: str,
    *,
    name: str,
    learner: Any,
    features: Any = None,
    drift: Any = None,
    store: Any = None,
    beside: Beside = nullcontext,
) -> float:
    """Events per second, with checkpoints in the same Redis."""
    settings = Settings.model_validate(
        {
            "name": name.replace(" ", "-"),
            "learner": learner,
            "features": features or {"bits": BITS},
            "label": {"positive": "fraud"},
            "source": {"url": f"{url}/{stream}"},
            "drift": drift or {},
            "store": {"url": url, "every_events": 10**9, "keep": 1, "keep_older": 0} | (store or {}),
            "api": {"port": 0},
        }
    )
    service = Service(settings, "learn", until_end=True)
    with beside(service):
        started = time.perf_counter()
        status = service.run()
        seconds = time.perf_counter() - started
    assert status == 0
    return int(service.model.progress.events[0]) / seconds
