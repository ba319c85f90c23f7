"""Put decoder, model, checkpointer and worker together.

The service, `replay`, the benchmarks and the tests all call `build_worker`. They differ only in
their `Parts`.
"""

import sys
import threading
from collections.abc import Callable
from typing import NamedTuple

from service.checkpoint.store import InMemoryStore, Store
from service.config.settings import Settings
from service.consumer.checkpointer import Checkpointer, CheckpointPolicy
from service.consumer.dead_letters import SideOutputs
from service.consumer.recovery import Recovery
from service.consumer.replica import Replica
from service.consumer.worker import Reading, Worker
from service.errors import as_settings_error
from service.features.decoder import Decoder
from service.model.model import Model
from service.model.scheduling import RequestGate
from service.monitoring import Monitoring
from service.monitoring.health import Health
from service.monitoring.metrics import Metrics, Registry
from service.sources.base import Sink, Source
from service.storage.file_backup import FileBackup

REPLAY_RECORDS = 500
"""Records of one poll in a replay."""
NEVER = CheckpointPolicy(float("inf"), sys.maxsize)
"""No checkpoint until the end."""


class Learning(NamedTuple):
    """A model and the decoder that its rows come from."""

    decoder: Decoder
    model: Model


class Parts(NamedTuple):
    """What differs between a service, a replay and a test."""

    log_name: str
    reading: Reading
    store: Store
    policy: CheckpointPolicy
    outputs: SideOutputs
    gate: RequestGate
    backup: FileBackup | None = None
    replica: Replica | None = None
    """Serves the holder's checkpoints while this learner stands by."""
    start_fresh: bool = False


def build_model(settings: Settings) -> Learning:
    """Build the decoder and the model of one configuration."""
    decoder = Decoder(
        settings.features, settings.label, settings.limits, settings.max_feature_names
    )
    with as_settings_error():
        model = Model(settings.learner, settings.features, settings.label, decoder, settings.drift)
    return Learning(decoder, model)


def build_worker(learning: Learning, parts: Parts, monitoring: Monitoring) -> Worker:
    """Build the worker with its checkpointer and recovery."""
    decoder, model = learning
    recovery = Recovery(
        model, parts.store, parts.backup, monitoring.metrics, start_fresh=parts.start_fresh
    )
    checkpointer = Checkpointer(
        parts.policy, parts.log_name, model, parts.store, recovery, parts.backup, monitoring
    )
    return Worker(
        parts.reading,
        decoder,
        model,
        checkpointer,
        parts.replica,
        parts.outputs,
        parts.gate,
        monitoring,
    )


def replay(
    learning: Learning,
    source: Source,
    after_round: Callable[[], None] = lambda: None,
    *,
    alarms: Sink | None = None,
    max_poll_records: int = REPLAY_RECORDS,
) -> InMemoryStore:
    """Learn a whole source with the same worker as the service. The returned store holds the one
    checkpoint at the end.
    """
    store = InMemoryStore()
    parts = Parts(
        log_name="file",
        reading=Reading(lambda: source, max_poll_records, until_end=True, patient=True),
        store=store,
        policy=NEVER,
        outputs=SideOutputs("replay", open_alarms=lambda: alarms, quiet=True),
        gate=RequestGate(),
    )
    monitoring = Monitoring(Metrics(Registry(), "replay"), Health())
    build_worker(learning, parts, monitoring).run(threading.Event(), after_round)
    return store
