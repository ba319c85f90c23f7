"""One life of a learner over a log in memory, and the undisturbed run that every other run must
equal.
"""

import json
import threading

import pytest
from prometheus_client import CollectorRegistry

import service.consumer.checkpointer
import service.consumer.worker
from learners.registry import make
from service.checkpoint.snapshot import Snapshot
from service.config.settings import Features, Label, Limits
from service.consumer.checkpointer import CheckpointPolicy
from service.consumer.dead_letters import SideOutputs
from service.consumer.replica import Replica
from service.consumer.wiring import Learning, Parts, build_worker
from service.consumer.worker import Reading
from service.features.decoder import Decoder
from service.model.model import Model
from service.model.scheduling import RequestGate
from service.monitoring import Monitoring
from service.monitoring.health import Health
from service.monitoring.metrics import Metrics
from tests.service.fakes import FaultyStore, Inline, Log, Plan

FEATURES = Features(columns=("a", "b"), bits=3)
LABEL = Label(classes="grow", max_classes=3)
LEARNER = {"kind": "scaled", "base": {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}}
NEVER = float("inf")
PLACE = "memory:log/0"
PIECE_SECONDS = service.consumer.worker.PIECE_SECONDS
"""Seconds of the product; `no_waiting` changes them."""


def value(n: int) -> bytes:
    """Return event n; some are rejected, by the decoder, for their label, or by the learner."""
    if n % 7 == 3:
        return [b"no json %d" % n, b'{"features": {"a": null}, "label": "x", "n": %d}' % n][n % 2]
    features = {"a": n * 37 % 11 - 5, "b": n * 53 % 17 / 4} | ({"a": 1e60} if n % 11 == 5 else {})
    return json.dumps(
        {"features": features, "label": "q" if n % 13 == 12 else "xyz"[n * 7 % 5 % 3]}
    ).encode()


VALUES = [value(n) for n in range(60)]


@pytest.fixture(autouse=True, scope="module")
def no_waiting():
    """Set waits to 0: nothing happens during them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service.consumer.worker, "FIRST_WAIT", 0.0)
        patch.setattr(service.consumer.checkpointer, "RETRY_SECONDS", 0.0)
        patch.setattr(service.consumer.checkpointer, "Background", Inline)
        # Otherwise a slow machine would cut batches.
        patch.setattr(service.consumer.worker, "PIECE_SECONDS", 1e6)
        yield


@pytest.fixture(name="_every_record_a_piece")
def every_record_a_piece_fixture(monkeypatch):
    monkeypatch.setattr(service.consumer.worker, "PIECE_SECONDS", 0.0)


class Process:
    """One life of a learner: everything that dies with it."""

    def __init__(
        self,
        log: Log,
        store,
        plan=None,
        *,
        pace=None,
        most=500,
        until_end=True,
        source=None,
        sink=None,
    ) -> None:
        plan = plan or Plan()
        decoder = Decoder(FEATURES, LABEL, Limits())
        self.model = Model(make(LEARNER), FEATURES, LABEL, decoder)
        self.health = Health()
        self.registry = CollectorRegistry()
        monitoring = Monitoring(Metrics(self.registry, "m"), self.health)
        parts = Parts(
            log_name="memory:log",
            reading=Reading(source or (lambda: log.source(plan)), most, until_end),
            store=store,
            policy=pace or CheckpointPolicy(NEVER, 10),
            outputs=SideOutputs("m", sink or (lambda: log.sink(plan))),
            gate=RequestGate(),
            replica=Replica(self.model, store, monitoring),
        )
        self.worker = build_worker(Learning(decoder, self.model), parts, monitoring)
        self.checkpointer = self.worker._checkpointer
        self.stop = threading.Event()

    @property
    def at(self) -> str:
        """The position after the last applied record."""
        return self.checkpointer.position.positions.get("0", "")

    def run(self, after_round=lambda: None) -> None:
        self.worker.run(self.stop, after_round)


class Truth:
    """The undisturbed run, one event at a time: state and rejected records at every position."""

    def __init__(self) -> None:
        log = Log(VALUES)
        self.snapshots: dict[str, Snapshot] = {}
        store = FaultyStore(
            Plan(),
            lambda snapshot: self.snapshots.update({snapshot.bookmark.positions[PLACE]: snapshot}),
        )
        Process(log, store, pace=CheckpointPolicy(NEVER, 1), most=1).run()
        self.rejected = {letter.key: letter for letter in log.dead_letters}
        assert len(self.snapshots) == len(VALUES)
        assert len(self.rejected) == len(log.dead_letters) == sum(self.last.rejects.values())

    @property
    def last(self) -> Snapshot:
        return self.snapshots[str(len(VALUES))]

    def check(self, snapshot: Snapshot, dead_letters) -> None:
        """The state is exactly that of the records before its positions, and their rejects are dead
        letters.
        """
        position = snapshot.bookmark.positions[PLACE]
        expected = self.snapshots[position]
        assert snapshot.state_digest == expected.state_digest
        assert snapshot.classes == expected.classes
        assert snapshot.rejects == expected.rejects
        for name, array in expected.arrays.items():
            assert snapshot.arrays[name].tobytes() == array.tobytes(), name
        kept = {letter.key for letter in dead_letters}
        passed = {
            key for key in self.rejected if int(key.decode().rpartition(":")[2]) < int(position)
        }
        assert passed <= kept, "a checkpoint passed rejected events that are not yet dead letters"


@pytest.fixture(name="truth", scope="module")
def truth_fixture():
    return Truth()
