"""The roles as processes: they answer soon, wait for absent systems, and end cleanly."""

import json
import signal
import socket
from itertools import islice

import pytest
from redis import Redis

from service.embedded.payments import payments
from service.embedded.redis import RedisServer
from service.sources import create_log, open_source
from tests.integration.demo import Demo, summary
from tests.integration.payments import PAYMENT, fill
from tests.integration.processes import START_SECONDS, Process, onepass, running, write_config
from tests.waiting import wait_for

LEASE_SECONDS = 300.0
"""Seconds; longer than a busy machine keeps a healthy learner from its CPU."""


def test_predictions_are_answered_while_the_model_learns(redis_url, tmp_path):
    """The first prediction does not wait until the log is learned, and learning continues
    meanwhile.
    """
    stream, log = payments(1, 0), f"{redis_url}/payments"
    fed, seen, ahead = 0, set(), 20_000
    with running("run", write_config(tmp_path / "c.yaml", log, redis_url)) as process:

        def predict_again():
            """Predict once more, with enough events left to learn, and note after how many events
            the answer was given.
            """
            nonlocal fed
            if fed < (process.get("/status")[1] or {"events": 0})["events"] + ahead:
                fill(log, list(islice(stream, ahead)))
                fed += ahead
            status, answer = process.get("/predict", PAYMENT)
            assert status == 200 or not seen, "a prediction failed while the model learns"
            if status == 200 and answer["model"]["version"] < fed:
                seen.add(answer["model"]["version"])
            return len(seen) > 10

        wait_for(predict_again, "answers of ten states of a model that learns", START_SECONDS)


def test_corrupt_messages_are_counted_and_kept_as_dead_letters(topic, redis_url, tmp_path):
    good = list(islice(payments(2, 0), 300))
    bad = [
        b"\xff\x00",
        b'{"features": {"amount": NaN}, "label": "fraud"}',
        b'{"features": {}}',
        b"x" * 2_000_000,
    ]
    create_log(topic)
    fill(topic, [*good[:100], *bad[:3], *good[100:]])
    config = write_config(tmp_path / "c.yaml", topic, redis_url)
    status, output = Process(["learn", "--until-end"], config).finish()
    final = json.loads(output)
    assert status == 0
    assert final["events"] == 300
    assert final["rejects_by_reason"] == {"label": 1, "malformed": 2}
    letters, kept = open_source(f"{topic}.dead", "earliest"), []
    letters.stop_at_end()
    wait_for(lambda: kept.extend(letters.poll(1.0, 10)) or letters.at_end, "dead letters")
    letters.close()
    assert [letter.value for letter in kept] == bad[:3]


@pytest.mark.parametrize("role", ["run", "learn", "serve"])
def test_every_role_waits_for_a_redis_that_is_absent_at_start(role, tmp_path):
    server = RedisServer(tmp_path / "redis")
    config = write_config(tmp_path / "c.yaml", f"{server.url}/payments", server.url)
    with running(role, config) as process:
        process.answers("/healthz", 200)
        wait_for(lambda: "Redis" in str(process.get("/readyz")), "a reason")
        assert process.get("/readyz")[0] == 503
        if role != "learn":
            assert process.get("/predict", PAYMENT)[0] == 503
        assert "Redis at" in config.with_suffix(".log").read_text()
        server.start()
        try:
            if role == "serve":
                learner = write_config(tmp_path / "l.yaml", f"{server.url}/payments", server.url)
                fill(f"{server.url}/payments", list(islice(payments(3, 0), 10)))
                assert Process(["learn", "--until-end"], learner).finish()[0] == 0
            process.answers("/readyz", 200)
        finally:
            process.signal(signal.SIGTERM)
            assert process.finish()[0] == 0
            server.stop()


