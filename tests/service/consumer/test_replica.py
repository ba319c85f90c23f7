"""A replica always serves a whole generation, the newest that can be read, and never loses the one
it has.
"""

import logging
import threading

import pytest
from prometheus_client import CollectorRegistry
from redis import Redis

from learners.registry import make
from service.checkpoint.lineage import Lineage
from service.checkpoint.store import CorruptCheckpointError
from service.config.settings import Features, Label, Limits, StoreSettings
from service.consumer.replica import Replica
from service.features.decoder import Decoder, Event
from service.model.model import Model
from service.monitoring import Monitoring
from service.monitoring.health import Health
from service.monitoring.metrics import Metrics
from service.sources.base import BEGINNING
from service.storage import RedisStore
from tests.waiting import wait_for

FEATURES, LABEL = Features(bits=4), Label()


def build():
    return Model(make("pa1"), FEATURES, LABEL, Decoder(FEATURES, LABEL, Limits()))


class Pair:
    """A learner's store, and replicas of it."""

    def __init__(self, url):
        settings = StoreSettings(url=url)
        self.learner = build()
        self.store = RedisStore(settings, "m")
        self.store.acquire()
        self.store.load()
        self.redis = Redis.from_url(url)
        self.registry = CollectorRegistry()
        self.replicas = []

    def save(self, events=1):
        self.learner.learn([Event([0, 1], [1.0, 2.0], "1", 1.0)] * events)
        return self.store.save(self.learner.snapshot(BEGINNING, Lineage(), whole=True))

    def damage(self, manifest):
        key = f"{manifest.parts[0].blob}:0"
        data = bytearray(self.redis.get(key))
        data[60] ^= 1
        self.redis.set(key, bytes(data))

    def follower(self):
        model, health = build(), Health()
        store = RedisStore(StoreSettings(url=self.store._settings.url), "m")
        self.replicas.append(store)
        return (
            Replica(model, store, Monitoring(Metrics(CollectorRegistry(), "m"), health)),
            model,
            health,
        )

    def close(self):
        for store in (self.store, *self.replicas):
            store.close()
        self.redis.close()


@pytest.fixture
def pair(redis_url):
    made = Pair(redis_url)
    yield made
    made.close()


def test_a_replica_is_not_ready_before_the_first_checkpoint(pair):
    follower, _, health = pair.follower()
    follower.step()
    assert not health.ready
    assert "no checkpoint yet" in health.trouble
    pair.save()
    follower.step()
    assert health.ready
    assert health.trouble == ""


def test_waiting_for_the_first_checkpoint_is_logged_once(pair, caplog, monkeypatch):
    monkeypatch.setattr("service.consumer.replica.FOLLOW_SECONDS", 0.01)
    follower, _, health = pair.follower()
    stop, looked, step = threading.Event(), [], follower.step
    monkeypatch.setattr(follower, "step", lambda: looked.append(step()))
    with caplog.at_level(logging.INFO, "onepass"):
        thread = threading.Thread(target=follower.run, args=[stop])
        thread.start()
        try:
            wait_for(lambda: len(looked) >= 5, "looks in vain")
            pair.save()
            wait_for(lambda: health.ready, "the replica is ready")
        finally:
            stop.set()
            thread.join()
    told = [
        record
        for record in caplog.records
        if "no checkpoint yet: start a learner" in record.getMessage()
    ]
    assert [record.levelno for record in told] == [logging.INFO]


def test_a_replica_keeps_its_model_when_the_newest_generation_is_damaged(pair, caplog):
    follower, model, health = pair.follower()
    good = pair.save(3)
    follower.step()
    pair.damage(pair.save(5))
    follower.step()
    follower.step()
    assert health.ready
    assert health.checkpoint == good
    assert int(model.progress.events[0]) == 3
    assert len([record for record in caplog.records if "older generation" in record.message]) == 1
    newer = pair.save(1)
    follower.step()
    assert health.checkpoint == newer
    assert int(model.progress.events[0]) == 9


def test_a_new_replica_skips_a_damaged_newest_generation(pair):
    good = pair.save(3)
    pair.damage(pair.save(5))
    follower, model, health = pair.follower()
    follower.step()
    assert health.ready
    assert health.checkpoint == good
    assert int(model.progress.events[0]) == 3


def test_a_replica_without_a_readable_generation_stops(pair):
    pair.damage(pair.save())
    follower, _, _ = pair.follower()
    with pytest.raises(CorruptCheckpointError):
        follower.step()


def test_a_replica_reports_a_freeze(pair):
    pair.save()
    follower, _, health = pair.follower()
    pair.store.freeze()
    follower.step()
    assert health.frozen
    pair.store.unfreeze()
    follower.step()
    assert not health.frozen
