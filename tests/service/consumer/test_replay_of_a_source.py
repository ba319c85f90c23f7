"""A replay keeps its checkpoint in memory, and nobody ends it before it is written."""

import threading

import service.consumer.worker
from learners.registry import make
from service.checkpoint.store import InMemoryStore
from service.config.settings import Limits
from service.consumer.wiring import Learning, replay
from service.features.decoder import Decoder
from service.model.model import Model
from tests.service.consumer.learner_process import FEATURES, LABEL, LEARNER, VALUES
from tests.service.fakes import Log, Plan


def test_a_replay_waits_for_its_checkpoint_however_long_it_takes(monkeypatch):
    """A large model on a busy machine takes longer than a service that is to stop may take."""
    monkeypatch.setattr(service.consumer.worker, "FINISH_SECONDS", 0.0)
    asked, save = threading.Event(), InMemoryStore.save

    def slow(store, *arguments):
        asked.wait(0.2)
        return save(store, *arguments)

    monkeypatch.setattr(InMemoryStore, "save", slow)
    decoder = Decoder(FEATURES, LABEL, Limits())
    model = Model(make(LEARNER), FEATURES, LABEL, decoder)
    store = replay(Learning(decoder, model), Log(VALUES).source(Plan()))
    snapshot = store.load().snapshot
    assert snapshot.events + sum(snapshot.rejects.values()) == len(VALUES)
