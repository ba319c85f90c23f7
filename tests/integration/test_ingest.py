"""An event that is posted to a running service is learned from its log, like any other."""

import json
import urllib.error
import urllib.request

import pytest
import yaml

from service.embedded.redis import RedisServer
from service.sources import open_source
from tests.integration.processes import JSON, running, write_config
from tests.waiting import HANG_SECONDS, wait_for

PAYMENT = b'{"features": {"amount": 420.5, "attempts": 6, "country": "br"}}'
EVENT = b'{"features": {"amount": 420.5, "attempts": 6, "country": "br"}, "label": "fraud"}'


@pytest.fixture(
    params=["redis", pytest.param("kafka-python", marks=pytest.mark.kafka), "confluent"]
)
def source(request, redis_url):
    if request.param == "redis":
        return {"url": f"{redis_url}/payments"}
    return {"url": request.getfixturevalue("make_topic")(3), "client": request.param}


def post(process, body):
    """Post one event; return the status and the JSON of the reply."""
    request = urllib.request.Request(f"http://127.0.0.1:{process.port}/events", body, JSON)
    try:
        with urllib.request.urlopen(request, timeout=HANG_SECONDS) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def version(process):
    return process.get("/predict", PAYMENT)[1]["model"]["version"]


def test_a_posted_event_is_learned_and_an_invalid_one_is_not_logged(source, redis_url, tmp_path):
    config = write_config(tmp_path / "c.yaml", source["url"], redis_url)
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"source": source}))
    with running("run", config) as process:
        process.answers("/readyz", 200)
        places = set()
        for learned in range(3):
            assert version(process) == learned
            assert post(process, b'{"features": {"amount": "x"}, "label": "fraud"}')[0] == 422
            assert post(process, PAYMENT)[0] == 422
            status, answer = post(process, EVENT)
            assert status == 202
            places.add((answer["position"]["partition"], answer["position"]["position"]))
            wait_for(
                lambda learned=learned: version(process) == learned + 1, "the event is learned"
            )
        assert process.get("/status")[1]["rejects"] == 0
    log = open_source(source["url"], "earliest")
    log.stop_at_end()
    found = []
    wait_for(lambda: found.extend(log.poll(0.5, 10)) or log.at_end, "the end of the log")
    log.close()
    assert [record.value for record in found] == [EVENT] * 3, (
        "the log does not hold exactly the posted events"
    )
    assert {(record.partition, record.position) for record in found} == places


def test_a_replica_accepts_events_for_the_learner(redis_url, tmp_path):
    learner = write_config(tmp_path / "l.yaml", f"{redis_url}/payments", redis_url)
    replica = write_config(tmp_path / "s.yaml", f"{redis_url}/payments", redis_url)
    with running("learn", learner) as learning, running("serve", replica) as serving:
        learning.answers("/readyz", 200)
        assert learning.get("/events", EVENT)[0] == 404, "a learner accepted an event"
        serving.answers("/healthz", 200)
        assert post(serving, EVENT)[0] == 202
        serving.answers("/readyz", 200)
        wait_for(lambda: version(serving) == 1, "the generation with the event")


def test_without_the_log_events_are_refused_and_predictions_continue(redis_url, tmp_path):
    server = RedisServer(tmp_path / "log")
    server.start()
    config = write_config(tmp_path / "c.yaml", f"{server.url}/payments", redis_url)
    with running("run", config) as process:
        process.answers("/readyz", 200)
        assert post(process, EVENT)[0] == 202
        wait_for(lambda: version(process) == 1, "the event is learned")
        server.stop()
        for _ in range(3):
            # The log is down: a request that waited for it would never be answered.
            status, answer = post(process, EVENT)
            assert (status, answer["error"]["code"]) == (503, "log_down")
            assert process.get("/predict", PAYMENT)[0] == 200
        server.start()
        try:
            wait_for(lambda: post(process, EVENT)[0] == 202, "the log is back")
            wait_for(lambda: version(process) >= 1, "predictions")
        finally:
            server.stop()


def test_a_service_that_reads_a_file_accepts_no_events(redis_url, tmp_path):
    (tmp_path / "events.jsonl").write_bytes(EVENT + b"\n")
    config = write_config(tmp_path / "c.yaml", (tmp_path / "events.jsonl").as_uri(), redis_url)
    with running("run", config) as process:
        process.answers("/readyz", 200)
        status, answer = post(process, EVENT)
        assert (status, answer["error"]["code"]) == (503, "no_log")
