"""A pass over a log that has an end, with no store but the memory: `replay`, curves and tests."""

import sys
import threading
from collections.abc import Callable

from service.checkpoints import Remembered
from service.events import Decoder
from service.health import Health
from service.keeper import Keeper
from service.letters import Letters
from service.metrics import Metrics, Registry
from service.model import Model
from service.pace import Pace
from service.restart import Restart
from service.sources.contract import Sink, Source
from service.worker import Worker

ROUND = 500


def one_pass(
    model: Model,
    decoder: Decoder,
    source: Source,
    after_round: Callable[[], None] = lambda: None,
    *,
    alarms: Sink | None = None,
    records: int = ROUND,
) -> Remembered:
    """Learn all of it by the worker that serves; the store it leaves has the one checkpoint at the end."""
    store, health, metrics = Remembered(), Health(), Metrics(Registry(), "offline")
    restart = Restart(model, store, None, metrics, health)
    keeper = Keeper(Pace(float("inf"), sys.maxsize), model, store, restart, None, metrics, health)
    letters = Letters("offline", open_alarms=lambda: alarms, tells=False)
    worker = Worker(
        "file", records, model, decoder, keeper, None, lambda: source, letters, metrics, health, until_end=True
    )
    worker.run(threading.Event(), after_round)
    return store
