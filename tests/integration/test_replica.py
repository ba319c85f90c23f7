"""Replicas beside a learner: soon at each new generation, reproducible from it, and serving on when
it dies.
"""

import time
import urllib.request
from itertools import islice

from service.config.loader import load
from service.embedded.payments import payments
from service.embedded.redis import redis_server as redis_at
from service.features.decoder import Decoder, batch
from service.model.model import Model
from service.sources import open_sink
from service.sources.base import Entry
from service.storage import RedisStore
from service.storage.redis_admin import RedisAdmin
from tests.integration.processes import running, wait_for, write_config

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


def newer_reply(replica, generation, seconds=60):
    """A good reply of a generation after this one."""

    def reply():
        status, document = replica.get("/predict", PAYMENT)
        return document if status == 200 and document["model"]["generation"] > generation else None

    return wait_for(reply, seconds, f"a reply of a generation after {generation}")


def newer_generation(learner, generation):
    def committed():
        now = learner.get("/status")[1]["checkpoint"]["generation"]
        return now if now > generation else None

    return wait_for(committed, 20, f"a generation after {generation}")


def test_a_replica_follows_within_two_seconds_of_each_commit(redis_url, tmp_path):
    learner_config, replica_config = configs(tmp_path, redis_url)
    stream = payments(3, 0)
    feed(redis_url, list(islice(stream, 500)))
    with running("learn", learner_config) as learner, running("serve", replica_config) as replica:
        replica.answers("/readyz", 200, 60)
        delays = []
        for _ in range(8):
            before = learner.get("/status")[1]["checkpoint"]["generation"]
            feed(redis_url, list(islice(stream, 50)))
            generation = newer_generation(learner, before)
            committed = time.monotonic()
            model = newer_reply(replica, generation - 1)["model"]
            delays.append(time.monotonic() - committed)
            assert model["stale_seconds"] <= 2.0
        assert max(delays) <= 2.0, delays


def test_a_reply_can_be_had_again_from_its_generation(redis_url, tmp_path):
    learner_config, replica_config = configs(tmp_path, redis_url)
    settings = load(learner_config)
    stream = payments(4, 0)
    replies = []
    with running("learn", learner_config), running("serve", replica_config) as replica:
        for _ in range(5):
            feed(redis_url, list(islice(stream, 400)))
            replies.append(
                newer_reply(replica, replies[-1]["model"]["generation"] if replies else 0)
            )
    store = RedisStore(settings.store, settings.name)
    admin = RedisAdmin(settings.store, settings.name)
    kept = {
        manifest.generation: manifest
        for manifest in admin.generations()
        if not isinstance(manifest, str)
    }
    found = 0
    for reply in replies:
        manifest = kept.get(reply["model"]["generation"])
        if manifest is None:
            continue
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
        found += 1
    store.close()
    assert found >= 3


def test_it_serves_on_when_the_learner_is_killed(redis_url, tmp_path):
    learner_config, replica_config = configs(tmp_path, redis_url)
    feed(redis_url, list(islice(payments(5, 0), 500)))
    with running("learn", learner_config) as learner, running("serve", replica_config) as replica:
        replica.answers("/readyz", 200, 60)
        wait_for(
            lambda: replica.get("/predict", PAYMENT)[1]["model"]["version"] == 500,
            20,
            "all that was learned",
        )
        learner.kill()
        first = replica.get("/predict", PAYMENT)[1]
        time.sleep(1.5)
        status, later = replica.get("/predict", PAYMENT)
        assert status == 200
        assert (later["score"], later["model"]["version"]) == (first["score"], 500)
        assert later["model"]["age_seconds"] > first["model"]["age_seconds"] + 1.0
        assert later["model"]["stale_seconds"] < 1.5, "the store still says that this is the newest"
        with urllib.request.urlopen(
            f"http://127.0.0.1:{replica.port}/metrics", timeout=10
        ) as reply:
            served_values = {
                name: float(value)
                for name, _, value in (
                    line.rpartition(" ") for line in reply.read().decode().splitlines()
                )
                if name.startswith(("onepass_predict_model", "onepass_model_staleness"))
            }
        assert (
            served_values['onepass_predict_model_age_seconds{model="payments"}']
            >= later["model"]["age_seconds"]
        )
        assert 0 <= served_values['onepass_model_staleness_seconds{model="payments"}'] < 1.5


def test_staleness_grows_while_the_store_is_away(tmp_path):
    with redis_at(tmp_path / "redis") as server:
        learner_config, replica_config = configs(tmp_path, server.url)
        feed(server.url, list(islice(payments(6, 0), 300)))
        with running("learn", learner_config), running("serve", replica_config) as replica:
            wait_for(lambda: replica.get("/predict", PAYMENT)[0] == 200, 60, "a first prediction")
            server.kill()
            wait_for(
                lambda: replica.get("/predict", PAYMENT)[1]["model"]["stale_seconds"] > 1.5,
                20,
                "it says so",
            )
            assert replica.get("/predict", PAYMENT)[0] == 200
