"""Replicas beside a learner follow each generation soon, answer exactly as that generation does,
and keep serving when the learner dies.
"""

from itertools import islice

import pytest

from service.config.loader import load
from service.consumer.replica import FOLLOW_SECONDS
from service.embedded.payments import payments
from service.embedded.redis import redis_server as redis_at
from service.features.decoder import Decoder, batch
from service.model.model import Model
from service.sources import open_sink
from service.sources.base import Entry
from service.storage import RedisStore
from service.storage.redis_admin import RedisAdmin
from tests.integration.processes import START_SECONDS, running, write_config
from tests.waiting import wait_for

PAYMENT = b'{"features": {"amount": 420.5, "attempts": 6, "country": "br"}}'


def configs(tmp_path, url, **changes):
    source = f"{url}/payments"
    return (
        write_config(tmp_path / f"{role}.yaml", source, url, **changes)
        for role in ("learn", "serve")
    )


def feed(url, events):
    sink = open_sink(f"{url}/payments")
    sink.append([Entry(event) for event in events])
    sink.close()


def newer_reply(replica, generation):
    """Wait for a good reply of a generation after this one."""

    def reply():
        status, document = replica.get("/predict", PAYMENT)
        return document if status == 200 and document["model"]["generation"] > generation else None

    return wait_for(reply, f"a reply of a generation after {generation}", START_SECONDS)


def newer_generation(learner, generation):
    def newer():
        now = learner.get("/status")[1]["checkpoint"]["generation"]
        return now if now > generation else None

    return wait_for(newer, f"a generation after {generation}")


@pytest.fixture(scope="module")
def pair(redis_server, tmp_path_factory):
    """(URL, settings, learner, replica), shared by the tests that kill neither; every generation is
    kept.
    """
    url = redis_server.url.replace("/0", "/8")
    keep_all = {"interval_seconds": 0.2, "interval_events": 1000, "keep": 1000}
    learn, serve = configs(tmp_path_factory.mktemp("pair"), url, checkpoint=keep_all)
    with running("learn", learn) as learner, running("serve", serve) as replica:
        yield url, load(learn), learner, replica


def test_a_replica_follows_each_commit(pair):
    url, _, learner, replica = pair
    assert FOLLOW_SECONDS <= 1.0, "a replica cannot follow within two seconds"
    stream = payments(3, 0)
    feed(url, list(islice(stream, 500)))
    replica.answers("/readyz", 200)
    for _ in range(8):
        before = learner.get("/status")[1]["checkpoint"]["generation"]
        feed(url, list(islice(stream, 50)))
        generation = newer_generation(learner, before)
        newer_reply(replica, generation - 1)
        wait_for(
            lambda: replica.get("/predict", PAYMENT)[1]["model"]["stale_seconds"] <= 2.0,
            "the store was asked of late",
        )


def test_a_reply_can_be_reproduced_from_its_generation(pair):
    url, settings, _, replica = pair
    stream = payments(4, 0)
    replies = []
    for _ in range(5):
        status, document = replica.get("/predict", PAYMENT)
        feed(url, list(islice(stream, 400)))
        replies.append(
            newer_reply(replica, document["model"]["generation"] if status == 200 else 0)
        )
    store = RedisStore(settings.store, settings.name)
    admin = RedisAdmin(settings.store, settings.name)
    kept = {
        manifest.generation: manifest
        for manifest in admin.generations()
        if not isinstance(manifest, str)
    }
    for reply in replies:
        manifest = kept[reply["model"]["generation"]]
        decoder = Decoder(settings.features, settings.label, settings.limits)
        model = Model(settings.learner, settings.features, settings.label, decoder)
        model.restore(store.read(manifest), manifest)
        served, (answer,) = model.predict(batch([decoder.instance(PAYMENT)]))
        served_values = (
            reply["label"],
            reply["score"],
            reply["probability"],
            reply["model"]["version"],
        )
        assert served_values == (answer.label, answer.score, answer.probability, served.version)
    store.close()


def test_a_replica_keeps_serving_when_the_learner_is_killed(redis_url, tmp_path):
    learner_config, replica_config = configs(tmp_path, redis_url)
    feed(redis_url, list(islice(payments(5, 0), 500)))

    def model():
        return replica.get("/predict", PAYMENT)[1]["model"]

    with running("learn", learner_config) as learner, running("serve", replica_config) as replica:
        replica.answers("/readyz", 200)
        wait_for(lambda: model()["version"] == 500, "all that was learned")
        assert learner.get("/predict", PAYMENT)[0] == 404
        learner.kill()
        first = replica.get("/predict", PAYMENT)[1]
        age = first["model"]["age_seconds"]
        wait_for(lambda: model()["age_seconds"] > age + 1.5, "the model grows old")
        status, later = replica.get("/predict", PAYMENT)
        assert status == 200
        for same in ("score", "label"):
            assert later[same] == first[same]
        for same in ("version", "generation"):
            assert later["model"][same] == first["model"][same]
        wait_for(
            lambda: model()["stale_seconds"] < 1.5, "the store still says that this is the newest"
        )
        assert replica.metrics()["predict_model_age_seconds"] >= later["model"]["age_seconds"]
        wait_for(lambda: 0 <= replica.metrics()["model_staleness_seconds"] < 1.5, "the same there")


def test_staleness_grows_while_the_store_is_down(tmp_path):
    with redis_at(tmp_path / "redis") as server:
        learner_config, replica_config = configs(tmp_path, server.url)
        feed(server.url, list(islice(payments(6, 0), 300)))
        with running("learn", learner_config), running("serve", replica_config) as replica:
            wait_for(lambda: replica.get("/predict", PAYMENT)[0] == 200, "a first prediction")
            server.kill()
            wait_for(
                lambda: replica.get("/predict", PAYMENT)[1]["model"]["stale_seconds"] > 1.5,
                "a growing staleness",
            )
            assert replica.get("/predict", PAYMENT)[0] == 200