def test_sigterm_leaves_nothing_to_redo(redis_url, tmp_path):
    fill(f"{redis_url}/payments", list(islice(payments(6, 0), 500)))
    config = write_config(tmp_path / "c.yaml", f"{redis_url}/payments", redis_url, seconds=3600)
    with running("run", config) as process:
        process.answers("/readyz", 200)
        wait_for(lambda: process.get("/status")[1]["events"] == 500, "the events")
        assert process.get("/status")[1]["checkpoint"]["generation"] == 0
        process.signal(signal.SIGTERM)
        assert process.finish()[0] == 0
    status, output = Process(["run", "--until-end"], config).finish()
    assert status == 0
    assert json.loads(output)["checkpoint"]["events"] == 500


def test_a_second_learner_stands_by_and_takes_over(redis_url, tmp_path):
    fill(f"{redis_url}/payments", list(islice(payments(7, 0), 500)))
    first = write_config(
        tmp_path / "1.yaml", f"{redis_url}/payments", redis_url, lease=LEASE_SECONDS
    )
    second = write_config(
        tmp_path / "2.yaml", f"{redis_url}/payments", redis_url, lease=LEASE_SECONDS
    )
    with running("run", first) as learning:
        learning.answers("/readyz", 200)
        wait_for(lambda: learning.get("/status")[1]["checkpoint"]["events"] == 500, "a checkpoint")
        with running("run", second) as waiting:
            waiting.answers("/readyz", 200)
            assert waiting.get("/predict", PAYMENT)[0] == 200
            # It serves the first checkpoint that it reads; the reason for waiting may come later.
            wait_for(
                lambda: "standing by" in waiting.get("/status")[1]["waiting_for"], "it stands by"
            )
            learning.kill()
            with Redis.from_url(redis_url) as client:
                assert client.delete("{m:payments}:lease") == 1, "the lease runs out"
            fill(f"{redis_url}/payments", list(islice(payments(8, 0), 500)))
            wait_for(
                lambda: waiting.get("/status")[1]["checkpoint"]["events"] == 1000,
                "the successor's checkpoint",
            )
            assert waiting.get("/status")[1]["waiting_for"] == ""


def test_a_different_learner_on_the_same_checkpoints_is_refused(redis_url, tmp_path):
    fill(f"{redis_url}/payments", list(islice(payments(9, 0), 50)))
    config = write_config(tmp_path / "c.yaml", f"{redis_url}/payments", redis_url)
    assert Process(["learn", "--until-end"], config).finish()[0] == 0
    other = write_config(tmp_path / "o.yaml", f"{redis_url}/payments", redis_url, learner="pa2")
    assert Process(["learn", "--until-end"], other).finish()[0] == 3
    assert "learner" in other.with_suffix(".log").read_text()


def test_a_taken_port_is_reported_in_one_line(redis_url, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        api = {"port": taken.getsockname()[1]}
        config = write_config(tmp_path / "c.yaml", f"{redis_url}/payments", redis_url, api=api)
        done = onepass("run", "--config", config)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "api.port" in done.stderr


@pytest.mark.parametrize("flags", [[], pytest.param(["--kafka"], marks=pytest.mark.kafka)])
def test_the_demo_learns_and_ends_cleanly(flags, tmp_path):
    demo = Demo(tmp_path, *flags)
    try:
        wait_for(lambda: demo.events() > 2000, "events are learned")
    finally:
        status, told = demo.stop()
    assert status == 0, demo.log.read_text()
    assert int(told[0]) > 2000
    assert 0.0 < float(told[4]) < 0.5
    assert int(told[-1]) >= 1


def test_the_demo_ends_after_its_seconds_and_resumes_in_its_folder(tmp_path):
    done = onepass("demo", "--seconds", "1", "--port", "0", "--dir", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    learned = int(summary(done.stdout)[0])
    assert learned > 0
    demo = Demo(tmp_path)
    try:
        wait_for(lambda: demo.events() > learned, "learning continues")
    finally:
        status, told = demo.stop()
    assert status == 0, demo.log.read_text()
    assert int(told[0]) > learned
